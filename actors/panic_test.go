package actors

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// panicPoint is an actor at a kind of message, the nth of that kind.
type panicPoint struct {
	role    role
	message string
	nth     int
}

// saboteur panics once, at its point; without one it notes every point met.
type saboteur struct {
	mu    sync.Mutex
	at    *panicPoint
	met   map[panicPoint]int
	fired bool
}

func (s *saboteur) intercept(r role, message any) {
	p := panicPoint{role: r, message: kindOf(message)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.met[p]++
	p.nth = s.met[panicPoint{role: r, message: p.message}]
	if s.at != nil && *s.at == p && !s.fired {
		s.fired = true
		panic("injected at " + fmt.Sprint(p))
	}
}

// kindOf names a message; effect results and timers by what they carry.
func kindOf(message any) string {
	switch m := message.(type) {
	case effectDone:
		return fmt.Sprintf("effectDone(%T)", m.result)
	case timerFired[brokerTimer], timerFired[coordinatorTimer], timerFired[publisherTimer], timerFired[readerTimer]:
		return fmt.Sprintf("timerFired%v", reflect.ValueOf(m).Field(0))
	default:
		return fmt.Sprintf("%T", message)
	}
}

// TestPanicAnywhere: D11: it runs a life of a broker, with a panic in every actor at every kind of message it meets, at its first and at a
// later occurrence: no published record may be missing, every request is answered, and no lease is renewed after the end.
func TestPanicAnywhere(t *testing.T) {
	calm := &saboteur{met: make(map[panicPoint]int)}
	life(t, calm)
	points := make([]panicPoint, 0, 2*len(calm.met))
	for p, n := range calm.met {
		p.nth = 1
		points = append(points, p)
		if n > 2 {
			p.nth = n/2 + 1
			points = append(points, p)
		}
	}
	require.Greater(t, len(points), 40)
	slices.SortFunc(points, func(a, b panicPoint) int { return compareStrings(fmt.Sprint(a), fmt.Sprint(b)) })
	for _, p := range points {
		t.Run(fmt.Sprintf("%s/%s/%d", p.role, p.message, p.nth), func(t *testing.T) {
			s := &saboteur{at: &p, met: make(map[panicPoint]int)}
			life(t, s)
			// Timers and later occurrences depend on when things happen.
			assert.True(t, s.fired || p.nth > 1 || strings.HasPrefix(p.message, "timer"), "the point was never met")
		})
	}
}

// life is connect, subscribe, publish, reshard, seek, unsubscribe, shut down.
func life(t *testing.T, s *saboteur) {
	t.Helper()
	inBubble(t, 2, func(w *world) {
		l := &lifeRun{w: w, ask: NewAsker(w.system), got: make(map[string]int)}
		w.sub.SetAutoPilot(l.receive)
		l.must("connect", func(n uint64) any { return &messages.Connect{Correlation: n} })
		l.subscribe()
		l.publish(0, 20)
		time.Sleep(5 * time.Second)
		split(w, w.service.Shards(testStream)[0].ID)
		l.publish(20, 40)
		time.Sleep(30 * time.Second)
		l.expectAll(40)
		l.must("seek", func(n uint64) any {
			return &messages.Seek{Stream: testStream, To: toHorizon(), Correlation: n}
		})
		time.Sleep(30 * time.Second)
		l.must("status", func(n uint64) any { return &messages.StatusRequest{Correlation: n} })
		l.publish(40, 45)
		time.Sleep(30 * time.Second)
		l.expectAll(45)
		l.unsubscribe()
		l.must("shutdown", func(n uint64) any { return &messages.Shutdown{Correlation: n} })
		l.expectNoOneHolds()
	}, func(c *Config) { c.intercept = s.intercept })
}

type lifeRun struct {
	w   *world
	ask *Asker
	sub *actor.PID
	mu  sync.Mutex
	got map[string]int
}

func (l *lifeRun) receive(e probe.Envelope) any {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d, ok := e.Message.(*messages.Delivery); ok {
		l.got[string(d.GetData())]++
		return d.Ack()
	}
	return nil
}

// must asks until it is answered without an error, which an injected panic may cause once or twice. No answer at all is a failure.
func (l *lifeRun) must(what string, request func(n uint64) any) any {
	l.w.t.Helper()
	to := l.w.broker
	if what == "unsubscribe" {
		to = l.sub
	}
	for range 4 {
		n := NextCorrelation()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		answer, err := l.ask.Ask(ctx, to, request(n), n)
		cancel()
		if err == nil {
			return answer
		}
		require.NotErrorIs(l.w.t, err, context.DeadlineExceeded, "%s was not answered", what)
		time.Sleep(time.Second)
	}
	l.w.t.Fatalf("%s failed again and again", what)
	return nil
}

func (l *lifeRun) subscribe() {
	opened := l.must("subscribe", func(n uint64) any {
		return &messages.Subscribe{
			Stream: &messages.StreamDescriptor{Name: testStream, StartAt: toHorizon()}, Subscriber: l.w.sub.PID(), Correlation: n,
		}
	})
	l.sub = opened.(*messages.Subscribed).GetSubscription()
}

func (l *lifeRun) unsubscribe() {
	for range 4 {
		n := NextCorrelation()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		_, err := l.ask.Ask(ctx, l.sub, &messages.Unsubscribe{Correlation: n}, n)
		cancel()
		if err == nil || asError(err) != nil && asError(err).Kind == messages.ErrorKind_ERROR_KIND_NOT_CONNECTED {
			return
		}
		require.NotErrorIs(l.w.t, err, context.DeadlineExceeded, "unsubscribe was not answered")
		time.Sleep(time.Second)
	}
	l.w.t.Fatal("unsubscribe failed again and again")
}

func (l *lifeRun) publish(from, to int) {
	for i := from; i < to; i++ {
		l.must("publish", func(n uint64) any {
			key := fmt.Sprint(i % 8)
			return &messages.Publish{Stream: testStream, PartitionKey: &key, Data: fmt.Appendf(nil, "r%d", i), Correlation: n}
		})
	}
}

func (l *lifeRun) expectAll(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range n {
		require.Positive(l.w.t, l.got[fmt.Sprintf("r%d", i)], "record %d was lost", i)
	}
}

// expectNoOneHolds: after a ttl, every lease is free or has had no sign of life.
func (l *lifeRun) expectNoOneHolds() {
	counters := func() map[string]leasestore.Lease {
		out := make(map[string]leasestore.Lease)
		streams, err := l.w.store.Streams(context.Background())
		require.NoError(l.w.t, err)
		for _, s := range streams {
			leases, err := l.w.store.List(context.Background(), s.Stream)
			require.NoError(l.w.t, err)
			for _, lease := range leases {
				out[lease.Shard] = lease
			}
		}
		return out
	}
	before := counters()
	time.Sleep(15 * time.Second)
	synctest.Wait()
	require.Equal(l.w.t, before, counters(), "someone still writes leases after the shutdown")
}

func toHorizon() *messages.Position {
	return &messages.Position{At: &messages.Position_TrimHorizon{TrimHorizon: &messages.TrimHorizon{}}}
}

// TestPanicAnywhereInTheHandler does the same to the actor that runs Go functions: every record is handled, and it stops when told.
func TestPanicAnywhereInTheHandler(t *testing.T) {
	calm := &saboteur{met: make(map[panicPoint]int)}
	handlerLife(t, calm)
	require.Greater(t, len(calm.met), 4)
	for p := range calm.met {
		p.nth = 1
		t.Run(p.message, func(t *testing.T) {
			s := &saboteur{at: &p, met: make(map[panicPoint]int)}
			handlerLife(t, s)
			assert.True(t, s.fired, "the point was never met")
		})
	}
}

func handlerLife(t *testing.T, s *saboteur) {
	t.Helper()
	inBubble(t, 1, func(w *world) {
		w.connect()
		var mu sync.Mutex
		handled := make(map[string]bool)
		stopped := make(chan struct{})
		h := SpawnHandler(w.system, HandlerConfig{
			Parallel: 2, intercept: s.intercept, Stopped: func() { close(stopped) },
			Handle: func(_ context.Context, d *messages.Delivery) error {
				mu.Lock()
				defer mu.Unlock()
				handled[string(d.GetData())] = true
				return nil
			},
		})
		w.me.Request(w.broker, &messages.Subscribe{Subscriber: h, Stream: &messages.StreamDescriptor{
			Name: testStream, StartAt: toHorizon(), PerKeyOrder: true, BatchSize: new(int32(8)),
		}})
		opened := probe.Expect[*messages.Subscribed](w.me)
		WatchSubscription(w.system, h, opened.GetSubscription())
		for i := range 40 {
			w.put(fmt.Sprint(i%5), fmt.Sprint(i))
		}
		w.system.Root.Send(h, &messages.SubscriptionError{Error: &messages.Error{}})
		time.Sleep(time.Minute)
		mu.Lock()
		require.Len(w.t, handled, 40)
		mu.Unlock()
		w.system.Root.Poison(h)
		<-stopped
	})
}

// D11: A panic of the coordinator at the broker's last word must not leave an actor behind that reads nothing and says nothing.
func TestPanicWhenForgotten(t *testing.T) {
	s := &saboteur{at: &panicPoint{role: roleCoordinator, message: "actors.subscriptionForgotten", nth: 1}, met: make(map[panicPoint]int)}
	inBubble(t, 2, func(w *world) {
		opened := w.open(horizon)
		w.me.Watch(opened.GetSubscription())
		w.recreate(2, time.Millisecond)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		require.True(w.t, s.fired)
		var fatal bool
		for e, more := w.sub.TryReceive(); more; e, more = w.sub.TryReceive() {
			if m, ok := e.Message.(*messages.SubscriptionError); ok {
				fatal = fatal || m.GetFatal()
			}
		}
		require.True(w.t, fatal, "the subscriber is told that its subscription ended")
		w.me.ExpectTerminated(opened.GetSubscription())
	}, func(c *Config) { c.intercept = s.intercept })
}
