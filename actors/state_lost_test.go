package actors

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// lostState hides the stored state from whoever looks, as if it had been deleted, until it is stored again.
type lostState struct {
	leasestore.Store
	lost atomic.Bool
	base atomic.Int64 // the versions that are lost
}

func (s *lostState) lose() {
	s.lost.Store(true)
}

func (s *lostState) Shared() bool { return true }

func (s *lostState) View(ctx context.Context, stream leasestore.StreamID) (leasestore.View, error) {
	v, err := s.Store.View(ctx, stream)
	v.State = s.shown(v.State)
	return v, err
}

func (s *lostState) State(ctx context.Context, stream leasestore.StreamID) (leasestore.StreamState, error) {
	state, err := s.Store.State(ctx, stream)
	return s.shown(state), err
}

func (s *lostState) shown(state leasestore.StreamState) leasestore.StreamState {
	if s.lost.Load() {
		s.base.Store(state.Version)
		return leasestore.StreamState{Stream: state.Stream}
	}
	state.Version -= s.base.Load()
	return state
}

func (s *lostState) SaveState(ctx context.Context, state leasestore.StreamState) (leasestore.StreamState, error) {
	state.Version += s.base.Load()
	saved, err := s.Store.SaveState(ctx, state)
	if err == nil {
		s.lost.Store(false)
		saved.Version -= s.base.Load()
	}
	return saved, err
}

// seekAll moves the whole stream.
func (cr *crew) seekAll(name string, to *messages.Position) {
	cr.t.Helper()
	cr.me.Request(cr.all[name].opened.GetSubscription(), &messages.Seek{To: to})
	probe.Fish(cr.me, func(*messages.Sought) bool { return true })
}

// The row that says what the last stream-wide seek was is deleted. A node that knows of it stores it again, and later seeks are followed by all.
func TestAStateThatIsLostIsStoredAgain(t *testing.T) {
	store := &lostState{}
	inCrew(t, 4, func(cr *crew) {
		cr.join("a", "b")
		cr.pass(8 * time.Second)
		cr.seekAll("a", toHorizon())
		cr.pass(4 * time.Second)
		store.lose()
		cr.pass(4 * time.Second)
		state, err := store.State(cr.t.Context(), cr.streamID())
		require.NoError(cr.t, err)
		require.EqualValues(cr.t, 2, state.Seek)
		cr.pass(4 * time.Second)
		for i, name := range []string{"b", "a"} {
			cr.seekAll(name, toHorizon())
			cr.pass(4 * time.Second)
			for _, s := range cr.service.Shards(testStream) {
				require.EqualValues(cr.t, 3+i, cr.lease(s.ID).Seek, "by %s", name)
			}
		}
		cr.calm()
	}, func(c *Config) { store.Store, c.Store = c.Store, store })
}

// The state is lost while nobody runs. The leases are as the last seek has left them, and are gone on from.
func TestANodeStartsWithoutAState(t *testing.T) {
	store := &lostState{}
	inCrew(t, 4, func(cr *crew) {
		cr.join("a")
		cr.pass(4 * time.Second)
		cr.seekAll("a", toHorizon())
		cr.pass(4 * time.Second)
		cr.leave("a")
		store.lose()
		cr.pass(4 * time.Second) // to be read by the next
		cr.join("b")
		cr.pass(8 * time.Second)
		cr.calm()
		cr.check()
	}, func(c *Config) { store.Store, c.Store = c.Store, store })
}

// tornView shows leases and not the state, as a look that passed the state's row before it was stored.
type tornView struct {
	leasestore.Store
	torn atomic.Bool
}

func (s *tornView) Shared() bool { return true }

func (s *tornView) View(ctx context.Context, stream leasestore.StreamID) (leasestore.View, error) {
	v, err := s.Store.View(ctx, stream)
	if s.torn.Load() {
		v.State = leasestore.StreamState{Stream: stream}
	}
	return v, err
}

// A node's first looks show leases of a seek, and not yet the seek. What it takes then it reads from where the seek has put the stream, not from the tip.
func TestALookThatMissesTheStateLosesNothing(t *testing.T) {
	store := &tornView{}
	inCrew(t, 2, func(cr *crew) {
		cr.putEach()
		a := cr.spawn("a")
		a.tap.onCall(func(ctx context.Context, c storeCall, do func(ctx context.Context) error) error {
			if c.op == "acquire" && c.lease.Shard == shardName(1) {
				<-ctx.Done()
				return ctx.Err()
			}
			return do(ctx)
		})
		a.subscribe(horizon)
		rows, err := cr.store.List(cr.t.Context(), cr.streamID())
		require.NoError(cr.t, err)
		require.Len(cr.t, rows, 1, "the other shard has no lease yet")
		store.torn.Store(true)
		cr.join("b")
		cr.pass(8 * time.Second)
		store.torn.Store(false)
		cr.pass(4 * time.Second)
		cr.kill("a")
		cr.pass(20 * time.Second)
		cr.calm()
	}, func(c *Config) { store.Store, c.Store = c.Store, store })
}
