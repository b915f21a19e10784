package file_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/leasestore/file"
)

// written is the content of a lease file with enough rows for several levels of pages.
func written(t *testing.T) []byte {
	t.Helper()
	path := newPath(t)
	s := open(t, path)
	done := make(chan error)
	for n := range 300 {
		go func() {
			_, err := s.Acquire(t.Context(), leasestore.Lease{Key: key(n), Parents: []string{"shardId-000000000777"}}, "a")
			done <- err
		}()
	}
	for range 300 {
		require.NoError(t, <-done)
	}
	_, err := s.SaveState(t.Context(), leasestore.StreamState{Stream: stream, Start: leasestore.TrimHorizon()})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return content
}

func corrupt(t *testing.T, path string) {
	t.Helper()
	_, err := file.Open(path)
	require.ErrorIs(t, err, file.ErrCorrupt)
	require.ErrorContains(t, err, path)
}

func TestOpenRefusesGarbage(t *testing.T) {
	path := newPath(t)
	for _, garbage := range [][]byte{
		[]byte("x"), []byte("not a database\n"), make([]byte, 100_000), bytes.Repeat([]byte("garbage "), 20_000),
	} {
		require.NoError(t, os.WriteFile(path, garbage, 0o600))
		corrupt(t, path)
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, garbage, after, "what was not opened is left as it was")
	}
}

func TestOpenRefusesTruncatedFile(t *testing.T) {
	content, path := written(t), newPath(t)
	for _, keep := range []int{1, 100, 4096, 5000, 8192, 12288, 16384, 20480, 30_000} {
		require.Less(t, keep, len(content))
		require.NoError(t, os.WriteFile(path, content[:keep], 0o600))
		corrupt(t, path)
	}
	require.NoError(t, os.WriteFile(path, content, 0o600))
	s := open(t, path) // the failures have left no lock behind
	list, err := s.List(t.Context(), stream)
	require.NoError(t, err)
	require.Len(t, list, 300)
}

// Whichever page is damaged: an error or, if nothing is stored there, a store; never a crash of the process.
func TestOpenSurvivesDamagedPages(t *testing.T) {
	content, path := written(t), newPath(t)
	page, refused := os.Getpagesize(), 0
	for at := 0; at < len(content); at += page {
		for _, fill := range []byte{0, 0xff, 'x'} {
			damaged := bytes.Clone(content)
			copy(damaged[at:], bytes.Repeat([]byte{fill}, page))
			require.NoError(t, os.WriteFile(path, damaged, 0o600))
			s, err := file.Open(path)
			if err != nil {
				assert.ErrorIs(t, err, file.ErrCorrupt, "page %d", at/page)
				refused++
				continue
			}
			_, err = s.List(t.Context(), stream)
			assert.NoError(t, err, "a file that was opened can be read")
			require.NoError(t, s.Close())
		}
	}
	require.NotZero(t, refused)
}

func TestEmptyFileIsNew(t *testing.T) {
	path := newPath(t)
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	acquire(t, open(t, path), 1)
}

// edit changes the database behind the store's back.
func edit(t *testing.T, path string, f func(tx *bolt.Tx) error) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	require.NoError(t, db.Update(f))
}

func TestOpenNamesTheBadRow(t *testing.T) {
	content := written(t)
	leases := func(tx *bolt.Tx) *bolt.Bucket { return tx.Bucket([]byte("leases")).Bucket([]byte(stream.String())) }
	for name, c := range map[string]struct {
		says string
		edit func(tx *bolt.Tx) error
	}{
		"no JSON":    {key(7).Shard, func(tx *bolt.Tx) error { return leases(tx).Put([]byte(key(7).Shard), []byte("{")) }},
		"empty":      {key(7).Shard, func(tx *bolt.Tx) error { return leases(tx).Put([]byte(key(7).Shard), nil) }},
		"other type": {key(7).Shard, func(tx *bolt.Tx) error { return leases(tx).Put([]byte(key(7).Shard), []byte(`{"counter":"1"}`)) }},
		"no counter": {key(7).Shard, func(tx *bolt.Tx) error { return leases(tx).Put([]byte(key(7).Shard), []byte("{}")) }},
		"no checkpoint": {key(7).Shard, func(tx *bolt.Tx) error {
			return leases(tx).Put([]byte(key(7).Shard), []byte(`{"counter":1,"checkpoint":"LATEST"}`))
		}},
		"bad state": {stream.String(), func(tx *bolt.Tx) error {
			return tx.Bucket([]byte("streams")).Put([]byte(stream.String()), []byte(`{"version":1,"start":"x"}`))
		}},
		"bad stream": {"orders@x", func(tx *bolt.Tx) error {
			return tx.Bucket([]byte("streams")).Put([]byte("orders@x"), []byte(`{"version":1}`))
		}},
		"no stream": {"orders", func(tx *bolt.Tx) error {
			_, err := tx.Bucket([]byte("leases")).CreateBucket([]byte("orders"))
			return err
		}},
		"stray entry":    {"stray", func(tx *bolt.Tx) error { return tx.Bucket([]byte("leases")).Put([]byte("stray@1"), []byte("x")) }},
		"bucket missing": {"bucket", func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte("streams")) }},
		"bucket in place": {key(7).Shard, func(tx *bolt.Tx) error {
			if err := leases(tx).Delete([]byte(key(7).Shard)); err != nil {
				return err
			}
			_, err := leases(tx).CreateBucket([]byte(key(7).Shard))
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			path := newPath(t)
			require.NoError(t, os.WriteFile(path, content, 0o600))
			edit(t, path, c.edit)
			_, err := file.Open(path)
			require.ErrorIs(t, err, file.ErrCorrupt)
			require.ErrorContains(t, err, path)
			require.ErrorContains(t, err, c.says)
		})
	}
}

func TestUnknownFieldsAreTolerated(t *testing.T) {
	path := newPath(t)
	require.NoError(t, os.WriteFile(path, written(t), 0o600))
	edit(t, path, func(tx *bolt.Tx) error {
		row := []byte(`{"counter":5,"checkpoint":"77:1","color":"red","owner":"","parents":null}`)
		return tx.Bucket([]byte("leases")).Bucket([]byte(stream.String())).Put([]byte(key(7).Shard), row)
	})
	got, err := open(t, path).Get(t.Context(), key(7))
	require.NoError(t, err)
	require.Equal(t, leasestore.Lease{Key: key(7), Counter: 5, Checkpoint: leasestore.AtSequence("77", 1)}, got)
}

func TestOpenRefusesOtherFormats(t *testing.T) {
	path := newPath(t)
	require.NoError(t, os.WriteFile(path, written(t), 0o600))
	edit(t, path, func(tx *bolt.Tx) error { return tx.Bucket([]byte("meta")).Put([]byte("format"), []byte("2")) })
	_, err := file.Open(path)
	require.ErrorIs(t, err, file.ErrFormat)
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, `"2"`)

	path = newPath(t)
	edit(t, path, func(tx *bolt.Tx) error { _, err := tx.CreateBucket([]byte("users")); return err })
	_, err = file.Open(path)
	require.ErrorIs(t, err, file.ErrFormat)
	require.ErrorContains(t, err, "another program")
}

func TestOpenRefusesWrongPlaces(t *testing.T) {
	dir := t.TempDir()
	_, err := file.Open(dir)
	require.ErrorContains(t, err, dir)
	require.ErrorContains(t, err, "directory")

	missing := filepath.Join(dir, "no", "leases.db")
	_, err = file.Open(missing)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, filepath.Dir(missing))

	if runtime.GOOS == "windows" || os.Getuid() == 0 {
		return // the superuser may write anywhere; TestOpenUnwritableDirectory covers it
	}
	require.NoError(t, os.Chmod(dir, 0o400))
	_, err = file.Open(filepath.Join(dir, "leases.db"))
	require.ErrorIs(t, err, os.ErrPermission)
	require.ErrorContains(t, err, dir)
}
