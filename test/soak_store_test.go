package test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/test/soak"
)

// soakStore is the one store of a run. It logs every write that was applied, those of a lease in the order in which they were.
type soakStore struct {
	leasestore.Store
	run   *soakRun
	locks sync.Map // shard → *sync.Mutex: the log's order is the order of the writes

	mu     sync.Mutex
	holder map[string]string // shard → node
	seek   int64             // the last that was logged
}

// soakNodeStore is how a process of a node sees the store.
type soakNodeStore struct {
	*soakStore
	node    string
	process int
	gone    chan struct{} // closed when the process has ended
	trouble atomic.Pointer[soakTrouble]
}

// soakTrouble is what is wrong with a node's way to the store.
type soakTrouble struct {
	mode string
	over context.Context //nolint:containedctx // done when it is over
	end  context.CancelFunc
}

// Modes of a partition.
const (
	storeDown  = "down"  // calls fail at once
	storeHangs = "hangs" // calls fail when it is over
	storeLoses = "loses" // writes are applied and fail all the same
)

var errSoakStore = errors.New("the store can't be reached")

// disturb makes calls fail for a while. A later trouble takes the place of an earlier one.
func (s *soakNodeStore) disturb(mode string, d time.Duration) {
	trouble := &soakTrouble{mode: mode}
	trouble.over, trouble.end = context.WithTimeout(context.Background(), d)
	s.run.add(soak.Event{What: soak.Partition, Process: s.process, Node: s.node, Text: mode, Millis: d.Milliseconds()})
	s.trouble.Store(trouble)
	context.AfterFunc(trouble.over, func() {
		if s.trouble.CompareAndSwap(trouble, nil) {
			s.run.add(soak.Event{What: soak.Heal, Process: s.process, Node: s.node})
		}
	})
}

// heal ends what trouble there is.
func (s *soakNodeStore) heal() {
	if trouble := s.trouble.Load(); trouble != nil {
		trouble.end()
	}
}

// before fails a call, if it is to.
func (s *soakNodeStore) before(ctx context.Context) error {
	trouble := s.trouble.Load()
	if trouble == nil || trouble.mode == storeLoses {
		return ctx.Err()
	}
	if trouble.mode == storeHangs {
		select {
		case <-s.gone:
		case <-trouble.over.Done():
		}
	}
	return errSoakStore
}

// after fails a call that was carried out, if it is to.
func (s *soakNodeStore) after() error {
	if trouble := s.trouble.Load(); trouble != nil && trouble.mode == storeLoses {
		return errSoakStore
	}
	return nil
}

// write carries out a write of a lease when its turn has come, and logs it before anybody learns of it.
func (s *soakNodeStore) write(
	ctx context.Context, what soak.What, key leasestore.Key, f func(context.Context) (leasestore.Lease, error),
) (leasestore.Lease, error) {
	if err := s.before(ctx); err != nil {
		return leasestore.Lease{}, err
	}
	lease, err := s.apply(ctx, what, key, f)
	if err == nil {
		err = s.after()
	}
	if err != nil {
		lease = leasestore.Lease{}
	}
	return lease, err
}

func (s *soakNodeStore) apply(
	ctx context.Context, what soak.What, key leasestore.Key, f func(context.Context) (leasestore.Lease, error),
) (leasestore.Lease, error) {
	lock, _ := s.locks.LoadOrStore(key.Shard, &sync.Mutex{})
	mu, _ := lock.(*sync.Mutex)
	mu.Lock()
	defer mu.Unlock()
	began := time.Since(s.run.started)
	lease, err := f(ctx)
	if err != nil {
		return lease, err
	}
	if what == soak.Acquire && !strings.HasPrefix(lease.Owner, soakOwner(s.node, s.process)+"-") {
		what = soak.Give
	}
	s.run.add(soak.Event{
		What: what, At: began.Microseconds(), Process: s.process, Node: s.node, Owner: lease.Owner, Shard: lease.Shard, Counter: lease.Counter,
		Checkpoint: lease.Checkpoint.String(), Seek: lease.Seek,
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.holder, lease.Shard)
	if lease.Owner != "" && !lease.Checkpoint.IsShardEnd() {
		s.holder[lease.Shard] = soak.NodeOf(lease.Owner)
	}
	return lease, nil
}

// busiest is the one of the nodes that holds the most leases.
func (s *soakStore) busiest(nodes []string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := map[string]int{}
	for _, node := range s.holder {
		held[node]++
	}
	most := nodes[0]
	for _, node := range nodes {
		if held[node] > held[most] {
			most = node
		}
	}
	return most
}

// sawState logs a stream's position that is new.
func (s *soakNodeStore) sawState(state leasestore.StreamState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if state.Seek > s.seek {
		s.seek = state.Seek
		s.run.add(soak.Event{What: soak.State, Process: s.process, Node: s.node, Seek: state.Seek, Checkpoint: state.Start.String(), Tip: state.Tip})
	}
}

func (s *soakNodeStore) Acquire(ctx context.Context, l leasestore.Lease, owner string) (leasestore.Lease, error) {
	return s.write(ctx, soak.Acquire, l.Key, func(ctx context.Context) (leasestore.Lease, error) { return s.Store.Acquire(ctx, l, owner) })
}

func (s *soakNodeStore) Offer(ctx context.Context, l leasestore.Lease, next string) (leasestore.Lease, error) {
	return s.write(ctx, soak.Offer, l.Key, func(ctx context.Context) (leasestore.Lease, error) { return s.Store.Offer(ctx, l, next) })
}

func (s *soakNodeStore) Renew(ctx context.Context, l leasestore.Lease) (leasestore.Lease, error) {
	return s.write(ctx, soak.Renew, l.Key, func(ctx context.Context) (leasestore.Lease, error) { return s.Store.Renew(ctx, l) })
}

func (s *soakNodeStore) Checkpoint(ctx context.Context, l leasestore.Lease, c leasestore.Checkpoint) (leasestore.Lease, error) {
	return s.write(ctx, soak.Checkpoint, l.Key, func(ctx context.Context) (leasestore.Lease, error) { return s.Store.Checkpoint(ctx, l, c) })
}

func (s *soakNodeStore) Move(ctx context.Context, l leasestore.Lease, to leasestore.Checkpoint, seek int64) (leasestore.Lease, error) {
	return s.write(ctx, soak.Move, l.Key, func(ctx context.Context) (leasestore.Lease, error) { return s.Store.Move(ctx, l, to, seek) })
}

func (s *soakNodeStore) Release(ctx context.Context, l leasestore.Lease) (leasestore.Lease, error) {
	return s.write(ctx, soak.Release, l.Key, func(ctx context.Context) (leasestore.Lease, error) { return s.Store.Release(ctx, l) })
}

func (s *soakNodeStore) Delete(ctx context.Context, l leasestore.Lease) error {
	_, err := s.write(ctx, soak.Delete, l.Key, func(ctx context.Context) (leasestore.Lease, error) { return l, s.Store.Delete(ctx, l) })
	return err
}

func (s *soakNodeStore) SaveState(ctx context.Context, state leasestore.StreamState) (leasestore.StreamState, error) {
	if err := s.before(ctx); err != nil {
		return leasestore.StreamState{}, err
	}
	saved, err := s.Store.SaveState(ctx, state)
	if err != nil {
		return saved, err
	}
	s.sawState(saved)
	return saved, s.after()
}

func (s *soakNodeStore) Beat(ctx context.Context, m leasestore.Member) (leasestore.Member, error) {
	if err := s.before(ctx); err != nil {
		return leasestore.Member{}, err
	}
	stored, err := s.Store.Beat(ctx, m)
	return stored, errors.Join(err, s.after())
}

func (s *soakNodeStore) Forget(ctx context.Context, m leasestore.Member) error {
	if err := s.before(ctx); err != nil {
		return err
	}
	return errors.Join(s.Store.Forget(ctx, m), s.after())
}
