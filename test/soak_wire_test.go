package test

import (
	"context"
	"errors"
	"fmt"
	"net/rpc"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/test/soak"
)

// What the process of a node asks of the test: to put a line in the log, and calls of the lease store. The test has both, so that the log shows what all
// nodes did in one order, and neither is hurt when a process is killed.

// soakHost is one process's side of the test.
type soakHost struct {
	run     *soakRun
	process int
	store   *soakNodeStore
}

// Log puts an event in the log.
func (h *soakHost) Log(e soak.Event, _ *struct{}) error {
	e.Process, e.Node = h.process, h.store.node
	h.run.onEvent(e)
	return nil
}

// Lines is how many lines the log has.
func (h *soakHost) Lines(_ struct{}, n *int) error {
	h.run.mu.Lock()
	defer h.run.mu.Unlock()
	*n = len(h.run.events)
	return nil
}

// SoakLease is a lease as it is sent.
type SoakLease struct {
	Key         leasestore.Key
	Owner, Next string
	Counter     int64
	Checkpoint  string
	Seek        int64
	Parents     []string
}

// SoakState is a stream's state as it is sent.
type SoakState struct {
	Stream        leasestore.StreamID
	Version, Seek int64
	Start         string
	Tip           bool
}

// SoakCall is a call of the store.
type SoakCall struct {
	Op         string
	Stream     leasestore.StreamID
	Lease      SoakLease
	To         string // an owner
	Checkpoint string
	Seek       int64
	State      SoakState
	Member     leasestore.Member
}

// SoakReply is its result.
type SoakReply struct {
	Leases  []SoakLease // one, but for listings
	States  []SoakState
	Members []leasestore.Member
	Error   string
	Is      []int // of soakErrors
}

// soakErrors are the errors that mean something to the caller.
var soakErrors = []error{leasestore.ErrFenced, leasestore.ErrNotFound, leasestore.ErrBackwards, leasestore.ErrInvalid, leasestore.ErrClosed}

func packLease(l leasestore.Lease) SoakLease {
	return SoakLease{Key: l.Key, Owner: l.Owner, Next: l.Next, Counter: l.Counter, Checkpoint: l.Checkpoint.String(), Seek: l.Seek, Parents: l.Parents}
}

func (l SoakLease) unpack() leasestore.Lease {
	return leasestore.Lease{
		Key: l.Key, Owner: l.Owner, Next: l.Next, Counter: l.Counter, Checkpoint: parseSoakCheckpoint(l.Checkpoint), Seek: l.Seek, Parents: l.Parents,
	}
}

func packState(s leasestore.StreamState) SoakState {
	return SoakState{Stream: s.Stream, Version: s.Version, Seek: s.Seek, Start: s.Start.String(), Tip: s.Tip}
}

func (s SoakState) unpack() leasestore.StreamState {
	return leasestore.StreamState{Stream: s.Stream, Version: s.Version, Seek: s.Seek, Start: parseSoakCheckpoint(s.Start), Tip: s.Tip}
}

func parseSoakCheckpoint(text string) leasestore.Checkpoint {
	c, err := leasestore.ParseCheckpoint(text)
	if err != nil {
		panic(err)
	}
	return c
}

// Store carries out a call of the store.
func (h *soakHost) Store(call SoakCall, reply *SoakReply) error {
	err := h.call(context.Background(), call, reply)
	if err != nil {
		reply.Error = err.Error()
		for i, known := range soakErrors {
			if errors.Is(err, known) {
				reply.Is = append(reply.Is, i)
			}
		}
	}
	return nil
}

func (h *soakHost) call(ctx context.Context, call SoakCall, reply *SoakReply) error {
	s, l := h.store, call.Lease.unpack()
	one := func(l leasestore.Lease, err error) error {
		reply.Leases = []SoakLease{packLease(l)}
		return err
	}
	switch call.Op {
	case opAcquire:
		return one(s.Acquire(ctx, l, call.To))
	case opOffer:
		return one(s.Offer(ctx, l, call.To))
	case opRenew:
		return one(s.Renew(ctx, l))
	case opCheckpoint:
		return one(s.Checkpoint(ctx, l, parseSoakCheckpoint(call.Checkpoint)))
	case opMove:
		return one(s.Move(ctx, l, parseSoakCheckpoint(call.Checkpoint), call.Seek))
	case opRelease:
		return one(s.Release(ctx, l))
	case opDelete:
		return s.Delete(ctx, l)
	case opSaveState:
		state, err := s.SaveState(ctx, call.State.unpack())
		reply.States = []SoakState{packState(state)}
		return err
	case opBeat:
		m, err := s.Beat(ctx, call.Member)
		reply.Members = []leasestore.Member{m}
		return err
	case opForget:
		return s.Forget(ctx, call.Member)
	default:
		return h.read(ctx, call, reply)
	}
}

func (h *soakHost) read(ctx context.Context, call SoakCall, reply *SoakReply) error {
	if err := h.store.before(ctx); err != nil {
		return err
	}
	s := h.store.Store
	var v leasestore.View
	var err error
	switch call.Op {
	case opGet:
		v.Leases = make([]leasestore.Lease, 1)
		v.Leases[0], err = s.Get(ctx, call.Lease.Key)
	case opList:
		v.Leases, err = s.List(ctx, call.Stream)
	case opView:
		v, err = s.View(ctx, call.Stream)
	case opState:
		v.State, err = s.State(ctx, call.Stream)
	case opStreams:
		var states []leasestore.StreamState
		states, err = s.Streams(ctx)
		for _, state := range states {
			reply.States = append(reply.States, packState(state))
		}
		return err
	default:
		return fmt.Errorf("there is no call %q", call.Op)
	}
	for _, l := range v.Leases {
		reply.Leases = append(reply.Leases, packLease(l))
	}
	reply.States, reply.Members = []SoakState{packState(v.State)}, v.Members
	return err
}

// The calls.
const (
	opAcquire    = "acquire"
	opOffer      = "offer"
	opRenew      = "renew"
	opCheckpoint = "checkpoint"
	opMove       = "move"
	opRelease    = "release"
	opDelete     = "delete"
	opSaveState  = "save state"
	opBeat       = "beat"
	opForget     = "forget"
	opGet        = "get"
	opList       = "list"
	opView       = "view"
	opState      = "state"
	opStreams    = "streams"
)

// soakRemote is the store as a node's process has it.
type soakRemote struct{ client *rpc.Client }

// soakRemoteError is an error of the store from afar.
type soakRemoteError struct {
	text string
	is   []error
}

func (e *soakRemoteError) Error() string   { return e.text }
func (e *soakRemoteError) Unwrap() []error { return e.is }

func (s soakRemote) call(ctx context.Context, call SoakCall) (SoakReply, error) {
	if err := ctx.Err(); err != nil {
		return SoakReply{}, err
	}
	pending := s.client.Go("Host.Store", call, &SoakReply{}, make(chan *rpc.Call, 1))
	select {
	case <-ctx.Done():
		return SoakReply{}, ctx.Err()
	case <-pending.Done:
	}
	if pending.Error != nil {
		return SoakReply{}, pending.Error
	}
	reply := *pending.Reply.(*SoakReply) //nolint:forcetypeassert // see above
	if reply.Error == "" {
		return reply, nil
	}
	e := &soakRemoteError{text: reply.Error}
	for _, i := range reply.Is {
		e.is = append(e.is, soakErrors[i])
	}
	return reply, e
}

func (s soakRemote) lease(ctx context.Context, call SoakCall) (leasestore.Lease, error) {
	reply, err := s.call(ctx, call)
	if err != nil {
		return leasestore.Lease{}, err
	}
	return reply.Leases[0].unpack(), nil
}

// Shared says that there are other nodes.
func (soakRemote) Shared() bool { return true }

func (s soakRemote) Acquire(ctx context.Context, l leasestore.Lease, owner string) (leasestore.Lease, error) {
	return s.lease(ctx, SoakCall{Op: opAcquire, Lease: packLease(l), To: owner})
}

func (s soakRemote) Offer(ctx context.Context, l leasestore.Lease, next string) (leasestore.Lease, error) {
	return s.lease(ctx, SoakCall{Op: opOffer, Lease: packLease(l), To: next})
}

func (s soakRemote) Renew(ctx context.Context, l leasestore.Lease) (leasestore.Lease, error) {
	return s.lease(ctx, SoakCall{Op: opRenew, Lease: packLease(l)})
}

func (s soakRemote) Checkpoint(ctx context.Context, l leasestore.Lease, c leasestore.Checkpoint) (leasestore.Lease, error) {
	return s.lease(ctx, SoakCall{Op: opCheckpoint, Lease: packLease(l), Checkpoint: c.String()})
}

func (s soakRemote) Move(ctx context.Context, l leasestore.Lease, to leasestore.Checkpoint, seek int64) (leasestore.Lease, error) {
	return s.lease(ctx, SoakCall{Op: opMove, Lease: packLease(l), Checkpoint: to.String(), Seek: seek})
}

func (s soakRemote) Release(ctx context.Context, l leasestore.Lease) (leasestore.Lease, error) {
	return s.lease(ctx, SoakCall{Op: opRelease, Lease: packLease(l)})
}

func (s soakRemote) Delete(ctx context.Context, l leasestore.Lease) error {
	_, err := s.call(ctx, SoakCall{Op: opDelete, Lease: packLease(l)})
	return err
}

func (s soakRemote) Get(ctx context.Context, key leasestore.Key) (leasestore.Lease, error) {
	return s.lease(ctx, SoakCall{Op: opGet, Lease: SoakLease{Key: key}})
}

func (s soakRemote) List(ctx context.Context, stream leasestore.StreamID) ([]leasestore.Lease, error) {
	v, err := s.view(ctx, SoakCall{Op: opList, Stream: stream})
	return v.Leases, err
}

func (s soakRemote) View(ctx context.Context, stream leasestore.StreamID) (leasestore.View, error) {
	return s.view(ctx, SoakCall{Op: opView, Stream: stream})
}

func (s soakRemote) view(ctx context.Context, call SoakCall) (leasestore.View, error) {
	reply, err := s.call(ctx, call)
	if err != nil {
		return leasestore.View{}, err
	}
	v := leasestore.View{Leases: make([]leasestore.Lease, 0, len(reply.Leases)), State: reply.States[0].unpack(), Members: reply.Members}
	for _, l := range reply.Leases {
		v.Leases = append(v.Leases, l.unpack())
	}
	return v, nil
}

func (s soakRemote) Streams(ctx context.Context) ([]leasestore.StreamState, error) {
	reply, err := s.call(ctx, SoakCall{Op: opStreams})
	states := make([]leasestore.StreamState, 0, len(reply.States))
	for _, state := range reply.States {
		states = append(states, state.unpack())
	}
	return states, err
}

func (s soakRemote) State(ctx context.Context, stream leasestore.StreamID) (leasestore.StreamState, error) {
	v, err := s.view(ctx, SoakCall{Op: opState, Stream: stream})
	return v.State, err
}

func (s soakRemote) SaveState(ctx context.Context, state leasestore.StreamState) (leasestore.StreamState, error) {
	reply, err := s.call(ctx, SoakCall{Op: opSaveState, State: packState(state)})
	if err != nil {
		return leasestore.StreamState{}, err
	}
	return reply.States[0].unpack(), nil
}

func (s soakRemote) Beat(ctx context.Context, m leasestore.Member) (leasestore.Member, error) {
	reply, err := s.call(ctx, SoakCall{Op: opBeat, Member: m})
	if err != nil {
		return leasestore.Member{}, err
	}
	return reply.Members[0], nil
}

func (s soakRemote) Forget(ctx context.Context, m leasestore.Member) error {
	_, err := s.call(ctx, SoakCall{Op: opForget, Member: m})
	return err
}

// Close is for the store's owner, which is the test.
func (soakRemote) Close() error { return nil }
