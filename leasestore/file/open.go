package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/protokinesis/protokinesis/leasestore"
)

// format is the version of the layout that this package writes and reads.
const format = "1"

// fileMode: who may read leases may learn stream names and owners, who may write them may steal shards.
const fileMode = 0o600

// Open opens the lease file at path; a missing or empty file becomes a new one, a missing directory is an error. It checks
// every row, and frees every lease (see the package doc), which fences whoever held one in a former process.
//
// Errors name the path and wrap ErrLocked, ErrCorrupt, ErrFormat, or what the file system said. A file that could
// not be opened is left as it was.
func Open(path string, opts ...Option) (*Store, error) {
	c := config{lockTimeout: defaultLockTimeout}
	for _, opt := range opts {
		opt(&c)
	}
	// bbolt takes 0 as "wait for ever".
	c.lockTimeout = max(c.lockTimeout, time.Nanosecond)

	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("lease file %s: it is a %s, not a file; name a file in it or elsewhere", path, kindOf(info))
	}
	db, err := openDB(path, c.lockTimeout, false)
	if err != nil {
		return nil, explain(path, c.lockTimeout, err)
	}
	if err := guard(func() error { return prepare(db, path) }); err != nil {
		_ = guard(db.Close)
		return nil, explain(path, c.lockTimeout, err)
	}
	return newStore(db, path), nil
}

func kindOf(info fs.FileInfo) string {
	if info.IsDir() {
		return "directory"
	}
	return "special file"
}

// openDB is bolt.Open for files that may be damaged: bbolt panics over some, and then keeps what it has opened.
func openDB(path string, timeout time.Duration, readOnly bool) (*bolt.DB, error) {
	var (
		db     *bolt.DB
		opened *os.File
	)
	err := guard(func() (err error) {
		db, err = bolt.Open(path, fileMode, &bolt.Options{
			Timeout: timeout, ReadOnly: readOnly,
			OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
				f, err := os.OpenFile(name, flag, mode) //nolint:gosec // the caller's path is the point
				opened = f
				return f, err
			},
		})
		return err
	})
	if err == nil {
		return db, nil
	}
	if opened != nil {
		abandon(opened)
	}
	// What the system does not refuse, bbolt does, and that for the file's content; not all of its errors are named.
	var refused syscall.Errno
	if !errors.As(err, &refused) && !errors.Is(err, bolterrors.ErrTimeout) && !errors.Is(err, ErrCorrupt) {
		err = fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return nil, err
}

// prepare makes sure that the database is a whole lease file, writes the layout of a new one, and frees the leases.
func prepare(db *bolt.DB, path string) error {
	isNew, owned, err := inspect(db, path)
	if err != nil || !isNew && len(owned) == 0 {
		return err
	}
	if isNew {
		return createIn(db, path)
	}
	return db.Update(func(tx *bolt.Tx) error {
		for _, lease := range owned {
			free, err := leasestore.ApplyRelease(lease, lease)
			if err != nil {
				return err
			}
			if err := (table{tx}).putLease(free); err != nil {
				return err
			}
		}
		return nil
	})
}

// inspect reads all there is, and returns the leases that have an owner.
func inspect(db *bolt.DB, path string) (isNew bool, owned []leasestore.Lease, err error) {
	err = db.View(func(tx *bolt.Tx) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if info.Size() < tx.Size() {
			return fmt.Errorf("%w: it was cut short to %d of %d bytes", ErrCorrupt, info.Size(), tx.Size())
		}
		if first, _ := tx.Cursor().First(); first == nil {
			isNew = true
			return nil
		}
		if err := checkFormat(tx); err != nil {
			return err
		}
		t := table{tx}
		if _, err := t.states(); err != nil {
			return err
		}
		streams, err := t.leasedStreams()
		if err != nil {
			return err
		}
		for _, stream := range streams {
			leases, err := t.list(stream)
			if err != nil {
				return err
			}
			for _, lease := range leases {
				if lease.Owner != "" {
					owned = append(owned, lease)
				}
			}
		}
		return nil
	})
	return isNew, owned, err
}

// createIn writes the layout of a new file.
func createIn(db *bolt.DB, path string) error {
	err := db.Update(func(tx *bolt.Tx) error {
		for _, name := range [][]byte{bucketMeta, bucketLeases, bucketStreams} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return tx.Bucket(bucketMeta).Put(keyFormat, []byte(format))
	})
	if err != nil {
		return err
	}
	// The file's name must survive a power loss like its content. Not every system can sync a directory, and
	// most do it with the file; so an error is no reason to refuse.
	if dir, err := os.Open(filepath.Dir(path)); err == nil {
		_ = dir.Sync()
		_ = dir.Close()
	}
	return nil
}

func checkFormat(tx *bolt.Tx) error {
	meta := tx.Bucket(bucketMeta)
	if meta == nil {
		return fmt.Errorf("%w: it is a database of another program", ErrFormat)
	}
	switch got := string(meta.Get(keyFormat)); {
	case got == "":
		return fmt.Errorf("%w: it is a database of another program", ErrFormat)
	case got != format:
		return fmt.Errorf("%w: its format is %q, this version reads %q", ErrFormat, got, format)
	case tx.Bucket(bucketLeases) == nil, tx.Bucket(bucketStreams) == nil:
		return fmt.Errorf("%w: a bucket is missing", ErrCorrupt)
	}
	return nil
}

// explain adds to an error of Open the path and what to do.
func explain(path string, timeout time.Duration, err error) error {
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("%w: %s is held open by another broker or process (waited %s); stop it, or give this one a file of its own",
			ErrLocked, path, timeout)
	case errors.Is(err, ErrFormat):
		return fmt.Errorf("lease file %s: %w; use the version of the program that wrote it, or another path", path, err)
	case errors.Is(err, ErrCorrupt):
		return fmt.Errorf("lease file %s: %w; %s", path, err, remedy)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("lease file %s: %w; create the directory %s", path, err, filepath.Dir(path))
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("lease file %s: %w; this user must be able to write the file and its directory", path, err)
	default:
		return fmt.Errorf("lease file %s: %w", path, err)
	}
}

const remedy = "restore it from a copy, or move it away to begin without checkpoints"

// guard runs f and turns a panic into ErrCorrupt. bbolt reads the file through a memory map and trusts it, so in a damaged
// or shortened file it panics or touches addresses that are not there.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: reading it failed: %v", ErrCorrupt, r)
		}
	}()
	return f()
}
