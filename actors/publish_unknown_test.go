package actors

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/internal/kpl"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// P9: a call that hangs is given up early enough for its records to be tried again within their deadline.
func TestWhatHungIsTriedAgainBeforeItsDeadline(t *testing.T) {
	for name, stores := range map[string]bool{"after it was stored": true, "before": false} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			inBubble(t, 1, func(w *world) {
				w.connect()
				stored, err := w.outletOf(nil).Publish(context.Background(), Item{Key: "k", Data: []byte("x")})
				require.NoError(w.t, err)
				require.True(w.t, stored.PossibleDuplicate)
				want := 1
				if stores {
					want = 2
				}
				require.Len(w.t, w.service.Records(testStream), want)
			}, putsThrough(func(ctx context.Context, in *kinesis.PutRecordsInput, real putCall) (*kinesis.PutRecordsOutput, error) {
				if calls.Add(1) > 1 {
					return real(in)
				}
				if stores {
					_, _ = real(in)
				}
				<-ctx.Done()
				return nil, ctx.Err()
			}))
		})
	}
}

// A call may still read its records when it is given up: they are not used for others meanwhile.
func TestWhatIsOnItsWayIsNotChanged(t *testing.T) {
	var seen atomic.Pointer[string]
	inBubble(t, 1, func(w *world) {
		w.connect()
		_, err := w.outletOf(nil).PublishAsync(context.Background(), Item{Key: "k", Data: []byte("x")})
		require.NoError(w.t, err)
		synctest.Wait()
		w.me.Request(w.broker, &messages.Shutdown{Timeout: durationOf(0)})
		probe.Expect[*messages.Closed](w.me)
		time.Sleep(time.Second)
		require.Equal(w.t, "k", *seen.Load())
	}, putsThrough(func(ctx context.Context, in *kinesis.PutRecordsInput, _ putCall) (*kinesis.PutRecordsOutput, error) {
		<-ctx.Done()
		time.Sleep(time.Millisecond)
		seen.Store(new(*in.Records[0].PartitionKey))
		return nil, ctx.Err()
	}))
}

// An aggregated record that was stored in a shard nobody can tell the range of is reported when its deadline comes, whatever waits behind it.
func TestStrayAggregateIsReportedAtItsDeadline(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.connect()
		o := w.outletOf(aggregating)
		publishMany(w, o, 0, 10)
		split(w, shardName(0))
		w.service.Fault("ListShards", kinesistest.Match{}, -1, kinesistest.Error("AccessDeniedException", "no"))
		time.Sleep(5 * time.Second)
		begun := time.Now()
		var tickets []*Ticket
		for i := range 10 {
			ticket, err := o.PublishAsync(context.Background(), Item{Key: fmt.Sprint("key-", i), Data: []byte("x")})
			require.NoError(w.t, err)
			tickets = append(tickets, ticket)
		}
		time.Sleep(14 * time.Second)
		for range 2 {
			behind, err := o.PublishAsync(context.Background(), Item{Key: "key-1", Data: []byte("y")})
			require.NoError(w.t, err)
			tickets = append(tickets, behind)
		}
		alone := 0
		for i, ticket := range tickets[:10] {
			<-ticket.Done()
			outcome := ticket.Outcome()
			if outcome.Err == nil { // the first and the last may find no company, and go as they are
				alone++
				continue
			}
			require.InDelta(w.t, 20, time.Since(begun).Seconds(), 0.2, "record %d: %v", i, outcome)
			require.ErrorIs(w.t, outcome.Err, ErrPublish)
			require.True(w.t, outcome.Err.OutcomeUnknown)
		}
		require.LessOrEqual(w.t, alone, 2)
	}, func(c *Config) { c.Timings.PublishDeadline = 20 * time.Second })
}

// Each of its records is reported at its own deadline, also where others that came later are with it.
func TestStrayAggregateOfOldAndNewRecords(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.connect()
		o := w.outletOf(aggregating)
		publishMany(w, o, 0, 10)
		throttle := w.service.Fault("PutRecords", kinesistest.Match{}, -1, kinesistest.Partial(codeThrottled))
		begun := time.Now()
		old, err := o.PublishAsync(context.Background(), Item{Key: "key-1", Data: []byte("x")})
		require.NoError(w.t, err)
		time.Sleep(15 * time.Second)
		split(w, shardName(0))
		w.service.Fault("ListShards", kinesistest.Match{}, -1, kinesistest.Error("AccessDeniedException", "no"))
		fresh, err := o.PublishAsync(context.Background(), Item{Key: "key-2", Data: []byte("x")})
		require.NoError(w.t, err)
		throttle.Clear()
		<-old.Done()
		require.InDelta(w.t, 40, time.Since(begun).Seconds(), 0.2, "%v", old.Outcome())
		require.True(w.t, old.Outcome().Err.OutcomeUnknown)
		<-fresh.Done()
		require.LessOrEqual(w.t, time.Since(begun).Seconds(), 55.2)
	}, func(c *Config) { c.Timings.PublishDeadline = 40 * time.Second })
}

// Connections that are refused are a matter of the configuration at first; once something was stored they pass by themselves, and are no reason to give up.
func TestAnEndpointThatGoesAwayForAWhile(t *testing.T) {
	away := atomic.Bool{}
	away.Store(true)
	inBubble(t, 1, func(w *world) {
		w.connect()
		o := w.outletOf(nil)
		_, err := o.Publish(context.Background(), Item{Data: []byte("x")})
		require.ErrorIs(w.t, err, ErrConfig)
		away.Store(false)
		_, err = o.Publish(context.Background(), Item{Data: []byte("x")})
		require.NoError(w.t, err)
		away.Store(true)
		ticket, err := o.PublishAsync(context.Background(), Item{Data: []byte("x")})
		require.NoError(w.t, err)
		time.Sleep(10 * time.Second)
		away.Store(false)
		<-ticket.Done()
		require.Nil(w.t, ticket.Outcome().Err)
		away.Store(true)
		begun := time.Now()
		_, err = o.Publish(context.Background(), Item{Data: []byte("x")})
		require.ErrorIs(w.t, err, ErrConfig, "it says what was wrong")
		require.InDelta(w.t, 30, time.Since(begun).Seconds(), 1)
	}, putsThrough(func(_ context.Context, in *kinesis.PutRecordsInput, real putCall) (*kinesis.PutRecordsOutput, error) {
		if !away.Load() {
			return real(in)
		}
		refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
		return nil, &smithy.OperationError{ServiceID: "Kinesis", OperationName: "PutRecords", Err: refused}
	}))
}

// A missing record of an actor's batch is its own fault, and not that of the others.
func TestBatchWithAMissingRecord(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.connect()
		m := batchOf(3)
		m.Records[1] = nil
		w.me.Request(w.broker, m)
		results := probe.Expect[*messages.PublishedBatch](w.me).GetResults()
		require.NotNil(w.t, results[0].GetPublished())
		require.Equal(w.t, messages.ErrorKind_ERROR_KIND_INVALID, results[1].GetError().GetKind())
		require.NotNil(w.t, results[2].GetPublished())
	})
}

// P13: an answer that is not of as many entries as were sent says nothing of any of them, and a code that nobody knows says nothing of its entry.
func TestAnswersToPutRecordsThatMakeNoSense(t *testing.T) {
	for name, spoil := range map[string]func(out *kinesis.PutRecordsOutput){
		"an entry too few":         func(out *kinesis.PutRecordsOutput) { out.Records = out.Records[1:] },
		"an entry too many":        func(out *kinesis.PutRecordsOutput) { out.Records = append(out.Records, out.Records[0]) },
		"none":                     func(out *kinesis.PutRecordsOutput) { out.Records = nil },
		"entries that say nothing": func(out *kinesis.PutRecordsOutput) { clear(out.Records) },
		"an unknown code": func(out *kinesis.PutRecordsOutput) {
			for i := range out.Records {
				out.Records[i] = types.PutRecordsResultEntry{ErrorCode: new("SomethingNew")}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int32
			inBubble(t, 1, func(w *world) {
				w.connect()
				begun := time.Now()
				outcomes, err := w.outletOf(nil).PublishBatch(context.Background(), []Item{{Key: "a", Data: []byte("1")}, {Key: "b", Data: []byte("2")}})
				require.NoError(w.t, err)
				at := make(map[string]string)
				for _, r := range w.service.Records(testStream) {
					at[r.PartitionKey] = r.SequenceNumber
				}
				for i, key := range []string{"a", "b"} {
					require.Nil(w.t, outcomes[i].Err)
					require.Equal(w.t, at[key], outcomes[i].Sequence, "as the last answer says")
					require.Equal(w.t, name != "an unknown code", outcomes[i].PossibleDuplicate)
				}
				require.Less(w.t, time.Since(begun), 5*time.Second)
				require.LessOrEqual(w.t, calls.Load(), int32(8))
			}, putsThrough(func(_ context.Context, in *kinesis.PutRecordsInput, real putCall) (*kinesis.PutRecordsOutput, error) {
				out, err := real(in)
				if calls.Add(1) <= 4 && err == nil {
					spoil(out)
				}
				return out, err
			}))
		})
	}
}

// P12: records without a key are spread evenly.
func TestRandomKeysAreSpreadEvenly(t *testing.T) {
	const shards, records = 16, 10_000
	m := shardsOf(0, shards)
	counts := make(map[string]float64)
	for range records {
		s, known := m.find(kpl.UserRecord{PartitionKey: randomKey()}.Hash())
		require.True(t, known)
		counts[s.id]++
	}
	chi := 0.0
	for i := range shards {
		d := counts[shardName(i)] - records/shards
		chi += d * d / (records / shards)
	}
	require.Less(t, chi, 60.0, "once in a million times by chance")
}
