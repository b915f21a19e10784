package actors

import (
	"context"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// flight is a PutRecords under way.
type flight struct {
	request
	keyless bool // it has records without a key, as the stream distributes its records by itself
}

// putDone is the result of a PutRecords.
type putDone struct {
	flight *flight
	out    *kinesis.PutRecordsOutput
	err    error
}

const (
	// maxPutRecords is the most entries of a PutRecords, as the service allows.
	maxPutRecords = 500
	// maxRequestBytes is the most bytes of one.
	maxRequestBytes = 10 << 20

	// publishPart is the least bytes for which a request of their own is worth while.
	publishPart = 64 << 10

	publishRetryFirst = 100 * time.Millisecond
	publishThrottled  = 250 * time.Millisecond
	publishRetryMax   = 5 * time.Second

	// publishGather is how long what is ready waits for more while another request is under way: that one may take its time.
	publishGather = 5 * time.Millisecond
	// publishCalls is how many calls that hang a record's time is enough for: what is unknown after one can still be tried again.
	publishCalls = 2
	// publishGrace is how long a request may last beyond the deadlines of all its records.
	publishGrace = time.Second
)

// send starts what requests may go now. returned: one has just come back, and what has gathered meanwhile goes.
func (p *publisher) send(now time.Time, returned bool) {
	p.gather(now)
	for p.mayGo(now, returned) && p.sendParts(now) {
		p.gathering, returned = false, false
		p.gather(now)
	}
	p.schedule(now)
}

// sendParts sends a request, and as many more of its size as are ready and may go; false: there is none to send.
func (p *publisher) sendParts(now time.Time) (sent bool) {
	part := p.part()
	for p.sendOne(part, now) {
		sent = true
		if p.flying >= p.cfg.Limits.PublishRequests || p.out.readyBytes < part {
			break
		}
	}
	return sent
}

// part is how many bytes the next request may have. In an aggregated record all that is ready of many keys fits into one request, and while that is
// on its way these keys send no other: what is much is spread over the requests that are free.
func (p *publisher) part() int {
	limit := p.cfg.Limits.RequestBytes
	if !p.how.aggregate {
		return limit
	}
	return min(limit, max(publishPart, p.out.readyBytes/(p.cfg.Limits.PublishRequests-p.flying)))
}

// enough is how many ready bytes do not wait for more. Who is made to linger waits for a whole request, as aggregated records are to be large.
func (p *publisher) enough() int {
	if p.how.aggregate && p.how.linger == 0 {
		return min(publishPart, p.cfg.Limits.RequestBytes)
	}
	return p.cfg.Limits.RequestBytes
}

// sendOne sends a request of at most so many bytes; false: there is none to send.
func (p *publisher) sendOne(maxBytes int, now time.Time) bool {
	f := p.newFlight()
	f.maxBytes = maxBytes
	p.out.fill(&f.request, now)
	if len(f.entries) == 0 {
		p.idle = append(p.idle, f)
		return false
	}
	p.launch(f, now)
	return true
}

// gather notes since when something is ready.
func (p *publisher) gather(now time.Time) {
	switch {
	case p.out.readyKeys == 0:
		p.gathering = false
	case !p.gathering:
		p.gathering, p.gatheredAt = true, now
	}
}

// mayGo decides whether a request goes now.
func (p *publisher) mayGo(now time.Time, returned bool) bool {
	switch {
	case p.flying >= p.cfg.Limits.PublishRequests, now.Before(p.pausedUntil):
		return false
	case len(p.out.split) > 0, p.out.slowDue(now), p.out.fills(maxPutRecords, p.enough()):
		return true
	case p.out.readyKeys == 0:
		return false
	default:
		return !now.Before(p.goesAt(returned))
	}
}

// goesAt is when what is ready goes, though it does not fill a request.
func (p *publisher) goesAt(returned bool) time.Time {
	wait := p.how.linger
	if p.flushing {
		wait = 0
	}
	// What is as much as all that is on its way does not wait for it. Less does for a moment: else a few keys would be spread over many requests
	// for ever, as each is ready again when its own returns.
	if p.flying > 0 && (!returned || p.out.readyBytes < p.bytesFlying) {
		wait = max(wait, publishGather)
	}
	return p.gatheredAt.Add(wait)
}

// schedule sets the timer for what may go later without anything else happening.
func (p *publisher) schedule(now time.Time) {
	if p.flying >= p.cfg.Limits.PublishRequests {
		return
	}
	at := p.out.next()
	if p.out.readyKeys > 0 {
		if t := p.goesAt(false); at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if len(p.out.split) > 0 {
		at = now
	}
	if at.IsZero() {
		return
	}
	if at.Before(p.pausedUntil) {
		at = p.pausedUntil
	}
	if p.wakesAt.IsZero() || at.Before(p.wakesAt) {
		p.wakesAt = at
		p.timers.set(timerSend, max(0, at.Sub(now)))
	}
}

func (p *publisher) newFlight() *flight {
	if n := len(p.idle); n > 0 {
		f := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return f
	}
	return &flight{request: request{
		entries: make([]putEntry, 0, 16), maxEntries: maxPutRecords,
	}}
}

// launch sends a request.
func (p *publisher) launch(f *flight, now time.Time) {
	p.flying++
	p.bytesFlying += f.size
	f.keyless = p.auto && slices.ContainsFunc(f.entries, func(e putEntry) bool { return e.bundle == nil && e.record.keyless })
	client, ref, keyless := p.clients.Data, p.ref, f.keyless
	p.fx.run(p.callTimeout(f, now), func(ctx context.Context) any {
		out, err := client.PutRecords(ctx, putInput(ref, f.entries, keyless))
		return putDone{flight: f, out: out, err: err}
	})
}

// callTimeout lets a call last until shortly after the deadline of its youngest record, and no longer than any call, or a part of a record's time.
func (p *publisher) callTimeout(f *flight, now time.Time) time.Duration {
	var latest time.Time
	for i := range f.entries {
		e := &f.entries[i]
		r := e.record
		if e.bundle != nil {
			r = e.bundle.records[len(e.bundle.records)-1]
		}
		if r.deadline.After(latest) {
			latest = r.deadline
		}
	}
	return min(p.cfg.Timings.CallTimeout, p.cfg.Timings.PublishDeadline/publishCalls, max(0, latest.Sub(now))+publishGrace)
}

// putInput is the request for entries. What it reads of their records does not change while they are on their way. keyless: the stream distributes
// records by itself, and needs no key where none was given.
func putInput(ref streamRef, entries []putEntry, keyless bool) *kinesis.PutRecordsInput {
	in := &kinesis.PutRecordsInput{Records: make([]types.PutRecordsRequestEntry, len(entries))}
	in.StreamName, in.StreamARN = ref.target()
	for i := range entries {
		e, to := &entries[i], &in.Records[i]
		r := e.record
		if e.bundle != nil {
			key, hashKey := aggregateKey, r.userRecord().Hash().String()
			to.Data, to.PartitionKey, to.ExplicitHashKey = e.bundle.builder.Bytes(), &key, &hashKey
			continue
		}
		if to.Data = r.data; r.data == nil {
			to.Data = []byte{} // an empty payload is fine; the SDK refuses a missing one
		}
		if !keyless || !r.keyless {
			to.PartitionKey = &r.key
		}
		if r.hashKey != "" {
			to.ExplicitHashKey = &r.hashKey
		}
	}
	return in
}

// onPutDone sorts a request's records into stored, failed for good, and to be sent again; then the next request goes, and
// only then the senders are told, who may be many.
func (p *publisher) onPutDone(m putDone) {
	now := time.Now()
	f := m.flight
	p.flying--
	p.bytesFlying -= f.size
	j := p.judge(m, now)
	p.worked = p.worked || j.stored > 0
	if j.halve {
		p.out.halve(f.entries)
	} else {
		p.settle(f, j, now)
	}
	clear(f.entries)
	f.entries, f.size = f.entries[:0], 0
	p.idle = append(p.idle, f)
	p.takeABreath(j, now)
	p.out.wake(now)
	p.send(now, true)
	p.answer()
}

// judge decides what became of a request. One that was refused for its records without a key goes again with keys: the stream does not distribute its
// records by itself any more.
func (p *publisher) judge(m putDone, now time.Time) judgement {
	f := m.flight
	if !f.keyless || m.err == nil || classify(m.err) != failureInvalid {
		return judge(f.entries, m.out, m.err, p.worked)
	}
	p.auto, p.mismatched = false, true
	p.wantMap(now)
	for i := range f.entries {
		f.entries[i].fate, f.entries[i].cause = fateFailed, m.err
	}
	return judgement{}
}

// takeABreath pauses everything after requests that failed as a whole, until one does not.
func (p *publisher) takeABreath(j judgement, now time.Time) {
	if !j.whole {
		p.failures, p.pausedUntil = 0, time.Time{}
		return
	}
	p.failures++
	p.pausedUntil = now.Add(jitter(backoff(j.pause, publishRetryMax, p.failures)))
}

// settle applies what became of a request's entries.
func (p *publisher) settle(f *flight, j judgement, now time.Time) {
	if j.gone {
		p.listedAt = time.Time{} // the next stream of this name has other shards
	}
	spread := jitter(time.Second).Seconds()
	paced := j.refused || p.out.slowCount > 0 || len(p.out.slow) > 0
	for i := range f.entries {
		e := &f.entries[i]
		if paced {
			p.count(e)
		}
		if e.fate == fateStored {
			p.stored(e, now)
			continue
		}
		for _, r := range e.records(&p.one) {
			r.failures++
			r.cause = e.cause
			r.unknown = r.unknown || j.unknown || e.unknown
			r.alone = r.alone || e.fate == fateApart
			r.refused = e.fate == fateRefused
			p.retry(e, r, spread, now)
		}
		p.out.release(e.bundle)
	}
	p.pacing(now)
	p.openGate(now)
}

// count notes an entry's outcome for the pace of its lane.
func (p *publisher) count(e *putEntry) {
	if e.fate != fateStored && e.fate != fateRefused {
		return
	}
	a := &e.lane.answer
	if a.storedCount+a.refusedCount == 0 {
		p.touched = append(p.touched, e.lane)
	}
	if e.fate == fateStored {
		a.storedCount++
		a.stored += paceCost(e.size)
	} else {
		a.refusedCount++
		a.refused += paceCost(e.size)
	}
}

// stored settles the records of an entry that was stored, if it is where its readers look for it.
func (p *publisher) stored(e *putEntry, now time.Time) {
	if e.lane.shard.id != "" && e.lane.shard.id != e.shard && p.strays(e, now) {
		return
	}
	p.settleStored(e, now)
}

func (p *publisher) settleStored(e *putEntry, now time.Time) {
	for sub, r := range e.records(&p.one) {
		p.done(r, Outcome{Stored: Stored{
			Shard: e.shard, Sequence: e.sequence, SubSequence: uint64(sub), PossibleDuplicate: r.unknown,
		}}, now)
	}
	p.out.release(e.bundle)
}

// retry: a record is tried until its deadline, unless trying can't help. A shard that refuses has its pace; what else failed waits for a while. So
// does what was refused before it was known by which shard.
func (p *publisher) retry(e *putEntry, r *outgoing, spread float64, now time.Time) {
	if e.fate == fateLost || !now.Before(r.deadline) {
		p.done(r, Outcome{Err: publishFailure(p.stream, r)}, now)
		return
	}
	var wait time.Duration
	switch {
	case e.fate == fateFailed:
		wait = backoff(publishRetryFirst, publishRetryMax, r.failures)
	case e.fate == fateRefused && e.lane.shard.id == "":
		wait = backoff(publishThrottled, publishRetryMax, r.failures)
		p.wantMap(now)
	}
	notBefore := now
	if wait > 0 {
		notBefore = now.Add(time.Duration(float64(wait) * spread))
	}
	p.out.again(r, notBefore, now)
}
