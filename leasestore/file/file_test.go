package file_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/leasestore/file"
	"github.com/protokinesis/protokinesis/leasestore/storetest"
)

func TestMain(m *testing.M) {
	if child := os.Getenv(childEnv); child != "" {
		os.Exit(runChild(child))
	}
	flag.Parse()
	// Every write of the model test is an fsync or two; the memory store runs the full number.
	if err := flag.Set("rapid.checks", "15"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, path string, opts ...file.Option) *file.Store {
	t.Helper()
	s, err := file.Open(path, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s
}

func newPath(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "leases.db")
}

var stream = leasestore.StreamID{Name: "arn:aws:kinesis:eu-west-1:111122223333:stream/orders", CreatedMillis: 1_700_000_000_123}

func key(n int) leasestore.Key {
	return leasestore.Key{Stream: stream, Shard: fmt.Sprintf("shardId-%012d", n)}
}

func acquire(t *testing.T, s leasestore.Store, n int) leasestore.Lease {
	t.Helper()
	lease, err := s.Acquire(t.Context(), leasestore.Lease{Key: key(n)}, "a")
	require.NoError(t, err)
	return lease
}

func TestFileConforms(t *testing.T) {
	storetest.Run(t, func(t *testing.T) leasestore.Store {
		t.Helper()
		return open(t, newPath(t))
	})
	storetest.RunPersistent(t, func(t *testing.T, dir string) leasestore.Store {
		t.Helper()
		return open(t, filepath.Join(dir, "leases.db"))
	})
}

func TestOpenFreesEveryLease(t *testing.T) {
	path := newPath(t)
	s := open(t, path)
	owned, finished, offered := acquire(t, s, 1), acquire(t, s, 2), acquire(t, s, 4)
	offered, err := s.Offer(t.Context(), offered, "b")
	require.NoError(t, err)
	finished, err = s.Checkpoint(t.Context(), finished, leasestore.ShardEnd())
	require.NoError(t, err)
	free, err := s.Release(t.Context(), acquire(t, s, 3))
	require.NoError(t, err)
	require.NoError(t, s.Close())

	s = open(t, path)
	for _, want := range []leasestore.Lease{owned, finished, offered} {
		want.Owner, want.Next, want.Counter = "", "", want.Counter+1
		got, err := s.Get(t.Context(), want.Key)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	got, err := s.Get(t.Context(), free.Key)
	require.NoError(t, err)
	require.Equal(t, free, got, "what was free is not written again")
}

func TestWritesThatMeetShareCommits(t *testing.T) {
	const writers = 1000
	s := open(t, newPath(t))
	before := s.Commits()
	var wait sync.WaitGroup
	for n := range writers {
		wait.Go(func() {
			_, err := s.Acquire(t.Context(), leasestore.Lease{Key: key(n)}, "a")
			assert.NoError(t, err)
		})
	}
	wait.Wait()
	require.LessOrEqual(t, s.Commits()-before, writers/10)
	list, err := s.List(t.Context(), stream)
	require.NoError(t, err)
	require.Len(t, list, writers)
}

func TestRefusedWritesDoNotCommit(t *testing.T) {
	s := open(t, newPath(t))
	acquire(t, s, 1)
	before := s.Commits()
	_, err := s.Acquire(t.Context(), leasestore.Lease{Key: key(1)}, "b")
	require.ErrorIs(t, err, leasestore.ErrFenced)
	require.Equal(t, before, s.Commits())
}

func TestCallsEndWithTheirContext(t *testing.T) {
	s := open(t, newPath(t))
	lease := acquire(t, s, 1)
	release, err := s.HoldWrites()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = s.Renew(ctx, lease)
	require.ErrorIs(t, err, context.DeadlineExceeded, "the disk hangs, the caller does not")
	got, err := s.Get(t.Context(), lease.Key)
	require.NoError(t, err, "reads do not wait for writes")
	require.Equal(t, lease, got)

	closed := make(chan error)
	go func() { closed <- s.Close() }()
	require.Eventually(t, func() bool {
		_, err := s.Get(t.Context(), lease.Key)
		return err != nil
	}, time.Minute, time.Millisecond)
	select {
	case err := <-closed:
		t.Fatalf("Close did not wait for the write that is under way, and returned %v", err)
	default:
	}
	release()
	require.NoError(t, <-closed)
}

func TestKeysTooLongAreRefused(t *testing.T) {
	s := open(t, newPath(t))
	long := string(make([]byte, 40_000))
	_, err := s.Acquire(t.Context(), leasestore.Lease{Key: leasestore.Key{Stream: stream, Shard: long}}, "a")
	require.ErrorIs(t, err, leasestore.ErrInvalid)
	_, err = s.SaveState(t.Context(), leasestore.StreamState{Stream: leasestore.StreamID{Name: long}})
	require.ErrorIs(t, err, leasestore.ErrInvalid)
	states, err := s.Streams(t.Context())
	require.NoError(t, err)
	require.Empty(t, states)
}
