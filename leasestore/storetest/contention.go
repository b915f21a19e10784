package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
)

const contenders = 100

// contend lets all contenders do the same thing at once, and returns the results of those who were not fenced.
func contend[T any](t *testing.T, do func(owner string) (T, error)) []T {
	t.Helper()
	var (
		mu    sync.Mutex
		wins  []T
		start = make(chan struct{})
		wait  sync.WaitGroup
	)
	for n := range contenders {
		wait.Go(func() {
			<-start
			got, err := do(fmt.Sprintf("owner-%d", n))
			if errors.Is(err, leasestore.ErrFenced) {
				return
			}
			if assert.NoError(t, err, "a contender either wins or is fenced") {
				mu.Lock()
				defer mu.Unlock()
				wins = append(wins, got)
			}
		})
	}
	close(start)
	wait.Wait()
	return wins
}

func testContentionCreate(t *testing.T, s *subject) {
	key := newKey()
	wins := contend(t, func(owner string) (leasestore.Lease, error) {
		return s.Acquire(s.ctx, leasestore.Lease{Key: key}, owner)
	})
	require.Len(t, wins, 1, "exactly one contender creates the lease")
	require.Equal(t, int64(1), wins[0].Counter)
	s.unchanged(wins[0])
}

func testContentionTakeOver(t *testing.T, s *subject) {
	lease := s.owned("dead")
	for range 3 {
		wins := contend(t, func(owner string) (leasestore.Lease, error) { return s.Acquire(s.ctx, lease, owner) })
		require.Len(t, wins, 1, "exactly one contender takes the lease")
		require.Equal(t, lease.Counter+1, wins[0].Counter)
		s.unchanged(wins[0])
		lease = wins[0]
	}
}

// A holder's renewals, checkpoints and a thief's takeover all carry the same counter: one of them is applied.
func testContentionOneLease(t *testing.T, s *subject) {
	lease := s.owned("a")
	for round := range 5 {
		lease = s.acquire(lease, "a") // a released one can not be offered
		var (
			wait sync.WaitGroup
			errs = make([]error, 5)
		)
		for n, do := range []func() (leasestore.Lease, error){
			func() (leasestore.Lease, error) { return s.Renew(s.ctx, lease) },
			func() (leasestore.Lease, error) {
				return s.Checkpoint(s.ctx, lease, leasestore.AtSequence(fmt.Sprint(round+1), 0))
			},
			func() (leasestore.Lease, error) { return s.Acquire(s.ctx, lease, "b") },
			func() (leasestore.Lease, error) { return s.Offer(s.ctx, lease, "c") },
			func() (leasestore.Lease, error) { return s.Release(s.ctx, lease) },
		} {
			wait.Go(func() { _, errs[n] = do() })
		}
		wait.Wait()
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else {
				require.ErrorIs(t, err, leasestore.ErrFenced)
			}
		}
		require.Equal(t, 1, won, "of several writes with one counter exactly one is applied")
		next := s.get(lease.Key)
		require.Equal(t, lease.Counter+1, next.Counter)
		lease = next
	}
}

func testContentionState(t *testing.T, s *subject) {
	state := leasestore.StreamState{Stream: newStream()}
	for range 3 {
		wins := contend(t, func(string) (leasestore.StreamState, error) { return s.SaveState(s.ctx, state) })
		require.Len(t, wins, 1, "exactly one writer per version")
		require.Equal(t, state.Version+1, wins[0].Version)
		got, err := s.State(s.ctx, state.Stream)
		require.NoError(t, err)
		require.Equal(t, wins[0], got)
		state = got
	}
}
