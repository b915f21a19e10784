package actors

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/messages"
)

// asker takes the one answer to a Go caller's request. It stands in the process registry like an actor. The library's
// own futures are not used: an answer at the moment of their time-out races, and they can't take a Go error.
type asker struct {
	owner   *Asker
	pid     *actor.PID
	answers chan any
	// waiting is the correlation of the request under way, with abandoned set when its caller has gone; what carries
	// another is of an earlier one.
	waiting atomic.Uint64
}

// abandoned marks a request whose caller has gone; the asker is free again when its answer comes.
const abandoned = 1 << 63

// failureTaker is what can be told a failure as it is, with the SDK's error in it, because it is in this process.
type failureTaker interface {
	fail(correlation uint64, f *Error)
}

var (
	_ actor.Process = (*asker)(nil)
	_ failureTaker  = (*asker)(nil)
)

// Asker asks actors from ordinary Go code. One serves any number of goroutines.
type Asker struct {
	system *actor.ActorSystem

	mu   sync.Mutex
	idle []*asker // not a sync.Pool: what that forgets would stay in the process registry
}

// NewAsker makes an Asker for requests to actors of system (or, over remote, of other nodes).
func NewAsker(system *actor.ActorSystem) *Asker {
	return &Asker{system: system}
}

// correlations numbers requests; unique in the process, which is all that an asker needs.
var correlations atomic.Uint64

// NextCorrelation is a number for the next request to Ask with.
func NextCorrelation() uint64 { return correlations.Add(1) }

// Ask sends request, which must carry correlation, and waits for its answer or the end of ctx. A failure
// is an *Error; the end of ctx is ctx's error, and then it is unknown whether the request was carried out.
func (a *Asker) Ask(ctx context.Context, to *actor.PID, request any, correlation uint64) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q := a.get()
	q.waiting.Store(correlation)
	a.system.Root.RequestWithCustomSender(to, request, q.pid)
	return q.wait(ctx, correlation)
}

// findPublisher asks a connected broker for the publisher of a stream, so that Go code can spare each record the way through the broker. It is
// answered by publisherFound or an error.
type findPublisher struct {
	stream      string
	options     *messages.PublishOptions
	correlation uint64
}

type publisherFound struct {
	outlet      *Outlet
	correlation uint64
}

// GetCorrelation is what requests and answers have in common.
func (m findPublisher) GetCorrelation() uint64 { return m.correlation }

// GetCorrelation is what requests and answers have in common.
func (m publisherFound) GetCorrelation() uint64 { return m.correlation }

// Outlet asks a broker of this process for the publisher of a stream and options.
func (a *Asker) Outlet(ctx context.Context, broker *actor.PID, stream string, options *messages.PublishOptions) (*Outlet, error) {
	n := NextCorrelation()
	answer, err := a.Ask(ctx, broker, findPublisher{stream: stream, options: options, correlation: n}, n)
	if err != nil {
		return nil, err
	}
	found, ok := answer.(publisherFound)
	if !ok {
		return nil, fmt.Errorf("unexpected answer %T", answer)
	}
	return found.outlet, nil
}

func (q *asker) wait(ctx context.Context, correlation uint64) (any, error) {
	if ctx.Done() == nil { // a plain receive is cheaper than a select
		answer := <-q.answers
		q.owner.put(q)
		return result(answer)
	}
	select {
	case answer := <-q.answers:
		q.owner.put(q)
		return result(answer)
	case <-ctx.Done():
	}
	if !q.waiting.CompareAndSwap(correlation, correlation|abandoned) {
		<-q.answers // it came at the same moment, and may not stay for the next request
		q.owner.put(q)
	}
	return nil, ctx.Err()
}

func (a *Asker) get() *asker {
	a.mu.Lock()
	if n := len(a.idle); n > 0 {
		q := a.idle[n-1]
		a.idle = a.idle[:n-1]
		a.mu.Unlock()
		return q
	}
	a.mu.Unlock()
	q := &asker{owner: a, answers: make(chan any, 1)}
	for {
		pid, ok := a.system.ProcessRegistry.Add(q, "protokinesis-ask"+a.system.ProcessRegistry.NextId())
		if ok {
			q.pid = pid
			return q
		}
	}
}

func (a *Asker) put(q *asker) {
	a.mu.Lock()
	a.idle = append(a.idle, q)
	a.mu.Unlock()
}

func result(answer any) (any, error) {
	switch m := answer.(type) {
	case *Error:
		return nil, m
	case *messages.Error:
		return nil, FromMessage(m)
	case *actor.DeadLetterResponse:
		return nil, notConnected(messages.BrokerState_BROKER_STATE_CLOSED)
	default:
		return answer, nil
	}
}

// take accepts an answer if it is of the request under way. A dead letter response carries no correlation; it
// is of this request, as earlier ones were answered.
func (q *asker) take(correlation uint64, answer any) {
	waiting := q.waiting.Load()
	if waiting == 0 || (correlation != 0 && correlation != waiting&^abandoned) || !q.waiting.CompareAndSwap(waiting, 0) {
		q.retake(correlation, answer, waiting)
		return
	}
	if waiting&abandoned != 0 {
		q.owner.put(q)
		return
	}
	q.answers <- answer
}

// retake tries once more if the caller has just gone; else the answer is of no request.
func (q *asker) retake(correlation uint64, answer any, before uint64) {
	if now := q.waiting.Load(); now != before && now == before|abandoned {
		q.take(correlation, answer)
	}
}

func (q *asker) fail(correlation uint64, f *Error) { q.take(correlation, f) }

// SendUserMessage implements actor.Process.
func (q *asker) SendUserMessage(_ *actor.PID, message any) {
	_, m, _ := actor.UnwrapEnvelope(message)
	q.take(correlationOf(m), m)
}

// SendSystemMessage implements actor.Process.
func (q *asker) SendSystemMessage(*actor.PID, any) {}

// Stop implements actor.Process.
func (q *asker) Stop(*actor.PID) {}

// answer tells whoever asked that a request failed: a Go caller of this process the error itself, an actor its message.
func answer(system *actor.ActorSystem, to *actor.PID, f *Error, correlation uint64) {
	if to == nil {
		return
	}
	if to.Address == system.Address() {
		if ref, ok := system.ProcessRegistry.GetLocal(to.Id); ok {
			if taker, ok := ref.(failureTaker); ok {
				taker.fail(correlation, f)
				return
			}
		}
	}
	system.Root.Send(to, f.Message(correlation))
}

// asError is err as an *Error if it is one.
func asError(err error) *Error {
	e, _ := errors.AsType[*Error](err)
	return e
}
