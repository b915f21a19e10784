package storetest

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
)

// member is one with all fields set.
func member(id string, streams ...leasestore.StreamID) leasestore.Member {
	return leasestore.Member{
		ID: id, Beat: 4, Leaving: true, Streams: streams, Address: "host-" + id + ":8090", Broker: "broker-" + id, System: "system-" + id,
		Period: 90 * time.Second, AllStreams: true,
	}
}

func (s *subject) beat(m leasestore.Member) leasestore.Member {
	s.t.Helper()
	got, err := s.Beat(s.ctx, m)
	require.NoError(s.t, err)
	return got
}

// members are all members; no streams and empty streams are the same.
func (s *subject) members() []leasestore.Member {
	s.t.Helper()
	all := s.view(newStream()).Members
	for n := range all {
		if len(all[n].Streams) == 0 {
			all[n].Streams = nil
		}
	}
	return all
}

func testBeat(t *testing.T, s *subject) {
	want := member("m", newStream(), newStream())
	got := s.beat(want)
	want.Beat++
	everyFieldSet(t, want)
	require.Equal(t, want, got, "a beat stores what it is given, and one beat more")
	require.Equal(t, []leasestore.Member{want}, s.members())

	want.Streams = slices.Clone(want.Streams)
	got.Streams[0].Name = "changed"
	require.Equal(t, []leasestore.Member{want}, s.members(), "the slice of Beat is not the row's")

	for _, next := range []leasestore.Member{want, {ID: "m", Beat: 77}, member("m", newStream()), {ID: "m"}} {
		got := s.beat(next)
		next.Beat++
		require.Equal(t, next, got)
		require.Equal(t, []leasestore.Member{next}, s.members(), "nothing is left of what was there before")
	}
}

func testMembersShared(t *testing.T, s *subject) {
	one, two := s.owned("a").Stream, newStream()
	var want []leasestore.Member
	for _, id := range []string{"b", "a", "ab", "10", "9"} {
		want = append(want, s.beat(member(id, one)))
	}
	slices.SortFunc(want, func(a, b leasestore.Member) int { return cmp.Compare(a.ID, b.ID) })
	require.Equal(t, want, s.view(one).Members, "ordered by id")
	require.Equal(t, want, s.view(two).Members, "members are of no stream in particular")
	states, err := s.Streams(s.ctx)
	require.NoError(t, err)
	require.Equal(t, []leasestore.StreamState{{Stream: one}}, states, "a member's streams are no rows of those streams")
}

func testForget(t *testing.T, s *subject) {
	stays, goes := s.beat(member("stays")), s.beat(member("goes"))
	stale := goes
	goes = s.beat(goes)
	for _, beat := range []int64{0, stale.Beat, goes.Beat + 1} {
		stale.Beat = beat
		require.ErrorIs(t, s.Forget(s.ctx, stale), leasestore.ErrFenced, "it has beaten since: %d is not %d", beat, goes.Beat)
	}
	require.Len(t, s.members(), 2)

	require.NoError(t, s.Forget(s.ctx, leasestore.Member{ID: "goes", Beat: goes.Beat}), "id and beat are enough")
	require.Equal(t, []leasestore.Member{stays}, s.members())
	require.NoError(t, s.Forget(s.ctx, goes), "it is gone already")
	require.NoError(t, s.Forget(s.ctx, member("never")))

	back := s.beat(leasestore.Member{ID: "goes"})
	require.Equal(t, int64(1), back.Beat)
	require.Equal(t, []leasestore.Member{back, stays}, s.members())
}

// An id is any text: no member may fall together with another, nor with a lease or a stream.
func testMembersOdd(t *testing.T, s *subject) {
	lease := s.owned("a")
	state, err := s.SaveState(s.ctx, leasestore.StreamState{Stream: lease.Stream})
	require.NoError(t, err)
	var want []leasestore.Member
	for _, id := range []string{
		"\"quoted\"", "10.0.0.7:8090", "Leader", "a/b", "a:b:1700000000:" + lease.Shard, lease.Key.String(), lease.Shard, lease.Stream.Name,
		lease.Stream.String(), "ström шард",
	} {
		m := s.beat(member(id, lease.Stream, leasestore.StreamID{Name: "any text@1/:\"é\"", CreatedMillis: -7}))
		want = append(want, m)
	}
	slices.SortFunc(want, func(a, b leasestore.Member) int { return cmp.Compare(a.ID, b.ID) })
	require.Equal(t, want, s.members())
	s.unchanged(lease)
	got, err := s.State(s.ctx, lease.Stream)
	require.NoError(t, err)
	require.Equal(t, state, got)
	require.Equal(t, []leasestore.Lease{lease}, s.list(lease.Stream))

	for _, m := range want {
		require.NoError(t, s.Forget(s.ctx, m))
	}
	require.Empty(t, s.members())
	s.unchanged(lease)
	_, err = s.State(s.ctx, lease.Stream)
	require.NoError(t, err)
}

func testBeatInvalid(t *testing.T, s *subject) {
	for _, m := range []leasestore.Member{
		{},
		{ID: "\xff"},
		{ID: "m", Address: "\xff"},
		{ID: "m", Broker: "\xff"},
		{ID: "m", System: "\xff"},
		{ID: "m", Streams: []leasestore.StreamID{{Name: "\xff"}}},
	} {
		_, err := s.Beat(s.ctx, m)
		require.ErrorIs(t, err, leasestore.ErrInvalid)
	}
	require.Empty(t, s.members())
}

// Members beat at the same moment, and none disturbs another.
func testContentionMembers(t *testing.T, s *subject) {
	beats := contend(t, func(owner string) (leasestore.Member, error) {
		m := leasestore.Member{ID: owner}
		for range 3 {
			var err error
			if m, err = s.Beat(s.ctx, m); err != nil {
				return m, err
			}
		}
		return m, nil
	})
	require.Len(t, beats, contenders)
	all := s.members()
	require.Len(t, all, contenders)
	for _, m := range all {
		require.Equal(t, int64(3), m.Beat, m.ID)
	}
}
