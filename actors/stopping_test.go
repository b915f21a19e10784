package actors

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// stopBrokerSlowly stops the broker by force; do runs when its coordinator has begun to stop, and waits for its readers.
func stopBrokerSlowly(t *testing.T, before, do func(w *world, coordinator *actor.PID), options ...func(*Config)) {
	t.Helper()
	var stopping atomic.Pointer[func()]
	slow := func(c *Config) {
		next := c.intercept
		c.intercept = func(r role, message any) {
			if next != nil {
				next(r, message)
			}
			if _, ok := message.(*actor.Stopping); !ok || r != roleReader {
				return
			}
			if f := stopping.Swap(nil); f != nil {
				(*f)()
				time.Sleep(time.Minute)
			}
		}
	}
	inBubble(t, 2, func(w *world) {
		coordinator := w.open(horizon).GetSubscription()
		before(w, coordinator)
		f := func() { do(w, coordinator) }
		stopping.Store(&f)
		w.system.Root.Stop(w.broker)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.Nil(w.t, stopping.Load(), "a reader was stopped")
		for _, bucket := range w.system.ProcessRegistry.LocalPIDs.LocalPIDs {
			for id, process := range bucket.Items() {
				if _, alive := process.(*actor.ActorProcess); alive {
					require.False(w.t, strings.HasPrefix(id, w.broker.GetId()), "%s lives on", id)
				}
			}
		}
	}, append(options, slow)...)
}

// Actors that were stopped by force end, whatever comes while their children do. What asks for something is told that it comes too late.
func TestWhatComesWhileChildrenStopIsRefused(t *testing.T) {
	nothing := func(*world, *actor.PID) {}
	stopBrokerSlowly(t, nothing, func(w *world, coordinator *actor.PID) {
		split(w, "shardId-000000000000") // something to do for one that looks
		for _, m := range []any{shardDoubted{}, peersChanged{}, childGone{coordinator}} {
			w.system.Root.Send(coordinator, m)
		}
		w.me.Request(coordinator, &messages.Seek{To: toHorizon(), Correlation: 1})
		w.me.Request(w.broker, &messages.Subscribe{Stream: &messages.StreamDescriptor{Name: testStream}, Subscriber: w.me.PID(), Correlation: 2})
		for range 2 {
			e := probe.Expect[*messages.Error](w.me)
			require.Equal(w.t, messages.ErrorKind_ERROR_KIND_NOT_CONNECTED, e.GetKind())
		}
	})
}

// A coordinator that was about to be started again when its broker was stopped is not.
func TestStoppedCoordinatorsAreNotStartedAgain(t *testing.T) {
	panicOnDoubt := func(c *Config) {
		c.intercept = func(_ role, message any) {
			if _, ok := message.(shardDoubted); ok {
				panic("the test wants it")
			}
		}
	}
	doubt := func(w *world, coordinator *actor.PID) {
		w.system.Root.Send(coordinator, shardDoubted{})
		synctest.Wait()
	}
	stopBrokerSlowly(t, doubt, func(*world, *actor.PID) {}, panicOnDoubt)
}
