package actors

import (
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/protokinesis/protokinesis/messages"
)

func windowOf(perKeyOrder bool, keys ...string) *window {
	w := newWindow(len(keys)+1, 1<<20, perKeyOrder)
	for i, key := range keys {
		w.add(windowRecord(w.nextID(), key, i%10), w.newArena(1))
	}
	return w
}

func windowRecord(id uint64, key string, size int) *messages.Delivery {
	return &messages.Delivery{
		SequenceNumber: strconv.FormatUint(100+id, 10), PartitionKey: key, Data: make([]byte, size), Attempt: 1, DeliveryId: id,
	}
}

func nextIDs(w *window) (ids []uint64) {
	for d := w.next(); d != nil; d = w.next() {
		ids = append(ids, d.GetDeliveryId())
	}
	return ids
}

func atOnce(int32) time.Time { return time.Unix(0, 0) }

// C1: completions out of order move the watermark neither back nor too far.
func TestWatermarkIsTheSettledPrefix(t *testing.T) {
	w := windowOf(false, "a", "b", "c", "d", "e")
	require.Len(t, nextIDs(w), 5)
	for _, step := range []struct {
		ack  uint64
		want string
	}{{3, ""}, {1, "101"}, {2, "103"}, {2, "103"}, {5, "103"}, {4, "105"}} {
		w.settle(step.ack, step.ack, messages.Outcome_OUTCOME_ACK, nil)
		require.Equal(t, step.want, w.watermark.String(), "after record %d", step.ack)
	}
}

// C2: what is only queued is not settled by an ack of everything.
func TestAckOfAllSettlesOnlyWhatIsInFlight(t *testing.T) {
	w := windowOf(false, "a", "b", "c")
	w.next()
	require.Equal(t, 1, w.settle(0, math.MaxUint64, messages.Outcome_OUTCOME_ACK, nil))
	require.Equal(t, "101", w.watermark.String())
	require.Equal(t, []uint64{2, 3}, nextIDs(w))
}

func TestSettleOfAnEmptyWindow(t *testing.T) {
	w := newWindow(10, 10, true)
	require.Zero(t, w.settle(0, math.MaxUint64, messages.Outcome_OUTCOME_ACK, nil))
	require.Zero(t, w.settle(1, 1, messages.Outcome_OUTCOME_ACK, nil))
	w.settleSpent(1)
	w.respend(1, time.Now())
	require.Empty(t, w.dueRetries(time.Now(), 1))
	require.True(t, w.empty())
	require.True(t, w.watermark.IsZero())
}

func TestSettleBackwardsRangeChangesNothing(t *testing.T) {
	w := windowOf(false, "a", "b", "c")
	nextIDs(w)
	require.Zero(t, w.settle(3, 1, messages.Outcome_OUTCOME_ACK, nil))
	require.Equal(t, 3, w.out)
}

func TestPerKeyOrderLetsOtherKeysFlow(t *testing.T) {
	w := windowOf(true, "a", "a", "b", "a", "b")
	require.Equal(t, []uint64{1, 3}, nextIDs(w))
	w.settle(1, 1, messages.Outcome_OUTCOME_RETRY, atOnce)
	require.Empty(t, nextIDs(w), "the key waits for its retried record")
	w.settle(3, 3, messages.Outcome_OUTCOME_ACK, nil)
	require.Equal(t, []uint64{5}, nextIDs(w))
	require.Empty(t, w.dueRetries(time.Now(), 0))
	require.Equal(t, []uint64{1}, nextIDs(w))
	w.settle(1, 1, messages.Outcome_OUTCOME_DROP, nil)
	require.Equal(t, []uint64{2}, nextIDs(w))
}

func TestSpentRecordHoldsItsKeyAndTheWatermark(t *testing.T) {
	w := windowOf(true, "a", "a", "b")
	require.Equal(t, []uint64{1, 3}, nextIDs(w))
	w.settle(1, 1, messages.Outcome_OUTCOME_RETRY, atOnce)
	w.settle(3, 3, messages.Outcome_OUTCOME_ACK, nil)
	spent := w.dueRetries(time.Now(), 1)
	require.Len(t, spent, 1)
	require.EqualValues(t, 1, spent[0].GetDeliveryId())
	require.Empty(t, nextIDs(w), "its successor waits")
	require.True(t, w.watermark.IsZero())
	require.Zero(t, w.settle(1, 1, messages.Outcome_OUTCOME_ACK, nil), "a late ack does not settle it")

	w.respend(1, time.Unix(5, 0))
	require.Empty(t, w.dueRetries(time.Unix(4, 0), 1))
	require.Len(t, w.dueRetries(time.Unix(5, 0), 1), 1, "it is spent again, not delivered again")
	w.settleSpent(1)
	require.Equal(t, "101", w.watermark.String())
	require.Equal(t, []uint64{2}, nextIDs(w))
}

func TestRetryIsACopy(t *testing.T) {
	w := newWindow(10, 1<<20, false)
	first := &messages.Delivery{
		Stream: "s", ShardId: "shard", SequenceNumber: "5", SubSequenceNumber: 2, PartitionKey: "k", Data: []byte("data"),
		Headers: map[string]string{"a": "b"}, ArrivalUnixMillis: 9, Attempt: 1, Generation: 3, DeliveryId: 1,
	}
	w.add(first, w.newArena(1))
	require.Same(t, first, w.next())
	w.settle(1, 1, messages.Outcome_OUTCOME_RETRY, atOnce)
	w.dueRetries(time.Now(), 0)
	second := w.next()
	require.NotSame(t, first, second)
	require.EqualValues(t, 1, first.GetAttempt(), "what was sent stays as it was")
	require.EqualValues(t, 2, second.GetAttempt())
	second.Attempt = 1
	require.True(t, proto.Equal(first, second), "all else is the same, new fields too: %v", second)
}

func TestLargeRecordGoesOutAlone(t *testing.T) {
	w := newWindow(10, 10, false)
	for id, size := range []int{4, 4, 50, 1} {
		w.add(windowRecord(uint64(id)+1, "", size), w.newArena(1))
	}
	require.Zero(t, w.room(), "the bytes read are over the bound")
	require.Equal(t, []uint64{1, 2}, nextIDs(w))
	w.settle(1, 1, messages.Outcome_OUTCOME_ACK, nil)
	require.Empty(t, nextIDs(w), "the large one waits until it is alone")
	w.settle(2, 2, messages.Outcome_OUTCOME_ACK, nil)
	require.Equal(t, []uint64{3}, nextIDs(w))
	w.settle(3, 3, messages.Outcome_OUTCOME_ACK, nil)
	require.Equal(t, []uint64{4}, nextIDs(w))
}

func TestWindowIsWorthReading(t *testing.T) {
	w := newWindow(4, 100, false)
	for i, want := range []bool{true, true, true, false} {
		require.Equal(t, want, w.worthReading(), "%d records in it", i)
		w.add(windowRecord(w.nextID(), "", 1), w.newArena(1))
	}
	require.False(t, w.worthReading(), "full")
	full := newWindow(1000, 10, false)
	full.add(windowRecord(1, "", 10), full.newArena(1))
	require.Zero(t, full.room(), "its bytes are full")
	require.False(t, full.worthReading())
	one := newWindow(1, 1, false)
	require.True(t, one.worthReading())
	require.Equal(t, 1, one.room())
}

// The queues inside grow, wrap around and are compacted.
func TestWindowOfManyRecords(t *testing.T) {
	const size, total = 3000, 20_000
	for _, perKeyOrder := range []bool{false, true} {
		w := newWindow(size, 1<<30, perKeyOrder)
		var delivered []uint64
		for len(delivered) < total {
			for w.room() > 0 && w.nextID() <= total {
				w.add(windowRecord(w.nextID(), strconv.FormatUint(w.nextID()%2500, 10), 1), w.newArena(1))
			}
			got := nextIDs(w)
			require.NotEmpty(t, got)
			delivered = append(delivered, got...)
			for _, id := range slices.Backward(got) {
				require.Equal(t, 1, w.settle(id, id, messages.Outcome_OUTCOME_ACK, nil))
			}
		}
		slices.Sort(delivered)
		require.Len(t, slices.Compact(delivered), total, "each once")
		require.True(t, w.empty())
		require.Equal(t, strconv.Itoa(100+total), w.watermark.String())
	}
}

func TestGiveUpUndeliveredHoldsTheWatermark(t *testing.T) {
	w := windowOf(false, "a", "b", "c", "d")
	w.next()
	w.next()
	w.settle(2, 2, messages.Outcome_OUTCOME_RETRY, atOnce)
	w.giveUpUndelivered()
	require.Empty(t, nextIDs(w))
	require.Empty(t, w.dueRetries(time.Now(), 0))
	require.Equal(t, 1, w.out)
	require.Equal(t, 1, w.settle(0, math.MaxUint64, messages.Outcome_OUTCOME_ACK, nil))
	require.Equal(t, "101", w.watermark.String())
	require.False(t, w.empty(), "what was not delivered is not settled")
}

// A batch that is retried has one due time for all its records. They come again in the order of the shard, as any
// other records: "the order is the shard's" (StreamDescriptor.per_key_order), a DeliveryBatch is "in order".
func TestRetriesOfOneInstantKeepTheirOrder(t *testing.T) {
	w := windowOf(false, "a", "a", "a", "a", "a", "a", "a", "a", "a", "a")
	want := nextIDs(w)
	w.settle(0, math.MaxUint64, messages.Outcome_OUTCOME_RETRY, atOnce)
	w.dueRetries(time.Now(), 0)
	require.Equal(t, want, nextIDs(w))
}

// Protobuf enums are open: another node, or a mistake, can send any number. The record stays in flight, and
// is not counted out of the window while it is still in it: the counts of what is in flight would go below zero, and
// a drain would never end.
func TestSettleWithAnUnknownOutcome(t *testing.T) {
	w := windowOf(false, "a", "b")
	nextIDs(w)
	for _, outcome := range []messages.Outcome{99, messages.Outcome_OUTCOME_UNSPECIFIED, -1} {
		require.Zero(t, w.settle(0, math.MaxUint64, outcome, nil))
		require.Equal(t, 2, w.out)
	}
	require.Equal(t, 2, w.settle(0, math.MaxUint64, messages.Outcome_OUTCOME_ACK, nil))
	require.Zero(t, w.out)
	require.Zero(t, w.outBytes)
	require.True(t, w.empty())
}

// Headers are kept in memory like the rest of the record, and were counted as bytes when it was published.
func TestHeadersCountAsBytes(t *testing.T) {
	w := newWindow(10, 1000, false)
	d := windowRecord(1, "k", 1)
	d.Headers = map[string]string{"trace": string(make([]byte, 2000))}
	w.add(d, w.newArena(1))
	require.Zero(t, w.room(), "2000 bytes of headers are held and 1000 bytes are allowed")
}
