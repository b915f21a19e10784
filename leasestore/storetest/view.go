package storetest

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
)

// epoch is an instant for tests to write.
var epoch = time.UnixMilli(1_700_000_000_123)

func (s *subject) view(stream leasestore.StreamID) leasestore.View {
	s.t.Helper()
	view, err := s.View(s.ctx, stream)
	require.NoError(s.t, err)
	return view
}

func testView(t *testing.T, s *subject) {
	stream, other := newStream(), newStream()
	want := leasestore.View{}
	for _, shard := range []string{"b", "c", "a"} {
		lease := s.acquire(leasestore.Lease{
			Key: leasestore.Key{Stream: stream, Shard: shard}, Checkpoint: leasestore.AtSequence("5", 1), Seek: 3, Parents: []string{"p-" + shard},
		}, "owner-of-"+shard)
		want.Leases = append(want.Leases, s.offer(lease, "next-of-"+shard))
		s.acquire(leasestore.Lease{Key: leasestore.Key{Stream: other, Shard: shard}}, "x")
	}
	slices.SortFunc(want.Leases, func(a, b leasestore.Lease) int { return cmp.Compare(a.Shard, b.Shard) })
	for _, id := range []leasestore.StreamID{stream, other} {
		_, err := s.SaveState(s.ctx, leasestore.StreamState{Stream: id, Start: leasestore.AtTimestamp(epoch), Seek: 2, Tip: true})
		require.NoError(t, err)
	}
	var err error
	want.State, err = s.State(s.ctx, stream)
	require.NoError(t, err)
	want.Members = []leasestore.Member{s.beat(member("m", stream))}

	require.Equal(t, want, s.view(stream), "the leases and the state of this stream, all members, and nothing else")
	require.Equal(t, want.Leases, s.list(stream))

	got := s.view(stream)
	got.Leases[0].Parents[0], got.Members[0].Streams[0] = "changed", other
	require.Equal(t, want, s.view(stream), "a view is a copy")
}

func testViewEmpty(t *testing.T, s *subject) {
	stream := newStream()
	view := s.view(stream)
	require.NotNil(t, view.Leases, "no leases are an empty slice")
	require.Empty(t, view.Leases)
	require.Empty(t, view.Members)
	require.Equal(t, leasestore.StreamState{Stream: stream}, view.State, "no state is version 0 of the stream that was asked for")
	require.Zero(t, view.Planner)

	saved, err := s.SaveState(s.ctx, leasestore.StreamState{Stream: stream, Start: leasestore.TrimHorizon()})
	require.NoError(t, err)
	require.Equal(t, saved, s.view(stream).State, "a state without leases")
	reborn := stream
	reborn.CreatedMillis++
	require.Equal(t, leasestore.StreamState{Stream: reborn}, s.view(reborn).State, "another life of the stream")
}
