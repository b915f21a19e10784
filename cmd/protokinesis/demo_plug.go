package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/protokinesis/protokinesis/leasestore"
)

// plug connects a node of a demo to the world. One whose plug was pulled is as a process that was killed: it may go on for a moment, but nothing of
// it gets out any more.
type plug struct {
	mu     sync.RWMutex
	pulled bool
}

var errPulled = errors.New("this node was killed")

// pull waits for what is on its way, and lets nothing out from then on.
func (p *plug) pull() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pulled = true
}

// through does what reaches the world; it is false, and nothing is done, when the plug was pulled.
func (p *plug) through(do func()) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if p.pulled {
		return false
	}
	do()
	return true
}

// call is through for what returns something.
func call[T any](p *plug, do func() (T, error)) (out T, err error) {
	if !p.through(func() { out, err = do() }) {
		err = errPulled
	}
	return out, err
}

// pluggedHTTP is the way to the service.
type pluggedHTTP struct {
	*plug
	next aws.HTTPClient
}

// Do implements aws.HTTPClient.
func (h pluggedHTTP) Do(r *http.Request) (*http.Response, error) {
	return call(h.plug, func() (*http.Response, error) { return h.next.Do(r) })
}

// pluggedWriter is the way of the log.
type pluggedWriter struct {
	*plug
	to io.Writer
}

// Write implements io.Writer.
func (w pluggedWriter) Write(p []byte) (int, error) {
	return call(w.plug, func() (int, error) { return w.to.Write(p) })
}

// pluggedStore is the way to the lease store that all nodes share. The board is told of what was written.
type pluggedStore struct {
	*plug
	store leasestore.Store
	board *board
}

var _ leasestore.Store = (*pluggedStore)(nil)

// Shared says that other nodes use the store, so that those that start at the same time wait for each other.
func (s *pluggedStore) Shared() bool { return true }

// write makes a write of a lease.
func (s *pluggedStore) write(do func() (leasestore.Lease, error)) (leasestore.Lease, error) {
	return call(s.plug, func() (leasestore.Lease, error) {
		lease, err := do()
		if err == nil {
			s.board.wrote(lease)
		}
		return lease, err
	})
}

// Get implements leasestore.Store.
func (s *pluggedStore) Get(ctx context.Context, key leasestore.Key) (leasestore.Lease, error) {
	return call(s.plug, func() (leasestore.Lease, error) { return s.store.Get(ctx, key) })
}

// List implements leasestore.Store.
func (s *pluggedStore) List(ctx context.Context, stream leasestore.StreamID) ([]leasestore.Lease, error) {
	return call(s.plug, func() ([]leasestore.Lease, error) { return s.store.List(ctx, stream) })
}

// View implements leasestore.Store.
func (s *pluggedStore) View(ctx context.Context, stream leasestore.StreamID) (leasestore.View, error) {
	return call(s.plug, func() (leasestore.View, error) { return s.store.View(ctx, stream) })
}

// Streams implements leasestore.Store.
func (s *pluggedStore) Streams(ctx context.Context) ([]leasestore.StreamState, error) {
	return call(s.plug, func() ([]leasestore.StreamState, error) { return s.store.Streams(ctx) })
}

// Acquire implements leasestore.Store.
func (s *pluggedStore) Acquire(ctx context.Context, lease leasestore.Lease, owner string) (leasestore.Lease, error) {
	return s.write(func() (leasestore.Lease, error) { return s.store.Acquire(ctx, lease, owner) })
}

// Offer implements leasestore.Store.
func (s *pluggedStore) Offer(ctx context.Context, lease leasestore.Lease, next string) (leasestore.Lease, error) {
	return s.write(func() (leasestore.Lease, error) { return s.store.Offer(ctx, lease, next) })
}

// Renew implements leasestore.Store.
func (s *pluggedStore) Renew(ctx context.Context, lease leasestore.Lease) (leasestore.Lease, error) {
	return s.write(func() (leasestore.Lease, error) { return s.store.Renew(ctx, lease) })
}

// Checkpoint implements leasestore.Store.
func (s *pluggedStore) Checkpoint(ctx context.Context, lease leasestore.Lease, checkpoint leasestore.Checkpoint) (leasestore.Lease, error) {
	return s.write(func() (leasestore.Lease, error) { return s.store.Checkpoint(ctx, lease, checkpoint) })
}

// Move implements leasestore.Store.
func (s *pluggedStore) Move(ctx context.Context, lease leasestore.Lease, to leasestore.Checkpoint, seek int64) (leasestore.Lease, error) {
	return s.write(func() (leasestore.Lease, error) { return s.store.Move(ctx, lease, to, seek) })
}

// Release implements leasestore.Store.
func (s *pluggedStore) Release(ctx context.Context, lease leasestore.Lease) (leasestore.Lease, error) {
	return s.write(func() (leasestore.Lease, error) { return s.store.Release(ctx, lease) })
}

// Delete implements leasestore.Store.
func (s *pluggedStore) Delete(ctx context.Context, lease leasestore.Lease) error {
	_, err := call(s.plug, func() (struct{}, error) {
		err := s.store.Delete(ctx, lease)
		if err == nil {
			s.board.deleted(lease)
		}
		return struct{}{}, err
	})
	return err
}

// State implements leasestore.Store.
func (s *pluggedStore) State(ctx context.Context, stream leasestore.StreamID) (leasestore.StreamState, error) {
	return call(s.plug, func() (leasestore.StreamState, error) { return s.store.State(ctx, stream) })
}

// SaveState implements leasestore.Store.
func (s *pluggedStore) SaveState(ctx context.Context, state leasestore.StreamState) (leasestore.StreamState, error) {
	return call(s.plug, func() (leasestore.StreamState, error) { return s.store.SaveState(ctx, state) })
}

// Beat implements leasestore.Store.
func (s *pluggedStore) Beat(ctx context.Context, member leasestore.Member) (leasestore.Member, error) {
	return call(s.plug, func() (leasestore.Member, error) { return s.store.Beat(ctx, member) })
}

// Forget implements leasestore.Store.
func (s *pluggedStore) Forget(ctx context.Context, member leasestore.Member) error {
	_, err := call(s.plug, func() (struct{}, error) { return struct{}{}, s.store.Forget(ctx, member) })
	return err
}

// Close implements leasestore.Store. The store is the demo's to close.
func (s *pluggedStore) Close() error { return nil }
