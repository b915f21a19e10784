package kinesistest_test

import (
	"fmt"
	"math/big"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/protokinesis/protokinesis/test/kinesistest"
)

// Whatever is put while shards split and merge, every record comes back once, in the shard that
// owned its hash, in the order of the puts, and children's numbers come after their parents'.
func TestRecordsComeBackInOrder(t *testing.T) {
	s := kinesistest.Start(t)
	client := s.Client()
	count := 0
	rapid.Check(t, func(rt *rapid.T) {
		count++
		name := fmt.Sprint("s", count)
		require.NoError(rt, s.CreateStream(name, rapid.IntRange(1, 4).Draw(rt, "shards")))
		var sent []kinesistest.Record
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(rt *rapid.T) {
				key := rapid.StringN(1, 8, -1).Draw(rt, "key")
				data := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(rt, "data")
				shard, sequence, err := s.Put(name, key, data)
				require.NoError(rt, err)
				sent = append(sent, kinesistest.Record{Shard: shard, SequenceNumber: sequence, PartitionKey: key, Data: data})
			},
			"split": func(rt *rapid.T) {
				open := openShards(s, name)
				if len(open) > 8 {
					rt.Skip("wide enough")
				}
				sh := open[rapid.IntRange(0, len(open)-1).Draw(rt, "shard")]
				middle := new(big.Int).Add(number(sh.StartHash), number(sh.EndHash))
				_, err := client.SplitShard(t.Context(), &kinesis.SplitShardInput{
					StreamName: &name, ShardToSplit: &sh.ID, NewStartingHashKey: aws.String(middle.Rsh(middle, 1).String()),
				})
				require.NoError(rt, err)
			},
			"scale": func(rt *rapid.T) {
				open := len(openShards(s, name))
				n := int32(rapid.IntRange((open+1)/2, max(min(2*open, 8), (open+1)/2)).Draw(rt, "target")) //nolint:gosec // small
				_, err := client.UpdateShardCount(t.Context(), &kinesis.UpdateShardCountInput{
					StreamName: &name, TargetShardCount: &n, ScalingType: types.ScalingTypeUniformScaling,
				})
				require.NoError(rt, err)
				require.Len(rt, openShards(s, name), int(n))
			},
		})
		checkLineage(rt, s.Shards(name))
		checkRecords(rt, s, name, sent)
		_, err := client.DeleteStream(t.Context(), &kinesis.DeleteStreamInput{StreamName: &name})
		require.NoError(rt, err)
	})
}

func number(text string) *big.Int {
	n, _ := new(big.Int).SetString(text, 10)
	return n
}

func openShards(s *kinesistest.Server, stream string) []kinesistest.Shard {
	var open []kinesistest.Shard
	for _, sh := range s.Shards(stream) {
		if sh.EndSequence == "" {
			open = append(open, sh)
		}
	}
	return open
}

func checkLineage(rt *rapid.T, shards []kinesistest.Shard) {
	byID := map[string]kinesistest.Shard{}
	covered := new(big.Int)
	for _, sh := range shards {
		byID[sh.ID] = sh
		for _, parent := range []string{sh.Parent, sh.AdjacentParent} {
			if parent != "" {
				require.Negative(rt, number(byID[parent].EndSequence).Cmp(number(sh.StartSequence)))
			}
		}
		if sh.EndSequence == "" {
			size := new(big.Int).Sub(number(sh.EndHash), number(sh.StartHash))
			covered.Add(covered, size.Add(size, big.NewInt(1)))
		} else {
			require.Negative(rt, number(sh.StartSequence).Cmp(number(sh.EndSequence)))
		}
	}
	require.Zero(rt, covered.Cmp(new(big.Int).Lsh(big.NewInt(1), 128)))
}

func checkRecords(rt *rapid.T, s *kinesistest.Server, stream string, sent []kinesistest.Record) {
	want := map[string][]kinesistest.Record{}
	for _, r := range sent {
		want[r.Shard] = append(want[r.Shard], r)
	}
	got := map[string][]kinesistest.Record{}
	for _, r := range s.Records(stream) {
		got[r.Shard] = append(got[r.Shard], r)
	}
	for _, sh := range s.Shards(stream) {
		require.Len(rt, got[sh.ID], len(want[sh.ID]))
		for i, r := range got[sh.ID] {
			w := want[sh.ID][i]
			require.Equal(rt, w.SequenceNumber, r.SequenceNumber)
			require.Equal(rt, w.PartitionKey, r.PartitionKey)
			require.Equal(rt, string(w.Data), string(r.Data))
			hash := hashOf(r.PartitionKey)
			require.True(rt, number(sh.StartHash).Cmp(hash) <= 0 && hash.Cmp(number(sh.EndHash)) <= 0)
			require.Negative(rt, number(sh.StartSequence).Cmp(number(r.SequenceNumber)))
			require.False(rt, r.Arrival.Before(sh.Created))
			if i > 0 {
				require.Negative(rt, number(got[sh.ID][i-1].SequenceNumber).Cmp(number(r.SequenceNumber)))
			}
		}
	}
}
