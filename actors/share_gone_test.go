package actors

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// A node unsubscribes from one of its streams, or begins a shutdown that another stream holds up, while shards of it are on their way to it. It lives on,
// but nobody there takes them up: whoever handed them over takes them back, without waiting for a ttl.
func TestANodeThatLivesOnIsHandedShardsItDoesNotReadAnyMore(t *testing.T) {
	for _, after := range []time.Duration{time.Second, 2500 * time.Millisecond, 3 * time.Second} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			inCrew(t, 4, func(cr *crew) {
				require.NoError(cr.t, cr.service.CreateStream("other", 1))
				cr.join("a")
				b := cr.spawn("b")
				cr.me.Request(b.broker, subscribeTo("other", cr.sub))
				probe.Fish(cr.me, func(*messages.Subscribed) bool { return true })
				cr.works(4 * time.Second)
				cr.pass(3 * time.Second)
				offered := make(chan bool, 10)
				cr.ledger.onDone(func(c storeCall) {
					if c.op == "offer" {
						offered <- true
					}
				})
				b.subscribe()
				<-offered
				time.Sleep(after)
				began := time.Now()
				cr.me.Request(b.opened.GetSubscription(), &messages.Unsubscribe{})
				probe.Fish(cr.me, func(*messages.Unsubscribed) bool { return true })
				cr.pass(16 * time.Second)
				require.Equal(cr.t, map[string]int{"a": 4}, cr.ownersOf(testStream))
				require.LessOrEqual(cr.t, cr.gap(began), 8*time.Second, "%v", cr.history(""))
				cr.works(0)
				cr.check()
				require.Zero(cr.t, cr.twice())
			}, func(c *Config) { c.quiet = true })
		})
	}
}

// A node is shut down while it hands shards to one that has left meanwhile: they go to who is there.
func TestANodeLeavesAfterOneThatItHandsShardsTo(t *testing.T) {
	inCrew(t, 4, func(cr *crew) {
		cr.join("a", "c")
		cr.pass(8 * time.Second)
		cr.works(8 * time.Second) // so that the handover is not done by then
		cr.pass(3 * time.Second)
		offered := make(chan string, 10)
		cr.ledger.onDone(func(c storeCall) {
			if c.op == "offer" {
				offered <- nodeOf(c.lease.Owner)
			}
		})
		cr.join("b")
		donor := <-offered
		cr.leave("b")
		cr.leave(donor)
		for _, c := range cr.ledger.done() {
			require.False(cr.t, c.op == "acquire" && nodeOf(c.to) == "b", "%v", cr.history(""))
		}
		require.Empty(cr.t, cr.held())
		cr.calm()
		require.Zero(cr.t, cr.twice())
	}, func(c *Config) { c.quiet = true })
}

// A reader has panicked as its node is shut down: nobody hands its lease over, and the last look gives it away. Its heir is told of that, too.
func TestWhoGetsALeaseThatWasLeftBehindIsTold(t *testing.T) {
	inCrew(t, 2, func(cr *crew) {
		var breaks atomic.Bool
		a := cr.spawn("a")
		a.subscribe(horizon)
		var tap tapStore
		cr.spawn("b", tapped(&tap), func(c *Config) {
			c.intercept = func(r role, _ any) {
				if r == roleReader && breaks.CompareAndSwap(true, false) {
					panic(errors.New("injected"))
				}
			}
		}).subscribe()
		cr.pass(4 * time.Second)
		cr.balanced()
		tap.onCall(func(ctx context.Context, _ storeCall, do func(ctx context.Context) error) error {
			time.Sleep(50 * time.Millisecond)
			return do(ctx)
		})
		for looks := a.tap.calls("view"); a.tap.calls("view") == looks; {
			time.Sleep(10 * time.Millisecond)
		}
		breaks.Store(true) // a looks again three seconds later
		for breaks.Load() {
			time.Sleep(10 * time.Millisecond)
		}
		began := time.Now()
		cr.leave("b")
		require.Empty(cr.t, cr.held())
		cr.pass(5 * time.Second)
		require.Less(cr.t, cr.gap(began), 1400*time.Millisecond)
		cr.calm()
	})
}
