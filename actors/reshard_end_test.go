package actors

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// How the end of a shard is recognised, and when SHARD_END is written.

// lastPages are answers of GetRecords that have nothing to go on with, in the ways services say so.
var lastPages = map[string]string{
	"absent":        `{"Records":[],"MillisBehindLatest":0}`,
	"null":          `{"Records":[],"MillisBehindLatest":0,"NextShardIterator":null,"ChildShards":null}`,
	"empty":         `{"Records":[],"MillisBehindLatest":0,"NextShardIterator":"","ChildShards":[]}`,
	"far behind":    `{"Records":[],"MillisBehindLatest":86400000}`,
	"nothing else":  `{}`,
	"absent record": `{"MillisBehindLatest":0,"NextShardIterator":""}`,
}

// R14: absent, null and empty are one thing. Of a closed shard they are its end; R16: of an open one they are not.
func TestNoNextIterator(t *testing.T) {
	for name, page := range lastPages {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(w *world) {
				w.open(horizon)
				w.put("k", "a")
				w.takeAll(1)
				fault := w.service.Fault("GetRecords", kinesistest.Match{Shard: shardName(0)}, 3, kinesistest.Body(200, []byte(page)))
				time.Sleep(30 * time.Second)
				require.Equal(w.t, 3, fault.Count())
				require.False(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd(), "it is open")
				w.put("k", "b")
				require.Equal(w.t, []string{"b"}, w.takeAll(1))

				w.service.Fault("GetRecords", kinesistest.Match{Shard: shardName(0)}, -1, kinesistest.Body(200, []byte(page)))
				split(w, shardName(0))
				w.put("k", "c")
				require.Equal(w.t, []string{"c"}, w.takeAll(1))
				require.True(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
			})
		})
	}
}

// R15: no iterator at all is a candidate for the end too, which the listing decides.
func TestNoIterator(t *testing.T) {
	for _, answer := range []string{`{}`, `{"ShardIterator":null}`, `{"ShardIterator":""}`} {
		t.Run(answer, func(t *testing.T) {
			inBubble(t, 1, func(w *world) {
				w.put("k", "a")
				w.connect()
				w.service.Fault("GetShardIterator", kinesistest.Match{}, 2, kinesistest.Body(200, []byte(answer)))
				w.subscribe(horizon)
				require.Equal(w.t, []string{"a"}, w.takeAll(1), "an open shard is opened again")
				time.Sleep(3 * time.Second)
				restart(w, func() {
					split(w, shardName(0))
					w.put("k", "b")
				})
				w.service.Fault("GetShardIterator", kinesistest.Match{Shard: shardName(0)}, -1, kinesistest.Body(200, []byte(answer)))
				w.open()
				require.Equal(w.t, []string{"b"}, w.takeAll(1))
				require.True(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
				for _, c := range w.service.Calls() {
					require.NotEqual(w.t, "ValidationException", c.ErrorCode, "no iterator is not sent to GetRecords")
				}
			})
		})
	}
}

// R16: a shard that was open when an answer had no next iterator, and is closed by the time the listing is looked at, is read on: what
// came in between is not lost.
func TestShardIsReadOnWhenItClosedAfterTheLastPage(t *testing.T) {
	s := &script{page: withoutChildren}
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		w.takeAll(1)
		s.set(func(s *script) {
			s.list = func(_ *kinesis.ListShardsInput, real func() (*kinesis.ListShardsOutput, error)) (*kinesis.ListShardsOutput, error) {
				time.Sleep(5 * time.Second) // the listing is answered late
				return real()
			}
		})
		time.Sleep(30 * time.Second)
		w.service.Fault("GetRecords", kinesistest.Match{}, 1, kinesistest.NullIterator())
		time.Sleep(2 * time.Second)
		w.put("k", "b")
		w.put("k", "c")
		split(w, shardName(0))
		w.put("k", "d")
		require.Equal(w.t, []string{"b", "c", "d"}, w.takeAll(3))
	}, s.install)
}

// R16: an answer without a next iterator in the middle of a closed shard is not its end either.
func TestSpuriousNullIteratorInAClosedShard(t *testing.T) {
	s := &script{page: withoutChildren}
	inBubble(t, 1, func(w *world) {
		var want []string
		for i := range 10 {
			want = append(want, fmt.Sprint(i))
			w.put("k", want[i])
		}
		split(w, shardName(0))
		w.connect()
		w.service.Fault("GetRecords", kinesistest.Match{}, 2, kinesistest.NullIterator())
		w.subscribe(horizon, func(d *messages.StreamDescriptor) { d.WindowRecords = new(int32(2)) })
		require.Equal(w.t, want, w.takeAll(10))
		time.Sleep(10 * time.Second)
		require.True(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
	}, s.install)
}

// A listing that fails confirms nothing; it is asked again.
func TestEndIsNotConfirmedByAListingThatFails(t *testing.T) {
	s := &script{page: withoutChildren}
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		w.takeAll(1)
		w.service.Fault("ListShards", kinesistest.Match{}, 20, kinesistest.Error("InternalFailure", "not now"))
		split(w, shardName(0))
		w.put("k", "b")
		w.sub.ExpectNone(2 * time.Second)
		require.False(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
		require.Equal(w.t, []string{"b"}, w.takeAll(1))
	}, s.install)
}

// R9: a closed shard without a record ends, found at the horizon, at the tip, and by whoever comes after a restart.
func TestEmptyShardsEnd(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open()
		split(w, shardName(0))
		split(w, shardName(1))
		split(w, shardName(2))
		time.Sleep(2 * time.Second)
		for n := range 3 {
			require.True(w.t, w.lease(shardName(n)).Checkpoint.IsShardEnd(), n)
		}
		restart(w, func() { split(w, shardName(3)) })
		w.open()
		w.put("k", "a")
		require.Equal(w.t, []string{"a"}, w.takeAll(1))
		require.True(w.t, w.lease(shardName(3)).Checkpoint.IsShardEnd())
	})
}

// R10: the checkpoint is at the last record of a closed shard, so nothing more is delivered of it, and it ends.
func TestShardWithACheckpointAtItsLastRecordEnds(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		w.takeAll(1)
		time.Sleep(2 * time.Second)
		last := w.service.Records(testStream)[0].SequenceNumber
		require.Equal(w.t, last, w.lease(shardName(0)).Checkpoint.String())
		restart(w, func() {
			split(w, shardName(0))
			w.put("k", "b")
		})
		w.open()
		require.Equal(w.t, []string{"b"}, w.takeAll(1))
		require.True(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
		require.Equal(w.t, "AT_SEQUENCE_NUMBER", iteratorKinds(w, shardName(0))[1])
	})
}

// R11: SHARD_END comes after the last settlement. Whoever comes after a death before that reads the unsettled tail again.
func TestNoShardEndBeforeAllIsSettled(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		var want []string
		for i := range 100 {
			want = append(want, fmt.Sprint(i))
			w.put("k", want[i])
		}
		split(w, shardName(0))
		w.put("k", "child")
		for range want {
			w.next(false)
		}
		w.sub.ExpectNone(30 * time.Second)
		require.Equal(w.t, "TRIM_HORIZON", w.lease(shardName(0)).Checkpoint.String())
		w.system.Root.Stop(w.broker) // dies with all in flight
		time.Sleep(time.Second)
		w.cfg.Name = "heir"
		w.broker = w.spawnBroker()
		w.open()
		require.Equal(w.t, want, w.takeAll(100))
		require.Equal(w.t, "child", string(w.next(true).GetData()))
		require.True(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
	})
}

// R11, R13: whichever way the last record is settled, and in whichever order, the library writes SHARD_END by itself, once.
func TestLastSettlementEndsTheShard(t *testing.T) {
	for name, settle := range map[string]func(d *messages.Delivery) *messages.Settle{
		"ack":   (*messages.Delivery).Ack,
		"drop":  (*messages.Delivery).Drop,
		"retry": func(d *messages.Delivery) *messages.Settle { return d.RetryAfter(20 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(w *world) {
				w.open(horizon)
				w.put("k", "a")
				w.put("k", "b")
				split(w, shardName(0))
				a, b := w.next(false), w.next(false)
				reader := w.sub.Sender()
				w.sub.Send(reader, b.Ack())
				time.Sleep(10 * time.Second)
				require.Equal(w.t, "TRIM_HORIZON", w.lease(shardName(0)).Checkpoint.String())
				w.sub.Send(reader, settle(a))
				if name == "retry" {
					w.sub.ExpectNone(19 * time.Second)
					require.Equal(w.t, "TRIM_HORIZON", w.lease(shardName(0)).Checkpoint.String())
					require.Equal(w.t, []string{"a"}, w.takeAll(1))
				}
				w.me.Watch(reader)
				w.me.ExpectTerminated(reader, time.Second)
				time.Sleep(time.Minute)
				ends := 0
				for _, c := range w.store.written(shardName(0)) {
					if c.IsShardEnd() {
						ends++
					}
				}
				require.Equal(w.t, 1, ends)
				require.True(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
			})
		})
	}
}

// SHARD_END is written until it is stored: through an outage of the store longer than a ttl, and when replies are lost.
func TestShardEndIsWrittenUntilItIsStored(t *testing.T) {
	for name, lost := range map[string]bool{"outage": false, "lost replies": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(w *world) {
				w.open(horizon)
				w.put("k", "a")
				split(w, shardName(0))
				w.put("k", "b")
				a := w.next(false)
				time.Sleep(time.Second)
				w.store.outage(errOutage, lost)
				w.sub.Reply(a.Ack())
				if !lost {
					time.Sleep(30 * time.Second)
					require.Equal(w.t, "TRIM_HORIZON", w.lease(shardName(0)).Checkpoint.String())
					require.Empty(w.t, iteratorKinds(w, shardName(1)), "a child before its parent's SHARD_END is stored")
					w.store.outage(nil, false)
				}
				require.Equal(w.t, "b", string(w.next(true).GetData()))
				w.store.outage(nil, false)
				require.True(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
			})
		})
	}
}

// A reader that was fenced writes no SHARD_END; the new owner of the lease does.
func TestFencedReaderWritesNoShardEnd(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		split(w, shardName(0))
		w.put("k", "b")
		a := w.next(false)
		stolen, err := w.store.Store.Acquire(w.t.Context(), w.lease(shardName(0)), "thief")
		require.NoError(w.t, err)
		w.sub.Reply(a.Ack())
		time.Sleep(5 * time.Second)
		require.Equal(w.t, stolen, w.lease(shardName(0)))
		require.Empty(w.t, iteratorKinds(w, shardName(1)))
		_, err = w.store.Store.Release(w.t.Context(), stolen)
		require.NoError(w.t, err)
		require.Equal(w.t, []string{"a", "b"}, w.takeAll(2))
	})
}

// R12: a checkpoint that hangs while the rest is settled does not land over SHARD_END; writes of a lease take turns.
func TestLateCheckpointDoesNotReplaceShardEnd(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		w.put("k", "b")
		a, b := w.next(false), w.next(false)
		reader := w.sub.Sender()
		split(w, shardName(0))
		w.put("k", "c")
		time.Sleep(2 * time.Second)
		w.store.slow(2 * time.Second)
		writes := w.store.count("checkpoint")
		w.sub.Send(reader, a.Ack())
		for w.store.count("checkpoint") == writes {
			time.Sleep(10 * time.Millisecond)
		}
		w.sub.Send(reader, b.Ack())
		require.Equal(w.t, []string{"c"}, w.takeAll(1))
		time.Sleep(time.Minute)
		got := w.store.written(shardName(0))
		require.True(w.t, got[len(got)-1].IsShardEnd())
		require.Equal(w.t, a.GetSequenceNumber(), got[len(got)-2].String(), "the slow checkpoint first, then the end")
	})
}

// R12: a checkpoint that lands after the writer has given it up, before or after SHARD_END was written.
func TestCheckpointThatLandsAfterShardEnd(t *testing.T) {
	for _, lands := range []time.Duration{100 * time.Millisecond, 5 * time.Second} {
		inBubble(t, 1, func(w *world) {
			late := &lateStore{Store: w.store.Store, after: lands}
			w.store.Store = late
			w.open(horizon)
			w.put("k", "a")
			w.put("k", "b")
			a, b := w.next(false), w.next(false)
			reader := w.sub.Sender()
			split(w, shardName(0))
			w.put("k", "c")
			time.Sleep(2 * time.Second)
			late.arm(1)
			w.sub.Send(reader, a.Ack())
			for late.armed() {
				time.Sleep(10 * time.Millisecond)
			}
			w.sub.Send(reader, b.Ack())
			require.Equal(w.t, []string{"c"}, w.takeAll(1))
			time.Sleep(time.Minute)
			require.Equal(w.t, lands < time.Second, late.landed == nil, "the late write is refused once SHARD_END is stored: %v", late.landed)
			require.True(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
			require.Len(w.t, iteratorKinds(w, shardName(0)), 1, "the parent is not read again")
		})
	}
}

// The last settlement of a parent starts its children in the same second: no listing and no renewal has to come round.
func TestChildrenStartWithoutATick(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		split(w, shardName(0))
		w.put("k", "b")
		a := w.next(false)
		time.Sleep(20 * time.Second)
		settled := time.Now()
		w.sub.Reply(a.Ack())
		require.Equal(w.t, []string{"b"}, w.takeAll(1))
		require.Less(w.t, time.Since(settled), time.Second)
	}, func(c *Config) {
		c.Timings.ListEvery, c.Timings.RenewEvery, c.Timings.LeaseTTL = time.Hour, time.Hour, 3*time.Hour
	})
}

// A child shard in an answer that has a next iterator all the same is not an end.
func TestChildShardsWithANextIterator(t *testing.T) {
	s := &script{page: func(out *kinesis.GetRecordsOutput) {
		out.ChildShards = []types.ChildShard{{ShardId: aws.String(shardName(7)), ParentShards: []string{shardName(0)}}}
	}}
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		w.takeAll(1)
		time.Sleep(10 * time.Second)
		w.put("k", "b")
		require.Equal(w.t, []string{"b"}, w.takeAll(1))
		require.False(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
	}, s.install)
}

// The end of one shard is no matter to its siblings' readers when the subscription is ended at the same moment (drain at shard end): what
// is settled then ends the shard, too.
func TestDrainAtShardEnd(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		opened := w.open(horizon)
		w.put("k", "a")
		split(w, shardName(0))
		w.put("k", "b")
		a := w.next(false)
		reader := w.sub.Sender()
		time.Sleep(5 * time.Second)
		w.me.Request(opened.GetSubscription(), &messages.Unsubscribe{Timeout: durationOf(20 * time.Second)})
		time.Sleep(time.Second)
		w.sub.Send(reader, a.Ack())
		require.Empty(w.t, probe.Expect[*messages.Unsubscribed](w.me).GetUnfinished())
		synctest.Wait()
		require.True(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
		require.Empty(w.t, iteratorKinds(w, shardName(1)), "the subscription has ended")
		w.subscribe()
		require.Equal(w.t, []string{"b"}, w.takeAll(1))
	})
}

var _ leasestore.Store = (*lateStore)(nil)
