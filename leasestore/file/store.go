package file

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	bolt "go.etcd.io/bbolt"

	"github.com/protokinesis/protokinesis/leasestore"
)

// maxReads bounds the reads that run at once, so that callers that give up on a disk that hangs leave no more than that behind.
const maxReads = 64

// Store is a leasestore.Store in a file. It is safe for concurrent use by all brokers of the process.
//
// A call whose ctx ends returns at once with ctx.Err(), although the disk may be at it still: the outcome of such a
// write is unknown.
type Store struct {
	db     *bolt.DB
	path   string
	reads  chan struct{}
	writer *writer

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup // of calls that use db, whether their callers still wait or not

	closing sync.Once

	// members are not in the file: it is open in one process at a time, and with that process they all end.
	members members
}

var _ leasestore.Store = (*Store)(nil)

func newStore(db *bolt.DB, path string) *Store {
	return &Store{db: db, path: path, reads: make(chan struct{}, maxReads), writer: startWriter(db, path)}
}

// Path returns the path the store was opened with.
func (s *Store) Path() string { return s.path }

// Get implements leasestore.Store.
func (s *Store) Get(ctx context.Context, key leasestore.Key) (leasestore.Lease, error) {
	return read(ctx, s, func(t table) (leasestore.Lease, error) {
		lease, err := t.lease(key)
		if err == nil && lease.Counter == 0 {
			err = fmt.Errorf("lease %s: %w", key, leasestore.ErrNotFound)
		}
		return lease, err
	})
}

// List implements leasestore.Store.
func (s *Store) List(ctx context.Context, stream leasestore.StreamID) ([]leasestore.Lease, error) {
	return read(ctx, s, func(t table) ([]leasestore.Lease, error) { return t.list(stream) })
}

// View implements leasestore.Store.
func (s *Store) View(ctx context.Context, stream leasestore.StreamID) (leasestore.View, error) {
	view, err := read(ctx, s, func(t table) (view leasestore.View, err error) {
		if view.Leases, err = t.list(stream); err != nil {
			return view, err
		}
		view.State, err = t.state(stream)
		view.State.Stream = stream
		return view, err
	})
	if err != nil {
		return leasestore.View{}, err
	}
	view.Members = s.members.list()
	return view, nil
}

// Streams implements leasestore.Store.
func (s *Store) Streams(ctx context.Context) ([]leasestore.StreamState, error) {
	return read(ctx, s, func(t table) ([]leasestore.StreamState, error) {
		saved, err := t.states()
		if err != nil {
			return nil, err
		}
		leased, err := t.leasedStreams()
		if err != nil {
			return nil, err
		}
		states := map[leasestore.StreamID]leasestore.StreamState{}
		for _, stream := range leased {
			states[stream] = leasestore.StreamState{Stream: stream}
		}
		for _, state := range saved {
			states[state.Stream] = state
		}
		return slices.SortedFunc(maps.Values(states), func(a, b leasestore.StreamState) int {
			return cmp.Compare(a.Stream.String(), b.Stream.String())
		}), nil
	})
}

// Acquire implements leasestore.Store.
func (s *Store) Acquire(ctx context.Context, lease leasestore.Lease, owner string) (leasestore.Lease, error) {
	return s.write(ctx, lease.Key, func(stored leasestore.Lease) (leasestore.Lease, error) {
		return leasestore.ApplyAcquire(stored, lease, owner)
	})
}

// Offer implements leasestore.Store.
func (s *Store) Offer(ctx context.Context, lease leasestore.Lease, next string) (leasestore.Lease, error) {
	return s.write(ctx, lease.Key, func(stored leasestore.Lease) (leasestore.Lease, error) {
		return leasestore.ApplyOffer(stored, lease, next)
	})
}

// Renew implements leasestore.Store.
func (s *Store) Renew(ctx context.Context, lease leasestore.Lease) (leasestore.Lease, error) {
	return s.write(ctx, lease.Key, func(stored leasestore.Lease) (leasestore.Lease, error) {
		return leasestore.ApplyRenew(stored, lease)
	})
}

// Checkpoint implements leasestore.Store.
func (s *Store) Checkpoint(ctx context.Context, lease leasestore.Lease, checkpoint leasestore.Checkpoint) (leasestore.Lease, error) {
	return s.write(ctx, lease.Key, func(stored leasestore.Lease) (leasestore.Lease, error) {
		return leasestore.ApplyCheckpoint(stored, lease, checkpoint)
	})
}

// Move implements leasestore.Store.
func (s *Store) Move(ctx context.Context, lease leasestore.Lease, to leasestore.Checkpoint, seek int64) (leasestore.Lease, error) {
	return s.write(ctx, lease.Key, func(stored leasestore.Lease) (leasestore.Lease, error) {
		return leasestore.ApplyMove(stored, lease, to, seek)
	})
}

// Release implements leasestore.Store.
func (s *Store) Release(ctx context.Context, lease leasestore.Lease) (leasestore.Lease, error) {
	return s.write(ctx, lease.Key, func(stored leasestore.Lease) (leasestore.Lease, error) {
		return leasestore.ApplyRelease(stored, lease)
	})
}

// Delete implements leasestore.Store.
func (s *Store) Delete(ctx context.Context, lease leasestore.Lease) error {
	return s.update(ctx, func(t table) error {
		stored, err := t.lease(lease.Key)
		if err != nil {
			return err
		}
		if err := leasestore.ApplyDelete(stored, lease); err != nil {
			return err
		}
		return t.deleteLease(lease.Key)
	})
}

// State implements leasestore.Store.
func (s *Store) State(ctx context.Context, stream leasestore.StreamID) (leasestore.StreamState, error) {
	return read(ctx, s, func(t table) (leasestore.StreamState, error) {
		state, err := t.state(stream)
		if err == nil && state.Version == 0 {
			err = fmt.Errorf("state of stream %s: %w", stream, leasestore.ErrNotFound)
		}
		return state, err
	})
}

// SaveState implements leasestore.Store.
func (s *Store) SaveState(ctx context.Context, state leasestore.StreamState) (leasestore.StreamState, error) {
	var next leasestore.StreamState
	err := s.update(ctx, func(t table) error {
		stored, err := t.state(state.Stream)
		if err != nil {
			return err
		}
		if next, err = leasestore.ApplyState(stored, state); err != nil {
			return err
		}
		return t.putState(next)
	})
	if err != nil {
		return leasestore.StreamState{}, err
	}
	return next, nil
}

// Beat implements leasestore.Store.
func (s *Store) Beat(ctx context.Context, member leasestore.Member) (leasestore.Member, error) {
	if err := s.begin(ctx); err != nil {
		return leasestore.Member{}, err
	}
	defer s.calls.Done()
	return s.members.beat(member)
}

// Forget implements leasestore.Store.
func (s *Store) Forget(ctx context.Context, member leasestore.Member) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.calls.Done()
	return s.members.forget(member)
}

// Close implements leasestore.Store. It waits for the reads and writes under way, then gives the file free. Leases that are
// still owned stay so until the file is next opened.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	var err error
	s.closing.Do(func() {
		s.calls.Wait()
		s.writer.stop()
		if err = guard(s.db.Close); err != nil {
			err = fmt.Errorf("lease file %s: close: %w", s.path, err)
		}
	})
	return err
}

// begin counts a call in, unless the store is closed or ctx is over. Each success needs one calls.Done, once db is used no more.
func (s *Store) begin(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("lease file %s: %w", s.path, leasestore.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.calls.Add(1)
	return nil
}

// read runs f in a read transaction. The goroutine is there because nothing can interrupt a page fault.
func read[T any](ctx context.Context, s *Store, f func(table) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var zero T
	if err := s.begin(ctx); err != nil {
		return zero, err
	}
	select {
	case s.reads <- struct{}{}:
	case <-ctx.Done():
		s.calls.Done()
		return zero, ctx.Err()
	}
	done := make(chan result, 1)
	go func() {
		defer s.calls.Done()
		defer func() { <-s.reads }()
		var r result
		r.err = guard(func() error {
			return s.db.View(func(tx *bolt.Tx) (err error) {
				r.value, err = f(table{tx})
				return err
			})
		})
		done <- r
	}()
	select {
	case r := <-done:
		if r.err != nil {
			return zero, fmt.Errorf("lease file %s: %w", s.path, r.err)
		}
		return r.value, nil
	case <-ctx.Done():
		return zero, ctx.Err()
	}
}

// write replaces the lease by what rule makes of it.
func (s *Store) write(ctx context.Context, key leasestore.Key, rule func(stored leasestore.Lease) (leasestore.Lease, error)) (leasestore.Lease, error) {
	var next leasestore.Lease
	err := s.update(ctx, func(t table) error {
		stored, err := t.lease(key)
		if err != nil {
			return err
		}
		if next, err = rule(stored); err != nil {
			return err
		}
		return t.putLease(next)
	})
	if err != nil {
		return leasestore.Lease{}, err
	}
	return next, nil
}

// update has the writer run f in a transaction, together with others.
func (s *Store) update(ctx context.Context, f func(table) error) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	return s.writer.do(ctx, f, s.calls.Done)
}
