package storetest

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
)

func testOffer(t *testing.T, s *subject) {
	want := s.acquire(leasestore.Lease{
		Key: newKey(), Checkpoint: leasestore.AtSequence("5", 1), Seek: 1, Parents: []string{"p"},
	}, "a")
	for _, next := range []string{"b", "b", "c \"<é>\"", "", ""} {
		got := s.offer(want, next)
		want.Next, want.Counter = next, want.Counter+1
		equal(t, want, got, "an offer sets the next owner, raises the counter and changes nothing else")
		s.unchanged(want)
		require.Equal(t, []leasestore.Lease{want}, s.list(want.Stream))
		require.Equal(t, []leasestore.Lease{want}, s.view(want.Stream).Leases)
	}
}

func testOfferKept(t *testing.T, s *subject) {
	lease := s.owned("a")
	lease = s.offer(lease, "b")
	for name, do := range map[string]func() (leasestore.Lease, error){
		"Renew":      func() (leasestore.Lease, error) { return s.Renew(s.ctx, lease) },
		"Checkpoint": func() (leasestore.Lease, error) { return s.Checkpoint(s.ctx, lease, leasestore.AtSequence("7", 0)) },
		"Move":       func() (leasestore.Lease, error) { return s.Move(s.ctx, lease, leasestore.AtSequence("7", 0), 1) },
	} {
		got, err := do()
		require.NoError(t, err)
		require.Equal(t, "a", got.Owner, "until the handover is done the donor owns the lease")
		require.Equal(t, "b", got.Next, "%s keeps the offer", name)
		s.unchanged(got)
		lease = got
	}
}

func testOfferEnds(t *testing.T, s *subject) {
	for name, do := range map[string]func(leasestore.Lease) (leasestore.Lease, error){
		"Acquire for the receiver":     func(l leasestore.Lease) (leasestore.Lease, error) { return s.Acquire(s.ctx, l, "b") },
		"Acquire by a third":           func(l leasestore.Lease) (leasestore.Lease, error) { return s.Acquire(s.ctx, l, "c") },
		"Acquire by the owner himself": func(l leasestore.Lease) (leasestore.Lease, error) { return s.Acquire(s.ctx, l, "a") },
		"Release":                      func(l leasestore.Lease) (leasestore.Lease, error) { return s.Release(s.ctx, l) },
	} {
		offered := s.offer(s.checkpoint(s.owned("a"), leasestore.AtSequence("7", 0)), "b")
		got, err := do(offered)
		require.NoError(t, err)
		require.Empty(t, got.Next, "%s ends the offer", name)
		require.Equal(t, offered.Counter+1, got.Counter)
		require.Equal(t, offered.Checkpoint, got.Checkpoint)
		s.unchanged(got)
		_, err = s.Renew(s.ctx, offered)
		require.ErrorIs(t, err, leasestore.ErrFenced)
		require.Empty(t, s.offer(s.acquire(got, "d"), "").Next)
	}
}

func testOfferInvalid(t *testing.T, s *subject) {
	lease := s.owned("a")
	_, err := s.Offer(s.ctx, lease, "a")
	require.ErrorIs(t, err, leasestore.ErrInvalid, "the owner has it already")
	_, err = s.Offer(s.ctx, lease, "\xff")
	require.ErrorIs(t, err, leasestore.ErrInvalid)
	s.unchanged(lease, "a refused offer does not renew either")
	claim := lease
	claim.Owner = "whoever"
	_, err = s.Offer(s.ctx, claim, "a")
	require.Error(t, err, "who the owner is says the row")
	s.unchanged(lease)

	free, err := s.Release(s.ctx, lease)
	require.NoError(t, err)
	_, err = s.Offer(s.ctx, free, "b")
	require.ErrorIs(t, err, leasestore.ErrInvalid, "nobody is there to hand it over")
	s.unchanged(free)
	_, err = s.Offer(s.ctx, lease, "b")
	require.ErrorIs(t, err, leasestore.ErrFenced, "who has lost the lease must hear that first")
}

var errLost = errors.New("the reply was lost")

// confirmed are the writes that Confirm is for; each leaves owner as the owner.
var confirmed = []struct {
	name  string
	owner string
	do    func(s *subject, lease leasestore.Lease) (leasestore.Lease, error)
}{
	{"Acquire", "a", func(s *subject, l leasestore.Lease) (leasestore.Lease, error) { return s.Acquire(s.ctx, l, "a") }},
	{"Acquire for the receiver", "b", func(s *subject, l leasestore.Lease) (leasestore.Lease, error) { return s.Acquire(s.ctx, l, "b") }},
	{"Offer", "a", func(s *subject, l leasestore.Lease) (leasestore.Lease, error) { return s.Offer(s.ctx, l, "c") }},
	{"Offer withdrawn", "a", func(s *subject, l leasestore.Lease) (leasestore.Lease, error) { return s.Offer(s.ctx, l, "") }},
	{"Renew", "a", func(s *subject, l leasestore.Lease) (leasestore.Lease, error) { return s.Renew(s.ctx, l) }},
	{"Checkpoint", "a", func(s *subject, l leasestore.Lease) (leasestore.Lease, error) {
		return s.Checkpoint(s.ctx, l, leasestore.AtSequence("7", 2))
	}},
	{"Move", "a", func(s *subject, l leasestore.Lease) (leasestore.Lease, error) {
		return s.Move(s.ctx, l, leasestore.AtTimestamp(epoch), 3)
	}},
}

// L3: a write was applied and its reply lost. Reading back recognises it, both right away and after a second try that was fenced by the first.
func testLostReply(t *testing.T, s *subject) {
	for _, w := range confirmed {
		before := s.offer(s.owned("a"), "b")
		_, err := w.do(s, before)
		require.NoError(t, err, w.name)
		want := s.get(before.Key)

		held, err := leasestore.Confirm(s.ctx, s.Store, before, w.owner, errLost)
		require.NoError(t, err, w.name)
		equal(t, want, held, w.name)
		_, err = w.do(s, before)
		require.ErrorIs(t, err, leasestore.ErrFenced, w.name)
		held, err = leasestore.Confirm(s.ctx, s.Store, before, w.owner, err)
		require.NoError(t, err, w.name)
		equal(t, want, held, w.name)

		_, err = s.Renew(s.ctx, held)
		require.NoError(t, err, "%s: the row returned is one to go on with", w.name)
		_, err = leasestore.Confirm(s.ctx, s.Store, before, w.owner, errLost)
		require.ErrorIs(t, err, leasestore.ErrFenced, "%s: the row has gone on since", w.name)
	}
}

func testLostRelease(t *testing.T, s *subject) {
	before := s.offer(s.owned("a"), "b")
	_, err := s.Release(s.ctx, before)
	require.NoError(t, err)
	_, err = s.Release(s.ctx, before)
	require.ErrorIs(t, err, leasestore.ErrFenced)
	free, err := leasestore.ConfirmRelease(s.ctx, s.Store, before, err)
	require.NoError(t, err)
	s.unchanged(free)
	require.Empty(t, free.Owner)
	require.Empty(t, free.Next)
}
