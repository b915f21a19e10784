package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/actors"
	"github.com/protokinesis/protokinesis/messages"
)

// consumer is the subscriber of consume.
//
//	receives                      from           does
//	*messages.DeliveryBatch       readers        queues its records in the lane of their shard
//	handled                       its jobs       acks them, or runs them again after a pause
//	retryDue                      its timers     runs a job again
//	watchSubscription             the command    watches the coordinator
//	subscriptionGone              itself         ends: the coordinator has stopped
//	*actor.Terminated             readers        forgets what that one had delivered and has not begun
//	*messages.SubscriptionError   subscription   logs it; a fatal one is the end
//	stopConsuming                 the command    takes no more
//
//	consuming ──▶ stopped
//
// The library's own handlers run records of different keys as they come, so what they have acked is rarely all there is up to
// some record: behind the watermark, records come again. Here every shard is subscribed in its order, and a record is taken, to be
// handled, only after all before it. What is taken gets handled also after a stop, and what is not never is. So at an orderly
// end the records handled of a shard are all up to some record, and the next run goes on with the one after it.
type consumer struct {
	// Constructor.
	consumerConfig
	finished *finish

	// State.
	lanes   map[string]*lane
	taken   int // records, ever
	acked   int // records
	stopped bool
	watched *actor.PID
}

type consumerConfig struct {
	// handle handles the records of a job. Its error retries them; a fatalError ends the consumer.
	handle func(ctx context.Context, records []*messages.Delivery, attempt int) error
	// ctx is for handle, and lasts longer than the consumer takes records.
	ctx context.Context //nolint:containedctx // the life of the jobs
	// running is done when no job runs.
	running *sync.WaitGroup
	// jobSize bounds the records of a job. Above 1 a shard runs one job at a time.
	jobSize int
	// parallel bounds the jobs running at a time per shard. Those of one key run one after the other.
	parallel int
	// count ends it after so many records; 0 does not.
	count int
	log   *slog.Logger
}

// finish is how a consumer ended by itself.
type finish struct {
	done chan struct{} // closed at the end

	mu  sync.Mutex
	set bool
	err error
}

func newFinish() *finish { return &finish{done: make(chan struct{})} }

// end is the end, the first time. The first error counts, also one that comes later: what was begun may still fail.
func (f *finish) end(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
	if !f.set {
		f.set = true
		close(f.done)
	}
}

func (f *finish) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// fatalError ends a consumer.
type fatalError struct{ cause error }

func (e *fatalError) Error() string { return e.cause.Error() }
func (e *fatalError) Unwrap() error { return e.cause }

// lane is one shard's records.
type lane struct {
	generation uint64
	reader     *actor.PID
	gone       uint64   // generations up to this one are of readers that have stopped
	waiting    []queued // not taken, in the order of the shard
	keys       map[string][]*job
	ready      []*job
	running    int
	taken      int // jobs taken and not settled
	pausing    map[*job]*time.Timer
}

type queued struct {
	delivery *messages.Delivery
	reader   *actor.PID
}

// job is what is handled at once: records of one shard, one generation, one reader.
type job struct {
	records []*messages.Delivery
	reader  *actor.PID
	failed  int
}

func (j *job) shard() string { return j.records[0].GetShardId() }
func (j *job) key() string   { return j.records[0].GetPartitionKey() }

func (j *job) generation() uint64 { return j.records[0].GetGeneration() }

type (
	handled struct {
		job *job
		err error
	}
	retryDue          struct{ job *job }
	watchSubscription struct{ pid *actor.PID }
	subscriptionGone  struct{}
	stopConsuming     struct{}
)

const (
	retryFirst = 200 * time.Millisecond
	retryMax   = 30 * time.Second
	// never is the pause before a record comes again that must not be handled by this process: longer than any shutdown.
	never = 24 * time.Hour
	// ahead is how many jobs per running one are taken at a time.
	ahead = 4
)

var errEnded = errors.New("the subscription ended")

func newConsumer(cfg consumerConfig, finished *finish) *consumer {
	return &consumer{consumerConfig: cfg, finished: finished, lanes: make(map[string]*lane)}
}

// Receive implements actor.Actor.
func (co *consumer) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *messages.DeliveryBatch:
		co.onBatch(c, m.GetDeliveries())
	case *messages.Delivery:
		co.onBatch(c, []*messages.Delivery{m})
	case handled:
		co.onHandled(c, m)
	case retryDue:
		co.onRetryDue(c, m.job)
	case *messages.SubscriptionError:
		co.onError(c, m)
	case watchSubscription:
		co.watched = m.pid
		c.Watch(m.pid)
	case *actor.Terminated:
		if m.Who.Equal(co.watched) {
			c.Send(c.Self(), subscriptionGone{}) // Terminated overtakes messages that say why, or that it was asked for
		} else {
			co.onReaderGone(c, m.Who)
		}
	case subscriptionGone:
		if !co.stopped {
			co.end(c, errEnded)
		}
	case stopConsuming:
		co.end(c, nil)
	}
}

func (co *consumer) onError(c actor.Context, m *messages.SubscriptionError) {
	err := actors.FromMessage(m.GetError())
	if m.GetFatal() {
		co.end(c, err)
		return
	}
	co.log.Warn("subscription", slog.Any("error", err))
}

func (co *consumer) onBatch(c actor.Context, records []*messages.Delivery) {
	if len(records) == 0 {
		return
	}
	l := co.lane(records[0].GetShardId())
	switch generation := records[0].GetGeneration(); {
	case generation > l.generation:
		l.generation = generation
		l.waiting = nil // of a reader before: void, they come again
		if l.reader = c.Sender(); l.reader != nil {
			c.Watch(l.reader)
		}
	case generation < l.generation, generation <= l.gone:
		return
	}
	for _, d := range records {
		l.waiting = append(l.waiting, queued{d, c.Sender()})
	}
	co.pump(c, l)
}

func (co *consumer) lane(shard string) *lane {
	l := co.lanes[shard]
	if l == nil {
		l = &lane{keys: make(map[string][]*job), pausing: make(map[*job]*time.Timer)}
		co.lanes[shard] = l
	}
	return l
}

// pump takes records and starts jobs, as many as may be.
func (co *consumer) pump(c actor.Context, l *lane) {
	if co.stopped {
		co.refuse(c, l)
		return
	}
	limit := 1
	if co.parallel > 1 {
		limit = ahead * co.parallel
	}
	for l.taken < limit {
		j := co.take(l)
		if j == nil {
			break
		}
		l.taken++
		if behind, busy := l.keys[j.key()]; busy && co.jobSize == 1 {
			l.keys[j.key()] = append(behind, j)
			continue
		}
		l.keys[j.key()] = nil
		l.ready = append(l.ready, j)
	}
	co.start(c, l)
}

// take makes a job of the first records that wait; nil when there are none, or there were enough.
func (co *consumer) take(l *lane) *job {
	n := min(len(l.waiting), co.jobSize)
	if co.count > 0 {
		n = min(n, co.count-co.taken)
	}
	if n == 0 {
		return nil
	}
	j := &job{reader: l.waiting[0].reader, records: make([]*messages.Delivery, n)}
	for i := range j.records {
		j.records[i] = l.waiting[i].delivery
		l.waiting[i] = queued{}
	}
	l.waiting = l.waiting[n:]
	co.taken += n
	return j
}

func (co *consumer) start(c actor.Context, l *lane) {
	for l.running < co.parallel && len(l.ready) > 0 {
		j := l.ready[0]
		l.ready[0] = nil
		l.ready = l.ready[1:]
		l.running++
		root, self, ctx, handle := c.ActorSystem().Root, c.Self(), co.ctx, co.handle
		attempt := int(j.records[0].GetAttempt()) + j.failed
		co.running.Go(func() {
			root.Send(self, handled{job: j, err: handle(ctx, j.records, attempt)})
		})
	}
}

func (co *consumer) onHandled(c actor.Context, m handled) {
	l := co.lane(m.job.shard())
	l.running--
	var fatal *fatalError
	switch {
	case m.err == nil:
		c.Send(m.job.reader, (&messages.DeliveryBatch{Deliveries: m.job.records}).Ack())
		co.acked += len(m.job.records)
		co.release(l, m.job)
		if co.count > 0 && co.acked >= co.count {
			co.end(c, nil)
		}
	case errors.As(m.err, &fatal):
		co.giveBack(c, l, m.job)
		co.end(c, fatal.cause)
	case m.job.generation() <= l.gone:
		co.taken -= len(m.job.records) // it comes again where its shard is read now
		co.release(l, m.job)
	default:
		co.onFailed(c, l, m)
	}
	co.pump(c, l)
}

// release lets the next job of the key go.
func (co *consumer) release(l *lane, j *job) {
	l.taken--
	behind := l.keys[j.key()]
	if len(behind) == 0 {
		delete(l.keys, j.key())
		return
	}
	l.ready = append(l.ready, behind[0])
	l.keys[j.key()] = behind[1:]
}

// onFailed lets the job wait before it runs again. Meanwhile it keeps its place, and those of its key stay behind it.
func (co *consumer) onFailed(c actor.Context, l *lane, m handled) {
	j := m.job
	j.failed++
	d := j.records[0]
	pause := retryMax
	if shift := j.failed - 1; shift < 8 {
		pause = min(retryMax, retryFirst<<shift)
	}
	log := co.log.With(slog.String("shard", d.GetShardId()), slog.String("sequence", d.GetSequenceNumber()),
		slog.Int("attempt", int(d.GetAttempt())+j.failed-1), slog.Any("error", m.err))
	if co.stopped {
		log.Warn("the command failed; the record comes again in the next run")
		co.giveBack(c, l, j)
		return
	}
	log.Warn("the command failed", slog.Duration("again_in", pause))
	root, self := c.ActorSystem().Root, c.Self()
	l.pausing[j] = time.AfterFunc(pause, func() { root.Send(self, retryDue{j}) })
}

func (co *consumer) onRetryDue(c actor.Context, j *job) {
	l := co.lane(j.shard())
	if _, pausing := l.pausing[j]; !pausing {
		return
	}
	delete(l.pausing, j)
	l.ready = append(l.ready, j)
	co.start(c, l)
}

// giveBack leaves a job, and what waits behind it for its key, unsettled for ever: the next run gets the records.
func (co *consumer) giveBack(c actor.Context, l *lane, j *job) {
	for _, back := range append([]*job{j}, l.keys[j.key()]...) {
		l.taken--
		c.Send(back.reader, (&messages.DeliveryBatch{Deliveries: back.records}).RetryAfter(never))
	}
	delete(l.keys, j.key())
}

// refuse leaves what waits unsettled for ever. Its readers have it in flight no more, so that they can drain.
func (co *consumer) refuse(c actor.Context, l *lane) {
	for _, q := range l.waiting {
		c.Send(q.reader, q.delivery.RetryAfter(never))
	}
	l.waiting = nil
	for j, timer := range l.pausing {
		timer.Stop()
		delete(l.pausing, j)
		co.giveBack(c, l, j)
	}
	co.start(c, l)
}

// end takes no more records. What was taken is still handled, but for what has failed.
func (co *consumer) end(c actor.Context, err error) {
	co.finished.end(err)
	if co.stopped {
		return
	}
	co.stopped = true
	for _, l := range co.lanes {
		co.refuse(c, l)
	}
}
