package actors

import (
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/messages"
)

// deliver sends what the window lets out. It is where the trust in the lease is checked, before every message.
func (r *reader) deliver(c actor.Context) {
	if r.state != stateReading && r.state != stateDraining {
		return
	}
	if !r.trusted() {
		r.onTrustEnded(c)
		return
	}
	r.window.clock(time.Now())
	if r.how.batchSize == 0 {
		r.deliverSingly(c)
	} else {
		for batch := r.nextBatch(); len(batch) > 0; batch = r.nextBatch() {
			c.Request(r.subscriber, &messages.DeliveryBatch{Deliveries: batch, MillisBehindLatest: r.fetch.lag})
		}
	}
	r.armRedelivery()
}

// deliverSingly sends a message per record. Request would allocate an envelope for each; here they come in blocks, of which the rest is kept: a
// subscriber that settles one by one has them sent one by one.
func (r *reader) deliverSingly(c actor.Context) {
	r.envelopes.trim()
	for d := r.window.next(); d != nil; d = r.window.next() {
		env := r.envelopes.next(r.window.pageOf(d), r.window.readyCount())
		env.Message, env.Sender = d, c.Self()
		c.Send(r.subscriber, env)
	}
}

func (r *reader) nextBatch() []*messages.Delivery {
	var batch []*messages.Delivery
	for len(batch) < r.how.batchSize {
		d := r.window.next()
		if d == nil {
			break
		}
		if batch == nil {
			batch = make([]*messages.Delivery, 0, min(r.how.batchSize, r.window.deliverable()+1))
		}
		batch = append(batch, d)
	}
	return batch
}

// onSettle applies what the subscriber says. What is of another generation, or was settled before, changes nothing.
func (r *reader) onSettle(c actor.Context, m *messages.Settle) {
	if m.GetShardId() != r.shard.id && m.GetShardId() != "" {
		r.onForeignSettle(c, m)
		return
	}
	if m.GetGeneration() != r.generation {
		r.log().Debug("late settlement ignored", slog.Uint64("generation", m.GetGeneration()))
		return
	}
	now, resends := time.Now(), r.window.resends.limit
	r.window.clock(now)
	m.EachRange(func(first, last uint64) {
		r.window.settle(first, last, m.GetOutcome(), func(attempt int32) time.Time {
			return now.Add(r.retryPause(m.GetDelayMillis(), attempt))
		})
	})
	r.afterSettled(c)
	if r.window.resends.limit > resends {
		r.redeliver(c)
	}
}

func (r *reader) retryPause(millis int64, attempt int32) time.Duration {
	if millis > 0 {
		return time.Duration(millis) * time.Millisecond
	}
	return backoff(r.how.retryBackoff, maxRetryBackoff, int(attempt))
}

// onForeignSettle: someone settles deliveries of another shard here. It is a fault of the subscriber that would hold that
// shard for ever, so it is told, though not for each.
func (r *reader) onForeignSettle(c actor.Context, m *messages.Settle) {
	r.unknown++
	if r.unknown&(r.unknown-1) != 0 { // tell the 1st, 2nd, 4th, 8th …
		return
	}
	e := invalid(r.how.stream.spelling, "settle.shard_id", "a delivery of %s was settled with the reader of this shard", m.GetShardId())
	e.Shard = r.shard.id
	e.Advice = "respond to each delivery itself"
	r.log().Warn("foreign settlement", slog.Any("error", e))
	r.tell(c, e)
}

// afterSettled goes on after the window changed.
func (r *reader) afterSettled(c actor.Context) {
	if r.window.empty() {
		r.envelopes = envelopes{}
	}
	if r.drain.draining {
		r.deliver(c) // what waits behind its key
		r.checkDrained(c)
		return
	}
	r.armRetry()
	r.unpackAndDeliver(c)
	r.checkpointSoon()
	r.checkShardEnd()
	r.fetchMore()
}

func (r *reader) armRetry() {
	at, ok := r.window.nextRetry()
	if !ok {
		r.timers.cancel(timerRetry)
		return
	}
	r.timers.set(timerRetry, max(0, time.Until(at)))
}

func (r *reader) onRetriesDue(c actor.Context) {
	if !r.trusted() {
		return // nothing is delivered, nor published as a dead letter; when the lease is renewed they are due still
	}
	limit := int32(0)
	if r.how.deadLetter != "" || r.how.maxAttempts > 0 {
		limit = r.how.maxAttempts
	}
	for _, d := range r.window.dueRetries(time.Now(), limit) {
		r.spend(c, d)
	}
	r.afterSettled(c)
}

// spend takes care of a record that has had all its attempts: to the dead-letter stream if there is one, then it is dropped. Until
// it is stored there, it holds the watermark.
func (r *reader) spend(c actor.Context, d *messages.Delivery) {
	r.log().Warn("record spent its attempts", slog.String("sequence", d.GetSequenceNumber()), slog.Int("attempts", int(d.GetAttempt())))
	if r.how.deadLetter == "" {
		r.window.settleSpent(d.GetDeliveryId())
		return
	}
	correlation := nextGeneration() // delivery ids begin anew with each generation
	r.spent[correlation] = d.GetDeliveryId()
	c.Request(r.broker, deadLetter(r.how.deadLetter, d, correlation, r.cfg.Limits.MaxRecordSize))
}

func (r *reader) onDeadLetterStored(c actor.Context, correlation uint64) {
	if id, ok := r.spent[correlation]; ok {
		delete(r.spent, correlation)
		r.lettersTold = false
		r.window.settleSpent(id)
		r.afterSettled(c)
	}
}

// onDeadLetterFailed: the record stays unsettled, and its attempts begin anew after a pause, so it is neither lost nor skipped.
func (r *reader) onDeadLetterFailed(c actor.Context, m *messages.Error) {
	id, ok := r.spent[m.GetCorrelation()]
	if !ok {
		return
	}
	delete(r.spent, m.GetCorrelation())
	e := FromMessage(m)
	r.log().Warn("dead letter not stored", slog.Any("error", e))
	if !r.lettersTold {
		r.lettersTold = true
		r.tell(c, &Error{
			Kind: e.Kind, Stream: r.how.stream.spelling, Shard: r.shard.id, Text: "a spent record can't be stored in the dead-letter stream; its shard does not advance past it",
			Cause: e, Advice: "see to the dead-letter stream; the reader goes on trying",
		})
	}
	r.window.respend(id, time.Now().Add(maxRetryBackoff))
	if r.drain.draining {
		r.drain.letters++
		r.checkDrained(c)
		return
	}
	r.armRetry()
}
