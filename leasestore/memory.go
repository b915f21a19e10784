package leasestore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Memory is a Store for one process: any number of brokers in it may share one Memory, and all is forgotten
// when the process ends. Its calls never wait for anything but each other.
type Memory struct {
	mu      sync.Mutex
	closed  bool
	leases  map[StreamID]map[string]Lease
	states  map[StreamID]StreamState
	members map[string]Member
}

var _ Store = (*Memory)(nil)

// NewMemory returns an empty Memory.
func NewMemory() *Memory {
	return &Memory{leases: map[StreamID]map[string]Lease{}, states: map[StreamID]StreamState{}, members: map[string]Member{}}
}

// Get implements Store.
func (m *Memory) Get(ctx context.Context, key Key) (Lease, error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return Lease{}, err
	}
	defer unlock()
	lease, ok := m.leases[key.Stream][key.Shard]
	if !ok {
		return Lease{}, fmt.Errorf("lease %s: %w", key, ErrNotFound)
	}
	return lease.clone(), nil
}

// List implements Store.
func (m *Memory) List(ctx context.Context, stream StreamID) ([]Lease, error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return m.list(stream), nil
}

func (m *Memory) list(stream StreamID) []Lease {
	rows := m.leases[stream]
	list := make([]Lease, 0, len(rows))
	for _, shard := range slices.Sorted(maps.Keys(rows)) {
		list = append(list, rows[shard].clone())
	}
	return list
}

// View implements Store.
func (m *Memory) View(ctx context.Context, stream StreamID) (View, error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return View{}, err
	}
	defer unlock()
	view := View{Leases: m.list(stream), State: m.states[stream]}
	view.State.Stream = stream
	for _, id := range slices.Sorted(maps.Keys(m.members)) {
		view.Members = append(view.Members, m.members[id].clone())
	}
	return view, nil
}

// Streams implements Store.
func (m *Memory) Streams(ctx context.Context) ([]StreamState, error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer unlock()
	states := maps.Clone(m.states)
	for stream := range m.leases {
		if _, saved := states[stream]; !saved {
			states[stream] = StreamState{Stream: stream}
		}
	}
	return slices.SortedFunc(maps.Values(states), func(a, b StreamState) int {
		return cmp.Compare(a.Stream.String(), b.Stream.String())
	}), nil
}

// Acquire implements Store.
func (m *Memory) Acquire(ctx context.Context, lease Lease, owner string) (Lease, error) {
	return m.write(ctx, lease.Key, func(stored Lease) (Lease, error) { return ApplyAcquire(stored, lease, owner) })
}

// Offer implements Store.
func (m *Memory) Offer(ctx context.Context, lease Lease, next string) (Lease, error) {
	return m.write(ctx, lease.Key, func(stored Lease) (Lease, error) { return ApplyOffer(stored, lease, next) })
}

// Renew implements Store.
func (m *Memory) Renew(ctx context.Context, lease Lease) (Lease, error) {
	return m.write(ctx, lease.Key, func(stored Lease) (Lease, error) { return ApplyRenew(stored, lease) })
}

// Checkpoint implements Store.
func (m *Memory) Checkpoint(ctx context.Context, lease Lease, checkpoint Checkpoint) (Lease, error) {
	return m.write(ctx, lease.Key, func(stored Lease) (Lease, error) { return ApplyCheckpoint(stored, lease, checkpoint) })
}

// Move implements Store.
func (m *Memory) Move(ctx context.Context, lease Lease, to Checkpoint, seek int64) (Lease, error) {
	return m.write(ctx, lease.Key, func(stored Lease) (Lease, error) { return ApplyMove(stored, lease, to, seek) })
}

// Release implements Store.
func (m *Memory) Release(ctx context.Context, lease Lease) (Lease, error) {
	return m.write(ctx, lease.Key, func(stored Lease) (Lease, error) { return ApplyRelease(stored, lease) })
}

// Delete implements Store.
func (m *Memory) Delete(ctx context.Context, lease Lease) error {
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	rows := m.leases[lease.Stream]
	if err := ApplyDelete(rows[lease.Shard], lease); err != nil {
		return err
	}
	delete(rows, lease.Shard)
	if len(rows) == 0 {
		delete(m.leases, lease.Stream)
	}
	return nil
}

// State implements Store.
func (m *Memory) State(ctx context.Context, stream StreamID) (StreamState, error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return StreamState{}, err
	}
	defer unlock()
	state, ok := m.states[stream]
	if !ok {
		return StreamState{}, fmt.Errorf("state of stream %s: %w", stream, ErrNotFound)
	}
	return state, nil
}

// SaveState implements Store.
func (m *Memory) SaveState(ctx context.Context, state StreamState) (StreamState, error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return StreamState{}, err
	}
	defer unlock()
	next, err := ApplyState(m.states[state.Stream], state)
	if err != nil {
		return StreamState{}, err
	}
	m.states[state.Stream] = next
	return next, nil
}

// Beat implements Store.
func (m *Memory) Beat(ctx context.Context, member Member) (Member, error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return Member{}, err
	}
	defer unlock()
	next, err := ApplyBeat(member)
	if err != nil {
		return Member{}, err
	}
	m.members[next.ID] = next
	return next.clone(), nil
}

// Forget implements Store.
func (m *Memory) Forget(ctx context.Context, member Member) error {
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := ApplyForget(m.members[member.ID], member); err != nil {
		return err
	}
	delete(m.members, member.ID)
	return nil
}

// Close implements Store. The leases are forgotten.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.leases, m.states, m.members = nil, nil, nil
	return nil
}

// lock begins a call: it returns what ends it, unless the store is closed or ctx is over.
func (m *Memory) lock(ctx context.Context) (unlock func(), err error) {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil, ErrClosed
	}
	if err := ctx.Err(); err != nil {
		m.mu.Unlock()
		return nil, err
	}
	return m.mu.Unlock, nil
}

// write replaces the row by what rule makes of it.
func (m *Memory) write(ctx context.Context, key Key, rule func(stored Lease) (Lease, error)) (Lease, error) {
	unlock, err := m.lock(ctx)
	if err != nil {
		return Lease{}, err
	}
	defer unlock()
	next, err := rule(m.leases[key.Stream][key.Shard])
	if err != nil {
		return Lease{}, err
	}
	rows, ok := m.leases[key.Stream]
	if !ok {
		rows = map[string]Lease{}
		m.leases[key.Stream] = rows
	}
	rows[key.Shard] = next
	return next.clone(), nil
}
