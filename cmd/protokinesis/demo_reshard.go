package main

import (
	"context"
	"fmt"
	"math/big"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/protokinesis/protokinesis/test/kinesistest"
)

// reshard splits a shard when a third of the records is published, and merges two others after two thirds.
func (d *demo) reshard(ctx context.Context) error {
	client := d.server.Client()
	if err := d.published(ctx, max(1, d.Records/3)); err != nil {
		return err
	}
	whole := d.openShards()[0]
	_, err := client.SplitShard(ctx, &kinesis.SplitShardInput{
		StreamName: aws.String(demoStream), ShardToSplit: &whole.ID, NewStartingHashKey: aws.String(middle(whole)),
	})
	if err != nil {
		return fmt.Errorf("split of %s: %w", whole.ID, err)
	}
	d.splits++
	if err := d.published(ctx, max(1, d.Records*2/3)); err != nil {
		return err
	}
	left, right := neighbours(d.openShards(), whole.ID)
	_, err = client.MergeShards(ctx, &kinesis.MergeShardsInput{
		StreamName: aws.String(demoStream), ShardToMerge: &left.ID, AdjacentShardToMerge: &right.ID,
	})
	if err != nil {
		return fmt.Errorf("merge of %s and %s: %w", left.ID, right.ID, err)
	}
	d.merges++
	return nil
}

// openShards are the open shards in the order of their hash keys.
func (d *demo) openShards() []kinesistest.Shard {
	var open []kinesistest.Shard
	for _, s := range d.server.Shards(demoStream) {
		if s.Closed.IsZero() {
			open = append(open, s)
		}
	}
	sortByRange(open)
	return open
}

// neighbours are two adjacent shards, if possible such that were not split off the one given.
func neighbours(open []kinesistest.Shard, split string) (left, right kinesistest.Shard) {
	for i := len(open) - 1; i > 0; i-- {
		left, right = open[i-1], open[i]
		if left.Parent != split && right.Parent != split {
			break
		}
	}
	return left, right
}

// middle is the hash key in the middle of a shard's range.
func middle(s kinesistest.Shard) string {
	start, end := hashKey(s.StartHash), hashKey(s.EndHash)
	sum := new(big.Int).Add(start, end)
	return sum.Add(sum, big.NewInt(1)).Rsh(sum, 1).String()
}
