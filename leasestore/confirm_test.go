package leasestore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
)

var (
	errReset  = errors.New("connection reset")
	errNoRead = errors.New("no route to host")
)

// lossy applies checkpoints, renewals, releases and acquires and loses the reply of the next one, if so told.
type lossy struct {
	leasestore.Store
	loseReply bool // the write is applied, its answer does not arrive
	loseWrite bool // the write never arrives
	failRead  error
}

func (l *lossy) reply(do func() (leasestore.Lease, error)) (leasestore.Lease, error) {
	if l.loseWrite {
		l.loseWrite = false
		return leasestore.Lease{}, errReset
	}
	got, err := do()
	if l.loseReply {
		l.loseReply = false
		return leasestore.Lease{}, errReset
	}
	return got, err
}

func (l *lossy) Acquire(ctx context.Context, lease leasestore.Lease, owner string) (leasestore.Lease, error) {
	return l.reply(func() (leasestore.Lease, error) { return l.Store.Acquire(ctx, lease, owner) })
}

func (l *lossy) Renew(ctx context.Context, lease leasestore.Lease) (leasestore.Lease, error) {
	return l.reply(func() (leasestore.Lease, error) { return l.Store.Renew(ctx, lease) })
}

func (l *lossy) Checkpoint(ctx context.Context, lease leasestore.Lease, c leasestore.Checkpoint) (leasestore.Lease, error) {
	return l.reply(func() (leasestore.Lease, error) { return l.Store.Checkpoint(ctx, lease, c) })
}

func (l *lossy) Release(ctx context.Context, lease leasestore.Lease) (leasestore.Lease, error) {
	return l.reply(func() (leasestore.Lease, error) { return l.Store.Release(ctx, lease) })
}

func (l *lossy) Get(ctx context.Context, key leasestore.Key) (leasestore.Lease, error) {
	if l.failRead != nil {
		return leasestore.Lease{}, l.failRead
	}
	return l.Store.Get(ctx, key)
}

func newLossy(t *testing.T) (*lossy, leasestore.Lease) {
	t.Helper()
	store := &lossy{Store: leasestore.NewMemory()}
	lease, err := store.Acquire(t.Context(), leasestore.Lease{Key: testKey, Checkpoint: leasestore.TrimHorizon()}, "a")
	require.NoError(t, err)
	return store, lease
}

// The client tries again by itself: the first try is applied, the second is fenced by the first.
func TestConfirmOwnEarlierTry(t *testing.T) {
	store, before := newLossy(t)
	store.loseReply = true
	want := leasestore.AtSequence("5", 0)
	_, err := store.Checkpoint(t.Context(), before, want)
	require.ErrorIs(t, err, errReset)
	_, err = store.Checkpoint(t.Context(), before, want)
	require.ErrorIs(t, err, leasestore.ErrFenced)

	held, err := leasestore.Confirm(t.Context(), store, before, "a", err)
	require.NoError(t, err)
	require.Equal(t, want, held.Checkpoint)
	require.Equal(t, before.Counter+1, held.Counter)
	_, err = store.Renew(t.Context(), held)
	require.NoError(t, err, "the row returned is one to go on with")
}

// L3: the write was applied and its reply lost.
func TestConfirmLostReply(t *testing.T) {
	store, before := newLossy(t)
	store.loseReply = true
	_, err := store.Renew(t.Context(), before)
	held, err := leasestore.Confirm(t.Context(), store, before, "a", err)
	require.NoError(t, err)
	require.Equal(t, before.Counter+1, held.Counter)
}

// A renewal landed, the checkpoint that was tried next with the same counter did not: the caller sees it by the row.
func TestConfirmShowsWhichWriteLanded(t *testing.T) {
	store, before := newLossy(t)
	store.loseReply = true
	_, err := store.Renew(t.Context(), before)
	require.ErrorIs(t, err, errReset)
	want := leasestore.AtSequence("5", 0)
	_, err = store.Checkpoint(t.Context(), before, want)
	held, err := leasestore.Confirm(t.Context(), store, before, "a", err)
	require.NoError(t, err)
	require.NotEqual(t, want, held.Checkpoint)
	held, err = store.Checkpoint(t.Context(), held, want)
	require.NoError(t, err)
	require.Equal(t, want, held.Checkpoint)
}

func TestConfirmCreate(t *testing.T) {
	store, _ := newLossy(t)
	before := leasestore.Lease{Key: testKey}
	before.Shard = "shardId-000000000001"
	store.loseReply = true
	_, err := store.Acquire(t.Context(), before, "a")
	held, err := leasestore.Confirm(t.Context(), store, before, "a", err)
	require.NoError(t, err)
	require.Equal(t, int64(1), held.Counter)

	_, err = store.Acquire(t.Context(), before, "b")
	_, err = leasestore.Confirm(t.Context(), store, before, "b", err)
	require.ErrorIs(t, err, leasestore.ErrFenced, "another created it")
}

func TestConfirmNotApplied(t *testing.T) {
	store, before := newLossy(t)
	store.loseWrite = true
	_, err := store.Renew(t.Context(), before)
	_, err = leasestore.Confirm(t.Context(), store, before, "a", err)
	require.Equal(t, errReset, err, "still the outage: the write may be under way")
	require.NotErrorIs(t, err, leasestore.ErrFenced)

	missing := leasestore.Lease{Key: testKey}
	missing.Shard = "shardId-000000000001"
	store.loseWrite = true
	_, err = store.Acquire(t.Context(), missing, "a")
	_, err = leasestore.Confirm(t.Context(), store, missing, "a", err)
	require.Equal(t, errReset, err)
}

func TestConfirmTakenOver(t *testing.T) {
	store, before := newLossy(t)
	_, err := store.Acquire(t.Context(), before, "b")
	require.NoError(t, err)
	_, err = store.Renew(t.Context(), before)
	_, confirmed := leasestore.Confirm(t.Context(), store, before, "a", err)
	require.Equal(t, err, confirmed)

	_, err = leasestore.Confirm(t.Context(), store, before, "a", errReset)
	require.ErrorIs(t, err, leasestore.ErrFenced, "after an outage the row says that the lease is lost")
	require.ErrorIs(t, err, errReset)
}

func TestConfirmGone(t *testing.T) {
	store, before := newLossy(t)
	require.NoError(t, store.Delete(t.Context(), before))
	_, err := leasestore.Confirm(t.Context(), store, before, "a", errReset)
	require.ErrorIs(t, err, leasestore.ErrFenced)
	require.ErrorIs(t, err, errReset)
}

func TestConfirmUnreadable(t *testing.T) {
	store, before := newLossy(t)
	store.failRead = errNoRead
	_, err := leasestore.Confirm(t.Context(), store, before, "a", leasestore.ErrFenced)
	require.ErrorIs(t, err, errNoRead)
	require.NotErrorIs(t, err, leasestore.ErrFenced, "the caller may hold the lease, and must not take it for lost")

	_, err = leasestore.Confirm(t.Context(), store, before, "a", errReset)
	require.ErrorIs(t, err, errNoRead)
	require.ErrorIs(t, err, errReset)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	store.failRead = nil
	_, err = leasestore.Confirm(ctx, store, before, "a", errReset)
	require.ErrorIs(t, err, context.Canceled)
}

func TestConfirmLeavesClearAnswersAlone(t *testing.T) {
	store, before := newLossy(t)
	store.failRead = errNoRead
	for _, err := range []error{leasestore.ErrBackwards, leasestore.ErrInvalid} {
		_, got := leasestore.Confirm(t.Context(), store, before, "a", err)
		require.Equal(t, err, got)
	}
	_, err := leasestore.Confirm(t.Context(), store, before, "a", nil)
	require.ErrorIs(t, err, leasestore.ErrInvalid)
}

func TestConfirmRelease(t *testing.T) {
	store, before := newLossy(t)
	store.loseReply = true
	_, err := store.Release(t.Context(), before)
	free, err := leasestore.ConfirmRelease(t.Context(), store, before, err)
	require.NoError(t, err)
	require.Empty(t, free.Owner)

	_, err = leasestore.Confirm(t.Context(), store, before, "a", leasestore.ErrFenced)
	require.ErrorIs(t, err, leasestore.ErrFenced, "a lease without an owner is not held")

	_, err = store.Acquire(t.Context(), free, "b")
	require.NoError(t, err)
	_, err = leasestore.ConfirmRelease(t.Context(), store, before, errReset)
	require.ErrorIs(t, err, leasestore.ErrFenced, "the next owner has it already")
}
