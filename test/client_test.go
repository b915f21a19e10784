package test

import (
	"math/big"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/require"
)

// read returns a shard's records as the service has them.
func (s *target) read(t *testing.T, stream, shard string) []types.Record {
	t.Helper()
	out, err := s.client.GetShardIterator(t.Context(), &kinesis.GetShardIteratorInput{
		StreamName: &stream, ShardId: &shard, ShardIteratorType: types.ShardIteratorTypeTrimHorizon,
	})
	require.NoError(t, err)
	page, err := s.client.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: out.ShardIterator})
	require.NoError(t, err)
	return page.Records
}

func (s *target) shards(t *testing.T, stream string) []types.Shard {
	t.Helper()
	out, err := s.client.ListShards(t.Context(), &kinesis.ListShardsInput{StreamName: &stream})
	require.NoError(t, err)
	return out.Shards
}

// split splits a shard in the middle.
func (s *target) split(t *testing.T, stream string, shard types.Shard) {
	t.Helper()
	low, _ := new(big.Int).SetString(*shard.HashKeyRange.StartingHashKey, 10)
	high, _ := new(big.Int).SetString(*shard.HashKeyRange.EndingHashKey, 10)
	middle := new(big.Int).Rsh(new(big.Int).Add(low, high), 1)
	_, err := s.client.SplitShard(t.Context(), &kinesis.SplitShardInput{
		StreamName: &stream, ShardToSplit: shard.ShardId, NewStartingHashKey: aws.String(middle.String()),
	})
	require.NoError(t, err)
	s.waitActive(t, stream)
}

func (s *target) merge(t *testing.T, stream string, a, b types.Shard) {
	t.Helper()
	_, err := s.client.MergeShards(t.Context(), &kinesis.MergeShardsInput{
		StreamName: &stream, ShardToMerge: a.ShardId, AdjacentShardToMerge: b.ShardId,
	})
	require.NoError(t, err)
	s.waitActive(t, stream)
}
