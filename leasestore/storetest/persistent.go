package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
)

// RunPersistent checks a store that outlives its process: open opens the store kept in dir, a new directory for each
// subtest, and is called again once the store was closed. Whether owners are kept or freed by a restart is the store's choice; every
// other word of a row must survive, and counters never fall.
func RunPersistent(t *testing.T, open func(t *testing.T, dir string) leasestore.Store) {
	t.Helper()
	t.Run("Persistent/RowsSurvive", func(t *testing.T) {
		dir, stream := t.TempDir(), newStream()
		s := newSubject(t, open(t, dir))
		var want []leasestore.Lease
		for n, c := range []leasestore.Checkpoint{
			{},
			leasestore.TrimHorizon(),
			leasestore.AtTimestamp(time.UnixMilli(1_700_000_000_123)),
			leasestore.Before(digits56, 2),
			leasestore.AtSequence(digits56, 0),
			leasestore.AtSequence(digits57, 1<<64-1),
			leasestore.ShardEnd(),
		} {
			want = append(want, s.acquire(leasestore.Lease{
				Key:        leasestore.Key{Stream: stream, Shard: fmt.Sprintf("shardId-%012d", n)},
				Checkpoint: c, Seek: int64(n), Parents: []string{"p", "q"},
			}, "a"))
		}
		want[4] = s.offer(want[4], "b")
		gone := s.owned("a")
		require.NoError(t, s.Delete(s.ctx, gone))
		state, err := s.SaveState(s.ctx, leasestore.StreamState{
			Stream: stream, Seek: 3, Start: leasestore.AtTimestamp(time.UnixMilli(7)), Tip: true,
		})
		require.NoError(t, err)
		everyFieldSet(t, state)

		for range 2 {
			require.NoError(t, s.Close())
			s = newSubject(t, open(t, dir))
			got := s.list(stream)
			require.Len(t, got, len(want))
			for n := range want {
				require.GreaterOrEqual(t, got[n].Counter, want[n].Counter, "counters never fall")
				require.Contains(t, []string{"", want[n].Owner}, got[n].Owner, "the owner is the old one or none")
				if got[n].Owner != want[n].Owner {
					require.Greater(t, got[n].Counter, want[n].Counter, "a changed row has another counter")
					require.Empty(t, got[n].Next, "an offer ends with its owner")
					want[n].Next = ""
				}
				want[n].Owner, want[n].Counter = got[n].Owner, got[n].Counter
				equal(t, want[n], got[n])
			}
			saved, err := s.State(s.ctx, stream)
			require.NoError(t, err)
			require.Equal(t, state, saved)
			_, err = s.Get(s.ctx, gone.Key)
			require.ErrorIs(t, err, leasestore.ErrNotFound, "what was deleted stays so")
		}
	})
	t.Run("Persistent/FencingSurvives", func(t *testing.T) {
		dir := t.TempDir()
		s := newSubject(t, open(t, dir))
		old := s.owned("a")
		now, err := s.Renew(s.ctx, old)
		require.NoError(t, err)
		require.NoError(t, s.Close())
		s = newSubject(t, open(t, dir))
		row := s.get(old.Key)
		_, err = s.Renew(s.ctx, old)
		require.ErrorIs(t, err, leasestore.ErrFenced)
		if row.Counter != now.Counter {
			_, err = s.Renew(s.ctx, now)
			require.ErrorIs(t, err, leasestore.ErrFenced, "the row was written by the restart, its old owner is fenced")
		}
		s.unchanged(row)
		require.Equal(t, "b", s.acquire(row, "b").Owner)
	})
}
