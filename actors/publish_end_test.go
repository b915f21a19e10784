package actors

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// requireEmptyQuota: all room was given back, and no more than was taken.
func requireEmptyQuota(w *world, o *Outlet) {
	w.t.Helper()
	held, size := o.quota.held()
	require.Zero(w.t, held)
	require.Zero(w.t, size)
	require.Zero(w.t, o.quota.all.used.Load())
}

// What reaches a publisher at the very moment of its end, when its name stands for nothing any more, is answered, too.
func TestPublishAtTheMomentThatThePublisherEnds(t *testing.T) {
	var known atomic.Pointer[Outlet]
	tickets, batch := make(chan *Ticket, 1), make(chan error, 1)
	inBubble(t, 1, func(w *world) {
		w.connect()
		o := w.outletOf(nil)
		known.Store(o)
		w.me.Request(w.broker, &messages.Shutdown{Timeout: durationOf(0)})
		probe.Expect[*messages.Closed](w.me)
		synctest.Wait()
		ticket := <-tickets
		select {
		case <-ticket.Done():
			require.ErrorIs(w.t, ticket.Outcome().Err, ErrNotConnected)
			require.False(w.t, ticket.Outcome().Err.OutcomeUnknown)
		default:
			require.Fail(w.t, "not answered")
		}
		require.ErrorIs(w.t, <-batch, ErrNotConnected)
		requireEmptyQuota(w, o)
	}, func(c *Config) {
		c.intercept = func(r role, message any) {
			o := known.Load()
			if _, stopped := message.(*actor.Stopped); !stopped || r != rolePublisher || o == nil {
				return
			}
			ticket, err := o.PublishAsync(context.Background(), Item{Data: []byte("x")})
			if err != nil {
				t.Error(err)
			}
			tickets <- ticket
			go func() {
				_, err := o.PublishBatch(context.Background(), []Item{{Data: []byte("x")}})
				batch <- err
			}()
			time.Sleep(time.Millisecond)
		}
	})
}

// A publisher that has panicked rests for a while, longer and longer. What comes meanwhile is answered also if its end comes before it goes on.
func TestShutdownWhileAPublisherRests(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.connect()
		o := w.outletOf(nil)
		for range 10 { // it rests for ten seconds in the end
			_, err := o.Publish(context.Background(), Item{Data: []byte("x")})
			require.ErrorIs(w.t, err, ErrPublish)
		}
		var tickets []*Ticket
		for i := range 5 {
			ticket, err := o.PublishAsync(context.Background(), Item{Key: fmt.Sprint(i), Data: []byte("x")})
			require.NoError(w.t, err)
			tickets = append(tickets, ticket)
		}
		w.me.Request(w.broker, &messages.Publish{Stream: testStream, Data: []byte("x"), Correlation: 7})
		synctest.Wait()
		w.system.Root.Stop(w.broker)
		time.Sleep(time.Second)
		synctest.Wait()
		for _, ticket := range tickets {
			select {
			case <-ticket.Done():
				require.ErrorIs(w.t, ticket.Outcome().Err, ErrNotConnected)
			default:
				require.Fail(w.t, "not answered")
			}
		}
		e := probe.Expect[*messages.Error](w.me)
		require.Equal(w.t, messages.ErrorKind_ERROR_KIND_NOT_CONNECTED, e.GetKind())
		require.EqualValues(w.t, 7, e.GetCorrelation())
		requireEmptyQuota(w, o)
	}, func(c *Config) {
		c.intercept = func(_ role, message any) {
			if _, ok := message.(*Ticket); ok {
				panic("the test wants it")
			}
		}
	})
}
