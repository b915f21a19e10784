package actors

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/protokinesis/protokinesis/leasestore"
)

// storeWrite is a write of one lease, as a hook sees it.
type storeWrite struct {
	op    string
	lease leasestore.Lease // as the writer last saw it
	to    leasestore.Checkpoint
}

// hookStore lets a test look at, hold up or refuse every write of a lease, each shard by itself. A hook that waits should mind ctx, unless it
// plays a process that does not run.
type hookStore struct {
	leasestore.Store

	mu   sync.Mutex
	hook func(ctx context.Context, w storeWrite) (context.Context, error) // may be nil
	log  []storeWrite
}

func (s *hookStore) setHook(hook func(ctx context.Context, w storeWrite) (context.Context, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

// hooked puts s before the world's store.
func hooked(s *hookStore) func(*Config) {
	return func(c *Config) { s.Store, c.Store = c.Store, s }
}

func (s *hookStore) write(ctx context.Context, w storeWrite, f func(ctx context.Context) (leasestore.Lease, error)) (leasestore.Lease, error) {
	s.mu.Lock()
	hook := s.hook
	s.mu.Unlock()
	if hook != nil {
		var err error
		if ctx, err = hook(ctx, w); err != nil {
			return leasestore.Lease{}, err
		}
	}
	l, err := f(ctx)
	if err == nil {
		s.mu.Lock()
		s.log = append(s.log, w)
		s.mu.Unlock()
	}
	return l, err
}

// written are the writes that were applied, in order.
func (s *hookStore) written() []storeWrite {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

func (s *hookStore) Acquire(ctx context.Context, l leasestore.Lease, owner string) (leasestore.Lease, error) {
	return s.write(ctx, storeWrite{op: "acquire", lease: l}, func(ctx context.Context) (leasestore.Lease, error) { return s.Store.Acquire(ctx, l, owner) })
}

func (s *hookStore) Renew(ctx context.Context, l leasestore.Lease) (leasestore.Lease, error) {
	return s.write(ctx, storeWrite{op: "renew", lease: l}, func(ctx context.Context) (leasestore.Lease, error) { return s.Store.Renew(ctx, l) })
}

func (s *hookStore) Checkpoint(ctx context.Context, l leasestore.Lease, to leasestore.Checkpoint) (leasestore.Lease, error) {
	return s.write(ctx, storeWrite{op: "checkpoint", lease: l, to: to}, func(ctx context.Context) (leasestore.Lease, error) {
		return s.Store.Checkpoint(ctx, l, to)
	})
}

func (s *hookStore) Release(ctx context.Context, l leasestore.Lease) (leasestore.Lease, error) {
	return s.write(ctx, storeWrite{op: "release", lease: l}, func(ctx context.Context) (leasestore.Lease, error) { return s.Store.Release(ctx, l) })
}

// logBook keeps the library's log: "message key=value …" a line.
type logBook struct {
	mu    *sync.Mutex
	lines *[]string
	with  string
}

func newLogBook() *logBook { return &logBook{mu: new(sync.Mutex), lines: new([]string)} }

func (b *logBook) Enabled(context.Context, slog.Level) bool { return true }
func (b *logBook) WithGroup(string) slog.Handler            { return b }

func (b *logBook) WithAttrs(attrs []slog.Attr) slog.Handler {
	more := *b
	for _, a := range attrs {
		more.with += " " + a.String()
	}
	return &more
}

func (b *logBook) Handle(_ context.Context, r slog.Record) error {
	line := fmt.Sprint(r.Level, " ", r.Message, b.with)
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.Key + "=" + a.Value.String()
		return true
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	*b.lines = append(*b.lines, line)
	return nil
}

// all are the lines that contain every one of the words.
func (b *logBook) all(words ...string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []string
	for _, line := range *b.lines {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			found = append(found, line)
		}
	}
	return found
}

// logged writes the library's log into the book.
func logged(b *logBook) func(*Config) { return func(c *Config) { c.Logger = slog.New(b) } }

// clockShift is a clock that can be put back.
type clockShift struct{ by atomic.Int64 }

func (c *clockShift) now() time.Time       { return time.Now().Add(time.Duration(c.by.Load())) }
func (c *clockShift) set(by time.Duration) { c.by.Store(int64(by)) }
