package actors

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/protokinesis/protokinesis/leasestore"
)

// storeCall is a call of a store, as a tapStore sees it.
type storeCall struct {
	at    time.Time // when it was done
	op    string
	lease leasestore.Lease // as the caller last saw it
	to    string           // the new owner of an acquire, the next one of an offer
	mark  leasestore.Checkpoint
	after leasestore.Lease // as it is by now
}

// around is what a test does with a call of a store: do carries it out, now, later or never. What it returns is what the caller is told.
type around func(ctx context.Context, c storeCall, do func(ctx context.Context) error) error

// tapStore shows every call to a test, and keeps the writes of leases that were done.
type tapStore struct {
	leasestore.Store

	mu     sync.Mutex
	around around
	log    []storeCall
	count  map[string]int // calls begun, by op
}

// tapped puts s before the store.
func tapped(s *tapStore) func(*Config) {
	return func(c *Config) { s.Store, c.Store = c.Store, s }
}

func (s *tapStore) onCall(a around) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.around = a
}

// onDone shows calls that were done.
func (s *tapStore) onDone(see func(c storeCall)) {
	s.onCall(func(ctx context.Context, c storeCall, do func(ctx context.Context) error) error {
		err := do(ctx)
		if err == nil {
			see(c)
		}
		return err
	})
}

// done are the writes of leases so far, in order.
func (s *tapStore) done() []storeCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.log)
}

func (s *tapStore) calls(op string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count[op]
}

// begin counts a call, and says what is done with it.
func (s *tapStore) begin(op string) around {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count == nil {
		s.count = make(map[string]int)
	}
	s.count[op]++
	return s.around
}

// tap is a call on its way through s.
func tap[T any](ctx context.Context, s *tapStore, c storeCall, call func(ctx context.Context) (T, error)) (T, error) {
	var result, none T
	do := func(ctx context.Context) error {
		r, err := call(ctx)
		if err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		result = r
		if after, isLease := any(r).(leasestore.Lease); isLease && c.op != "get" {
			c.at, c.after = time.Now(), after
			s.log = append(s.log, c)
		}
		return nil
	}
	how := s.begin(c.op)
	if how == nil {
		how = func(ctx context.Context, _ storeCall, do func(ctx context.Context) error) error { return do(ctx) }
	}
	if err := how(ctx, c, do); err != nil {
		return none, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return result, nil
}

// Shared is what the store below says.
func (s *tapStore) Shared() bool {
	below, says := s.Store.(interface{ Shared() bool })
	return says && below.Shared()
}

func (s *tapStore) Get(ctx context.Context, key leasestore.Key) (leasestore.Lease, error) {
	c := storeCall{op: "get", lease: leasestore.Lease{Key: key}}
	return tap(ctx, s, c, func(ctx context.Context) (leasestore.Lease, error) { return s.Store.Get(ctx, key) })
}

func (s *tapStore) List(ctx context.Context, stream leasestore.StreamID) ([]leasestore.Lease, error) {
	return tap(ctx, s, storeCall{op: "list"}, func(ctx context.Context) ([]leasestore.Lease, error) { return s.Store.List(ctx, stream) })
}

func (s *tapStore) View(ctx context.Context, stream leasestore.StreamID) (leasestore.View, error) {
	return tap(ctx, s, storeCall{op: "view"}, func(ctx context.Context) (leasestore.View, error) { return s.Store.View(ctx, stream) })
}

func (s *tapStore) Acquire(ctx context.Context, l leasestore.Lease, owner string) (leasestore.Lease, error) {
	c := storeCall{op: "acquire", lease: l, to: owner}
	return tap(ctx, s, c, func(ctx context.Context) (leasestore.Lease, error) { return s.Store.Acquire(ctx, l, owner) })
}

func (s *tapStore) Offer(ctx context.Context, l leasestore.Lease, next string) (leasestore.Lease, error) {
	c := storeCall{op: "offer", lease: l, to: next}
	return tap(ctx, s, c, func(ctx context.Context) (leasestore.Lease, error) { return s.Store.Offer(ctx, l, next) })
}

func (s *tapStore) Renew(ctx context.Context, l leasestore.Lease) (leasestore.Lease, error) {
	return tap(ctx, s, storeCall{op: "renew", lease: l}, func(ctx context.Context) (leasestore.Lease, error) { return s.Store.Renew(ctx, l) })
}

func (s *tapStore) Checkpoint(ctx context.Context, l leasestore.Lease, to leasestore.Checkpoint) (leasestore.Lease, error) {
	c := storeCall{op: "checkpoint", lease: l, mark: to}
	return tap(ctx, s, c, func(ctx context.Context) (leasestore.Lease, error) { return s.Store.Checkpoint(ctx, l, to) })
}

func (s *tapStore) Move(ctx context.Context, l leasestore.Lease, to leasestore.Checkpoint, seek int64) (leasestore.Lease, error) {
	c := storeCall{op: "move", lease: l}
	return tap(ctx, s, c, func(ctx context.Context) (leasestore.Lease, error) { return s.Store.Move(ctx, l, to, seek) })
}

func (s *tapStore) Release(ctx context.Context, l leasestore.Lease) (leasestore.Lease, error) {
	return tap(ctx, s, storeCall{op: "release", lease: l}, func(ctx context.Context) (leasestore.Lease, error) { return s.Store.Release(ctx, l) })
}

func (s *tapStore) SaveState(ctx context.Context, st leasestore.StreamState) (leasestore.StreamState, error) {
	return tap(ctx, s, storeCall{op: "state"}, func(ctx context.Context) (leasestore.StreamState, error) { return s.Store.SaveState(ctx, st) })
}

func (s *tapStore) Beat(ctx context.Context, m leasestore.Member) (leasestore.Member, error) {
	return tap(ctx, s, storeCall{op: "beat"}, func(ctx context.Context) (leasestore.Member, error) { return s.Store.Beat(ctx, m) })
}

func (s *tapStore) Forget(ctx context.Context, m leasestore.Member) error {
	_, err := tap(ctx, s, storeCall{op: "forget"}, func(ctx context.Context) (any, error) { return nil, s.Store.Forget(ctx, m) })
	return err
}

var errDead = errors.New("the process is dead")

// process is what a node runs in. While its gate is shut it stands still, as with SIGSTOP: none of its actors handles a message, and none of
// its calls begins or returns. What waits goes on when it opens, unless the process is dead.
type process struct {
	gate
	w    *world
	dead atomic.Bool
	tap  tapStore

	hold atomic.Pointer[func(op string)] // waits before a call of the service, if it is to
}

// install makes a node run in the process.
func (p *process) install(c *Config) {
	tapped(&p.tap)(c)
	p.tap.onCall(p.around(nil, false))
	before := c.intercept
	c.intercept = func(r role, message any) {
		p.pass()
		if before != nil {
			before(r, message)
		}
	}
	c.Clients = inProcess(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		p.pass()
		if p.dead.Load() {
			panic(errDead)
		}
		if hold := p.hold.Load(); hold != nil {
			_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
			(*hold)(op)
		}
		p.w.serve(rw, r)
		p.pass()
	}))
}

func (p *process) isShut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed != nil
}

// around is how a call is made in the process. It dies at the one that diesAt says, before or after it is done.
func (p *process) around(diesAt func(c storeCall) bool, done bool) around {
	return func(ctx context.Context, c storeCall, do func(ctx context.Context) error) error {
		dies := diesAt != nil && diesAt(c)
		if dies && !done {
			p.kill()
		}
		if p.isShut() {
			ctx = context.WithoutCancel(ctx) // it is on its way when the process stops
		}
		p.pass()
		if p.dead.Load() {
			return errDead
		}
		err := do(ctx)
		if dies {
			p.kill()
		}
		p.pass()
		return err
	}
}

// kill ends the process without a word.
func (p *process) kill() {
	p.dead.Store(true)
	p.shut()
}
