package leasestore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
)

// offered is a row with a pending handover.
var offered = leasestore.Lease{
	Key: testKey, Owner: "a", Next: "b", Counter: 7, Checkpoint: leasestore.AtSequence("5", 0), Seek: 2, Parents: []string{"p"},
}

func TestOfferRule(t *testing.T) {
	for _, next := range []string{"b", "c", ""} {
		got, err := leasestore.ApplyOffer(offered, offered, next)
		require.NoError(t, err)
		want := offered
		want.Next, want.Counter = next, 8
		require.Equal(t, want, got)
	}
}

func TestOfferRuleJudgesTheStoredRow(t *testing.T) {
	lease := offered
	lease.Owner = "b"
	_, err := leasestore.ApplyOffer(offered, lease, "c")
	require.ErrorIs(t, err, leasestore.ErrFenced, "the row says that b is not the owner")
	_, err = leasestore.ApplyOffer(offered, offered, "a")
	require.ErrorIs(t, err, leasestore.ErrInvalid, "the row says that a is the owner")

	lease = offered
	lease.Counter--
	_, err = leasestore.ApplyOffer(offered, lease, "a")
	require.ErrorIs(t, err, leasestore.ErrFenced, "that the lease is lost comes first")

	free := offered
	free.Owner, free.Next = "", ""
	_, err = leasestore.ApplyOffer(free, free, "b")
	require.ErrorIs(t, err, leasestore.ErrInvalid, "nobody could hand it over")
	_, err = leasestore.ApplyOffer(free, free, "")
	require.NoError(t, err)
	_, err = leasestore.ApplyOffer(leasestore.Lease{}, offered, "c")
	require.ErrorIs(t, err, leasestore.ErrFenced, "there is no row")
	_, err = leasestore.ApplyOffer(offered, offered, "\xff")
	require.ErrorIs(t, err, leasestore.ErrInvalid)
}

func TestOfferEndsWithTheOwner(t *testing.T) {
	for _, owner := range []string{"a", "b", "c"} {
		got, err := leasestore.ApplyAcquire(offered, offered, owner)
		require.NoError(t, err)
		require.Empty(t, got.Next)
	}
	created, err := leasestore.ApplyAcquire(leasestore.Lease{}, leasestore.Lease{Key: testKey, Next: "b"}, "a")
	require.NoError(t, err)
	require.Empty(t, created.Next, "nothing was offered yet")
	free, err := leasestore.ApplyRelease(offered, offered)
	require.NoError(t, err)
	require.Empty(t, free.Next)
	for name, rule := range map[string]func() (leasestore.Lease, error){
		"renew": func() (leasestore.Lease, error) { return leasestore.ApplyRenew(offered, offered) },
		"checkpoint": func() (leasestore.Lease, error) {
			return leasestore.ApplyCheckpoint(offered, offered, offered.Checkpoint)
		},
		"move": func() (leasestore.Lease, error) { return leasestore.ApplyMove(offered, offered, offered.Checkpoint, 3) },
	} {
		got, err := rule()
		require.NoError(t, err)
		require.Equal(t, "b", got.Next, name)
	}
}

func TestBeatRule(t *testing.T) {
	streams := []leasestore.StreamID{{Name: "s"}}
	member := leasestore.Member{ID: "m", Beat: 6, Streams: streams, Address: "x"}
	got, err := leasestore.ApplyBeat(member)
	require.NoError(t, err)
	want := member
	want.Beat = 7
	require.Equal(t, want, got)
	got.Streams[0].Name = "changed"
	require.Equal(t, "s", streams[0].Name, "the result is a copy")

	for _, bad := range []leasestore.Member{{}, {ID: "\xff"}, {ID: "m", Streams: []leasestore.StreamID{{Name: "\xff"}}}, {ID: "m", System: "\xff"}} {
		_, err := leasestore.ApplyBeat(bad)
		require.ErrorIs(t, err, leasestore.ErrInvalid)
	}
}

func TestForgetRule(t *testing.T) {
	stored := leasestore.Member{ID: "m", Beat: 6, Address: "x"}
	require.NoError(t, leasestore.ApplyForget(stored, leasestore.Member{ID: "m", Beat: 6}))
	require.NoError(t, leasestore.ApplyForget(leasestore.Member{}, stored), "it is gone already")
	for _, beat := range []int64{0, 5, 7} {
		require.ErrorIs(t, leasestore.ApplyForget(stored, leasestore.Member{ID: "m", Beat: beat}), leasestore.ErrFenced)
	}
}

func TestMemberReads(t *testing.T) {
	one, two := leasestore.StreamID{Name: "s", CreatedMillis: 1}, leasestore.StreamID{Name: "s", CreatedMillis: 2}
	member := leasestore.Member{Streams: []leasestore.StreamID{one}}
	require.True(t, member.Reads(one))
	require.False(t, member.Reads(two), "another life of the stream")
	require.True(t, leasestore.Member{AllStreams: true}.Reads(two))
	require.False(t, leasestore.Member{}.Reads(one))
}
