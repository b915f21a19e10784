package file

import (
	"fmt"
	"os"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/protokinesis/protokinesis/leasestore"
)

// Read returns the leases in the file at path, of all streams, and changes nothing: it frees none, and makes no file. A file that a
// broker has open can't be read meanwhile: ErrLocked. Errors are those of Open.
func Read(path string, opts ...Option) ([]leasestore.Lease, error) {
	c := config{lockTimeout: defaultLockTimeout}
	for _, opt := range opts {
		opt(&c)
	}
	c.lockTimeout = max(c.lockTimeout, time.Nanosecond)
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("lease file %s: %w", path, err)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("lease file %s: it is a %s, not a file", path, kindOf(info))
	case info.Size() == 0:
		return nil, nil // as it is before the first Open
	}
	db, err := openDB(path, c.lockTimeout, true)
	if err != nil {
		return nil, explain(path, c.lockTimeout, err)
	}
	var leases []leasestore.Lease
	err = guard(func() error {
		if _, _, err := inspect(db, path); err != nil {
			return err
		}
		return db.View(func(tx *bolt.Tx) error {
			t := table{tx}
			streams, err := t.leasedStreams()
			for _, stream := range streams {
				rows, err := t.list(stream)
				if err != nil {
					return err
				}
				leases = append(leases, rows...)
			}
			return err
		})
	})
	if closeErr := guard(db.Close); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, explain(path, c.lockTimeout, err)
	}
	return leases, nil
}
