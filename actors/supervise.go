package actors

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/messages"
)

// drain tells an actor to end in order. PoisonPill becomes one (see props), so whoever poisons an actor of this package gets the
// same orderly end as the library itself.
type drain struct {
	// timeout bounds the wait for what is in flight; negative: the actor's default.
	timeout time.Duration
	// discard gives up what is in flight without a last checkpoint: what was delivered is void.
	discard bool
	// to is who the lease is handed to, instead of being released.
	to string
	// afterRead puts it off until the shard has been read once more, if that is soon.
	afterRead bool
}

// role names an actor for logs and for the tests that make it panic.
type role string

const (
	roleBroker      role = "broker"
	roleCoordinator role = "coordinator"
	roleReader      role = "reader"
	rolePublisher   role = "publisher"
	roleHandler     role = "handler"
)

// props gives every actor of this package what they have in common: PoisonPill as drain, an answer for whoever asked when a request panics or
// comes too late, no panic on the way out, and the test hook.
//
// It is done by wrapping actor and mailbox: the library's middleware allocates for every message.
func props(cfg *Config, r role, system *actor.ActorSystem, produce func() actor.Actor, options ...actor.PropsOption) *actor.Props {
	wrapped := func() actor.Actor {
		g := &guarded{cfg: cfg, role: r, inner: produce()}
		if s, ok := g.inner.(actor.SupervisorStrategy); ok {
			return &supervising{guarded: g, SupervisorStrategy: s}
		}
		return g
	}
	return actor.PropsFromProducer(wrapped, append([]actor.PropsOption{
		actor.WithMailbox(answeringMailbox(system)), actor.WithDispatcher(cfg.pool),
	}, options...)...)
}

// guarded is an actor with a guard around its Receive.
type guarded struct {
	cfg   *Config
	role  role
	inner actor.Actor
}

// supervising is a guarded actor that supervises its children itself.
type supervising struct {
	*guarded
	actor.SupervisorStrategy
}

// again is a message that an actor which goes on after a panic (resumeOnPanic) gets once more, since nobody else would repeat it.
type again struct {
	message any
	tries   int
}

const maxTries = 3

// repeated is a Context whose message is the one that is repeated.
type repeated struct {
	actor.Context
	message any
}

func (r repeated) Message() any { return r.message }

// Receive implements actor.Actor.
//
// A panic while stopping would hang the parent for ever (the library restarts the actor instead), so it is
// only logged. Any other panic is answered, if the message was a request, and goes on to the supervisor.
func (g *guarded) Receive(c actor.Context) {
	tries := 1
	if m, ok := c.Message().(again); ok {
		c, tries = repeated{c, m.message}, m.tries
	}
	defer func() {
		if reason := recover(); reason != nil {
			g.afterPanic(c, reason, tries)
		}
	}()
	if g.cfg.intercept != nil {
		g.cfg.intercept(g.role, c.Message())
	}
	g.inner.Receive(c)
}

// afterPanic sees to the message at which the actor panicked: a request is answered, deliveries are retried, and what the actor is told
// only once is repeated if the actor goes on with its state. Then the supervisor decides.
func (g *guarded) afterPanic(c actor.Context, reason any, tries int) {
	message, sender, root := c.Message(), c.Sender(), c.ActorSystem().Root
	g.cfg.logger().Error("panic in an actor", slog.String("actor", string(g.role)), slog.String("pid", c.Self().Id),
		slog.String("message", fmt.Sprintf("%T", message)), slog.Any("panic", reason))
	f := panicFailure(message, reason)
	switch m := message.(type) {
	case *actor.Stopping, *actor.Stopped:
		g.stopAgain(c)
		return
	case *messages.Delivery:
		respond(root, sender, m.Retry())
	case *messages.DeliveryBatch:
		respond(root, sender, m.Retry())
	default:
		switch {
		case f != nil:
			answer(c.ActorSystem(), sender, f, correlationOf(message))
		case (g.role == roleBroker || g.role == roleHandler) && tries < maxTries:
			root.RequestWithCustomSender(c.Self(), again{message: message, tries: tries + 1}, sender)
		}
	}
	panic(reason)
}

// stopAgain gives the actor a second chance to let go of what it holds: there is no third message that would.
func (g *guarded) stopAgain(c actor.Context) {
	defer func() { _ = recover() }() // it was logged the first time
	g.inner.Receive(c)
}

func respond(root *actor.RootContext, to *actor.PID, message any) {
	if to != nil {
		root.Send(to, message)
	}
}

// panicFailure is what whoever sent the request is told; nil for what is not a request.
func panicFailure(message, reason any) *Error {
	e := &Error{Text: fmt.Sprintf("the actor panicked: %v", reason), OutcomeUnknown: true}
	switch m := message.(type) {
	case *messages.Publish:
		e.Kind, e.Stream = messages.ErrorKind_ERROR_KIND_PUBLISH, m.GetStream()
	case *messages.Subscribe:
		e.Kind, e.Stream = messages.ErrorKind_ERROR_KIND_STREAM, m.GetStream().GetName()
	case *messages.Seek:
		e.Kind, e.Stream = messages.ErrorKind_ERROR_KIND_READ, m.GetStream()
	case findPublisher:
		e.Kind, e.Stream, e.OutcomeUnknown = messages.ErrorKind_ERROR_KIND_PUBLISH, m.stream, false
	case *messages.Connect:
		e.Kind = messages.ErrorKind_ERROR_KIND_CONFIG
	case *messages.Unsubscribe, *messages.StatusRequest, *messages.Shutdown:
		e.Kind = messages.ErrorKind_ERROR_KIND_STREAM
	default:
		return nil
	}
	return e
}

// correlationOf is the correlation of a request, 0 for what has none.
func correlationOf(message any) uint64 {
	if m, ok := message.(interface{ GetCorrelation() uint64 }); ok {
		return m.GetCorrelation()
	}
	return 0
}

// isRequest reports whether message is one of the protocol's requests to a broker or coordinator, which must be answered
// in every state.
func isRequest(message any) bool {
	switch message.(type) {
	case *messages.Publish, *messages.Subscribe, *messages.Seek, *messages.Connect, *messages.Unsubscribe, findPublisher:
		return true
	default:
		return false
	}
}

// resumeOnPanic is the broker's supervisor: it goes on with the next message. Its state is written last in each handler and its
// children know nothing of the panic, so no subscription dies of it.
func resumeOnPanic() actor.SupervisorStrategy {
	return actor.NewOneForOneStrategy(1, 0, func(any) actor.Directive { return actor.ResumeDirective })
}

// restartWithBackoff restarts a failed child after a pause that doubles from 100 ms to 10 s, for as
// long as it fails; a child that has lived for a minute starts at 100 ms again. Giving up would leave a subscription silent for ever.
type restartWithBackoff struct {
	failed func(child *actor.PID, reason any)
}

const (
	restartFirst  = 100 * time.Millisecond
	restartMax    = 10 * time.Second
	restartForget = time.Minute
)

// HandleFailure implements actor.SupervisorStrategy.
func (s restartWithBackoff) HandleFailure(_ *actor.ActorSystem, supervisor actor.Supervisor, child *actor.PID,
	rs *actor.RestartStatistics, reason, _ any,
) {
	rs.Fail()
	s.failed(child, reason)
	pause := backoff(restartFirst, restartMax, rs.NumberOfFailures(restartForget))
	// The child's mailbox is suspended meanwhile. A child that was stopped in between ignores the restart.
	after(pause, func() { supervisor.RestartChildren(child) })
}

// backoff is first doubled with each failure after the first, at most limit.
func backoff(first, limit time.Duration, failures int) time.Duration {
	d := first
	for range failures - 1 {
		if d >= limit {
			return limit
		}
		d *= 2
	}
	return min(d, limit)
}
