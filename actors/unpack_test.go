package actors

import (
	"fmt"
	"math"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/protokinesis/protokinesis/internal/kpl"
	"github.com/protokinesis/protokinesis/internal/kpl/kpltest"
	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

// users are so many user records whose data is name:0, name:1 …; their hash keys are in the lower half.
func users(name string, n int) []kpl.UserRecord {
	out := make([]kpl.UserRecord, n)
	for i := range out {
		out[i] = kpl.UserRecord{PartitionKey: "k" + strconv.Itoa(i), ExplicitHashKey: strconv.Itoa(i), Data: fmt.Appendf(nil, "%s:%d", name, i)}
	}
	return out
}

func record(sequence string, data []byte) types.Record {
	return types.Record{SequenceNumber: aws.String(sequence), PartitionKey: aws.String("a"), Data: data}
}

func dataOf(page []messages.Delivery) (data []string) {
	for i := range page {
		data = append(data, string(page[i].GetData()))
	}
	return data
}

func TestAggregatedRecordsComeOneByOne(t *testing.T) {
	u := unpacker{stream: "orders", shard: "shard", generation: 7}
	two := users("x", 2)
	two[1].Data = wrapEnvelope(map[string]string{"trace": "1"}, []byte("with headers"))
	u.add([]types.Record{record("1", []byte("plain")), record("2", kpltest.Aggregate(t, two...)), record("3", []byte("after"))}, someArena())
	page := u.moreOf(100, 41)
	require.Equal(t, []string{"plain", "x:0", "with headers", "after"}, dataOf(page))
	d := &page[2]
	require.Equal(t, map[string]string{"trace": "1"}, d.GetHeaders())
	require.Equal(t, "k1", d.GetPartitionKey(), "its own key, not the one it travelled under")
	require.Equal(t, "2", d.GetSequenceNumber())
	require.EqualValues(t, 1, d.GetSubSequenceNumber())
	require.EqualValues(t, 43, d.GetDeliveryId())
	require.Equal(t, "orders/shard", d.GetStream()+"/"+d.GetShardId())
	require.EqualValues(t, 44, page[3].GetDeliveryId())
	require.Zero(t, page[3].GetSubSequenceNumber())
}

// K2, K3: what only looks like an aggregated record is delivered whole.
func TestWhatOnlyLooksAggregatedIsPlain(t *testing.T) {
	damaged := kpltest.Aggregate(t, users("x", 3)...)
	damaged[len(damaged)-1]++
	for _, data := range [][]byte{damaged, []byte("\xF3\x89\x9A\xC2"), []byte("\xF3\x89\x9A\xC2 and some text that is long enough")} {
		var u unpacker
		u.add([]types.Record{record("1", data)}, someArena())
		page := u.moreOf(1, 1)
		require.Len(t, page, 1)
		require.Equal(t, data, page[0].GetData())
		require.Equal(t, "a", page[0].GetPartitionKey())
	}
}

// Aggregated records are opened as far as there is room, at least one of them at a time.
func TestAggregatedRecordsWaitForRoom(t *testing.T) {
	var u unpacker
	u.add([]types.Record{
		record("1", kpltest.Aggregate(t, users("a", 3)...)), record("2", kpltest.Aggregate(t, users("b", 3)...)),
		record("3", []byte("plain")), record("4", kpltest.Aggregate(t, users("c", 3)...)),
	}, someArena())
	require.Len(t, u.moreOf(1, 1), 3, "an aggregated record is not cut in two")
	require.Len(t, u.moreOf(4, 4), 4, "and the plain ones behind it")
	require.True(t, u.waiting())
	require.Equal(t, []string{"c:0", "c:1", "c:2"}, dataOf(u.moreOf(100, 8)))
	require.False(t, u.waiting())
	require.Empty(t, u.moreOf(100, 11))
}

// C9: where a position within an aggregated record begins.
func TestPlaces(t *testing.T) {
	for position, want := range map[leasestore.Checkpoint]string{
		leasestore.TrimHorizon():                     "x:0 x:1 x:2 y",
		leasestore.AtSequence("5", 0):                "x:1 x:2 y",
		leasestore.AtSequence("5", 1):                "x:2 y",
		leasestore.AtSequence("5", 2):                "y",
		leasestore.AtSequence("5", 9):                "y",
		leasestore.AtSequence("6", 0):                "",
		leasestore.AtSequence("4", 0):                "x:0 x:1 x:2 y",
		leasestore.Before("5", 0):                    "x:0 x:1 x:2 y",
		leasestore.Before("5", 2):                    "x:2 y",
		leasestore.Before("6", 0):                    "y",
		leasestore.Before("6", 1):                    "",
		leasestore.AtSequence("005", 1):              "x:2 y",
		leasestore.AtSequence("5", math.MaxUint64-1): "y",
	} {
		u := unpacker{done: placeAt(position)}
		u.add([]types.Record{record("5", kpltest.Aggregate(t, users("x", 3)...)), record("6", []byte("y"))}, someArena())
		got := ""
		for i, data := range dataOf(u.moreOf(100, 1)) {
			if i > 0 {
				got += " "
			}
			got += data
		}
		require.Equal(t, want, got, position.String())
	}
}

// K1: a user record outside the shard is delivered, skipped, or stops the shard; it is counted in any case.
func TestStrayUserRecords(t *testing.T) {
	mixed := users("x", 4)
	mixed[2].ExplicitHashKey = "340282366920938463463374607431768211455"
	shard := kpl.ParseRange("0", "170141183460469231731687303715884105727")
	for _, c := range []struct {
		policy messages.StrayRecords
		keys   kpl.Range
		want   []string
		stray  int64
		stuck  bool
	}{
		{messages.StrayRecords_STRAY_RECORDS_UNSPECIFIED, shard, []string{"x:0", "x:1", "x:2", "x:3", "y"}, 1, false},
		{messages.StrayRecords_STRAY_RECORDS_DELIVER, shard, []string{"x:0", "x:1", "x:2", "x:3", "y"}, 1, false},
		{messages.StrayRecords_STRAY_RECORDS_DROP, shard, []string{"x:0", "x:1", "x:3", "y"}, 1, false},
		{messages.StrayRecords_STRAY_RECORDS_ERROR, shard, []string{"x:0", "x:1"}, 1, true},
		{messages.StrayRecords_STRAY_RECORDS_ERROR, kpl.Range{}, []string{"x:0", "x:1", "x:2", "x:3", "y"}, 0, false},
	} {
		u := unpacker{policy: c.policy, keys: c.keys}
		u.add([]types.Record{record("5", kpltest.Aggregate(t, mixed...)), record("6", []byte("y"))}, someArena())
		page := u.moreOf(100, 1)
		require.Equal(t, c.want, dataOf(page), c.policy.String())
		require.Equal(t, c.stray, u.stray.count)
		require.Equal(t, c.stuck, u.stray.stuck)
		require.Equal(t, c.stuck, u.waiting(), "what is behind it is not unpacked")
		for i := range page {
			require.EqualValues(t, 1+i, page[i].GetDeliveryId(), "ids have no gap")
		}
		if c.stray > 0 {
			require.Equal(t, leasestore.AtSequence("5", 2), u.stray.at)
		}
	}
}

// Whatever is aggregated, wherever reading begins and however much room there is, every user record from there on comes once and in order.
func TestUnpackedOnceAndInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var records []types.Record
		var want []leasestore.Checkpoint
		start := rapid.SampledFrom([]leasestore.Checkpoint{
			leasestore.TrimHorizon(), leasestore.AtSequence("3", 1), leasestore.Before("3", 1), leasestore.AtSequence("2", 0),
		}).Draw(rt, "start")
		for i := range rapid.IntRange(1, 8).Draw(rt, "records") {
			sequence := strconv.Itoa(i + 1)
			n := rapid.IntRange(0, 5).Draw(rt, "users")
			data := []byte("plain")
			if n > 0 {
				data = kpltest.Aggregate(t, users("x", n)...)
			}
			records = append(records, record(sequence, data))
			for sub := range max(1, n) {
				if at := leasestore.AtSequence(sequence, uint64(sub)); at.Compare(start) > 0 {
					want = append(want, at)
				}
			}
		}
		u := unpacker{done: placeAt(start)}
		var got []leasestore.Checkpoint
		for len(records) > 0 || u.waiting() {
			if n := rapid.IntRange(0, len(records)).Draw(rt, "page"); n > 0 {
				u.add(records[:n:n], someArena())
				records = records[n:]
			}
			page := u.moreOf(rapid.IntRange(1, 7).Draw(rt, "room"), 1)
			for i := range page {
				got = append(got, leasestore.AtSequence(page[i].GetSequenceNumber(), page[i].GetSubSequenceNumber()))
			}
		}
		require.Equal(rt, want, got)
	})
}
