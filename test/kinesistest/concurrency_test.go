package kinesistest_test

import (
	"fmt"
	"math/big"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Four writers put while the shards split under them and a subscription reads the first shard;
// nothing is lost and every writer's records stay in order within a shard.
func TestConcurrentUse(t *testing.T) {
	const writers, each = 4, 200
	f := newFixture(t, 1)
	stream := f.subscribe(t, f.register(t, "fan"), horizonPosition)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				_, err := f.putKeys(t.Context(), fmt.Sprintf("%d-%d", w, i), fmt.Sprintf("%d-%d'", w, i))
				assert.NoError(t, err)
			}
		})
	}
	wg.Go(func() {
		for range 4 {
			open := openShards(f.Server, streamName)
			sh := open[len(open)-1]
			middle := new(big.Int).Add(number(sh.StartHash), number(sh.EndHash))
			_, err := f.client.SplitShard(t.Context(), &kinesis.SplitShardInput{
				StreamName: aws.String(streamName), ShardToSplit: &sh.ID,
				NewStartingHashKey: aws.String(middle.Rsh(middle, 1).String()),
			})
			assert.NoError(t, err)
		}
	})
	pushed := 0
	for {
		e, ok := event(t, stream)
		if !ok {
			break
		}
		pushed += len(e.Records)
	}
	wg.Wait()
	require.NoError(t, stream.Err())

	total, last := 0, map[string]int{}
	for _, sh := range f.Shards(streamName) {
		total += sh.Records
		if sh.ID == shard0 {
			assert.Equal(t, sh.Records, pushed)
		}
	}
	assert.Equal(t, writers*each*2, total)
	for _, r := range f.Records(streamName) {
		var w, i int
		_, err := fmt.Sscanf(r.PartitionKey, "%d-%d", &w, &i)
		require.NoError(t, err)
		of := fmt.Sprint(r.Shard, "/", w)
		require.GreaterOrEqual(t, i, last[of])
		last[of] = i
	}
}
