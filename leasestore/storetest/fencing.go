package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
)

// write is any write of a lease that its owner may do.
type write struct {
	name string
	do   func(s *subject, lease leasestore.Lease) error
}

var writes = []write{
	{"Acquire", func(s *subject, l leasestore.Lease) error { _, err := s.Acquire(s.ctx, l, "x"); return err }},
	{"Offer", func(s *subject, l leasestore.Lease) error { _, err := s.Offer(s.ctx, l, "x"); return err }},
	{"Offer withdrawn", func(s *subject, l leasestore.Lease) error { _, err := s.Offer(s.ctx, l, ""); return err }},
	{"Renew", func(s *subject, l leasestore.Lease) error { _, err := s.Renew(s.ctx, l); return err }},
	{"Checkpoint", func(s *subject, l leasestore.Lease) error {
		_, err := s.Checkpoint(s.ctx, l, leasestore.AtSequence("999", 0))
		return err
	}},
	{"Checkpoint SHARD_END", func(s *subject, l leasestore.Lease) error {
		_, err := s.Checkpoint(s.ctx, l, leasestore.ShardEnd())
		return err
	}},
	{"Move", func(s *subject, l leasestore.Lease) error {
		_, err := s.Move(s.ctx, l, leasestore.TrimHorizon(), 99)
		return err
	}},
	{"Release", func(s *subject, l leasestore.Lease) error { _, err := s.Release(s.ctx, l); return err }},
	{"Delete", func(s *subject, l leasestore.Lease) error { return s.Delete(s.ctx, l) }},
}

func testFencingStale(t *testing.T, s *subject) {
	stored := s.checkpoint(s.checkpoint(s.owned("a"), leasestore.AtSequence("1", 0)), leasestore.AtSequence("2", 0))
	for _, w := range writes {
		for _, counter := range []int64{0, 1, stored.Counter - 1, stored.Counter + 1, -1} {
			stale := stored
			stale.Counter = counter
			err := w.do(s, stale)
			if counter < 0 {
				require.Error(t, err, w.name)
			} else {
				require.ErrorIs(t, err, leasestore.ErrFenced, "%s with counter %d, stored is %d", w.name, counter, stored.Counter)
			}
			s.unchanged(stored, "%s with counter %d must change nothing", w.name, counter)
		}
	}
}

func testFencingMissing(t *testing.T, s *subject) {
	for _, w := range writes {
		for _, counter := range []int64{0, 1, 5} {
			if w.name == "Acquire" && counter == 0 {
				continue // that is how a lease is created
			}
			lease := leasestore.Lease{Key: newKey(), Owner: "a", Counter: counter}
			require.ErrorIs(t, w.do(s, lease), leasestore.ErrFenced, "%s of a lease that does not exist, counter %d", w.name, counter)
			_, err := s.Get(s.ctx, lease.Key)
			require.ErrorIs(t, err, leasestore.ErrNotFound, "%s must create nothing", w.name)
		}
	}
}

func testFencingZombie(t *testing.T, s *subject) {
	zombie := s.checkpoint(s.owned("a"), leasestore.AtSequence("10", 0))
	next := s.acquire(zombie, "b")
	for _, w := range writes {
		require.ErrorIs(t, w.do(s, zombie), leasestore.ErrFenced, "%s of a zombie", w.name)
		s.unchanged(next)
	}
	next = s.checkpoint(next, leasestore.AtSequence("20", 0))
	for _, w := range writes {
		require.ErrorIs(t, w.do(s, zombie), leasestore.ErrFenced, "%s of a zombie", w.name)
		s.unchanged(next)
	}
	back := s.acquire(next, "a")
	for _, w := range writes {
		require.ErrorIs(t, w.do(s, zombie), leasestore.ErrFenced, "%s: the old counter is void although the owner is the same again", w.name)
	}
	s.unchanged(back)
}

func testFencedBeforeBackwards(t *testing.T, s *subject) {
	zombie := s.checkpoint(s.owned("a"), leasestore.AtSequence("10", 0))
	s.checkpoint(s.acquire(zombie, "b"), leasestore.AtSequence("20", 0))
	_, err := s.Checkpoint(s.ctx, zombie, leasestore.AtSequence("15", 0))
	require.ErrorIs(t, err, leasestore.ErrFenced, "who has lost the lease must hear of that, not of its checkpoint")
}

// ttl of the expiry tests; they count it on instants they make up, so it costs no time.
const ttl = 10 * time.Second

func testExpirySilent(t *testing.T, s *subject) {
	observer, start := leasestore.NewObserver(ttl), time.Now()
	lease := s.owned("a")
	for _, second := range []int{0, 3, 6, 9} {
		now := start.Add(time.Duration(second) * time.Second)
		observer.Observe(s.list(lease.Stream), now)
		require.False(t, observer.Free(s.list(lease.Stream)[0], now), "silent for %d s of 10", second)
	}
	now := start.Add(ttl)
	observer.Observe(s.list(lease.Stream), now)
	row := s.list(lease.Stream)[0]
	require.True(t, observer.Free(row, now))
	require.Equal(t, "b", s.acquire(row, "b").Owner)
	observer.Observe(s.list(lease.Stream), now)
	require.False(t, observer.Expired(lease.Key, now.Add(ttl-1)), "the new owner is alive")
}

func testExpiryRenewing(t *testing.T, s *subject) {
	observer, now := leasestore.NewObserver(ttl), time.Now()
	lease := s.owned("a")
	for n := range 10 {
		observer.Observe(s.list(lease.Stream), now)
		now = now.Add(ttl - 1)
		require.False(t, observer.Expired(lease.Key, now))
		var err error
		if n%2 == 0 {
			lease, err = s.Renew(s.ctx, lease)
		} else {
			lease, err = s.Checkpoint(s.ctx, lease, leasestore.AtSequence("1", uint64(n)))
		}
		require.NoError(t, err)
	}
}

func testExpiryReleased(t *testing.T, s *subject) {
	observer, now := leasestore.NewObserver(ttl), time.Now()
	lease := s.owned("a")
	observer.Observe(s.list(lease.Stream), now)
	_, err := s.Release(s.ctx, lease)
	require.NoError(t, err)
	row := s.list(lease.Stream)[0]
	require.True(t, observer.Free(row, now), "a released lease need not expire")
	s.acquire(row, "b")
}

func (s *subject) list(stream leasestore.StreamID) []leasestore.Lease {
	s.t.Helper()
	list, err := s.List(s.ctx, stream)
	require.NoError(s.t, err)
	return list
}
