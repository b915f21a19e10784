package actors

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// betweenNodes makes the store one that other processes may use.
func betweenNodes(c *Config) { c.Store = sharedStore{c.Store} }

// starts are nodes that subscribe so long after the first, each, without waiting for each other. opened waits for them.
func (cr *crew) starts(after map[string]time.Duration) {
	cr.t.Helper()
	began := time.Now()
	for name := range after {
		cr.spawn(name)
	}
	for len(after) > 0 {
		for name, at := range after {
			if time.Since(began) >= at {
				cr.me.Request(cr.living[name].broker, subscribeTo(testStream, cr.sub))
				delete(after, name)
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (cr *crew) opened(n int) {
	cr.t.Helper()
	for range n {
		probe.Fish(cr.me, func(*messages.Subscribed) bool { return true })
	}
}

// L11: nodes that start within GatherTime divide the shards without moving any; the few conflicts are told by the store.
func TestNodesThatStartWithinTheGatherTime(t *testing.T) {
	for _, after := range []map[string]time.Duration{
		{"a": 0, "b": 0, "c": 0},
		{"a": 0, "b": time.Second, "c": 2900 * time.Millisecond},
		{"a": 0, "b": 0, "c": 1500 * time.Millisecond},
	} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			inCrew(t, 12, func(cr *crew) {
				cr.starts(after)
				cr.opened(3)
				cr.pass(5 * time.Second)
				cr.balanced()
				cr.calm()
				require.Zero(cr.t, cr.moves())
				require.Zero(cr.t, cr.twice())
				require.LessOrEqual(cr.t, cr.ledger.calls("acquire"), 12+3)
			}, betweenNodes)
		})
	}
}

// Who comes later gets its share by handover: exactly that.
func TestANodeThatStartsAfterTheGatherTime(t *testing.T) {
	inCrew(t, 12, func(cr *crew) {
		cr.starts(map[string]time.Duration{"a": 0, "b": 0, "c": 3200 * time.Millisecond})
		cr.opened(3)
		cr.pass(5 * time.Second)
		cr.calm()
		require.Equal(cr.t, 4, cr.moves())
		require.Zero(cr.t, cr.twice())
	}, betweenNodes)
}

// A node waits for others only where there may be some, and nobody reads yet.
func TestWhoWaitsForOthersToStart(t *testing.T) {
	took := func(cr *crew, name string, change ...func(*Config)) time.Duration {
		began := time.Now()
		cr.spawn(name, change...).subscribe()
		return time.Since(began)
	}
	inCrew(t, 4, func(cr *crew) {
		require.Zero(cr.t, took(cr, "a"), "a store of this process only")
		cr.calm()
	})
	inCrew(t, 4, func(cr *crew) {
		require.Zero(cr.t, took(cr, "a", func(c *Config) { c.Timings.GatherTime = -1 }), "told not to")
		require.Zero(cr.t, took(cr, "b"), "somebody reads")
		cr.calm()
		cr.leave("a")
		cr.leave("b")
		require.Equal(cr.t, 3*time.Second, took(cr, "c"), "nobody reads any more")
		cr.calm()
		cr.leave("c")
		require.Equal(cr.t, 5*time.Second, took(cr, "d", func(c *Config) { c.Timings.GatherTime = 5 * time.Second }))
		cr.calm()
	}, betweenNodes)
	inBubble(t, 4, func(w *world) {
		began := time.Now()
		w.open()
		require.Zero(w.t, time.Since(began), "the broker's own store")
	}, func(c *Config) { c.Store = nil })
}

// A node that waits for others can be shut down, and leaves nothing.
func TestShutdownWhileWaitingForOthers(t *testing.T) {
	inCrew(t, 4, func(cr *crew) {
		n := cr.spawn("a")
		cr.me.Request(n.broker, subscribeTo(testStream, cr.sub))
		time.Sleep(time.Second)
		began := time.Now()
		cr.leave("a")
		require.Zero(cr.t, time.Since(began))
		require.Empty(cr.t, cr.members())
		require.Zero(cr.t, cr.ledger.calls("acquire"))
		cr.join("b")
		cr.calm()
	}, betweenNodes)
}

// All nodes of a fleet die, and others are started together: they wait for the leases to run out, and divide what they find.
func TestAFleetThatDiedIsReplaced(t *testing.T) {
	inCrew(t, 9, func(cr *crew) {
		cr.starts(map[string]time.Duration{"a": 0, "b": 0, "c": 0})
		cr.opened(3)
		cr.pass(5 * time.Second)
		for _, name := range []string{"a", "b", "c"} {
			cr.kill(name)
		}
		time.Sleep(2 * time.Second)
		before, began := cr.moves(), time.Now()
		cr.starts(map[string]time.Duration{"d": 0, "e": 0, "f": 500 * time.Millisecond})
		cr.opened(3)
		cr.pass(16 * time.Second)
		require.LessOrEqual(cr.t, cr.gap(began), takeoverTime)
		cr.calm()
		require.Equal(cr.t, 9, cr.moves()-before)
	}, betweenNodes)
}

// A node that joins and can't open its subscription yet, as the shards can't be listed there, is not handed shards that nobody would read.
func TestANodeThatCannotListYet(t *testing.T) {
	inCrew(t, 4, func(cr *crew) {
		cr.join("a")
		cr.pass(3 * time.Second)
		n := cr.spawn("b")
		slow := func(op string) {
			if op == "ListShards" {
				time.Sleep(25 * time.Second)
			}
		}
		n.process.hold.Store(&slow)
		began := time.Now()
		cr.me.Request(n.broker, subscribeTo(testStream, cr.sub))
		cr.pass(28 * time.Second)
		require.LessOrEqual(cr.t, cr.gap(began), 2*time.Second)
		cr.opened(1)
		cr.calm()
	})
}
