package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
)

func testAcquireCreates(t *testing.T, s *subject) {
	want := leasestore.Lease{
		Key:        newKey(),
		Checkpoint: leasestore.AtSequence("49590338271490256608559692538361571095921575989136588898", 3),
		Seek:       7,
		Parents:    []string{"shardId-000000000001", "shardId-000000000002"},
	}
	got := s.acquire(want, "a")
	want.Owner, want.Counter = "a", 1
	equal(t, want, got, "a new lease is what was handed in, with its owner and counter 1")
	s.unchanged(want)
	everyFieldSet(t, s.offer(got, "b"))
}

func testAcquireCreatesOnce(t *testing.T, s *subject) {
	first := s.owned("a")
	for _, owner := range []string{"a", "b"} {
		_, err := s.Acquire(s.ctx, leasestore.Lease{Key: first.Key}, owner)
		require.ErrorIs(t, err, leasestore.ErrFenced, "a lease is created once, also by its own owner")
	}
	s.unchanged(first)
}

func testAcquireTakesOver(t *testing.T, s *subject) {
	stored := s.acquire(leasestore.Lease{
		Key: newKey(), Checkpoint: leasestore.TrimHorizon(), Seek: 2, Parents: []string{"p"},
	}, "a")
	claim := leasestore.Lease{
		Key: stored.Key, Owner: "whoever", Next: "whom", Counter: stored.Counter,
		Checkpoint: leasestore.ShardEnd(), Seek: 9, Parents: []string{"q"},
	}
	got := s.acquire(claim, "b")
	want := stored
	want.Owner, want.Counter = "b", stored.Counter+1
	equal(t, want, got, "a takeover changes the owner and nothing else, whatever else the caller's lease holds")
	s.unchanged(want)

	again := s.acquire(got, "b")
	require.Equal(t, got.Counter+1, again.Counter, "an owner may acquire its own lease again")
}

func testAcquireForeignCounter(t *testing.T, s *subject) {
	stored := s.owned("a")
	for _, counter := range []int64{stored.Counter + 1, stored.Counter + 100} {
		claim := stored
		claim.Counter = counter
		_, err := s.Acquire(s.ctx, claim, "b")
		require.ErrorIs(t, err, leasestore.ErrFenced)
	}
	claim := leasestore.Lease{Key: newKey(), Counter: 1}
	_, err := s.Acquire(s.ctx, claim, "b")
	require.ErrorIs(t, err, leasestore.ErrFenced, "a lease that is gone can not be taken over")
	_, err = s.Get(s.ctx, claim.Key)
	require.ErrorIs(t, err, leasestore.ErrNotFound, "a fenced Acquire creates nothing")
	s.unchanged(stored)
}

func testAcquireNeedsOwner(t *testing.T, s *subject) {
	key := newKey()
	_, err := s.Acquire(s.ctx, leasestore.Lease{Key: key}, "")
	require.Error(t, err, "nobody can not own a lease")
	require.NotErrorIs(t, err, leasestore.ErrFenced, "it is the caller's mistake, not the loss of a lease")
	_, err = s.Get(s.ctx, key)
	require.ErrorIs(t, err, leasestore.ErrNotFound)
}

func testAcquireFinished(t *testing.T, s *subject) {
	done := s.checkpoint(s.owned("a"), leasestore.ShardEnd())
	require.Equal(t, "a", done.Owner, "a finished shard keeps its owner")
	got := s.acquire(done, "b")
	require.Equal(t, "b", got.Owner)
	require.True(t, got.Checkpoint.IsShardEnd())
}

func testRenew(t *testing.T, s *subject) {
	want := s.acquire(leasestore.Lease{
		Key: newKey(), Checkpoint: leasestore.AtSequence("5", 1), Seek: 1, Parents: []string{"p"},
	}, "a")
	for range 3 {
		got, err := s.Renew(s.ctx, want)
		require.NoError(t, err)
		want.Counter++
		equal(t, want, got, "a renewal raises the counter and changes nothing else")
		s.unchanged(want)
	}
}

func testRelease(t *testing.T, s *subject) {
	lease := s.checkpoint(s.owned("a"), leasestore.AtSequence("12", 0))
	got, err := s.Release(s.ctx, lease)
	require.NoError(t, err)
	want := lease
	want.Owner, want.Counter = "", lease.Counter+1
	equal(t, want, got, "a release clears the owner and keeps the checkpoint")
	s.unchanged(want)

	next := s.acquire(got, "b")
	require.Equal(t, "b", next.Owner, "a released lease can be acquired at once")
	require.Equal(t, leasestore.AtSequence("12", 0), next.Checkpoint)

	_, err = s.Release(s.ctx, lease)
	require.ErrorIs(t, err, leasestore.ErrFenced, "the former owner can not release the lease of the next")
	s.unchanged(next)
}

func testDelete(t *testing.T, s *subject) {
	lease := s.owned("a")
	stale := lease
	stale.Counter++
	require.ErrorIs(t, s.Delete(s.ctx, stale), leasestore.ErrFenced)
	s.unchanged(lease)

	require.NoError(t, s.Delete(s.ctx, lease))
	_, err := s.Get(s.ctx, lease.Key)
	require.ErrorIs(t, err, leasestore.ErrNotFound)
	require.ErrorIs(t, s.Delete(s.ctx, lease), leasestore.ErrFenced, "it is gone")
	list, err := s.List(s.ctx, lease.Stream)
	require.NoError(t, err)
	require.Empty(t, list)

	again := s.acquire(leasestore.Lease{Key: lease.Key}, "b")
	require.Equal(t, int64(1), again.Counter, "a deleted lease can be created anew")
	require.True(t, again.Checkpoint.IsZero(), "nothing of the deleted lease is left")
	former := again
	former.Owner = "a"
	for name, write := range map[string]func() error{
		"offer":      func() error { _, err := s.Offer(s.ctx, former, "c"); return err },
		"renew":      func() error { _, err := s.Renew(s.ctx, former); return err },
		"checkpoint": func() error { _, err := s.Checkpoint(s.ctx, former, leasestore.ShardEnd()); return err },
		"move":       func() error { _, err := s.Move(s.ctx, former, leasestore.ShardEnd(), 1); return err },
		"release":    func() error { _, err := s.Release(s.ctx, former); return err },
		"delete":     func() error { return s.Delete(s.ctx, former) },
	} {
		require.ErrorIs(t, write(), leasestore.ErrFenced, "%s by the owner of its former life, when the counter is the same again", name)
		s.unchanged(again)
	}
}
