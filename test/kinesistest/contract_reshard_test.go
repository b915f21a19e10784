package kinesistest_test

import (
	"math/big"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// split splits a shard in the middle and waits until it is done.
func (tg *target) split(t *testing.T, stream string, sh types.Shard) {
	t.Helper()
	middle := new(big.Int).Add(decimal(t, sh.HashKeyRange.StartingHashKey), decimal(t, sh.HashKeyRange.EndingHashKey))
	middle.Rsh(middle, 1)
	_, err := tg.client.SplitShard(t.Context(), &kinesis.SplitShardInput{
		StreamName: &stream, ShardToSplit: sh.ShardId, NewStartingHashKey: aws.String(middle.String()),
	})
	require.NoError(t, err)
	tg.closed(t, stream, *sh.ShardId)
}

func (tg *target) merge(t *testing.T, stream string, a, b types.Shard) {
	t.Helper()
	_, err := tg.client.MergeShards(t.Context(), &kinesis.MergeShardsInput{
		StreamName: &stream, ShardToMerge: a.ShardId, AdjacentShardToMerge: b.ShardId,
	})
	require.NoError(t, err)
	tg.closed(t, stream, *a.ShardId)
}

// closed waits until the shard is closed and the stream ACTIVE again.
func (tg *target) closed(t *testing.T, stream, shard string) {
	t.Helper()
	eventually(t, func() bool {
		for _, sh := range tg.shards(t, stream) {
			if *sh.ShardId == shard && sh.SequenceNumberRange.EndingSequenceNumber != nil {
				return true
			}
		}
		return false
	})
	tg.active(t, stream)
}

func checkSplit(t *testing.T, tg *target) {
	t.Helper()
	name := tg.stream(t, 1)
	tg.put(t, name, "a", "old")
	tip := tg.iterate(t, &kinesis.GetShardIteratorInput{
		StreamName: &name, ShardId: aws.String("shardId-000000000000"), ShardIteratorType: types.ShardIteratorTypeLatest,
	})
	tg.split(t, name, tg.shards(t, name)[0])
	shards := tg.shards(t, name)
	require.Len(t, shards, 3)
	parent := shards[0]
	for _, child := range shards[1:] {
		assert.Equal(t, *parent.ShardId, *child.ParentShardId)
		assert.Nil(t, child.AdjacentParentShardId)
		assert.Nil(t, child.SequenceNumberRange.EndingSequenceNumber)
		assert.Positive(t, decimal(t, child.SequenceNumberRange.StartingSequenceNumber).
			Cmp(decimal(t, parent.SequenceNumberRange.EndingSequenceNumber)))
	}
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		put := tg.put(t, name, key, "new")
		for _, child := range shards[1:] {
			assert.Equal(t, owns(t, child, hashOf(key)), *child.ShardId == *put.ShardId)
		}
	}
	page := tg.get(t, tg.horizon(t, name, parent.ShardId))
	require.Len(t, page.Records, 1, "with the last records")
	assert.Nil(t, page.NextShardIterator)
	tipPage := tg.get(t, tip)
	assert.Empty(t, tipPage.Records)
	assert.Nil(t, tipPage.NextShardIterator)
	for _, p := range []*kinesis.GetRecordsOutput{page, tipPage} {
		require.Len(t, p.ChildShards, 2)
		for i, child := range p.ChildShards {
			assert.Equal(t, *shards[i+1].ShardId, *child.ShardId)
			assert.Equal(t, []string{*parent.ShardId}, child.ParentShards)
			assert.Equal(t, *shards[i+1].HashKeyRange, *child.HashKeyRange)
		}
	}
}

func checkMerge(t *testing.T, tg *target) {
	t.Helper()
	name := tg.stream(t, 3)
	shards := tg.shards(t, name)
	_, err := tg.client.MergeShards(t.Context(), &kinesis.MergeShardsInput{
		StreamName: &name, ShardToMerge: shards[0].ShardId, AdjacentShardToMerge: shards[2].ShardId,
	})
	requireCode(t, err, "InvalidArgumentException")
	tg.merge(t, name, shards[0], shards[1])
	shards = tg.shards(t, name)
	require.Len(t, shards, 4)
	child := shards[3]
	assert.ElementsMatch(t, []string{"shardId-000000000000", "shardId-000000000001"},
		[]string{*child.ParentShardId, *child.AdjacentParentShardId})
	assert.Equal(t, *shards[0].HashKeyRange.StartingHashKey, *child.HashKeyRange.StartingHashKey)
	assert.Equal(t, *shards[1].HashKeyRange.EndingHashKey, *child.HashKeyRange.EndingHashKey)
	page := tg.get(t, tg.horizon(t, name, shards[1].ShardId))
	require.Len(t, page.ChildShards, 1)
	assert.Equal(t, *child.ShardId, *page.ChildShards[0].ShardId)
	assert.ElementsMatch(t, []string{"shardId-000000000000", "shardId-000000000001"}, page.ChildShards[0].ParentShards)
}

func checkUpdateShardCount(t *testing.T, tg *target) {
	t.Helper()
	name := tg.stream(t, 2)
	scale := func(n int32) error {
		_, err := tg.client.UpdateShardCount(t.Context(), &kinesis.UpdateShardCountInput{
			StreamName: &name, TargetShardCount: &n, ScalingType: types.ScalingTypeUniformScaling,
		})
		return err
	}
	requireCode(t, scale(5), "InvalidArgumentException", "LimitExceededException")
	require.NoError(t, scale(4))
	eventually(t, func() bool { return *tg.active(t, name).OpenShardCount == 4 })
	require.NoError(t, scale(3))
	eventually(t, func() bool { return *tg.active(t, name).OpenShardCount == 3 })
	open, err := tg.client.ListShards(t.Context(), &kinesis.ListShardsInput{
		StreamName: &name, ShardFilter: &types.ShardFilter{Type: types.ShardFilterTypeAtLatest},
	})
	require.NoError(t, err)
	assert.Len(t, open.Shards, 3)
	sum := new(big.Int)
	for _, sh := range open.Shards {
		size := new(big.Int).Sub(decimal(t, sh.HashKeyRange.EndingHashKey), decimal(t, sh.HashKeyRange.StartingHashKey))
		sum.Add(sum, size.Add(size, big.NewInt(1)))
	}
	assert.Zero(t, sum.Cmp(new(big.Int).Lsh(big.NewInt(1), 128)), "the open shards cover the key space")
}

func (tg *target) filtered(t *testing.T, stream string, filter types.ShardFilter) string {
	t.Helper()
	out, err := tg.client.ListShards(t.Context(), &kinesis.ListShardsInput{StreamName: &stream, ShardFilter: &filter})
	require.NoError(t, err)
	return shardNames(out.Shards)
}

func checkShardFilters(t *testing.T, tg *target) {
	t.Helper()
	name := tg.stream(t, 1)
	created := tg.active(t, name).StreamCreationTimestamp
	tg.split(t, name, tg.shards(t, name)[0])
	assert.Equal(t, "1 2", tg.filtered(t, name, types.ShardFilter{Type: types.ShardFilterTypeAtLatest}))
	assert.Equal(t, "0 1 2", tg.filtered(t, name, types.ShardFilter{Type: types.ShardFilterTypeFromTrimHorizon}))
	assert.Equal(t, "1 2", tg.filtered(t, name, types.ShardFilter{
		Type: types.ShardFilterTypeAfterShardId, ShardId: aws.String("shardId-000000000000"),
	}))
	assert.Equal(t, "0 1 2", tg.filtered(t, name, types.ShardFilter{Type: types.ShardFilterTypeFromTimestamp, Timestamp: created}))
	_, err := tg.client.ListShards(t.Context(), &kinesis.ListShardsInput{
		StreamName: &name, ShardFilter: &types.ShardFilter{Type: types.ShardFilterTypeAtTimestamp},
	})
	requireCode(t, err, "InvalidArgumentException", "ValidationException")
}

func checkTrimHorizonFilter(t *testing.T, tg *target) {
	t.Helper()
	name := tg.stream(t, 1)
	tg.split(t, name, tg.shards(t, name)[0])
	if tg.conforms(t) {
		assert.Equal(t, "0", tg.filtered(t, name, types.ShardFilter{Type: types.ShardFilterTypeAtTrimHorizon}))
		created := tg.active(t, name).StreamCreationTimestamp
		assert.Equal(t, "0", tg.filtered(t, name, types.ShardFilter{Type: types.ShardFilterTypeAtTimestamp, Timestamp: created}))
	}
}

const cborType = "application/x-amz-cbor-1.1"

// cborCall makes a call in CBOR and decodes the answer into out.
func (tg *target) cborCall(t *testing.T, op string, in, out any) int {
	t.Helper()
	body, err := cbor.Marshal(in)
	require.NoError(t, err)
	status, header, answer := tg.post(t, op, cborType, body, "Authorization", signed)
	assert.Equal(t, cborType, header.Get("Content-Type"))
	require.NoError(t, cbor.Unmarshal(answer, out), "%d %x", status, answer)
	return status
}

func checkCBOR(t *testing.T, tg *target) {
	t.Helper()
	type request map[string]any
	name := tg.stream(t, 1)
	var results struct{ FailedRecordCount int }
	status := tg.cborCall(t, "PutRecords", request{
		"StreamName": name, "Records": []request{{"PartitionKey": "k", "Data": []byte{0, 1, 2}}},
	}, &results)
	require.Equal(t, 200, status)
	require.Zero(t, results.FailedRecordCount)
	var put struct{ ShardId, SequenceNumber string }
	status = tg.cborCall(t, "PutRecord", request{"StreamName": name, "PartitionKey": "k", "Data": []byte("two")}, &put)
	require.Equal(t, 200, status)
	assert.Equal(t, "shardId-000000000000", put.ShardId)

	var page struct{ Records []cbor.RawMessage }
	read := func(in request) {
		in["StreamName"], in["ShardId"] = name, put.ShardId
		var at struct{ ShardIterator string }
		require.Equal(t, 200, tg.cborCall(t, "GetShardIterator", in, &at))
		require.Equal(t, 200, tg.cborCall(t, "GetRecords", request{"ShardIterator": at.ShardIterator, "Limit": 10}, &page))
		require.Len(t, page.Records, 2)
	}
	read(request{"ShardIteratorType": "TRIM_HORIZON"})
	read(request{"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": cbor.Tag{Number: 1, Content: time.Now().Add(-time.Hour).UnixMilli()}})
	if tg.conforms(t) {
		var first struct {
			Data                        []byte
			PartitionKey                string
			ApproximateArrivalTimestamp cbor.RawTag
		}
		require.NoError(t, cbor.Unmarshal(page.Records[0], &first))
		assert.Equal(t, []byte{0, 1, 2}, first.Data)
		assert.Equal(t, "k", first.PartitionKey)
		assert.EqualValues(t, 1, first.ApproximateArrivalTimestamp.Number)
		var ms int64
		require.NoError(t, cbor.Unmarshal(first.ApproximateArrivalTimestamp.Content, &ms))
		assert.WithinDuration(t, time.Now(), time.UnixMilli(ms), time.Minute)
	}

	var fail struct {
		Type string `cbor:"__type"`
	}
	assert.Equal(t, 400, tg.cborCall(t, "ListShards", request{"StreamName": "no-such-stream"}, &fail))
	assert.Equal(t, "ResourceNotFoundException", fail.Type)
}
