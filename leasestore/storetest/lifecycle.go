package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
)

// calls does every method of the store once and returns their errors by name.
func calls(ctx context.Context, store leasestore.Store, lease leasestore.Lease) map[string]error {
	errs := map[string]error{}
	_, errs["Get"] = store.Get(ctx, lease.Key)
	_, errs["List"] = store.List(ctx, lease.Stream)
	_, errs["View"] = store.View(ctx, lease.Stream)
	_, errs["Streams"] = store.Streams(ctx)
	_, errs["Acquire"] = store.Acquire(ctx, lease, "b")
	_, errs["Acquire (create)"] = store.Acquire(ctx, leasestore.Lease{Key: newKey()}, "b")
	_, errs["Offer"] = store.Offer(ctx, lease, "b")
	_, errs["Renew"] = store.Renew(ctx, lease)
	_, errs["Checkpoint"] = store.Checkpoint(ctx, lease, leasestore.ShardEnd())
	_, errs["Move"] = store.Move(ctx, lease, leasestore.ShardEnd(), 1)
	_, errs["Release"] = store.Release(ctx, lease)
	errs["Delete"] = store.Delete(ctx, lease)
	_, errs["State"] = store.State(ctx, lease.Stream)
	_, errs["SaveState"] = store.SaveState(ctx, leasestore.StreamState{Stream: lease.Stream})
	_, errs["Beat"] = store.Beat(ctx, leasestore.Member{ID: "b"})
	errs["Forget"] = store.Forget(ctx, leasestore.Member{ID: "b"})
	return errs
}

func testCancelled(t *testing.T, s *subject) {
	lease := s.owned("a")
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	for name, err := range calls(ctx, s.Store, lease) {
		assert.ErrorIs(t, err, context.Canceled, name)
	}
	s.unchanged(lease, "a call whose context was over before it began does nothing")
	require.Empty(t, s.view(lease.Stream).Members)
}

func testDeadline(t *testing.T, s *subject) {
	lease := s.owned("a")
	ctx, cancel := context.WithDeadline(s.ctx, time.Unix(1, 0))
	defer cancel()
	for name, err := range calls(ctx, s.Store, lease) {
		assert.ErrorIs(t, err, context.DeadlineExceeded, name)
	}
	s.unchanged(lease)
}

func testClose(t *testing.T, s *subject) {
	lease := s.owned("a")
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "closing twice is fine")
	for name, err := range calls(s.ctx, s.Store, lease) {
		assert.ErrorIs(t, err, leasestore.ErrClosed, name)
	}
}

// Calls under way while the store is closed finish, one way or the other.
func testCloseWhileBusy(t *testing.T, s *subject) {
	var wait sync.WaitGroup
	begun := make(chan struct{}, 10)
	for n := range 10 {
		wait.Go(func() {
			lease, err := s.Acquire(s.ctx, leasestore.Lease{Key: newKey()}, fmt.Sprint(n))
			begun <- struct{}{}
			for err == nil {
				lease, err = s.Renew(s.ctx, lease)
			}
			if !errors.Is(err, leasestore.ErrClosed) {
				assert.NoError(t, err, "a call that meets Close succeeds or says ErrClosed")
			}
		})
	}
	for range 10 {
		<-begun
	}
	require.NoError(t, s.Close())
	wait.Wait()
}
