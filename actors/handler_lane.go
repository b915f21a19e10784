package actors

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/messages"
)

// lane is one shard's records on their way through a handler: those that wait, those in the hands of workers, and those that are handled and not
// settled yet. Its workers take records by themselves, so that none waits for the actor between two.
type lane struct {
	shard   string
	waiting []*job
	at      int       // the first of those that wait
	jobs    chan *job // for the workers
	workers int
	acks    []*job // to be settled together by the next flush
}

// job is a record to be handled. Jobs come in blocks, of which each keeps all.
type job struct {
	delivery *messages.Delivery // nil once it is settled, so that one that takes long does not keep the others' records
	reader   *actor.PID
	lane     *lane
	err      error
}

type (
	// jobDone: a worker has handled the record.
	jobDone job
	// workerGone: a worker has found nothing to do.
	workerGone struct{ lane *lane }
	// flushLane comes after the jobs that were done when it was sent.
	flushLane struct{ lane *lane }
)

// jobsAhead is how many records lie ready for workers.
const jobsAhead = 256

func newLane(shard string) *lane { return &lane{shard: shard, jobs: make(chan *job, jobsAhead)} }

// take queues deliveries.
func (l *lane) take(deliveries []*messages.Delivery, reader *actor.PID) {
	block := make([]job, len(deliveries))
	for i, d := range deliveries {
		block[i] = job{delivery: d, reader: reader, lane: l}
		l.waiting = append(l.waiting, &block[i])
	}
}

// idle reports whether there is nothing in it.
func (l *lane) idle() bool {
	return l.workers == 0 && l.at == len(l.waiting) && len(l.jobs) == 0 && len(l.acks) == 0
}

// feed lays waiting records ready.
func (l *lane) feed() {
	for l.at < len(l.waiting) && l.lay(l.waiting[l.at]) {
		l.waiting[l.at] = nil
		l.at++
	}
	if l.at*2 >= len(l.waiting) {
		l.waiting, l.at = slices.Delete(l.waiting, 0, l.at), 0
	}
}

// lay reports whether there was room.
func (l *lane) lay(j *job) bool {
	select {
	case l.jobs <- j:
		return true
	default:
		return false
	}
}

// acked settles what was acked since the last flush: a message for each reader and generation, which in the usual case is one.
func (l *lane) acked(settle func(reader *actor.PID, s *messages.Settle)) {
	slices.SortFunc(l.acks, func(a, b *job) int { return cmp.Compare(a.delivery.GetDeliveryId(), b.delivery.GetDeliveryId()) })
	for len(l.acks) > 0 {
		reader, generation := l.acks[0].reader, l.acks[0].delivery.GetGeneration()
		var batch messages.DeliveryBatch
		rest := l.acks[:0]
		for _, j := range l.acks {
			if (j.reader == reader || j.reader.Equal(reader)) && j.delivery.GetGeneration() == generation {
				batch.Deliveries = append(batch.Deliveries, j.delivery)
				j.delivery = nil
			} else {
				rest = append(rest, j)
			}
		}
		settle(reader, batch.Ack())
		clear(l.acks[len(rest):])
		l.acks = rest
	}
}

// worker handles records until there are none, or the handler ends.
type worker struct {
	ctx    context.Context //nolint:containedctx // the life of the handlers, handed to each
	handle func(context.Context, *messages.Delivery) error
	log    *slog.Logger
	root   *actor.RootContext
	self   *actor.PID
}

func (w worker) run(l *lane) {
	defer w.root.Send(w.self, workerGone{l})
	for w.ctx.Err() == nil {
		select {
		case j := <-l.jobs:
			w.do(j)
		default:
			return
		}
	}
}

func (w worker) do(j *job) {
	j.err = call(w.ctx, w.handle, j.delivery)
	if j.err != nil {
		w.log.Warn("handler", slog.String("stream", j.delivery.GetStream()), slog.String("shard", j.lane.shard),
			slog.String("sequence", j.delivery.GetSequenceNumber()), slog.Any("error", j.err))
	}
	switch {
	case j.reader == nil:
	case j.err != nil || w.ctx.Err() != nil: // seldom, or the handler may be gone soon
		w.root.Send(j.reader, outcomeOf(j.delivery, j.err))
		j.delivery = nil
	default:
		w.root.Send(w.self, (*jobDone)(j))
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
