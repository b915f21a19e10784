package actors

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/protokinesis/protokinesis/leasestore"
)

// retireAfter is how many listings in a row have to lack nothing before leases are removed: one may lack shards that have not been read yet,
// such as the children of a finished shard, and nothing else tells of them.
const retireAfter = 3

// retireMost bounds the leases that are removed after a listing: there is no hurry, and the reads of the service are shared.
const retireMost = 10

// retired is the result of removing leases.
type retired struct{ shards []string }

// retire removes leases of shards that were trimmed away long ago. l is what the last listing and the leases say.
func (co *coordinator) retire(l *lineage) {
	if co.retiring {
		return
	}
	var done []leasestore.Lease
	now := time.Now()
	for _, lease := range l.retirable(co.audits.told) {
		if s := co.shards[lease.Shard]; s != nil && s.reader != nil {
			continue
		}
		if lease.Checkpoint.IsShardEnd() || co.observer.Free(lease, now) {
			done = append(done, lease)
		}
	}
	if len(done) == 0 {
		return
	}
	// In turn: those that the service gives no proof for do not hold up the others.
	after := slices.IndexFunc(done, func(l leasestore.Lease) bool { return l.Shard > co.audits.retiredTo })
	done = slices.Concat(done[max(after, 0):], done[:max(after, 0)])
	done = done[:min(len(done), retireMost)]
	co.audits.retiredTo = done[len(done)-1].Shard
	co.retiring = true
	client, store, ref, log := co.clients.Control, co.store, co.how.stream, co.log()
	co.fx.run(co.cfg.Timings.CallTimeout, func(ctx context.Context) any {
		var m retired
		for _, lease := range done {
			if !isTrimmedAway(ctx, client, ref, lease.Shard) {
				continue
			}
			// Only the row as it was seen: another node may have come first.
			if err := store.Delete(ctx, lease); err == nil {
				m.shards = append(m.shards, lease.Shard)
			} else if !errors.Is(err, leasestore.ErrFenced) {
				log.Warn("a lease that nobody needs can't be removed", slog.String("shard", lease.Shard), slog.Any("error", err))
				break
			}
		}
		return m
	})
}

func (co *coordinator) onRetired(m retired) {
	co.retiring = false
	if len(m.shards) > 0 {
		co.log().Info("leases of shards that were trimmed away are removed", slog.Any("shards", m.shards))
	}
}

// isTrimmedAway asks the service itself: that listings do not show a shard is not enough to forget that it was read.
func isTrimmedAway(ctx context.Context, client Kinesis, ref streamRef, shard string) bool {
	in := &kinesis.GetShardIteratorInput{ShardId: aws.String(shard), ShardIteratorType: types.ShardIteratorTypeTrimHorizon}
	in.StreamName, in.StreamARN = ref.target()
	_, err := client.GetShardIterator(ctx, in)
	return err != nil && classify(err) == failureNotFound
}
