package storetest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
)

// The largest sequence number of 56 digits is smaller than the smallest of 57, but not as a string.
var (
	digits56 = strings.Repeat("9", 56)
	digits57 = "1" + strings.Repeat("0", 56)
)

func testCheckpointForward(t *testing.T, s *subject) {
	lease := s.acquire(leasestore.Lease{Key: newKey(), Seek: 4, Parents: []string{"p"}}, "a")
	for _, c := range []leasestore.Checkpoint{
		leasestore.TrimHorizon(),
		leasestore.AtTimestamp(time.UnixMilli(1000)),
		leasestore.AtTimestamp(time.UnixMilli(1001)),
		leasestore.Before("3", 0),
		leasestore.AtSequence("3", 0),
		leasestore.AtSequence("3", 1),
		leasestore.AtSequence("4", 0),
		leasestore.ShardEnd(),
	} {
		got := s.checkpoint(lease, c)
		want := lease
		want.Checkpoint, want.Counter = c, lease.Counter+1
		equal(t, want, got, "a checkpoint is a renewal, too, and changes nothing but counter and checkpoint")
		s.unchanged(want)
		lease = got
	}
}

func testCheckpointSame(t *testing.T, s *subject) {
	lease := s.owned("a")
	for _, c := range []leasestore.Checkpoint{
		leasestore.TrimHorizon(), leasestore.AtSequence("3", 1), leasestore.ShardEnd(),
	} {
		first := s.checkpoint(lease, c)
		lease = s.checkpoint(first, c)
		require.Equal(t, first.Counter+1, lease.Counter)
		s.unchanged(lease)
	}
}

func testCheckpointBackwards(t *testing.T, s *subject) {
	lease := s.checkpoint(s.owned("a"), leasestore.AtSequence("100", 5))
	for _, c := range []leasestore.Checkpoint{
		{},
		leasestore.TrimHorizon(),
		leasestore.AtTimestamp(time.Now()),
		leasestore.AtSequence("99", 7),
		leasestore.Before("100", 5),
		leasestore.AtSequence("100", 4),
		leasestore.AtSequence("100", 0),
	} {
		_, err := s.Checkpoint(s.ctx, lease, c)
		require.ErrorIs(t, err, leasestore.ErrBackwards, "%q after %q", c, lease.Checkpoint)
		require.NotErrorIs(t, err, leasestore.ErrFenced)
		s.unchanged(lease, "a refused checkpoint does not renew either")
	}
	s.checkpoint(lease, leasestore.AtSequence("100", 6)) // the same counter is still good
}

func testCheckpointShardEnd(t *testing.T, s *subject) {
	lease := s.checkpoint(s.owned("a"), leasestore.ShardEnd())
	for _, c := range []leasestore.Checkpoint{
		{}, leasestore.TrimHorizon(), leasestore.AtTimestamp(time.Now()), leasestore.AtSequence(digits57, 0),
	} {
		_, err := s.Checkpoint(s.ctx, lease, c)
		require.ErrorIs(t, err, leasestore.ErrBackwards, "%q after SHARD_END", c)
	}
	s.unchanged(lease)
}

func testCheckpointNumbers(t *testing.T, s *subject) {
	lease := s.checkpoint(s.owned("a"), leasestore.AtSequence(digits56, 0))
	lease = s.checkpoint(lease, leasestore.AtSequence(digits57, 0))
	_, err := s.Checkpoint(s.ctx, lease, leasestore.AtSequence(digits56, 0))
	require.ErrorIs(t, err, leasestore.ErrBackwards, "sequence numbers are numbers: 57 digits are more than 56")

	lease = s.checkpoint(s.owned("a"), leasestore.AtSequence("9", 2))
	lease = s.checkpoint(lease, leasestore.AtSequence("10", 0))
	_, err = s.Checkpoint(s.ctx, lease, leasestore.AtSequence("0009", 9))
	require.ErrorIs(t, err, leasestore.ErrBackwards, "leading zeros do not count")

	lease = s.checkpoint(s.owned("a"), leasestore.AtSequence(digits57, 9))
	lease = s.checkpoint(lease, leasestore.AtSequence(digits57, 10))
	_, err = s.Checkpoint(s.ctx, lease, leasestore.AtSequence(digits57, 9))
	require.ErrorIs(t, err, leasestore.ErrBackwards, "sub-sequence numbers are numbers: 10 is more than 9")
}

func testCheckpointKinds(t *testing.T, s *subject) {
	for _, c := range []leasestore.Checkpoint{
		{},
		leasestore.TrimHorizon(),
		leasestore.AtTimestamp(time.UnixMilli(1_700_000_000_123)),
		leasestore.Before("0", 0),
		leasestore.Before(strings.Repeat("9", 129), 1<<64-1),
		leasestore.AtSequence("0", 0),
		leasestore.AtSequence("007", 1),
		leasestore.AtSequence(strings.Repeat("9", 129), 1<<64-1),
		leasestore.ShardEnd(),
	} {
		lease := s.acquire(leasestore.Lease{Key: newKey(), Checkpoint: c}, "a")
		require.Equal(t, c, lease.Checkpoint, "created with %q", c)
		require.Equal(t, c, s.get(lease.Key).Checkpoint)
		s.unchanged(s.checkpoint(lease, c))
	}
}

func testCheckpointInvalid(t *testing.T, s *subject) {
	lease := s.owned("a")
	for _, text := range []string{"", "SHARD_END", "TRIM_HORIZON", "12:3", "<12", "x", "-1", strings.Repeat("9", 130)} {
		c := leasestore.AtSequence(text, 0)
		_, err := s.Checkpoint(s.ctx, lease, c)
		require.Error(t, err, "%q is no sequence number; stored, it would be read back as something else or not at all", text)
		_, err = s.Move(s.ctx, lease, c, 1)
		require.Error(t, err)
		_, err = s.Acquire(s.ctx, leasestore.Lease{Key: newKey(), Checkpoint: c}, "a")
		require.Error(t, err)
		s.unchanged(lease)
	}
}

func testMove(t *testing.T, s *subject) {
	lease := s.acquire(leasestore.Lease{Key: newKey(), Parents: []string{"p"}}, "a")
	lease = s.checkpoint(lease, leasestore.AtSequence("100", 0))
	for seek, c := range []leasestore.Checkpoint{
		leasestore.AtSequence("50", 1),
		leasestore.Before("50", 1),
		leasestore.ShardEnd(),
		leasestore.TrimHorizon(),
		leasestore.AtTimestamp(time.UnixMilli(5)),
		{},
		leasestore.AtSequence("7", 0),
	} {
		got, err := s.Move(s.ctx, lease, c, int64(seek)+10)
		require.NoError(t, err, "a seek may go to %q from %q", c, lease.Checkpoint)
		want := lease
		want.Checkpoint, want.Seek, want.Counter = c, int64(seek)+10, lease.Counter+1
		equal(t, want, got)
		s.unchanged(want)
		lease = got
	}
	got := s.checkpoint(lease, leasestore.AtSequence("8", 0))
	require.Equal(t, lease.Seek, got.Seek, "a checkpoint keeps the number of the seek")
}
