package actors

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/messages"
)

// HandlerConfig says how SpawnHandler runs a handler.
type HandlerConfig struct {
	// Handle handles one record: nil acks it, an error retries it (or see Drop and RetryAfter), a panic is an error. Its context ends when
	// the handler is stopped.
	Handle func(ctx context.Context, d *messages.Delivery) error
	// Parallel bounds the handlers running at a time per shard.
	Parallel int
	// OnError is told of every SubscriptionError. It must not block.
	OnError func(e *Error, fatal bool)
	// Ended is called, at least once, when the subscription given by WatchSubscription has ended, or the handler has stopped.
	Ended func()
	// Stopped is called once when the handler has stopped: no call of Handle is running, and none will.
	Stopped func()
	// Logger takes the log; may be nil.
	Logger *slog.Logger

	// intercept sees every message before the handler does; tests make it panic.
	intercept func(r role, message any)
}

// handler is a subscriber that calls a function for each record, several at a time.
//
//	receives                         from           does
//	*messages.DeliveryBatch          readers        queues its records; each is settled on its own
//	*jobDone                         its workers    settles, with others
//	flushLane                        itself         sends what is to be settled
//	workerGone                       its workers    starts another if there is more to do
//	*messages.SubscriptionError      subscription   tells OnError
//	watchSubscription                the Go API     watches the coordinator
//	drain, PoisonPill                the Go API     starts no more; stops when the running ones are done
//
// The reader delivers at most one record of a partition key at a time (per_key_order), so running everything that comes in parallel keeps
// the order per key. A lane per shard bounds how many run.
type handler struct {
	cfg      HandlerConfig
	config   *Config
	ctx      context.Context //nolint:containedctx // the life of the handlers, handed to each
	cancel   context.CancelFunc
	lanes    map[string]*lane
	workers  int
	draining bool
	watched  *actor.PID
	stopping bool
}

type watchSubscription struct{ subscription *actor.PID }

// SpawnHandler starts a subscriber that runs a handler. Subscribe it with per_key_order and batch_size set.
func SpawnHandler(system *actor.ActorSystem, cfg HandlerConfig) *actor.PID {
	config := Config{Logger: cfg.Logger, intercept: cfg.intercept}.withDefaults()
	return system.Root.SpawnPrefix(props(config, roleHandler, system, func() actor.Actor { return newHandler(cfg, config) },
		actor.WithGuardian(resumeOnPanic())), "protokinesis-handler")
}

// WatchSubscription tells a handler which subscription it serves, so that it learns of its end.
func WatchSubscription(system *actor.ActorSystem, handler, subscription *actor.PID) {
	system.Root.Send(handler, watchSubscription{subscription})
}

func newHandler(cfg HandlerConfig, config *Config) *handler {
	ctx, cancel := context.WithCancel(context.Background())
	return &handler{cfg: cfg, config: config, ctx: ctx, cancel: cancel, lanes: make(map[string]*lane)}
}

// Receive implements actor.Actor.
func (h *handler) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *messages.DeliveryBatch:
		h.take(c, m.GetDeliveries())
	case *messages.Delivery:
		h.take(c, []*messages.Delivery{m})
	case *jobDone:
		h.onDone(c, (*job)(m))
	case flushLane:
		h.flush(c, m.lane)
	case workerGone:
		h.onGone(c, m.lane)
	case *messages.SubscriptionError:
		if h.cfg.OnError != nil {
			h.cfg.OnError(FromMessage(m.GetError()), m.GetFatal())
		}
	case watchSubscription:
		h.watched = m.subscription
		c.Watch(m.subscription)
	case *actor.Terminated:
		c.Send(c.Self(), childGone{m.Who}) // not before the error that tells why, which it overtakes
	case childGone:
		h.onEnded(c, m.who)
	case drain:
		h.draining = true
		h.cancel()
		h.checkDrained(c)
	case *actor.Stopping:
		h.draining = true
		h.cancel()
		for _, l := range h.lanes {
			h.flush(c, l)
		}
	case *actor.Stopped:
		h.config.pool.close()
		if h.cfg.Ended != nil {
			h.cfg.Ended()
		}
		if h.cfg.Stopped != nil {
			h.cfg.Stopped()
		}
	}
}

// onEnded: the subscription has ended, and what still runs can't be settled any more.
func (h *handler) onEnded(c actor.Context, who *actor.PID) {
	if h.watched == nil || !h.watched.Equal(who) {
		return
	}
	h.watched = nil
	if h.cfg.Ended != nil {
		h.cfg.Ended()
	}
	h.draining = true
	h.cancel()
	h.checkDrained(c)
}

func (h *handler) take(c actor.Context, deliveries []*messages.Delivery) {
	if h.draining || len(deliveries) == 0 {
		return // not settled: they come again
	}
	shard := deliveries[0].GetShardId()
	l := h.lanes[shard]
	if l == nil {
		l = newLane(shard)
		h.lanes[shard] = l
	}
	l.take(deliveries, c.Sender())
	h.start(c, l)
}

// start has workers do what waits.
func (h *handler) start(c actor.Context, l *lane) {
	if h.draining {
		return
	}
	l.feed()
	for ready := len(l.jobs); ready > 0 && l.workers < h.cfg.Parallel; ready-- {
		l.workers++
		h.workers++
		w := worker{ctx: h.ctx, handle: h.cfg.Handle, log: h.config.logger(), root: c.ActorSystem().Root, self: c.Self()}
		go w.run(l)
	}
}

// onDone has the record settled, together with those that are done by the time the flush comes.
func (h *handler) onDone(c actor.Context, j *job) {
	l := j.lane
	if j.delivery == nil {
		return // repeated after a panic, and settled before it
	}
	if l.acks = append(l.acks, j); len(l.acks) == 1 {
		c.Send(c.Self(), flushLane{l})
	}
	h.start(c, l)
}

func (h *handler) flush(c actor.Context, l *lane) {
	l.acked(func(reader *actor.PID, s *messages.Settle) { c.Send(reader, s) })
}

// onGone: more may have come since the worker looked.
func (h *handler) onGone(c actor.Context, l *lane) {
	l.workers--
	h.workers--
	h.flush(c, l)
	h.start(c, l)
	if l.idle() {
		delete(h.lanes, l.shard) // a stream that is resharded has ever new shards
	}
	h.checkDrained(c)
}

func (h *handler) checkDrained(c actor.Context) {
	if h.draining && h.workers == 0 && !h.stopping {
		h.stopping = true
		c.Stop(c.Self())
	}
}

// settleError is an error that says how to settle.
type settleError struct {
	cause error
	drop  bool
	delay time.Duration
}

func (e *settleError) Error() string { return e.cause.Error() }
func (e *settleError) Unwrap() error { return e.cause }

// Drop makes a handler's error give the record up instead of retrying it.
func Drop(cause error) error { return &settleError{cause: orUnnamed(cause), drop: true} }

// RetryAfter makes a handler's error retry the record after delay instead of the usual backoff.
func RetryAfter(cause error, delay time.Duration) error {
	return &settleError{cause: orUnnamed(cause), delay: delay}
}

func orUnnamed(cause error) error {
	if cause == nil {
		return errors.New("no reason given")
	}
	return cause
}

// outcomeOf is how a handler's result settles its record.
func outcomeOf(d *messages.Delivery, err error) *messages.Settle {
	var s *settleError
	switch {
	case err == nil:
		return d.Ack()
	case !errors.As(err, &s):
		return d.Retry()
	case s.drop:
		return d.Drop()
	default:
		return d.RetryAfter(s.delay)
	}
}
