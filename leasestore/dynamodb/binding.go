package dynamodb

import (
	"context"
	"fmt"
	"sync"

	"github.com/protokinesis/protokinesis/leasestore"
)

// binding is the one stream that bare shard ids are of. A Store is bound by its first call about a stream, once it has seen that no row
// names another: else checkpoints of another stream, or of a former life of this one, would be taken for its own.
type binding struct {
	mu     sync.Mutex
	is     bool
	stream leasestore.StreamID
}

func (b *binding) get() (leasestore.StreamID, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stream, b.is
}

// set binds to stream, unless it is bound already.
func (b *binding) set(stream leasestore.StreamID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.is {
		b.stream, b.is = stream, true
	}
}

// bind makes sure that the store may be used for the stream.
func (s *Store) bind(ctx context.Context, stream leasestore.StreamID) error {
	if !s.keys.single {
		return nil
	}
	if _, is := s.bound.get(); !is {
		found, err := s.look(ctx)
		if err != nil {
			return err
		}
		if err := s.checkBinding(found, stream); err != nil {
			return err
		}
		s.bound.set(stream)
	}
	if bound, _ := s.bound.get(); bound != stream {
		return fmt.Errorf("lease table %s: %w: with SingleStream it is used for %s and for no other, such as %s; "+
			"leave out SingleStream, or use another table", s.table, leasestore.ErrInvalid, bound, stream)
	}
	return nil
}

// checkBinding refuses a table of bare shard ids whose rows name another stream.
func (s *Store) checkBinding(found *snapshot, stream leasestore.StreamID) error {
	if !s.keys.single {
		return nil
	}
	for _, row := range found.states {
		if row.Stream != stream {
			return s.failed("use", elsewhere(row.key, row.Stream.String(), stream))
		}
	}
	for _, row := range found.leases[""] {
		if !row.isOf(stream) {
			return s.failed("use", elsewhere(row.key, row.recorded, stream))
		}
	}
	return nil
}

// beginStream is begin for a call about a row of a stream.
func (s *Store) beginStream(ctx context.Context, stream leasestore.StreamID) (context.Context, context.CancelFunc, error) {
	if err := s.open(ctx); err != nil {
		return nil, nil, err
	}
	if err := s.bind(ctx, stream); err != nil {
		return nil, nil, err
	}
	return s.begin(ctx)
}
