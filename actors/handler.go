package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
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
//	handlerDone                      its calls      starts the next
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
	running  int
	draining bool
	watched  *actor.PID
	stopping bool
}

// lane is one shard's records: running, and waiting for a place.
type lane struct {
	running int
	queue   []job
	at      int
}

type job struct {
	delivery *messages.Delivery
	reader   *actor.PID
}

type (
	handlerDone       struct{ shard string }
	watchSubscription struct{ subscription *actor.PID }
)

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
		for _, d := range m.GetDeliveries() {
			h.take(c, d)
		}
	case *messages.Delivery:
		h.take(c, m)
	case handlerDone:
		h.onDone(c, m)
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

func (h *handler) take(c actor.Context, d *messages.Delivery) {
	if h.draining {
		return // not settled: it comes again
	}
	l := h.lanes[d.GetShardId()]
	if l == nil {
		l = &lane{}
		h.lanes[d.GetShardId()] = l
	}
	l.queue = append(l.queue, job{delivery: d, reader: c.Sender()})
	h.start(c, d.GetShardId(), l)
}

// start runs what the lane has room for.
func (h *handler) start(c actor.Context, shard string, l *lane) {
	for !h.draining && l.running < h.cfg.Parallel && l.at < len(l.queue) {
		j := l.queue[l.at]
		l.queue[l.at] = job{}
		l.at++
		if l.at == len(l.queue) {
			l.queue, l.at = l.queue[:0], 0
		}
		l.running++
		h.running++
		root, self, ctx, handle := c.ActorSystem().Root, c.Self(), h.ctx, h.cfg.Handle
		log := h.config.logger()
		go func() {
			err := call(ctx, handle, j.delivery)
			if err != nil {
				log.Warn("handler", slog.String("stream", j.delivery.GetStream()), slog.String("shard", shard),
					slog.String("sequence", j.delivery.GetSequenceNumber()), slog.Any("error", err))
			}
			if j.reader != nil {
				root.Send(j.reader, outcomeOf(j.delivery, err))
			}
			root.Send(self, handlerDone{shard: shard})
		}()
	}
}

func (h *handler) onDone(c actor.Context, m handlerDone) {
	h.running--
	l := h.lanes[m.shard]
	l.running--
	h.start(c, m.shard, l)
	h.checkDrained(c)
}

func (h *handler) checkDrained(c actor.Context) {
	if h.draining && h.running == 0 && !h.stopping {
		h.stopping = true
		c.Stop(c.Self())
	}
}

// call runs a handler; its panic is an error of this record.
func call(ctx context.Context, handle func(context.Context, *messages.Delivery) error, d *messages.Delivery) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the handler panicked: %v\n%s", r, debug.Stack())
		}
	}()
	return handle(ctx, d)
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
