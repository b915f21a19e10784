package leasestore_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/protokinesis/protokinesis/leasestore"
)

// A shard changes hands, and its former owner finds out by its next write.
func ExampleStore() {
	ctx := context.Background()
	store := leasestore.NewMemory()
	key := leasestore.Key{
		Stream: leasestore.NewStreamID("arn:aws:kinesis:eu-west-1:111122223333:stream/orders", time.UnixMilli(1_700_000_000_000)),
		Shard:  "shardId-000000000000",
	}

	mine, _ := store.Acquire(ctx, leasestore.Lease{Key: key, Checkpoint: leasestore.TrimHorizon()}, "node-1")
	mine, _ = store.Checkpoint(ctx, mine, leasestore.AtSequence("100", 0))
	fmt.Println(mine.Owner, mine.Counter, mine.Checkpoint)

	theirs, _ := store.Acquire(ctx, mine, "node-2")
	fmt.Println(theirs.Owner, theirs.Counter, theirs.Checkpoint)

	_, err := store.Checkpoint(ctx, mine, leasestore.AtSequence("150", 0))
	fmt.Println("fenced:", errors.Is(err, leasestore.ErrFenced))
	// Output:
	// node-1 2 100
	// node-2 3 100
	// fenced: true
}

// An owner that is silent for the ttl is taken for dead.
func ExampleObserver() {
	ctx := context.Background()
	store := leasestore.NewMemory()
	key := leasestore.Key{Stream: leasestore.StreamID{Name: "orders"}, Shard: "shardId-000000000000"}
	_, _ = store.Acquire(ctx, leasestore.Lease{Key: key}, "node-1")

	observer := leasestore.NewObserver(10 * time.Second)
	now := time.Now()
	for _, second := range []time.Duration{0, 5, 10} {
		leases, _ := store.List(ctx, key.Stream)
		at := now.Add(second * time.Second)
		observer.Observe(leases, at)
		fmt.Println(int(second), observer.Free(leases[0], at))
	}
	// Output:
	// 0 false
	// 5 false
	// 10 true
}

// The reply to a checkpoint is lost; reading the row back shows that it was stored.
func ExampleConfirm() {
	ctx := context.Background()
	store := leasestore.NewMemory()
	key := leasestore.Key{Stream: leasestore.StreamID{Name: "orders"}, Shard: "shardId-000000000000"}
	mine, _ := store.Acquire(ctx, leasestore.Lease{Key: key}, "node-1")

	want := leasestore.AtSequence("100", 0)
	_, _ = store.Checkpoint(ctx, mine, want)
	lost := errors.New("connection reset by peer")

	held, err := leasestore.Confirm(ctx, store, mine, "node-1", lost)
	fmt.Println(held.Counter, held.Checkpoint == want, err)
	// Output: 2 true <nil>
}
