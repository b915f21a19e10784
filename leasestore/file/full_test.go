package file_test

import (
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/leasestore/file"
)

// fill writes leases until one fails, and returns those that were stored and the error.
func fill(t *testing.T, s *file.Store) ([]leasestore.Lease, error) {
	t.Helper()
	parents := []string{string(make([]byte, 10_000))}
	var stored []leasestore.Lease
	for n := range 10_000 {
		lease, err := s.Acquire(t.Context(), leasestore.Lease{Key: key(n), Parents: parents}, "a")
		if err != nil {
			return stored, err
		}
		stored = append(stored, lease)
	}
	return stored, errors.New("the disk is never full")
}

// holds checks that the store has exactly these leases.
func holds(t *testing.T, s *file.Store, want []leasestore.Lease) {
	t.Helper()
	got, err := s.List(t.Context(), stream)
	require.NoError(t, err)
	require.Len(t, got, len(want))
	for n := range want {
		require.Equal(t, want[n], got[n])
	}
}

func TestFailingWriteKeepsTheRows(t *testing.T) {
	path := newPath(t)
	s := open(t, path)
	s.LimitSize(1 << 20)
	stored, err := fill(t, s)
	require.NotEmpty(t, stored)
	require.ErrorContains(t, err, path)
	require.NotErrorIs(t, err, leasestore.ErrFenced)
	require.NotErrorIs(t, err, file.ErrCorrupt)
	holds(t, s, stored)

	s.LimitSize(0)
	stored[0], err = s.Checkpoint(t.Context(), stored[0], leasestore.AtSequence("1", 0))
	require.NoError(t, err, "with room again, the store goes on")
	holds(t, s, stored)
	require.NoError(t, s.Close())
	_, err = open(t, path).Get(t.Context(), stored[0].Key)
	require.NoError(t, err)
}

func TestFullDisk(t *testing.T) {
	dir := smallDisk(t, 1<<20)
	path := dir + "/leases.db"
	s := open(t, path)
	stored, err := fill(t, s)
	require.NotEmpty(t, stored)
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, "no space left")
	require.NotErrorIs(t, err, file.ErrCorrupt)
	holds(t, s, stored)

	// Deleting needs a few pages of its own, which a full disk may or may not have; either way nothing else is lost.
	last := len(stored) - 1
	if err := s.Delete(t.Context(), stored[last]); err == nil {
		stored = stored[:last]
	}
	holds(t, s, stored)
	require.NoError(t, s.Close())
	require.NoError(t, os.Truncate(dir+"/ballast", 0))

	s = open(t, path)
	for n := range stored {
		stored[n].Owner, stored[n].Counter = "", stored[n].Counter+1
	}
	holds(t, s, stored)
}

func TestCreateOnFullDisk(t *testing.T) {
	dir := smallDisk(t, 1<<20)
	require.Error(t, os.WriteFile(dir+"/rest", make([]byte, 1<<20), 0o600), "the disk is full now")
	_, err := file.Open(dir + "/leases.db")
	require.ErrorContains(t, err, dir+"/leases.db")
	require.ErrorContains(t, err, "no space left")
	require.NoError(t, os.Remove(dir+"/rest"))
	acquire(t, open(t, dir+"/leases.db"), 1)
}
