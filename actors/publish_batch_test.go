package actors

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

func batchOf(n int) *messages.PublishBatch {
	m := &messages.PublishBatch{Stream: testStream, Correlation: 42}
	for i := range n {
		m.Records = append(m.Records, &messages.PublishRecord{PartitionKey: new(fmt.Sprint("k", i%7)), Data: fmt.Appendf(nil, "%d", i)})
	}
	return m
}

// A batch is answered once, when every record is settled, in the order of its records; one that is wrong fails alone.
func TestPublishBatchIsAnsweredAsAWhole(t *testing.T) {
	for name, options := range map[string]*messages.PublishOptions{"plain": nil, "aggregated": {Aggregate: true}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 4, func(w *world) {
				w.connect()
				m := batchOf(30)
				m.Options = options
				m.Records[3].PartitionKey = new("")
				m.Records[4].Data = make([]byte, 2<<20)
				m.Records[5].Headers = map[string]string{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
				w.me.Request(w.broker, m)
				answer := probe.Expect[*messages.PublishedBatch](w.me)
				require.EqualValues(w.t, 42, answer.GetCorrelation())
				require.Len(w.t, answer.GetResults(), 30)
				for i, r := range answer.GetResults() {
					switch i {
					case 3:
						require.Equal(w.t, "partition_key", r.GetError().GetField())
					case 4:
						require.Equal(w.t, "data", r.GetError().GetField())
					default:
						require.NotEmpty(w.t, r.GetPublished().GetSequenceNumber(), "%d: %v", i, r)
					}
				}
				w.acked()
				w.subscribe(horizon)
				time.Sleep(5 * time.Second)
				data, _ := w.received()
				require.Len(w.t, data, 28, "headers and aggregation are undone")
			})
		})
	}
}

func TestPublishBatchThatIsRefused(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.me.Request(w.broker, batchOf(1))
		require.Equal(w.t, messages.ErrorKind_ERROR_KIND_NOT_CONNECTED, probe.Expect[*messages.Error](w.me).GetKind())
		w.connect()
		w.me.Request(w.broker, batchOf(101))
		e := probe.Expect[*messages.Error](w.me)
		require.Equal(w.t, messages.ErrorKind_ERROR_KIND_INVALID, e.GetKind())
		require.EqualValues(w.t, 42, e.GetCorrelation())
		require.Empty(w.t, w.service.Records(testStream))

		hung := hungPuts(w)
		w.me.Request(w.broker, batchOf(60))
		w.me.Request(w.broker, batchOf(41))
		w.requireOverloaded()
		hung.Clear()
		require.Len(w.t, probe.Expect[*messages.PublishedBatch](w.me).GetResults(), 60)
		require.Len(w.t, w.service.Records(testStream), 60, "nothing of the refused one")

		w.me.Request(w.broker, batchOf(0))
		require.Empty(w.t, probe.Expect[*messages.PublishedBatch](w.me).GetResults())
		wrong := batchOf(1)
		wrong.Stream = "no such/name"
		w.me.Request(w.broker, wrong)
		require.Equal(w.t, "stream", probe.Expect[*messages.Error](w.me).GetField())
	}, func(c *Config) { c.Limits.PendingRecords = 100 })
}

func TestPublishOptionsThatAreWrong(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.connect()
		for field, options := range map[string]*messages.PublishOptions{
			"options.ordering": {Ordering: 7},
			"options.linger":   {Linger: durationOf(-1)},
		} {
			w.me.Request(w.broker, &messages.Publish{Stream: testStream, Data: []byte("x"), Options: options, Correlation: 5})
			e := probe.Expect[*messages.Error](w.me)
			require.Equal(w.t, messages.ErrorKind_ERROR_KIND_INVALID, e.GetKind())
			require.Equal(w.t, field, e.GetField())
			require.EqualValues(w.t, 5, e.GetCorrelation())
		}
		w.me.Request(w.broker, &messages.Publish{Stream: testStream, Options: &messages.PublishOptions{Linger: durationOf(time.Hour)}})
		require.Equal(w.t, "options.linger", probe.Expect[*messages.Error](w.me).GetField())
		require.Empty(w.t, w.service.Calls())
	})
}

// A Go caller's batch: the same, with its own errors; ctx ends the wait.
func TestPublishBatchFromGo(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		w.connect()
		o := w.outletOf(nil)
		outcomes, err := o.PublishBatch(context.Background(), []Item{
			{Key: "a", Data: []byte("1")},
			{Key: "a", Data: []byte("2"), HashKey: "not a number"},
			{Key: "a", Data: []byte("3")},
			{Data: bytes.Repeat([]byte{1}, 2<<20)},
		})
		require.NoError(w.t, err)
		require.Nil(w.t, outcomes[0].Err)
		require.ErrorIs(w.t, outcomes[1].Err, ErrInvalid)
		require.Nil(w.t, outcomes[2].Err)
		require.ErrorIs(w.t, outcomes[3].Err, ErrInvalid)
		require.Less(w.t, outcomes[0].Sequence, outcomes[2].Sequence, "in the order of the batch")

		_, err = o.PublishBatch(context.Background(), make([]Item, 10_001))
		require.ErrorIs(w.t, err, ErrInvalid)
		hungPuts(w)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err = o.PublishBatch(ctx, []Item{{Data: []byte("x")}})
		require.ErrorIs(w.t, err, context.DeadlineExceeded)
	})
}

// A whole request that is refused for one record is taken apart until that one is found; an aggregated record is, too.
func TestARefusedRequestIsTakenApart(t *testing.T) {
	for name, options := range map[string]*messages.PublishOptions{"plain": nil, "aggregated": {Aggregate: true}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(w *world) {
				w.connect()
				for _, key := range []string{"k3", aggregateKey} {
					w.service.Fault("PutRecords", kinesistest.Match{PartitionKey: key}, -1, kinesistest.Error("ValidationException", "not this one"))
				}
				m := batchOf(100)
				m.Options = options
				w.me.Request(w.broker, m)
				answer := probe.Expect[*messages.PublishedBatch](w.me)
				for i, r := range answer.GetResults() {
					if i%7 == 3 {
						require.Equal(w.t, "ValidationException", r.GetError().GetAwsCode())
						require.False(w.t, r.GetError().GetOutcomeUnknown())
					} else {
						require.NotNil(w.t, r.GetPublished(), "%v", r)
						require.False(w.t, r.GetPublished().GetPossibleDuplicate())
					}
				}
				require.Less(w.t, w.service.CallCount("PutRecords"), 120)
			})
		})
	}
}
