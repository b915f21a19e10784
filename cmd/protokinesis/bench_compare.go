package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// comparePairs is how often a comparison measures both: an odd number, for a median.
const comparePairs = 5

// compareFlags are the flags of benchmarks that can be compared.
type compareFlags struct {
	Compare string `enum:"sdk,none" default:"none" placeholder:"WITH" help:"sdk: measure five times, each time after a plain loop of SDK calls that does the same; the ratio is the median of the pairs (${default})."`
}

func (f compareFlags) compares() bool { return f.Compare == "sdk" }

// comparison is what became of pairs: a plain loop and ours, one right after the other, as these machines are not always as fast.
type comparison struct {
	bare, ours []*benchResult
}

// pairs measures both in turn.
func (f compareFlags) pairs(bare, ours func() (*benchResult, error)) (*benchResult, error) {
	if !f.compares() {
		return ours()
	}
	var c comparison
	for range comparePairs {
		x, err := bare()
		if err != nil {
			return nil, fmt.Errorf("the plain loop: %w", err)
		}
		y, err := ours()
		if err != nil {
			return nil, err
		}
		c.bare, c.ours = append(c.bare, x), append(c.ours, y)
	}
	return c.result(), nil
}

// result is our run of the median rate, with the medians of the ratios.
func (c *comparison) result() *benchResult {
	var ratios, cpu, sdk []float64
	for i, ours := range c.ours {
		bare := c.bare[i]
		sdk = append(sdk, bare.RecordsPerSecond)
		if bare.RecordsPerSecond > 0 {
			ratios = append(ratios, ours.RecordsPerSecond/bare.RecordsPerSecond)
		}
		if ours.CPUPerMillion != nil && bare.CPUPerMillion != nil && *bare.CPUPerMillion > 0 {
			cpu = append(cpu, *ours.CPUPerMillion / *bare.CPUPerMillion)
		}
	}
	slices.SortFunc(c.ours, func(a, b *benchResult) int { return int(a.RecordsPerSecond - b.RecordsPerSecond) })
	r := c.ours[len(c.ours)/2]
	r.Ratio, r.CPURatio, r.SDKRecordsPerSecond = medianOf(ratios), medianOf(cpu), medianOf(sdk)
	return r
}

func medianOf(v []float64) *float64 {
	if len(v) == 0 {
		return nil
	}
	slices.Sort(v)
	return new(round3(v[len(v)/2]))
}

const (
	// barePage is how many records a read of the plain loop asks for, as ours do.
	barePage = 1000
	// bareBatch is how many records it publishes at a time: as many as the service takes.
	bareBatch = 500
)

// bareConsume reads all shards of a stream from their oldest record, each by a loop of its own, until so many records have come.
func bareConsume(ctx context.Context, cfg aws.Config, stream streamName, want int) (*benchResult, error) {
	client := kinesis.NewFromConfig(cfg)
	shards, err := listShards(ctx, client, stream)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var records, bytes atomic.Int64
	var all sync.WaitGroup
	watch := startWatch()
	for _, shard := range shards {
		all.Go(func() {
			if err := bareRead(ctx, client, stream, shard.Shard, func(page []types.Record) bool {
				for i := range page {
					bytes.Add(int64(len(page[i].Data)))
				}
				return records.Add(int64(len(page))) < int64(want)
			}); err != nil {
				stop(err)
			}
		})
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	r := &benchResult{}
	watch.stop(r, int(records.Load()), bytes.Load())
	return r, nil
}

// bareRead reads a shard to its tip, or until more says that it is enough.
func bareRead(ctx context.Context, client *kinesis.Client, stream streamName, shard string, more func([]types.Record) bool) error {
	in := &kinesis.GetShardIteratorInput{ShardId: &shard, ShardIteratorType: types.ShardIteratorTypeTrimHorizon}
	in.StreamName, in.StreamARN = target(stream)
	iterator, err := client.GetShardIterator(ctx, in)
	if err != nil {
		return err
	}
	for next := iterator.ShardIterator; next != nil; {
		page, err := client.GetRecords(ctx, &kinesis.GetRecordsInput{ShardIterator: next, Limit: aws.Int32(barePage)})
		if err != nil {
			return err
		}
		if !more(page.Records) || (len(page.Records) == 0 && aws.ToInt64(page.MillisBehindLatest) == 0) {
			return nil
		}
		next = page.NextShardIterator
	}
	return nil
}

// barePublish publishes so many records, in requests of 500, with so many requests at a time.
func barePublish(ctx context.Context, cfg aws.Config, stream streamName, b *benchPublishCmd, requests int) (*benchResult, error) {
	client := kinesis.NewFromConfig(cfg)
	data := make([]byte, b.RecordSize)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var next, failed atomic.Int64
	var all sync.WaitGroup
	watch := startWatch()
	for range requests {
		all.Go(func() {
			for from := int(next.Add(bareBatch)) - bareBatch; from < b.Records && ctx.Err() == nil; from = int(next.Add(bareBatch)) - bareBatch {
				entries := make([]types.PutRecordsRequestEntry, min(bareBatch, b.Records-from))
				for i := range entries {
					entries[i] = types.PutRecordsRequestEntry{Data: data, PartitionKey: new(benchKey((from + i) % b.Keys))}
				}
				in := &kinesis.PutRecordsInput{Records: entries}
				in.StreamName, in.StreamARN = target(stream)
				out, err := client.PutRecords(ctx, in)
				if err != nil {
					stop(err)
					return
				}
				failed.Add(int64(aws.ToInt32(out.FailedRecordCount)))
			}
		})
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	r := &benchResult{}
	published := b.Records - int(failed.Load())
	watch.stop(r, published, int64(published)*int64(b.RecordSize))
	return r, nil
}
