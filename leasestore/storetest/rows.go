package storetest

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
)

func testGetNotFound(t *testing.T, s *subject) {
	_, err := s.Get(s.ctx, newKey())
	require.ErrorIs(t, err, leasestore.ErrNotFound)
	other := s.owned("a").Key
	other.Shard += "1"
	_, err = s.Get(s.ctx, other)
	require.ErrorIs(t, err, leasestore.ErrNotFound)
}

// Shard ids repeat across streams, and stream names repeat across lives.
func testKeysStreams(t *testing.T, s *subject) {
	one := newKey()
	two := leasestore.Key{Stream: newStream(), Shard: one.Shard}
	reborn := one
	reborn.Stream.CreatedMillis++
	var leases []leasestore.Lease
	for n, key := range []leasestore.Key{one, two, reborn} {
		lease := s.acquire(leasestore.Lease{Key: key}, "a")
		leases = append(leases, s.checkpoint(lease, leasestore.AtSequence("1", uint64(n))))
	}
	for _, lease := range leases {
		s.unchanged(lease)
		list := s.list(lease.Stream)
		require.Len(t, list, 1)
		equal(t, lease, list[0])
	}
	require.NoError(t, s.Delete(s.ctx, leases[0]))
	s.unchanged(leases[1])
	s.unchanged(leases[2])
}

// A stream's name is any text; no two keys may fall together however a store writes them.
func testKeysOddNames(t *testing.T, s *subject) {
	base := newStream()
	var want []leasestore.Lease
	for _, key := range []leasestore.Key{
		{Stream: leasestore.StreamID{Name: base.Name, CreatedMillis: 1}, Shard: "1/2"},
		{Stream: leasestore.StreamID{Name: base.Name + "@1/1", CreatedMillis: 1}, Shard: "2"},
		{Stream: leasestore.StreamID{Name: base.Name + "@1", CreatedMillis: 1}, Shard: "2"},
		{Stream: leasestore.StreamID{Name: base.Name, CreatedMillis: 11}, Shard: "2"},
		{Stream: leasestore.StreamID{Name: base.Name, CreatedMillis: -1}, Shard: "2"},
		{Stream: leasestore.StreamID{Name: base.Name + ":", CreatedMillis: 1}, Shard: ":2"},
		{Stream: leasestore.StreamID{Name: base.Name, CreatedMillis: 1}, Shard: "::2"},
		{Stream: leasestore.StreamID{Name: base.Name + " ström", CreatedMillis: 1}, Shard: "シャード \"1\""},
	} {
		want = append(want, s.acquire(leasestore.Lease{Key: key, Parents: []string{"ä\n\""}}, "owner \"<é>\""))
	}
	states, err := s.Streams(s.ctx)
	require.NoError(t, err)
	for _, lease := range want {
		s.unchanged(lease)
		require.Contains(t, s.list(lease.Stream), lease)
		require.Contains(t, states, leasestore.StreamState{Stream: lease.Stream})
	}
}

func testList(t *testing.T, s *subject) {
	stream, other := newStream(), newStream()
	list, err := s.List(s.ctx, stream)
	require.NoError(t, err)
	require.NotNil(t, list, "no leases are an empty slice")
	require.Empty(t, list)

	want := make([]leasestore.Lease, 0, 12)
	for _, shard := range []string{"shardId-000000000010", "shardId-000000000002", "b", "a", "shardId-000000000001", "ab"} {
		want = append(want, s.acquire(leasestore.Lease{
			Key: leasestore.Key{Stream: stream, Shard: shard}, Seek: 3, Checkpoint: leasestore.AtSequence("5", 1), Parents: []string{"p-" + shard},
		}, "owner-of-"+shard))
		s.acquire(leasestore.Lease{Key: leasestore.Key{Stream: other, Shard: shard}}, "x")
	}
	slices.SortFunc(want, func(a, b leasestore.Lease) int { return cmp.Compare(a.Shard, b.Shard) })
	require.Equal(t, want, s.list(stream), "all leases of this stream and no other, ordered by shard id")
}

// What goes in and what comes out are copies: changing them changes no row.
func testCopies(t *testing.T, s *subject) {
	parents := []string{"p", "q"}
	lease := s.acquire(leasestore.Lease{Key: newKey(), Parents: parents}, "a")
	want := lease
	want.Parents = []string{"p", "q"}
	parents[0] = "changed"
	s.unchanged(want, "the caller's slice is not kept")
	lease.Parents[0] = "changed"
	s.unchanged(want, "the slice of Acquire is not the row's")
	s.get(want.Key).Parents[0] = "changed"
	s.unchanged(want, "the slice of Get is not the row's")
	s.list(want.Stream)[0].Parents[0] = "changed"
	s.unchanged(want, "the slice of List is not the row's")
	got, err := s.Renew(s.ctx, want)
	require.NoError(t, err)
	got.Parents[0] = "changed"
	want.Counter++
	s.unchanged(want, "the slice of Renew is not the row's")
}

func testStreams(t *testing.T, s *subject) {
	states, err := s.Streams(s.ctx)
	require.NoError(t, err)
	before := len(states) // a database shared by several tests has other streams, too

	leased := s.owned("a").Stream
	saved, err := s.SaveState(s.ctx, leasestore.StreamState{Stream: newStream(), Seek: 2, Start: leasestore.TrimHorizon()})
	require.NoError(t, err)
	both := s.owned("a").Stream
	s.acquire(leasestore.Lease{Key: leasestore.Key{Stream: both, Shard: "second"}}, "a")
	bothState, err := s.SaveState(s.ctx, leasestore.StreamState{Stream: both, Start: leasestore.AtTimestamp(time.UnixMilli(9))})
	require.NoError(t, err)

	states, err = s.Streams(s.ctx)
	require.NoError(t, err)
	require.Len(t, states, before+3, "each stream once")
	require.True(t, slices.IsSortedFunc(states, func(a, b leasestore.StreamState) int {
		return cmp.Compare(a.Stream.String(), b.Stream.String())
	}), "ordered by StreamID.String")
	require.Contains(t, states, leasestore.StreamState{Stream: leased}, "leases but no saved state: version 0")
	require.Contains(t, states, saved)
	require.Contains(t, states, bothState)

	require.NoError(t, s.Delete(s.ctx, s.list(leased)[0]))
	states, err = s.Streams(s.ctx)
	require.NoError(t, err)
	require.Len(t, states, before+2, "a stream without rows is gone")
}

func testState(t *testing.T, s *subject) {
	stream := newStream()
	_, err := s.State(s.ctx, stream)
	require.ErrorIs(t, err, leasestore.ErrNotFound)
	_, err = s.SaveState(s.ctx, leasestore.StreamState{Stream: stream, Version: 1})
	require.ErrorIs(t, err, leasestore.ErrFenced)
	_, err = s.State(s.ctx, stream)
	require.ErrorIs(t, err, leasestore.ErrNotFound, "a fenced write stores nothing")

	want := leasestore.StreamState{Stream: stream, Seek: 5, Start: leasestore.AtTimestamp(time.UnixMilli(1_700_000_000_123)), Tip: true}
	got, err := s.SaveState(s.ctx, want)
	require.NoError(t, err)
	want.Version = 1
	require.Equal(t, want, got)
	everyFieldSet(t, got)

	for _, version := range []int64{0, 2, -1} {
		stale := leasestore.StreamState{Stream: stream, Version: version, Seek: 99}
		_, err = s.SaveState(s.ctx, stale)
		require.ErrorIs(t, err, leasestore.ErrFenced, "version %d, stored is 1", version)
	}
	got, err = s.State(s.ctx, stream)
	require.NoError(t, err)
	require.Equal(t, want, got)

	got.Start, got.Seek, got.Tip = leasestore.Checkpoint{}, 1, false
	next, err := s.SaveState(s.ctx, got)
	require.NoError(t, err)
	got.Version = 2
	require.Equal(t, got, next)

	_, err = s.SaveState(s.ctx, leasestore.StreamState{Stream: stream, Version: 2, Start: leasestore.AtSequence("SHARD_END", 0)})
	require.Error(t, err, "no checkpoint that would be read back as another")
	reborn := stream
	reborn.CreatedMillis++
	_, err = s.State(s.ctx, reborn)
	require.ErrorIs(t, err, leasestore.ErrNotFound, "another life of the stream")
}
