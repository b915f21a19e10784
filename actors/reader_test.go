package actors

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// I1, R2: an expired iterator is replaced by one after the last record read, not at the start and not at the tip.
func TestExpiredIterator(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open()
		w.put("k", "a")
		w.next(false)
		w.service.Fault("GetRecords", kinesistest.Match{}, 2, kinesistest.ExpireIterator())
		w.put("k", "b")
		require.Equal(w.t, []string{"b"}, w.takeAll(1))
		kinds := iteratorKinds(w, shardName(0))
		require.Equal(w.t, "LATEST", kinds[0])
		for _, k := range kinds[1:] {
			require.Equal(w.t, "AFTER_SEQUENCE_NUMBER", k)
		}
	})
}

// An iterator that expires before anything was read is opened where the tip was.
func TestExpiredIteratorBeforeAnythingWasRead(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open()
		w.service.Fault("GetRecords", kinesistest.Match{}, 1, kinesistest.ExpireIterator())
		time.Sleep(900 * time.Millisecond)
		w.put("k", "a")
		require.Equal(w.t, []string{"a"}, w.takeAll(1))
		require.Equal(w.t, []string{"LATEST", "AT_TIMESTAMP"}, iteratorKinds(w, shardName(0)))
	})
}

// G3, G5, G13: throttles keep the iterator, wait a second or more, and are not reported.
func TestThrottles(t *testing.T) {
	for _, code := range []string{"ProvisionedThroughputExceededException", "KMSThrottlingException", "LimitExceededException"} {
		inBubble(t, 1, func(w *world) {
			w.open()
			synctest.Wait()
			before := len(readTimes(w))
			f := w.service.Fault("GetRecords", kinesistest.Match{}, 6, kinesistest.Error(code, "slow down"))
			w.put("k", "a")
			require.Equal(w.t, []string{"a"}, w.takeAll(1), code)
			require.Equal(w.t, 6, f.Count())
			times := readTimes(w)[before:]
			for i := 1; i < 7; i++ {
				require.GreaterOrEqual(w.t, times[i].Sub(times[i-1]), time.Second)
			}
			require.Len(w.t, iteratorKinds(w, shardName(0)), 1)
			_, any := w.sub.TryReceive()
			require.False(w.t, any, "a throttle is not an error")
		})
	}
}

// 5xx, resets, garbage: the same iterator again, with backoff, and told once when it lasts. G6: one attempt per call.
func TestTransientFailures(t *testing.T) {
	for _, effect := range []kinesistest.Effect{
		kinesistest.Error("InternalFailure", "oops"), kinesistest.Reset(), kinesistest.Body(200, []byte(`{"Records":[{`)),
		kinesistest.Body(503, []byte("<html>")),
	} {
		inBubble(t, 1, func(w *world) {
			w.open()
			f := w.service.Fault("GetRecords", kinesistest.Match{}, 8, effect)
			w.put("k", "a")
			told := probe.Fish(w.sub, func(*messages.SubscriptionError) bool { return true })
			require.Equal(w.t, messages.ErrorKind_ERROR_KIND_READ, told.GetError().GetKind())
			require.Equal(w.t, shardName(0), told.GetError().GetShardId())
			e := probe.Expect[*messages.Delivery](w.sub)
			require.Equal(w.t, "a", string(e.GetData()), "told once only")
			require.Equal(w.t, 8, f.Count())
		})
	}
}

// G1: while behind, empty pages are read over at once.
func TestEmptyPagesWhileBehind(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.put("k", "a")
		time.Sleep(time.Hour)
		w.connect()
		w.service.Fault("GetRecords", kinesistest.Match{}, 50, kinesistest.EmptyPage())
		w.subscribe(horizon)
		start := time.Now()
		require.Equal(w.t, []string{"a"}, w.takeAll(1))
		require.Less(w.t, time.Since(start), time.Second, "the idle interval does not apply")
	})
}

// Retry delivers again after a backoff that doubles; RetryAfter after the given pause; attempts count.
func TestRetry(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		w.put("k", "b")
		d := w.next(false)
		require.Equal(w.t, "b", string(w.next(true).GetData()), "without per_key_order later records flow")
		pause := 200 * time.Millisecond
		for attempt := int32(1); attempt < 5; attempt++ {
			require.Equal(w.t, attempt, d.GetAttempt())
			start := time.Now()
			w.sub.Send(readersOf(w)[shardName(0)], d.Retry())
			d = w.next(false)
			require.Equal(w.t, pause, time.Since(start))
			pause *= 2
		}
		start := time.Now()
		w.sub.Send(readersOf(w)[shardName(0)], d.RetryAfter(42*time.Second))
		d = w.next(true)
		require.Equal(w.t, 42*time.Second, time.Since(start))
		require.EqualValues(w.t, 6, d.GetAttempt())
	})
}

// per_key_order: one unsettled record per key, other keys flow, a retried record holds back its key.
func TestPerKeyOrder(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon, func(d *messages.StreamDescriptor) { d.PerKeyOrder = true })
		w.put("a", "a1")
		w.put("a", "a2")
		w.put("b", "b1")
		a1 := w.next(false)
		require.Equal(w.t, "b1", string(w.next(true).GetData()))
		w.sub.ExpectNone(10 * time.Second)
		w.sub.Send(readersOf(w)[shardName(0)], a1.Retry())
		again := w.next(true)
		require.Equal(w.t, "a1", string(again.GetData()))
		require.EqualValues(w.t, 2, again.GetAttempt())
		require.Equal(w.t, []string{"a2"}, w.takeAll(1))
	})
}

// A subscriber that settles nothing gets the window and no more, and reading stops.
func TestWindowBoundsWhatIsOut(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon, func(d *messages.StreamDescriptor) { d.WindowRecords = new(int32(10)) })
		for i := range 100 {
			w.put("k", fmt.Sprint(i))
		}
		var ds []*messages.Delivery
		for range 10 {
			ds = append(ds, w.next(false))
		}
		time.Sleep(2 * time.Second) // one page is read ahead
		reads := len(readTimes(w))
		w.sub.ExpectNone(time.Minute)
		require.Len(w.t, readTimes(w), reads, "no reads while there is no room")
		for _, d := range ds {
			w.sub.Send(readersOf(w)[shardName(0)], d.Ack())
		}
		require.Len(w.t, w.takeAll(90), 90)
	})
}

// window_bytes: what is in flight stays within it; a larger record goes alone.
func TestWindowBytes(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon, func(d *messages.StreamDescriptor) { d.WindowBytes = new(int64(100)) })
		w.put("k", string(make([]byte, 60)))
		w.put("k", string(make([]byte, 60)))
		w.put("k", string(make([]byte, 500)))
		for range 3 {
			d := w.next(false)
			w.sub.ExpectNone(5 * time.Second)
			w.sub.Send(w.sub.Sender(), d.Ack())
		}
	})
}

// A subscriber that waits for most of the window before it settles anything gets it: reading does not stop at half.
func TestWindowIsFilledToItsBound(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon, func(d *messages.StreamDescriptor) { d.WindowRecords = new(int32(10)) })
		for i := range 10 {
			w.put("k", fmt.Sprint(i))
			w.next(false)
		}
	})
}

func TestBatches(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		for i := range 25 {
			w.put("k", fmt.Sprint(i))
		}
		w.open(horizon, func(d *messages.StreamDescriptor) { d.BatchSize = new(int32(10)) })
		sizes, next := []int{}, 0
		for next < 25 {
			b := probe.Expect[*messages.DeliveryBatch](w.sub)
			sizes = append(sizes, len(b.GetDeliveries()))
			for _, d := range b.GetDeliveries() {
				require.Equal(w.t, fmt.Sprint(next), string(d.GetData()))
				next++
			}
			w.sub.Reply(b.Ack())
		}
		require.Equal(w.t, []int{10, 10, 5}, sizes)
		time.Sleep(2 * time.Second)
		require.Equal(w.t, w.service.Records(testStream)[24].SequenceNumber, w.lease(shardName(0)).Checkpoint.String())
	})
}

// A settlement that names another shard's delivery is told, and settles nothing.
func TestForeignSettlement(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		d := w.next(false)
		other := shardName(0)
		if d.GetShardId() == other {
			other = shardName(1)
		}
		w.sub.Send(readersOf(w)[other], d.Ack())
		e := probe.Fish(w.sub, func(*messages.SubscriptionError) bool { return true })
		require.Equal(w.t, messages.ErrorKind_ERROR_KIND_INVALID, e.GetError().GetKind())
		require.Equal(w.t, other, e.GetError().GetShardId())
		time.Sleep(5 * time.Second)
		require.Equal(w.t, "TRIM_HORIZON", w.lease(d.GetShardId()).Checkpoint.String())
	})
}

// max_attempts: the spent record goes to the dead-letter stream with where it came from, and only then is dropped.
func TestDeadLetter(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		require.NoError(w.t, w.service.CreateStream("dead", 1))
		f := w.service.Fault("PutRecords", kinesistest.Match{Stream: "dead"}, 2, kinesistest.Error("InternalFailure", "not now"))
		w.open(horizon, func(d *messages.StreamDescriptor) { d.MaxAttempts, d.DeadLetter = 3, "dead" })
		w.put("key", "poison")
		var last *messages.Delivery
		for range 3 {
			last = w.next(false)
			w.sub.Reply(last.Retry())
		}
		w.put("key", "fine")
		require.Equal(w.t, []string{"fine"}, w.takeAll(1))
		time.Sleep(time.Minute)
		require.Equal(w.t, 2, f.Count())
		dead := w.service.Records("dead")
		require.Len(w.t, dead, 1)
		headers, data := openEnvelope(dead[0].Data)
		require.Equal(w.t, "poison", string(data))
		require.Equal(w.t, map[string]string{
			"pk-origin-stream": testStream, "pk-origin-shard": shardName(0), "pk-origin-sequence": last.GetSequenceNumber(), "pk-attempts": "3",
		}, headers)
		require.Equal(w.t, w.service.Records(testStream)[1].SequenceNumber, w.lease(shardName(0)).Checkpoint.String())
	})
}

func TestSeekToTheHorizonReplaysAndVoidsWhatWasOut(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		opened := w.open(horizon)
		w.put("k", "a")
		w.put("k", "b")
		w.takeAll(1)
		late := w.next(false)
		w.me.Request(opened.GetSubscription(), &messages.Seek{To: toHorizon(), Correlation: 3})
		sought := probe.Expect[*messages.Sought](w.me)
		require.EqualValues(w.t, 3, sought.GetCorrelation())
		require.Equal(w.t, []string{shardName(0)}, sought.GetShards())
		w.sub.Send(readersOf(w)[shardName(0)], late.Ack())
		time.Sleep(3 * time.Second)
		require.Equal(w.t, "TRIM_HORIZON", w.lease(shardName(0)).Checkpoint.String(), "a late settlement does not checkpoint")
		require.Equal(w.t, []string{"a", "b"}, w.takeAll(2))
	})
}

func TestSeekReopensFinishedShards(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		opened := w.open(horizon)
		w.put("k", "a")
		split(w, shardName(0))
		w.put("k", "b")
		w.takeAll(2)
		synctest.Wait()
		require.True(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
		w.me.Request(opened.GetSubscription(), &messages.Seek{To: toHorizon()})
		probe.Expect[*messages.Sought](w.me)
		require.Equal(w.t, []string{"a", "b"}, w.takeAll(2), "the parent first, then the child")
	})
}

func TestSeekToTheTip(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		opened := w.open(horizon)
		w.put("k", "a")
		w.takeAll(1)
		split(w, shardName(0))
		for range 3 {
			w.put("k", "skipped")
		}
		time.Sleep(500 * time.Millisecond)
		w.me.Request(opened.GetSubscription(), &messages.Seek{To: &messages.Position{At: &messages.Position_Latest{}}})
		probe.Expect[*messages.Sought](w.me)
		synctest.Wait()
		for {
			if _, more := w.sub.TryReceive(); !more {
				break
			}
		}
		w.put("k", "new")
		require.Equal(w.t, []string{"new"}, w.takeAll(1))
		time.Sleep(time.Minute)
		_, more := w.sub.TryReceive()
		require.False(w.t, more)
	})
}

func TestSeekToASequence(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		opened := w.open(horizon)
		for _, data := range []string{"a", "b", "c"} {
			w.put("k", data)
		}
		w.takeAll(3)
		records := w.service.Records(testStream)
		seek := func(shard, sequence string) *messages.Seek {
			return &messages.Seek{To: &messages.Position{At: &messages.Position_Sequence{
				Sequence: &messages.Sequence{ShardId: shard, SequenceNumber: sequence},
			}}}
		}
		w.me.Request(opened.GetSubscription(), seek(records[1].Shard, records[1].SequenceNumber))
		require.Equal(w.t, []string{records[1].Shard}, probe.Expect[*messages.Sought](w.me).GetShards())
		require.Equal(w.t, []string{"b", "c"}, w.takeAll(2))
		for _, bad := range []*messages.Seek{
			seek("shardId-000000000077", records[1].SequenceNumber), seek(records[1].Shard, "12x"), seek(records[1].Shard, ""),
			seek("", records[1].SequenceNumber), seek(otherShard(records[1].Shard), records[1].SequenceNumber),
			{},
		} {
			w.me.Request(opened.GetSubscription(), bad)
			e := probe.Expect[*messages.Error](w.me)
			require.Equal(w.t, messages.ErrorKind_ERROR_KIND_INVALID, e.GetKind(), "%v", e)
		}
		w.put("k", "d")
		require.Equal(w.t, []string{"d"}, w.takeAll(1), "a refused seek moves nothing")
	})
}

func otherShard(id string) string {
	if id == shardName(0) {
		return shardName(1)
	}
	return shardName(0)
}

func TestStartAt(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		for _, data := range []string{"a", "b", "c"} {
			w.put("k", data)
			time.Sleep(time.Second)
		}
		records := w.service.Records(testStream)
		at := func(p *messages.Position) func(*messages.StreamDescriptor) {
			return func(d *messages.StreamDescriptor) { d.StartAt = p }
		}
		w.connect()
		for _, c := range []struct {
			at   *messages.Position
			want []string
		}{
			{toHorizon(), []string{"a", "b", "c"}},
			{&messages.Position{At: &messages.Position_Timestamp{Timestamp: &messages.Timestamp{UnixMillis: records[1].Arrival.UnixMilli()}}}, []string{"b", "c"}},
			{&messages.Position{At: &messages.Position_Sequence{Sequence: &messages.Sequence{ShardId: shardName(0), SequenceNumber: records[2].SequenceNumber}}}, []string{"c"}},
		} {
			opened := w.subscribe(at(c.at))
			require.Equal(w.t, c.want, w.takeAll(len(c.want)))
			w.me.Request(opened.GetSubscription(), &messages.Unsubscribe{})
			probe.Expect[*messages.Unsubscribed](w.me)
			synctest.Wait()
		}
	})
}

// The stream is deleted while it is read: one fatal error, and the leases stay.
func TestStreamDeletedUnderASubscription(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		opened := w.open(horizon)
		w.me.Watch(opened.GetSubscription())
		_, err := admin(w).DeleteStream(w.t.Context(), deleteInput())
		require.NoError(w.t, err)
		e := probe.Fish(w.sub, func(m *messages.SubscriptionError) bool { return m.GetFatal() })
		require.Equal(w.t, messages.ErrorKind_ERROR_KIND_STREAM, e.GetError().GetKind())
		w.me.ExpectTerminated(opened.GetSubscription())
		require.NotZero(w.t, w.lease(shardName(0)).Counter)
	})
}
