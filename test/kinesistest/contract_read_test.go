package kinesistest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func checkIteratorTypes(t *testing.T, tg *target) {
	t.Helper()
	name := tg.stream(t, 1)
	var numbers []*string
	for i := range 4 {
		numbers = append(numbers, tg.put(t, name, "k", fmt.Sprint(i)).SequenceNumber)
	}
	shard := tg.shards(t, name)[0]
	read := func(kind types.ShardIteratorType, from *string) string {
		it := tg.iterate(t, &kinesis.GetShardIteratorInput{
			StreamName: &name, ShardId: shard.ShardId, ShardIteratorType: kind, StartingSequenceNumber: from,
		})
		var all []byte
		for _, r := range tg.get(t, it).Records {
			all = append(all, r.Data...)
		}
		return string(all)
	}
	assert.Equal(t, "0123", read(types.ShardIteratorTypeTrimHorizon, nil))
	assert.Equal(t, "23", read(types.ShardIteratorTypeAtSequenceNumber, numbers[2]))
	assert.Equal(t, "3", read(types.ShardIteratorTypeAfterSequenceNumber, numbers[2]))
	assert.Empty(t, read(types.ShardIteratorTypeAfterSequenceNumber, numbers[3]))
	assert.Equal(t, "0123", read(types.ShardIteratorTypeAtSequenceNumber, shard.SequenceNumberRange.StartingSequenceNumber))

	latest := tg.iterate(t, &kinesis.GetShardIteratorInput{
		StreamName: &name, ShardId: shard.ShardId, ShardIteratorType: types.ShardIteratorTypeLatest,
	})
	page := tg.get(t, latest)
	assert.Empty(t, page.Records)
	tg.put(t, name, "k", "new")
	page = tg.get(t, page.NextShardIterator)
	require.Len(t, page.Records, 1)
	assert.Equal(t, "new", string(page.Records[0].Data))

	_, err := tg.client.GetShardIterator(t.Context(), &kinesis.GetShardIteratorInput{
		StreamName: &name, ShardId: shard.ShardId, ShardIteratorType: types.ShardIteratorTypeAtSequenceNumber,
	})
	requireCode(t, err, "InvalidArgumentException", "ValidationException")
}

func checkAtTimestamp(t *testing.T, tg *target) {
	t.Helper()
	name := tg.stream(t, 1)
	for i := range 3 {
		tg.put(t, name, "k", fmt.Sprint(i))
	}
	shard := tg.shards(t, name)[0].ShardId
	records, _ := tg.drain(t, name, shard)
	require.Len(t, records, 3)
	at := *records[2].ApproximateArrivalTimestamp
	page := tg.get(t, tg.iterate(t, &kinesis.GetShardIteratorInput{
		StreamName: &name, ShardId: shard, ShardIteratorType: types.ShardIteratorTypeAtTimestamp, Timestamp: &at,
	}))
	require.NotEmpty(t, page.Records)
	assert.False(t, page.Records[0].ApproximateArrivalTimestamp.Before(at))
	assert.Equal(t, "2", string(page.Records[len(page.Records)-1].Data))

	page = tg.get(t, tg.iterate(t, &kinesis.GetShardIteratorInput{
		StreamName: &name, ShardId: shard, ShardIteratorType: types.ShardIteratorTypeAtTimestamp, Timestamp: aws.Time(at.Add(-time.Hour)),
	}))
	assert.Len(t, page.Records, 3)
}

func checkFutureTimestamp(t *testing.T, tg *target) {
	t.Helper()
	name := tg.stream(t, 1)
	tg.put(t, name, "k", "old")
	_, err := tg.client.GetShardIterator(t.Context(), &kinesis.GetShardIteratorInput{
		StreamName: &name, ShardId: tg.shards(t, name)[0].ShardId,
		ShardIteratorType: types.ShardIteratorTypeAtTimestamp, Timestamp: aws.Time(time.Now().Add(time.Hour)),
	})
	requireCode(t, err, "InvalidArgumentException")
}

func checkForeignSequence(t *testing.T, tg *target) {
	t.Helper()
	name := tg.stream(t, 2)
	shards := tg.shards(t, name)
	put, err := tg.client.PutRecord(t.Context(), &kinesis.PutRecordInput{
		StreamName: &name, PartitionKey: aws.String("k"), Data: []byte("d"), ExplicitHashKey: shards[0].HashKeyRange.StartingHashKey,
	})
	require.NoError(t, err)
	if tg.conforms(t) {
		_, err = tg.client.GetShardIterator(t.Context(), &kinesis.GetShardIteratorInput{
			StreamName: &name, ShardId: shards[1].ShardId,
			ShardIteratorType: types.ShardIteratorTypeAfterSequenceNumber, StartingSequenceNumber: put.SequenceNumber,
		})
		requireCode(t, err, "InvalidArgumentException")
		assert.ErrorContains(t, err, "encodes shardId-000000000000")
	}
}

func checkMalformedSequence(t *testing.T, tg *target) {
	t.Helper()
	name := tg.stream(t, 1)
	shard := tg.shards(t, name)[0].ShardId
	for _, number := range []string{"TRIM_HORIZON", "12345", "-1", strings.Repeat("9", 56), strings.Repeat("1", 130)} {
		_, err := tg.client.GetShardIterator(t.Context(), &kinesis.GetShardIteratorInput{
			StreamName: &name, ShardId: shard,
			ShardIteratorType: types.ShardIteratorTypeAtSequenceNumber, StartingSequenceNumber: &number,
		})
		if tg.conforms(t) {
			requireCode(t, err, "InvalidArgumentException", "ValidationException")
		}
	}
}

func checkGarbageIterator(t *testing.T, tg *target) {
	t.Helper()
	for _, iterator := range []string{"garbage", "AAAA", strings.Repeat("x", 300)} {
		_, err := tg.client.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: &iterator})
		require.Error(t, err)
		if tg.conforms(t) {
			requireCode(t, err, "InvalidArgumentException")
		}
	}
}

func checkGetLimit(t *testing.T, tg *target) {
	t.Helper()
	name := tg.stream(t, 1)
	for i := range 5 {
		tg.put(t, name, "k", fmt.Sprint(i))
	}
	iterator := tg.horizon(t, name, tg.shards(t, name)[0].ShardId)
	var sizes []int
	for range 4 {
		out, err := tg.client.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: iterator, Limit: aws.Int32(2)})
		require.NoError(t, err)
		sizes = append(sizes, len(out.Records))
		iterator = out.NextShardIterator
	}
	assert.Equal(t, []int{2, 2, 1, 0}, sizes)
	for _, limit := range []int32{0, 10_001} {
		_, err := tg.client.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: iterator, Limit: &limit})
		requireCode(t, err, "InvalidArgumentException", "ValidationException")
	}
}

func checkMillisBehind(t *testing.T, tg *target) {
	t.Helper()
	name := tg.stream(t, 1)
	tg.put(t, name, "k", "0")
	tg.put(t, name, "k", "1")
	out, err := tg.client.GetRecords(t.Context(), &kinesis.GetRecordsInput{
		ShardIterator: tg.horizon(t, name, tg.shards(t, name)[0].ShardId), Limit: aws.Int32(1),
	})
	require.NoError(t, err)
	assert.Zero(t, *tg.get(t, out.NextShardIterator).MillisBehindLatest)
	if tg.conforms(t) {
		eventually(t, func() bool { // time passes, and with it the lag of the unread record grows
			out, err := tg.client.GetRecords(t.Context(), &kinesis.GetRecordsInput{
				ShardIterator: tg.horizon(t, name, aws.String("shardId-000000000000")), Limit: aws.Int32(1),
			})
			return assert.NoError(t, err) && *out.MillisBehindLatest > 20
		})
	}
}
