package file_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/leasestore/file"
)

// Checkpoints survive a restart, and the leases are free after it.
func ExampleOpen() {
	dir, _ := os.MkdirTemp("", "leases")
	defer func() { _ = os.RemoveAll(dir) }()
	ctx, path := context.Background(), filepath.Join(dir, "leases.db")
	key := leasestore.Key{Stream: leasestore.StreamID{Name: "orders"}, Shard: "shardId-000000000000"}

	store, err := file.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	lease, _ := store.Acquire(ctx, leasestore.Lease{Key: key}, "node-1")
	_, _ = store.Checkpoint(ctx, lease, leasestore.AtSequence("100", 0))
	_ = store.Close()

	store, err = file.Open(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = store.Close() }()
	lease, _ = store.Get(ctx, key)
	fmt.Printf("owner %q, checkpoint %s\n", lease.Owner, lease.Checkpoint)
	// Output: owner "", checkpoint 100
}
