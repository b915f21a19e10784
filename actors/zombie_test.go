package actors

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// gate stops whoever passes through it until it is opened again.
type gate struct {
	mu     sync.Mutex
	closed chan struct{} // closed when the gate opens
}

func (g *gate) pass() {
	g.mu.Lock()
	closed := g.closed
	g.mu.Unlock()
	if closed != nil {
		<-closed
	}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed != nil {
		close(g.closed)
		g.closed = nil
	}
}

// L20: a process stands still for three ttls, as with SIGSTOP, at whatever message its actors had come to; another takes over and reads on. When
// the first goes on, nothing that was waiting makes it deliver, and no write of it, however late, is applied.
func TestAZombieDeliversAndWritesNothing(t *testing.T) {
	for _, wait := range []time.Duration{0, time.Second, 1500 * time.Millisecond, 2999 * time.Millisecond, 3 * time.Second} {
		t.Run(wait.String(), func(t *testing.T) { zombie(t, wait) })
	}
}

// zombie stops a process so long after its last renewal.
func zombie(t *testing.T, wait time.Duration) {
	t.Helper()
	process, s := &gate{}, &hookStore{}
	s.setHook(func(ctx context.Context, _ storeWrite) (context.Context, error) {
		process.pass()
		return context.WithoutCancel(ctx), nil // it was on its way when the process stopped
	})
	inBubble(t, 1, func(w *world) {
		w.open(horizon, windowOfRecords(2), func(d *messages.StreamDescriptor) { d.RetryBackoff = durationOf(time.Second) })
		for i := range 10 {
			w.put("k", fmt.Sprint(i))
		}
		d0, d1 := w.next(false), w.next(false)
		reader := w.sub.Sender()
		renewals := w.store.count("renew")
		for w.store.count("renew") == renewals {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(wait)
		process.shut()
		defer process.open()
		w.sub.Send(reader, d0.Ack()) // would make room for the third record
		w.sub.Send(reader, d1.Retry())
		other := w.neighbour(func(c *Config) { c.intercept = nil })
		got := 0
		for time.Sleep(30 * time.Second); ; got++ {
			e, more := other.sub.TryReceive()
			if !more {
				break
			}
			w.system.Root.Send(e.Sender, e.Message.(*messages.Delivery).Ack())
		}
		require.Equal(w.t, 10, got, "the other has taken over and has it all")
		time.Sleep(2 * time.Second)
		written := len(s.written())
		process.open()
		synctest.Wait()
		now := w.lease(shardName(0))
		require.Equal(w.t, other.owner, now.Owner)
		require.Equal(w.t, leasestore.AtSequence(w.service.Records(testStream)[9].SequenceNumber, 0), now.Checkpoint)
		w.put("k", "late")
		time.Sleep(time.Minute)
		require.Len(w.t, s.written(), written, "nothing was written late")
		for {
			e, more := w.sub.TryReceive()
			if !more {
				break
			}
			require.IsType(w.t, &messages.SubscriptionError{}, e.Message, "nothing is delivered")
		}
		require.Equal(w.t, other.owner, w.lease(shardName(0)).Owner)
	}, hooked(s), func(c *Config) { c.intercept = func(role, any) { process.pass() } })
}

// L20: the same when it is the store that stands still for one of two nodes, while its clock and its reading go on: it delivers for as long as
// it may trust its lease, and nothing beyond.
func TestANodeCutOffFromTheStoreStopsBeforeAnotherBegins(t *testing.T) {
	cut, s := &gate{}, &hookStore{}
	s.setHook(func(ctx context.Context, _ storeWrite) (context.Context, error) {
		cut.pass()
		return context.WithoutCancel(ctx), nil
	})
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		other := w.neighbour()
		time.Sleep(time.Minute)
		cut.shut()
		defer cut.open()
		var last, first atomic.Int64
		w.sub.SetAutoPilot(func(e probe.Envelope) any {
			d, ok := e.Message.(*messages.Delivery)
			if !ok {
				return nil
			}
			last.Store(time.Now().UnixNano())
			return d.Ack()
		})
		other.sub.SetAutoPilot(func(probe.Envelope) any {
			first.CompareAndSwap(0, time.Now().UnixNano())
			return nil
		})
		for i := range 400 {
			w.put("k", fmt.Sprint(i))
			time.Sleep(100 * time.Millisecond)
		}
		require.NotZero(w.t, last.Load())
		require.Less(w.t, last.Load(), first.Load(), "the second begins to deliver when the first has stopped to")
		time.Sleep(50 * time.Millisecond) // the other one renews at round times
		written := len(s.written())
		before := w.lease(shardName(0))
		cut.open()
		synctest.Wait()
		require.Len(w.t, s.written(), written)
		require.Equal(w.t, before, w.lease(shardName(0)))
	}, hooked(s))
}
