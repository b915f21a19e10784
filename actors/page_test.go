package actors

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/protokinesis/protokinesis/messages"
)

func someArena() *arena { return new(window).newArena(1) }

// moreOf is more, for those who do not ask about the memory.
func (u *unpacker) moreOf(room int, firstID uint64) []messages.Delivery {
	deliveries, _ := u.more(room, firstID)
	return deliveries
}

func recordsAt(sequences ...string) (records []types.Record) {
	for _, s := range sequences {
		records = append(records, types.Record{SequenceNumber: aws.String(s), PartitionKey: aws.String("k" + s), Data: []byte("d" + s)})
	}
	return records
}

func sequencesOf(page []messages.Delivery) (sequences []string) {
	for i := range page {
		sequences = append(sequences, page[i].GetSequenceNumber())
	}
	return sequences
}

func TestPageBecomesDeliveries(t *testing.T) {
	arrival := time.UnixMilli(1_700_000_000_123)
	u := unpacker{generation: 7, stream: "orders", shard: "shard"}
	u.add([]types.Record{
		{SequenceNumber: aws.String("9"), PartitionKey: aws.String("k"), Data: []byte("plain"), ApproximateArrivalTimestamp: &arrival},
		{SequenceNumber: aws.String("10"), PartitionKey: aws.String("k"), Data: wrapEnvelope(map[string]string{"a": "b"}, []byte("payload"))},
		{SequenceNumber: aws.String("11")},
	}, someArena())
	page := u.moreOf(100, 41)
	want := []*messages.Delivery{
		{SequenceNumber: "9", PartitionKey: "k", Data: []byte("plain"), ArrivalUnixMillis: 1_700_000_000_123, DeliveryId: 41},
		{SequenceNumber: "10", PartitionKey: "k", Data: []byte("payload"), Headers: map[string]string{"a": "b"}, DeliveryId: 42},
		{SequenceNumber: "11", DeliveryId: 43},
	}
	require.Len(t, page, len(want))
	for i, d := range want {
		d.Stream, d.ShardId, d.Attempt, d.Generation = "orders", "shard", 1, 7
		require.Equal(t, d.String(), page[i].String())
	}
}

// I7: what comes again at or below the last record read is dropped; C6: compared as numbers.
func TestPageDropsRepeatedRecords(t *testing.T) {
	nines, zeros := strings.Repeat("9", 56), "1"+strings.Repeat("0", 56)
	for name, c := range map[string]struct {
		after     string
		sequences []string
		want      []string
	}{
		"nothing was read before": {"", []string{"1", "2"}, []string{"1", "2"}},
		"inclusive":               {"10", []string{"10", "11"}, []string{"11"}},
		"a whole page again":      {"12", []string{"10", "11", "12"}, nil},
		"overlap":                 {"11", []string{"9", "10", "11", "12", "13"}, []string{"12", "13"}},
		"more digits are more":    {nines, []string{nines, zeros}, []string{zeros}},
		"fewer digits are less":   {zeros, []string{nines, zeros}, nil},
		"9 before 10":             {"9", []string{"10", "100"}, []string{"10", "100"}},
		"leading zeros":           {"010", []string{"10", "0011", "9"}, []string{"0011"}},
		"again within the page":   {"", []string{"1", "2", "2", "1", "3"}, []string{"1", "2", "3"}},
	} {
		t.Run(name, func(t *testing.T) {
			u := unpacker{done: place{sequence: c.after, next: wholeRecord}}
			u.add(recordsAt(c.sequences...), someArena())
			page := u.moreOf(100, 100)
			require.False(t, u.waiting())
			require.Equal(t, c.want, sequencesOf(page))
			for i := range page {
				require.EqualValues(t, 100+i, page[i].GetDeliveryId(), "ids have no gap")
			}
		})
	}
}

// Whatever comes, what goes on is increasing, above what was read before, and with consecutive ids; as the window expects it.
func TestPageInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		after := rapid.Uint64Range(0, 120).Draw(t, "after")
		sequences := rapid.SliceOfN(rapid.Uint64Range(1, 120), 0, 20).Draw(t, "sequences")
		var texts, want []string
		highest := after
		for _, s := range sequences {
			texts = append(texts, strconv.FormatUint(s, 10))
			if s > highest {
				highest = s
				want = append(want, strconv.FormatUint(s, 10))
			}
		}
		var u unpacker
		if after > 0 {
			u.done = place{sequence: strconv.FormatUint(after, 10), next: wholeRecord}
		}
		u.add(recordsAt(texts...), someArena())
		var got []string
		w := newWindow(100, 1<<20, false)
		for u.waiting() {
			room := rapid.IntRange(1, 7).Draw(t, "room")
			page := u.moreOf(room, w.nextID())
			require.LessOrEqual(t, len(page), room, "no more than there is room for")
			got = append(got, sequencesOf(page)...)
			for i := range page {
				require.Equal(t, w.nextID(), page[i].GetDeliveryId())
				w.add(&page[i], w.newArena(1))
			}
		}
		require.Equal(t, want, got)
	})
}
