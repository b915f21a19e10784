package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/messages"
)

// How records come into a publisher: one by one or in batches, from actors or from Go code of this process.

// refusal is why no record is taken in now, whatever it is; nil if some are.
func (p *publisher) refusal(now time.Time) *Error {
	switch {
	case p.flushing:
		return notConnected(messages.BrokerState_BROKER_STATE_CLOSING)
	case p.auto && p.how.aggregate:
		p.wantMap(now) // that may change
		return autoStream(p.stream)
	default:
		return nil
	}
}

// onPublish takes a record in, unless it is wrong or there are too many.
func (p *publisher) onPublish(c actor.Context, m *messages.Publish) {
	now := time.Now()
	f := fieldsOf(m, m.PartitionKey)
	size, err := p.check(&f, now)
	if err == nil && !p.room(1, int64(size), now) {
		err = p.overloaded()
	}
	if err != nil {
		answer(c.ActorSystem(), c.Sender(), err, m.GetCorrelation())
		return
	}
	p.takeIn(reply{sender: c.Sender(), number: m.GetCorrelation()}, &f, size, now)
	p.prepareMap(now)
	p.send(now, false)
}

// check finds what speaks against a record of an actor, but for room in the stream, and prepares it.
func (p *publisher) check(f *recordFields, now time.Time) (size int, err *Error) {
	if err = p.refusal(now); err != nil {
		return 0, err
	}
	if size, err = f.check(p.stream, p.cfg.Limits); err != nil {
		return 0, err
	}
	f.prepare()
	if l := p.out.refuses(f.key, f.hashKey); l != nil {
		return 0, p.laneFull(l)
	}
	return size, nil
}

// wantsRoom tells the publisher that a Go caller waits for room.
type wantsRoom struct{}

// makeRoom makes room for the Go callers that wait.
func (p *publisher) makeRoom(now time.Time) {
	if p.out.slowCount == 0 {
		return
	}
	if records, bytes := p.quota.wanted(p.out.shut); records > 0 {
		p.evict(records, bytes, now)
	}
}

// room makes room for records of an actor.
func (p *publisher) room(records int, bytes int64, now time.Time) bool {
	return p.quota.try(records, bytes) || (p.evict(records, bytes, now) && p.quota.try(records, bytes))
}

// evict gives the youngest records of throttled shards back to their senders, Overloaded, if these have more than their part: they came in before it
// was known that the shard takes no more.
func (p *publisher) evict(records int, bytes int64, now time.Time) bool {
	before := len(p.settled)
	p.out.evict(records, bytes, now, func(r *outgoing, l *shardLane) {
		e := p.laneFull(l)
		e.OutcomeUnknown = r.unknown
		p.settle1(r, Outcome{Err: e})
	})
	evicted := len(p.settled) > before
	p.answer()
	return evicted
}

// onTicket takes in a record of Go code.
func (p *publisher) onTicket(t *Ticket) {
	now := time.Now()
	if err := p.refusal(now); err != nil {
		t.refuse(err)
		return
	}
	if !t.taken.CompareAndSwap(false, true) {
		return
	}
	f := recordFields{data: t.data, key: t.key, keyless: t.keyless, hashKey: t.hashKey}
	p.takeIn(reply{ticket: t, number: t.number}, &f, t.size, now)
	p.prepareMap(now)
	p.send(now, false)
}

// onPublishBatch takes in a batch as a whole, or nothing of it. What is wrong with single records is part of the answer.
func (p *publisher) onPublishBatch(c actor.Context, m *messages.PublishBatch) {
	now := time.Now()
	job := &batchJob{reply: reply{sender: c.Sender(), number: m.GetCorrelation()}, outcomes: make([]Outcome, len(m.GetRecords()))}
	items := make([]batchItem, 0, len(m.GetRecords()))
	var bytes int64
	for i, r := range m.GetRecords() {
		if r == nil {
			job.outcomes[i].Err = invalid(p.stream, "records", "has no record at %d", i)
			continue
		}
		f := fieldsOf(r, r.PartitionKey)
		size, err := f.check(p.stream, p.cfg.Limits)
		if err != nil {
			job.outcomes[i].Err = err
			continue
		}
		f.prepare()
		items = append(items, batchItem{fields: f, size: size, index: i})
		bytes += int64(size)
	}
	if err := p.checkBatch(items, bytes, now); err != nil {
		answer(c.ActorSystem(), c.Sender(), err, m.GetCorrelation())
		return
	}
	p.takeInBatch(job, items, now)
}

// checkBatch finds what speaks against a batch as a whole, and makes room for it.
func (p *publisher) checkBatch(items []batchItem, bytes int64, now time.Time) *Error {
	if err := p.refusal(now); err != nil {
		return err
	}
	if err := checkBatchSize(p.stream, len(items), bytes, p.cfg.Limits); err != nil {
		return err
	}
	for i := range items {
		if l := p.out.refuses(items[i].fields.key, items[i].fields.hashKey); l != nil {
			return p.laneFull(l)
		}
	}
	if len(items) > 0 && !p.room(len(items), bytes, now) {
		return p.overloaded()
	}
	return nil
}

// onBatchTicket takes in a batch of Go code.
func (p *publisher) onBatchTicket(t *batchTicket) {
	now := time.Now()
	if err := p.refusal(now); err != nil {
		t.refuse(err)
		return
	}
	if t.taken.CompareAndSwap(false, true) {
		p.takeInBatch(&batchJob{ticket: t, outcomes: t.outcomes}, t.items, now)
	}
}

func (p *publisher) takeInBatch(job *batchJob, items []batchItem, now time.Time) {
	job.left = len(items)
	if job.left == 0 {
		p.finishBatch(job)
		return
	}
	for i := range items {
		p.takeIn(reply{batch: job, index: items[i].index}, &items[i].fields, items[i].size, now)
	}
	p.prepareMap(now)
	p.send(now, false)
}

func (p *publisher) tellBatch(job *batchJob, index int, outcome Outcome) {
	job.outcomes[index] = outcome
	if job.left--; job.left == 0 {
		p.finishBatch(job)
	}
}

// finishBatch answers a batch.
func (p *publisher) finishBatch(job *batchJob) {
	if job.ticket != nil {
		close(job.ticket.done)
		return
	}
	if job.sender == nil {
		for i := range job.outcomes {
			p.tell(&outgoing{}, job.outcomes[i])
		}
		return
	}
	results := make([]messages.PublishResult, len(job.outcomes))
	published := make([]messages.Published, len(job.outcomes))
	answer := &messages.PublishedBatch{Results: make([]*messages.PublishResult, len(results)), Correlation: job.number}
	for i := range job.outcomes {
		o := &job.outcomes[i]
		answer.Results[i] = &results[i]
		if o.Err != nil {
			results[i].Outcome = &messages.PublishResult_Error{Error: o.Err.Message(0)}
		} else {
			results[i].Outcome = &messages.PublishResult_Published{Published: o.fill(&published[i], 0)}
		}
	}
	p.fx.root.Send(job.sender, answer)
}
