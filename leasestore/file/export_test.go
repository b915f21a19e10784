package file

import bolt "go.etcd.io/bbolt"

// Commits returns how many write transactions the file has seen.
func (s *Store) Commits() (n int) {
	_ = s.db.View(func(tx *bolt.Tx) error {
		n = tx.ID()
		return nil
	})
	return n
}

// HoldWrites keeps every write waiting, as a disk that hangs does, until release is called.
func (s *Store) HoldWrites() (release func(), err error) {
	tx, err := s.db.Begin(true)
	if err != nil {
		return nil, err
	}
	return func() { _ = tx.Rollback() }, nil
}

// LimitSize makes every write fail that needs a larger file than bytes; 0 lifts the limit. No write may be under way.
func (s *Store) LimitSize(bytes int) { s.db.MaxSize = bytes }
