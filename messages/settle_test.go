package messages_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/protokinesis/protokinesis/messages"
)

const shardID = "shardId-000000000001"

func delivery(id uint64) *messages.Delivery {
	return &messages.Delivery{ShardId: shardID, Generation: 7, DeliveryId: id, Attempt: 1}
}

func batchOf(ids ...uint64) *messages.DeliveryBatch {
	b := &messages.DeliveryBatch{}
	for _, id := range ids {
		b.Deliveries = append(b.Deliveries, delivery(id))
	}
	return b
}

// ranges are the ranges that a Settle names.
func ranges(s *messages.Settle) (all [][2]uint64) {
	s.EachRange(func(first, last uint64) { all = append(all, [2]uint64{first, last}) })
	return all
}

func TestForms(t *testing.T) {
	for name, c := range map[string]struct {
		one   *messages.Settle
		batch *messages.Settle
		want  messages.Outcome
		delay int64
	}{
		"ack":               {delivery(5).Ack(), batchOf(5).Ack(), messages.Outcome_OUTCOME_ACK, 0},
		"drop":              {delivery(5).Drop(), batchOf(5).Drop(), messages.Outcome_OUTCOME_DROP, 0},
		"retry":             {delivery(5).Retry(), batchOf(5).Retry(), messages.Outcome_OUTCOME_RETRY, 0},
		"retry after 1.5 s": {delivery(5).RetryAfter(1500 * time.Millisecond), batchOf(5).RetryAfter(1500 * time.Millisecond), messages.Outcome_OUTCOME_RETRY, 1500},
		"retry after 1 h":   {delivery(5).RetryAfter(time.Hour), batchOf(5).RetryAfter(time.Hour), messages.Outcome_OUTCOME_RETRY, 3_600_000},
		// 0 would mean the backoff of the attempt.
		"retry at once":          {delivery(5).RetryAfter(0), batchOf(5).RetryAfter(0), messages.Outcome_OUTCOME_RETRY, 1},
		"retry after a moment":   {delivery(5).RetryAfter(time.Microsecond), batchOf(5).RetryAfter(time.Microsecond), messages.Outcome_OUTCOME_RETRY, 1},
		"retry before it failed": {delivery(5).RetryAfter(-time.Second), batchOf(5).RetryAfter(-time.Second), messages.Outcome_OUTCOME_RETRY, 1},
	} {
		t.Run(name, func(t *testing.T) {
			want := &messages.Settle{ShardId: shardID, Generation: 7, First: 5, Last: 5, Outcome: c.want, DelayMillis: c.delay}
			require.True(t, proto.Equal(want, c.one), "%v", c.one)
			require.True(t, proto.Equal(want, c.batch), "%v", c.batch)
		})
	}
}

func TestSettleLeavesTheDeliveryAsItIs(t *testing.T) {
	d, b := delivery(5), batchOf(5, 6, 9)
	d.Ack()
	d.Retry()
	b.Ack()
	require.True(t, proto.Equal(delivery(5), d))
	require.True(t, proto.Equal(batchOf(5, 6, 9), b))
}

func TestBatchRanges(t *testing.T) {
	for name, c := range map[string]struct {
		ids  []uint64
		want [][2]uint64
		more int
	}{
		"nothing":                        {nil, nil, 0},
		"one":                            {[]uint64{3}, [][2]uint64{{3, 3}}, 0},
		"in a row":                       {[]uint64{3, 4, 5, 6}, [][2]uint64{{3, 6}}, 0},
		"a gap":                          {[]uint64{3, 4, 6, 7}, [][2]uint64{{3, 4}, {6, 7}}, 2},
		"only gaps":                      {[]uint64{1, 3, 5, 7}, [][2]uint64{{1, 1}, {3, 3}, {5, 5}, {7, 7}}, 6},
		"an older one that was retried":  {[]uint64{8, 9, 2, 10, 11}, [][2]uint64{{8, 9}, {2, 2}, {10, 11}}, 4},
		"retried ones in a row":          {[]uint64{8, 2, 3, 4}, [][2]uint64{{8, 8}, {2, 4}}, 2},
		"backwards":                      {[]uint64{3, 2, 1}, [][2]uint64{{3, 3}, {2, 2}, {1, 1}}, 4},
		"the one before is not repeated": {[]uint64{5, 6, 5}, [][2]uint64{{5, 6}, {5, 5}}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := batchOf(c.ids...).Ack()
			require.Equal(t, c.want, ranges(s))
			require.Len(t, s.GetMore(), c.more)
			require.Equal(t, messages.Outcome_OUTCOME_ACK, s.GetOutcome())
		})
	}
	require.Empty(t, ranges((*messages.DeliveryBatch)(nil).Drop()), "no batch")
}

func TestEachRangeOfWhatOthersSend(t *testing.T) {
	for name, c := range map[string]struct {
		s    *messages.Settle
		want [][2]uint64
	}{
		"nothing":             {nil, [][2]uint64{{0, 0}}}, // as the next; ids begin with 1
		"zero":                {&messages.Settle{}, [][2]uint64{{0, 0}}},
		"backwards":           {&messages.Settle{First: 5, Last: 4}, nil},
		"half a range":        {&messages.Settle{First: 1, Last: 1, More: []uint64{3}}, [][2]uint64{{1, 1}}},
		"a range and a half":  {&messages.Settle{First: 1, Last: 1, More: []uint64{3, 4, 9}}, [][2]uint64{{1, 1}, {3, 4}}},
		"a backwards one too": {&messages.Settle{First: 1, Last: 1, More: []uint64{4, 3, 6, 7}}, [][2]uint64{{1, 1}, {6, 7}}},
		"all there is":        {&messages.Settle{Last: 1<<64 - 1}, [][2]uint64{{0, 1<<64 - 1}}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, ranges(c.s)) })
	}
}

// Whatever a batch holds, its settlement names exactly its records, over the wire too.
func TestBatchSettlesExactlyItsRecords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.Uint64Range(1, 40), 0, 30, rapid.ID[uint64]).Draw(t, "ids")
		wire, err := proto.Marshal(batchOf(ids...).Retry())
		require.NoError(t, err)
		s := &messages.Settle{}
		require.NoError(t, proto.Unmarshal(wire, s))
		var named []uint64
		s.EachRange(func(first, last uint64) {
			for id := first; id <= last; id++ {
				named = append(named, id)
			}
		})
		require.ElementsMatch(t, ids, named)
	})
}

func TestArrival(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_123)
	require.True(t, at.Equal((&messages.Delivery{ArrivalUnixMillis: at.UnixMilli()}).Arrival()))
}

func FuzzDeliveryRoundTrip(f *testing.F) {
	f.Add([]byte("data"), "key", "name", "value", uint64(3))
	f.Fuzz(func(t *testing.T, data []byte, key, name, value string, id uint64) {
		d := &messages.Delivery{Data: data, PartitionKey: key, Headers: map[string]string{name: value}, DeliveryId: id}
		wire, err := proto.Marshal(d)
		if err != nil {
			t.Skip("not UTF-8")
		}
		back := &messages.Delivery{}
		require.NoError(t, proto.Unmarshal(wire, back))
		require.True(t, proto.Equal(d, back))
		require.True(t, proto.Equal(d.Ack(), back.Ack()))
	})
}
