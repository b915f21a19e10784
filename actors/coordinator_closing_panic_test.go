package actors

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// A subscription whose coordinator panics while it ends ends all the same.
func TestACoordinatorThatPanicsWhileItEndsEnds(t *testing.T) {
	var armed atomic.Bool
	inBubble(t, 2, func(w *world) {
		sub := w.open(horizon).GetSubscription()
		w.put("k", "1")
		w.next(false) // is not settled: the shutdown waits for it
		w.me.Request(w.broker, &messages.Shutdown{Timeout: durationOf(20 * time.Second)})
		synctest.Wait()
		armed.Store(true)
		begun := time.Now()
		w.system.Root.Send(sub, &messages.StatusRequest{}) // it panics at that
		closed := probe.Fish(w.me, func(*messages.Closed) bool { return true })
		require.Less(w.t, time.Since(begun), time.Second)
		require.Len(w.t, closed.GetUnfinished(), 1, "what was in flight comes again")
	}, func(c *Config) {
		c.intercept = func(r role, message any) {
			if _, ok := message.(*messages.StatusRequest); ok && r == roleCoordinator && armed.CompareAndSwap(true, false) {
				panic("the test wants it")
			}
		}
	})
}
