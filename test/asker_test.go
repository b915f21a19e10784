package test

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/messages"
)

// asker sends a great many requests to a broker and counts the answers, each by its correlation. To the broker it
// is an actor; it has no mailbox, as it is to see every answer and be slow at none.
type asker struct {
	system *actor.ActorSystem
	pid    *actor.PID
	broker *actor.PID // a PID that was taken early
	stream string

	answers []atomic.Int32 // by correlation - 1
	count   atomic.Int64
	some    chan struct{} // closed when a twelfth of the requests has answers, records among them
	all     chan struct{} // closed when all have

	mu     sync.Mutex
	counts map[string]int // of answers, by what they say
}

func newAsker(system *actor.ActorSystem, broker *actor.PID, stream string, requests int) *asker {
	a := &asker{
		system: system, broker: broker, stream: stream,
		answers: make([]atomic.Int32, requests), counts: make(map[string]int),
		some: make(chan struct{}), all: make(chan struct{}),
	}
	a.pid, _ = system.ProcessRegistry.Add(a, "asker"+system.ProcessRegistry.NextId())
	return a
}

const (
	saysNotConnected = "NOT_CONNECTED"
	saysDeadLetter   = "DeadLetterResponse"
)

// SendUserMessage implements actor.Process: it takes an answer.
func (a *asker) SendUserMessage(_ *actor.PID, message any) {
	_, m, _ := actor.UnwrapEnvelope(message)
	says := fmt.Sprintf("%T", m)
	switch answer := m.(type) {
	case *messages.Error:
		says = answer.GetKind().String()[len("ERROR_KIND_"):]
	case *actor.DeadLetterResponse:
		says = saysDeadLetter // it does not say to what
	}
	a.mu.Lock()
	a.counts[says]++
	a.mu.Unlock()
	if m, ok := m.(interface{ GetCorrelation() uint64 }); ok {
		if n := m.GetCorrelation(); n > 0 && n <= uint64(len(a.answers)) {
			a.answers[n-1].Add(1)
		}
	}
	switch a.count.Add(1) {
	case int64(len(a.answers) / 12):
		close(a.some)
	case int64(len(a.answers)):
		close(a.all)
	}
}

// SendSystemMessage implements actor.Process.
func (a *asker) SendSystemMessage(*actor.PID, any) {}

// Stop implements actor.Process.
func (a *asker) Stop(*actor.PID) {}

// third is the number of requests in each of the three parts.
func (a *asker) third() int { return len(a.answers) / 3 }

// request is request number n, from 0.
func (a *asker) request(n int) any {
	correlation := uint64(n) + 1 //nolint:gosec // counts up
	switch {
	case n%100 == 0:
		return &messages.Subscribe{Stream: protokinesis.Stream(a.stream), Correlation: correlation}
	case n%100 == 1:
		return &messages.Seek{Stream: a.stream, To: protokinesis.TrimHorizon(), Correlation: correlation}
	case n%100 == 2 && n >= 2*a.third():
		return &messages.Shutdown{Correlation: correlation}
	case n%10 == 3:
		return &messages.StatusRequest{Correlation: correlation}
	case n%10 == 4:
		return &messages.Connect{Correlation: correlation}
	default:
		return &messages.Publish{Stream: a.stream, Data: []byte("data"), Correlation: correlation}
	}
}

// ask sends a request. Every second goes to a PID that is looked up anew.
func (a *asker) ask(n int) {
	to := a.broker
	if n%2 == 1 {
		to = actor.NewPID(a.broker.GetAddress(), a.broker.GetId())
	}
	a.system.Root.RequestWithCustomSender(to, a.request(n), a.pid)
}

const senders = 8

// askAll sends all requests from several goroutines: a third of them; the second when begun has returned, which is called
// while the first is being answered; the third when ended has returned.
func (a *asker) askAll(begun, ended func()) {
	a.send(0, a.third())
	select {
	case <-a.some:
	case <-time.After(patience):
	}
	begun()
	a.send(a.third(), 2*a.third())
	ended()
	a.send(2*a.third(), len(a.answers))
}

func (a *asker) send(first, end int) {
	var sending sync.WaitGroup
	for s := range senders {
		sending.Go(func() {
			for n := first + s; n < end; n += senders {
				a.ask(n)
			}
		})
	}
	sending.Wait()
}

// tally is how the requests were answered.
type tally struct {
	Answers  map[string]int // by what they say
	Silent   map[string]int // requests without one, by type
	Repeated int            // requests with more than one
}

// wait waits for the answers.
func (a *asker) wait() tally {
	select {
	case <-a.all:
	case <-time.After(patience / 2):
	}
	t := tally{Answers: make(map[string]int), Silent: make(map[string]int)}
	for i := range a.answers {
		switch n := a.answers[i].Load(); {
		case n == 0:
			t.Silent[fmt.Sprintf("%T", a.request(i))]++
		case n > 1:
			t.Repeated++
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.Copy(t.Answers, a.counts)
	return t
}
