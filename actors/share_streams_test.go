package actors

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// also makes nodes read another stream.
func (cr *crew) also(stream string, names ...string) {
	cr.t.Helper()
	for _, name := range names {
		cr.me.Request(cr.living[name].broker, subscribeTo(stream, cr.sub))
		probe.Fish(cr.me, func(*messages.Subscribed) bool { return true })
	}
}

// L15: each stream is divided among the nodes that read it, whatever else they read.
func TestStreamsAreSharedIndependently(t *testing.T) {
	inCrew(t, 6, func(cr *crew) {
		require.NoError(cr.t, cr.service.CreateStream("second", 4))
		require.NoError(cr.t, cr.service.CreateStream("third", 2))
		cr.join("a", "b", "c")
		cr.also("second", "a", "b")
		cr.also("third", "c")
		cr.pass(4 * time.Second)
		cr.balanced()
		require.Equal(cr.t, map[string]int{"a": 2, "b": 2}, cr.ownersOf("second"))
		require.Equal(cr.t, map[string]int{"c": 2}, cr.ownersOf("third"))
		cr.also("third", "a")
		cr.pass(4 * time.Second)
		require.Equal(cr.t, map[string]int{"a": 1, "c": 1}, cr.ownersOf("third"))
		cr.kill("a")
		cr.pass(16 * time.Second)
		require.Equal(cr.t, map[string]int{"b": 4}, cr.ownersOf("second"))
		require.Equal(cr.t, map[string]int{"c": 2}, cr.ownersOf("third"))
		cr.calm()
	})
}

// Two applications have a store each, and know nothing of each other: both read all of the stream.
func TestApplicationsDoNotMeet(t *testing.T) {
	inCrew(t, 4, func(cr *crew) {
		cr.join("a", "b")
		other := probe.New(cr.t, cr.system, "other-application")
		var mu sync.Mutex
		got := make(map[int]bool)
		other.SetAutoPilot(func(e probe.Envelope) any {
			d, ok := e.Message.(*messages.Delivery)
			if !ok {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			got[numberOf(d)] = true
			return d.Ack()
		})
		store := leasestore.NewMemory()
		n := cr.world.join("x", func(c *Config) { c.Store = store })
		subscribe := subscribeTo(testStream, other)
		subscribe.Stream.StartAt = toHorizon()
		cr.me.Request(n.broker, subscribe)
		opened := probe.Fish(cr.me, func(*messages.Subscribed) bool { return true })
		require.Len(cr.t, opened.GetShards(), 4)
		cr.pass(5 * time.Second)
		cr.calm()
		require.Equal(cr.t, []string{"a", "b"}, cr.members())
		mu.Lock()
		require.Len(cr.t, got, len(cr.puts))
		mu.Unlock()
		require.Zero(cr.t, cr.twice())
		shutDown(cr.world, n.broker)
	})
}

// The subscriptions of a broker look at the store at the same instants, so that they can share a read, and once in RenewEvery.
func TestSubscriptionsOfABrokerLookTogether(t *testing.T) {
	inCrew(t, 2, func(cr *crew) {
		require.NoError(cr.t, cr.service.CreateStream("second", 2))
		cr.join("a")
		time.Sleep(1300 * time.Millisecond)
		cr.also("second", "a")
		time.Sleep(5 * time.Second)
		var mu sync.Mutex
		looks := make(map[time.Time]int)
		cr.ledger.onCall(func(ctx context.Context, c storeCall, do func(ctx context.Context) error) error {
			if c.op == "view" {
				mu.Lock()
				looks[time.Now()]++
				mu.Unlock()
			}
			return do(ctx)
		})
		time.Sleep(5 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		together, apart := 0, 0
		for _, n := range looks {
			if n == 2 {
				together++
			} else {
				apart++
			}
		}
		require.InDelta(cr.t, 100, together, 2)
		require.LessOrEqual(cr.t, apart, 70, "those after a listing, every ten seconds of each stream")
	})
}

// A node whose sign of life can't be stored keeps what it has, as its leases are renewed, and gets no more. Others take nothing of it; when the
// store takes its row again, it gets its share.
func TestANodeWithoutSignsOfLife(t *testing.T) {
	inCrew(t, 6, func(cr *crew) {
		cr.join("a")
		var tap tapStore
		cr.spawn("b", tapped(&tap)).subscribe()
		cr.pass(4 * time.Second)
		cr.balanced()
		tap.onCall(func(ctx context.Context, c storeCall, do func(ctx context.Context) error) error {
			if c.op == "beat" {
				return errOutage
			}
			return do(ctx)
		})
		moves, began := cr.moves(), time.Now()
		cr.pass(20 * time.Second)
		time.Sleep(2 * time.Minute) // its row is forgotten
		require.Equal(cr.t, []string{"a"}, cr.members())
		cr.pass(4 * time.Second)
		require.Equal(cr.t, moves, cr.moves())
		cr.balanced()
		require.Less(cr.t, cr.gap(began), 2*time.Second)
		tap.onCall(nil)
		cr.join("c")
		cr.pass(8 * time.Second)
		cr.calm()
		require.Equal(cr.t, 2, cr.moves()-moves)
		require.Zero(cr.t, cr.twice())
	})
}

// A node can't be made a member: Subscribe fails, and says so; once it can be, it works.
func TestSubscribeOfANodeThatCannotBeAMember(t *testing.T) {
	inCrew(t, 2, func(cr *crew) {
		var tap tapStore
		n := cr.spawn("a", tapped(&tap))
		tap.onCall(func(ctx context.Context, c storeCall, do func(ctx context.Context) error) error {
			if c.op == "beat" {
				return errOutage
			}
			return do(ctx)
		})
		cr.me.Request(n.broker, subscribeTo(testStream, cr.sub))
		e := probe.Fish(cr.me, func(*messages.Error) bool { return true })
		require.Equal(cr.t, messages.ErrorKind_ERROR_KIND_LEASE, e.GetKind())
		require.Contains(cr.t, e.String(), testStream)
		require.Equal(cr.t, "check the lease store", e.GetAdvice(), "nobody goes on trying")
		tap.onCall(nil)
		time.Sleep(5 * time.Second)
		n.subscribe(horizon)
		cr.calm()
	})
}
