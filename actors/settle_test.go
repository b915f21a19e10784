package actors

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

func perKey(d *messages.StreamDescriptor) { d.PerKeyOrder = true }

func inBatches(n int32) func(*messages.StreamDescriptor) {
	return func(d *messages.StreamDescriptor) { d.BatchSize = &n }
}

// onlyStatus is what the only shard's reader says of itself.
func (w *world) onlyStatus() *messages.ShardStatus {
	w.t.Helper()
	w.me.Request(w.broker, &messages.StatusRequest{})
	status := probe.Fish(w.me, func(*messages.Status) bool { return true })
	require.Len(w.t, status.GetSubscriptions(), 1)
	require.Len(w.t, status.GetSubscriptions()[0].GetShards(), 1)
	return status.GetSubscriptions()[0].GetShards()[0]
}

// checkpointIs waits until what is settled must have been saved.
func (w *world) checkpointIs(want string) {
	w.t.Helper()
	time.Sleep(1100 * time.Millisecond)
	synctest.Wait()
	require.Equal(w.t, want, w.lease(shardName(0)).Checkpoint.String())
}

// The pause before a retry doubles from retry_backoff to 30 s, whatever came in between; RetryAfter takes its own and no part in it.
func TestBackoffDoublesUpToItsCap(t *testing.T) {
	s := time.Second
	for first, want := range map[time.Duration][]time.Duration{
		0:                {200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, 1600 * time.Millisecond, 3200 * time.Millisecond, 6400 * time.Millisecond, 12800 * time.Millisecond, 25600 * time.Millisecond, 30 * s, 30 * s},
		7 * s:            {7 * s, 14 * s, 28 * s, 30 * s, 30 * s},
		45 * s:           {30 * s, 30 * s},
		time.Millisecond: {time.Millisecond, 2 * time.Millisecond, 4 * time.Millisecond},
	} {
		inBubble(t, 1, func(w *world) {
			w.open(horizon, func(d *messages.StreamDescriptor) {
				if first > 0 {
					d.RetryBackoff = durationOf(first)
				}
			})
			w.sub.SetTimeout(time.Hour)
			w.put("k", "a")
			attempt := int32(1)
			again := func(d *messages.Delivery, settle *messages.Settle, pause time.Duration) *messages.Delivery {
				require.Equal(w.t, attempt, d.GetAttempt())
				start := time.Now()
				w.sub.Reply(settle)
				d = w.next(false)
				require.Equal(w.t, pause, time.Since(start), "after attempt %d, from %v", attempt, first)
				attempt++
				return d
			}
			d := w.next(false)
			for _, pause := range want {
				d = again(d, d.Retry(), pause)
			}
			d = again(d, d.RetryAfter(0), time.Millisecond)
			d = again(d, d.RetryAfter(2*time.Minute), 2*time.Minute)
			w.sub.Reply(d.Ack())
			w.checkpointIs(d.GetSequenceNumber())
		})
	}
}

// A record that is retried holds back those of its key that wait behind it, in their order, and no other key.
func TestRetriesKeepTheOrderOfAKey(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon, perKey)
		for i := range 4 {
			for _, key := range []string{"a", "b", "c"} {
				w.put(key, fmt.Sprint(key, i))
			}
		}
		var got []string
		retries := map[string]int{"a0": 3, "a2": 1, "b3": 2}
		for range 12 + 6 {
			d := w.next(false)
			data := string(d.GetData())
			if retries[data] > 0 {
				retries[data]--
				w.sub.Reply(d.Retry())
				continue
			}
			got = append(got, data)
			w.sub.Reply(d.Ack())
		}
		byKey := make(map[string][]string)
		for _, data := range got {
			byKey[data[:1]] = append(byKey[data[:1]], data)
		}
		for _, key := range []string{"a", "b", "c"} {
			require.Equal(w.t, []string{key + "0", key + "1", key + "2", key + "3"}, byKey[key])
		}
		require.Equal(w.t, "c3", got[6], "b and c went on while a waited: %q", got)
		require.Zero(w.t, w.onlyStatus().GetInFlight())
	})
}

// Drop advances past a record like an ack, in its turn.
func TestDropAdvances(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		w.put("k", "b")
		a, b := w.next(false), w.next(false)
		w.sub.Reply(b.Drop())
		w.checkpointIs("TRIM_HORIZON")
		w.sub.Reply(a.Drop())
		w.checkpointIs(b.GetSequenceNumber())
		w.sub.ExpectNone(time.Minute)
	})
}

// A batch may be settled as a whole, in parts, or both, in any order, and twice: what is settled stays settled as it was the first time.
func TestBatchesInParts(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		for i := range 10 {
			w.put("k", fmt.Sprint(i))
		}
		w.open(horizon, inBatches(10), func(d *messages.StreamDescriptor) { d.RetryBackoff = durationOf(time.Second) })
		batch := probe.Expect[*messages.DeliveryBatch](w.sub)
		d := batch.GetDeliveries()
		require.Len(w.t, d, 10)
		for _, part := range []*messages.Settle{
			d[1].Ack(), d[0].Ack(), d[1].Retry(), d[4].Drop(), d[4].Ack(), // each once: the second word is not heard
			{ShardId: d[0].GetShardId(), Generation: d[0].GetGeneration(), First: 6, Last: 7, More: []uint64{9, 9}, Outcome: messages.Outcome_OUTCOME_ACK},
		} {
			w.sub.Reply(part)
		}
		w.checkpointIs(d[1].GetSequenceNumber())
		require.EqualValues(w.t, 6, w.onlyStatus().GetSettled())
		w.sub.Reply(batch.Retry()) // what is left of it
		again := probe.Expect[*messages.DeliveryBatch](w.sub)
		var left []string
		for _, d := range again.GetDeliveries() {
			require.EqualValues(w.t, 2, d.GetAttempt())
			left = append(left, string(d.GetData()))
		}
		require.Equal(w.t, []string{"2", "3", "7", "9"}, left)
		w.sub.Reply(again.Ack())
		w.sub.Reply(again.Ack())
		w.sub.Reply(batch.Ack())
		w.checkpointIs(d[9].GetSequenceNumber())
		require.EqualValues(w.t, 10, w.onlyStatus().GetSettled())
		w.sub.ExpectNone(time.Minute)
	})
}

// Whatever a settlement names, it settles only what is in flight here: not what has not been delivered, not what is of another generation, and
// nothing with an outcome that is not known.
func TestSettlementsOutOfBounds(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		for i := range 10 {
			w.put("k", fmt.Sprint(i))
		}
		w.open(horizon, windowOfRecords(4))
		var ds []*messages.Delivery
		for range 4 {
			ds = append(ds, w.next(false))
		}
		shard, generation := ds[0].GetShardId(), ds[0].GetGeneration()
		time.Sleep(3 * time.Second) // the others are read ahead
		ack := messages.Outcome_OUTCOME_ACK
		for _, nothing := range []*messages.Settle{
			{},
			{ShardId: shard, Generation: generation, First: 0, Last: 0, Outcome: ack},
			{ShardId: shard, Generation: generation, First: 5, Last: math.MaxUint64, Outcome: ack},
			{ShardId: shard, Generation: generation, First: math.MaxUint64, Last: math.MaxUint64, Outcome: ack},
			{ShardId: shard, Generation: generation, First: 4, Last: 1, Outcome: ack},
			{ShardId: shard, Generation: generation, First: 5, Last: 4, More: []uint64{4, 3, 9, 12, 1}, Outcome: ack},
			{ShardId: shard, Generation: generation + 1, First: 1, Last: 4, Outcome: ack},
			{ShardId: shard, Generation: generation - 1, First: 1, Last: 4, Outcome: ack},
			{ShardId: shard, First: 1, Last: 4, Outcome: ack},
			{ShardId: shard, Generation: generation, First: 1, Last: 4},
			{ShardId: shard, Generation: generation, First: 1, Last: 4, Outcome: messages.Outcome(99)},
		} {
			w.sub.Reply(nothing)
			require.Zero(w.t, w.onlyStatus().GetSettled(), "%v", nothing)
			require.EqualValues(w.t, 4, w.onlyStatus().GetInFlight(), "%v", nothing)
		}
		w.checkpointIs("TRIM_HORIZON")
		w.sub.Reply(&messages.Settle{ShardId: shard, Generation: generation, First: 0, Last: math.MaxUint64, Outcome: ack})
		w.checkpointIs(ds[3].GetSequenceNumber())
		require.EqualValues(w.t, 4, w.onlyStatus().GetSettled())
		w.takeAll(4)
	})
}

// A settlement that comes after its reader was replaced, under the same name, settles nothing with the successor.
func TestLateSettlementMeetsTheSuccessor(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		w.put("k", "b")
		a, b := w.next(false), w.next(false)
		reader := w.sub.Sender()
		w.system.Root.Stop(reader)
		again := probe.Fish(w.sub, func(d *messages.Delivery) bool { return d.GetGeneration() != a.GetGeneration() })
		require.Equal(w.t, reader.GetId(), w.sub.Sender().GetId())
		require.EqualValues(w.t, 1, again.GetAttempt())
		w.sub.Reply(a.Ack())
		w.sub.Reply(b.Ack())
		w.checkpointIs("TRIM_HORIZON")
		w.sub.Reply(again.Ack())
		w.checkpointIs(a.GetSequenceNumber())
	})
}

// Without a dead-letter stream a record that has had its attempts is dropped, not before, and said so.
func TestMaxAttemptsWithoutADeadLetterStream(t *testing.T) {
	for limit := int32(1); limit < 4; limit++ {
		book := newLogBook()
		inBubble(t, 1, func(w *world) {
			w.open(horizon, func(d *messages.StreamDescriptor) { d.MaxAttempts = limit })
			w.put("k", "a")
			w.put("k", "b")
			last := w.next(false)
			b := w.next(true)
			for attempt := int32(1); ; attempt++ {
				w.sub.Send(w.sub.Sender(), last.Retry())
				if attempt == limit {
					break
				}
				last = w.next(false)
			}
			w.sub.ExpectNone(time.Minute)
			require.Equal(w.t, limit, last.GetAttempt())
			w.checkpointIs(b.GetSequenceNumber())
			require.Len(w.t, book.all("WARN", "spent its attempts", "attempts="+fmt.Sprint(limit), last.GetSequenceNumber()), 1)
		}, logged(book))
	}
}

// A subscriber that dies in the middle of a window: the subscription ends, what it had settled is saved, and the rest comes to the next.
func TestSubscriberDiesInTheMiddleOfAWindow(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		opened := w.open(horizon, windowOfRecords(5))
		for i := range 10 {
			w.put("k", fmt.Sprint(i))
		}
		w.takeAll(3)
		w.next(false)
		w.me.Watch(opened.GetSubscription())
		w.sub.Stop()
		w.me.ExpectTerminated(opened.GetSubscription(), time.Second)
		require.Equal(w.t, w.service.Records(testStream)[2].SequenceNumber, w.lease(shardName(0)).Checkpoint.String())
		require.Empty(w.t, w.lease(shardName(0)).Owner)
		w.sub = probe.New(w.t, w.system, "heir")
		w.subscribe()
		require.Equal(w.t, []string{"3", "4", "5", "6", "7", "8", "9"}, w.takeAll(7))
	})
}
