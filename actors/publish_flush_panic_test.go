package actors

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// A publisher that panics while it flushes takes in nothing any more, and does not hold up the shutdown.
func TestAPublisherThatPanicsWhileItFlushesEnds(t *testing.T) {
	var armed atomic.Bool
	inBubble(t, 1, func(w *world) {
		hung := hungPuts(w)
		w.connect()
		o := w.outletOf(nil)
		ticket, err := o.PublishAsync(context.Background(), Item{Key: "k", Data: []byte("1")})
		require.NoError(w.t, err)
		synctest.Wait()
		w.me.Request(w.broker, &messages.Shutdown{Timeout: durationOf(20 * time.Second)})
		synctest.Wait()
		armed.Store(true)
		begun := time.Now()
		w.me.Request(o.pid, &messages.StatusRequest{}) // it panics at that
		<-ticket.Done()
		require.True(w.t, ticket.Outcome().Err.OutcomeUnknown)
		hung.Clear()
		late, err := o.PublishAsync(context.Background(), Item{Key: "k", Data: []byte("2")})
		require.NoError(w.t, err)
		<-late.Done()
		require.NotNil(w.t, late.Outcome().Err)
		require.ErrorIs(w.t, late.Outcome().Err, ErrNotConnected)
		probe.Fish(w.me, func(*messages.Closed) bool { return true })
		require.Less(w.t, time.Since(begun), 2*time.Second)
		require.Empty(w.t, w.service.Records(testStream))
		requireEmptyQuota(w, o)
	}, func(c *Config) {
		c.intercept = func(r role, message any) {
			if _, ok := message.(*messages.StatusRequest); ok && r == rolePublisher && armed.CompareAndSwap(true, false) {
				panic("the test wants it")
			}
		}
	})
}
