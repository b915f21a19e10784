package file_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/leasestore/file"
)

// Read shows what is there, owners too, and leaves it as it is.
func TestReadChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "leases")
	_, err := file.Read(path)
	require.Error(t, err)
	require.NoFileExists(t, path, "reading makes no file")

	store, err := file.Open(path)
	require.NoError(t, err)
	key := leasestore.Key{Stream: leasestore.StreamID{Name: "orders", CreatedMillis: 1}, Shard: "shard"}
	owned, err := store.Acquire(t.Context(), leasestore.Lease{Key: key, Checkpoint: leasestore.TrimHorizon()}, "me")
	require.NoError(t, err)
	_, err = file.Read(path, file.WithLockTimeout(time.Millisecond))
	require.ErrorIs(t, err, file.ErrLocked)
	require.NoError(t, store.Close())
	for range 2 {
		leases, err := file.Read(path)
		require.NoError(t, err)
		require.Equal(t, []leasestore.Lease{owned}, leases)
	}
}
