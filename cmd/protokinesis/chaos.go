package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/protokinesis/protokinesis/test/kinesistest"
)

// chaosResult is what disturbed a demo, in numbers of calls that it hit.
type chaosResult struct {
	Seed             uint64 `json:"seed"`
	Throttles        int    `json:"throttles"`
	InternalErrors   int    `json:"internal_errors"`
	Resets           int    `json:"resets"`
	ExpiredIterators int    `json:"expired_iterators"`
	Kills            int    `json:"kills"`
}

// chaos disturbs a demo: the service fails in all the ways it can while records are published, and the consumer, a process of its own, is killed.
type chaos struct {
	demo   *demo
	random *rand.Rand
	faults map[string][]*kinesistest.Fault // by their name in the result
	kills  int
}

// disturbances are what one step of the chaos may be; each has the same chance.
var disturbances = []struct {
	name, op string
	effect   kinesistest.Effect
}{
	{"throttles", "GetRecords", kinesistest.Error("ProvisionedThroughputExceededException", "Rate exceeded for shard.")},
	{"throttles", "PutRecords", kinesistest.PartialEvery("ProvisionedThroughputExceededException", 3)},
	{"throttles", "GetShardIterator", kinesistest.Error("ProvisionedThroughputExceededException", "Rate exceeded for shard.")},
	{"internal errors", "GetRecords", kinesistest.Error("InternalFailure", "Something went wrong.")},
	{"internal errors", "PutRecords", kinesistest.Error("InternalFailure", "Something went wrong.")},
	{"internal errors", "ListShards", kinesistest.Error("InternalFailure", "Something went wrong.")},
	{"resets", "GetRecords", kinesistest.Reset()},
	{"resets", "GetRecords", kinesistest.ResetMidBody()},
	{"resets", "PutRecords", kinesistest.Reset()},
	{"resets", "PutRecords", kinesistest.StoredThenReset()},
	{"expired iterators", "GetRecords", kinesistest.ExpireIterator()},
	{"expired iterators", "GetRecords", kinesistest.ExpireIterator()},
}

const (
	// chaosPause is the pause between two disturbances, up to twice as long.
	chaosPause = 50 * time.Millisecond
	// chaosWait is how long a disturbance waits for a call to hit.
	chaosWait = 300 * time.Millisecond
	chaosLook = 5 * time.Millisecond
)

func newChaos(d *demo, seed uint64) *chaos {
	return &chaos{demo: d, random: rand.New(rand.NewPCG(seed, 1)), faults: make(map[string][]*kinesistest.Fault)} //nolint:gosec // plays with faults
}

// disturb sets one fault after the other until ctx ends. They do not pile up: after a fault calls are rarer, and nothing would get through.
func (ch *chaos) disturb(ctx context.Context) {
	for {
		for _, i := range ch.random.Perm(len(disturbances)) { // all kinds have been there after the first dozen
			d, hits := disturbances[i], 1+ch.random.IntN(2)
			fault := ch.demo.server.Fault(d.op, kinesistest.Match{}, hits, d.effect)
			ch.faults[d.name] = append(ch.faults[d.name], fault)
			for begun := time.Now(); fault.Count() < hits && time.Since(begun) < chaosWait && sleep(ctx, chaosLook); {
			}
			fault.Clear()
			if !sleep(ctx, chaosPause+time.Duration(ch.random.Int64N(int64(chaosPause)))) {
				return
			}
		}
	}
}

// sleep waits for d, if that is any time; it is false when ctx has ended by then.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// killing kills the consumer and starts another, each time that one of so many shares of the records has been published.
func (ch *chaos) killing(ctx context.Context, c *consumerProcess) error {
	for _, share := range []int{2, 4} {
		if err := ch.demo.published(ctx, max(1, ch.demo.Records*share/5)); err != nil {
			return err
		}
		if err := c.printed(ctx); err != nil {
			return err
		}
		if err := c.kill(); err != nil {
			return err
		}
		ch.kills++
		if err := c.start(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (ch *chaos) result(seed uint64) *chaosResult {
	hits := func(name string) (n int) {
		for _, f := range ch.faults[name] {
			n += f.Count()
		}
		return n
	}
	return &chaosResult{
		Seed: seed, Throttles: hits("throttles"), InternalErrors: hits("internal errors"), Resets: hits("resets"),
		ExpiredIterators: hits("expired iterators"), Kills: ch.kills,
	}
}

func (r *chaosResult) print(a *app) error {
	_, err := fmt.Fprintf(a.stdout, "%d throttles, %d internal errors, %d resets, %d expired iterators, %d kills (--seed %d)\n",
		r.Throttles, r.InternalErrors, r.Resets, r.ExpiredIterators, r.Kills, r.Seed)
	return err
}
