package actors

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/require"
)

// G3: a throttle is waited out for a second or more, doubling up to ten; behind a large page for as long as it takes to pay for it.
func TestThrottlePause(t *testing.T) {
	for _, c := range []struct {
		failures, owed int
		want           time.Duration
	}{
		{1, 0, time.Second},
		{2, 0, 2 * time.Second},
		{3, 0, 4 * time.Second},
		{5, 0, 10 * time.Second},
		{100, 0, 10 * time.Second},
		{1, 1, time.Second},
		{1, 2 << 20, time.Second},
		{1, 2<<20 + 1, 2 * time.Second},
		{1, 9 << 20, 5 * time.Second},
		{1, 10 << 20, 5 * time.Second},
		{2, 10 << 20, 5 * time.Second},
		{4, 10 << 20, 8 * time.Second},
	} {
		require.Equal(t, c.want, throttlePause(c.failures, c.owed), "%+v", c)
	}
	for range 1000 {
		d := jitterUp(time.Second)
		require.GreaterOrEqual(t, d, time.Second)
		require.LessOrEqual(t, d, 1200*time.Millisecond)
	}
}

func TestPageBytes(t *testing.T) {
	require.Zero(t, pageBytes(nil))
	require.Equal(t, 8, pageBytes([]types.Record{{Data: []byte("four"), PartitionKey: aws.String("key")}, {Data: []byte("1")}}))
}

// I5: a refused instant is asked for again, earlier each time, beginning from now if it is to come.
func TestInstantToAsk(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 678_900_000, time.UTC)
	ms := now.Truncate(time.Millisecond)
	for _, c := range []struct {
		at       time.Time
		refusals int
		want     time.Time
	}{
		{now.Add(time.Hour), 0, now.Add(time.Hour)},
		{now.Add(time.Hour), 1, ms.Add(-time.Second)},
		{now.Add(-time.Hour), 1, ms.Add(-time.Hour - time.Second)},
		{now, 2, ms.Add(-4 * time.Second)},
		{now, 3, ms.Add(-16 * time.Second)},
		{now, maxInstants, ms.Add(-16384 * time.Second)},
	} {
		require.Equal(t, c.want, instantToAsk(c.at, now, c.refusals), "%+v", c)
	}
}

// I8: what arrived before an instant is left out, but only up to the first record that did not: arrival times need not grow.
func TestArrivedSince(t *testing.T) {
	since := time.UnixMilli(1_000_000)
	record := func(i int, at int64) types.Record {
		r := types.Record{SequenceNumber: aws.String(fmt.Sprint(100 + i)), Data: []byte(fmt.Sprint(i))}
		if at != 0 {
			r.ApproximateArrivalTimestamp = aws.Time(time.UnixMilli(at))
		}
		return r
	}
	for name, c := range map[string]struct {
		arrivals []int64
		since    time.Time
		want     []string
	}{
		"no instant":             {[]int64{1, 2}, time.Time{}, []string{"0", "1"}},
		"all before":             {[]int64{1, 999_999}, since, nil},
		"the very instant":       {[]int64{1, 1_000_000, 1_000_001}, since, []string{"1", "2"}},
		"earlier ones after":     {[]int64{1, 1_000_001, 5, 6}, since, []string{"1", "2", "3"}},
		"an arrival not told":    {[]int64{1, 0, 2}, since, []string{"1", "2"}},
		"the first is after all": {[]int64{2_000_000, 1}, since, []string{"0", "1"}},
	} {
		var page []types.Record
		for i, at := range c.arrivals {
			page = append(page, record(i, at))
		}
		var got []string
		for _, r := range arrivedSince(page, c.since) {
			got = append(got, string(r.Data))
		}
		require.Equal(t, c.want, got, name)
	}
}

func TestRecordsWithoutAPlace(t *testing.T) {
	good := types.Record{SequenceNumber: aws.String("495")}
	require.NoError(t, checkRecords(nil))
	require.NoError(t, checkRecords([]types.Record{good}))
	for _, bad := range []*string{nil, aws.String(""), aws.String("12x"), aws.String("-1")} {
		require.ErrorIs(t, checkRecords([]types.Record{good, {SequenceNumber: bad}}), errNoSequence)
	}
}
