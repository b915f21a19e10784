package actors

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/messages"
)

// publisher stores the records of one stream, published with the same options.
//
//	receives                 from     does
//	*messages.Publish        broker   takes it in; answered, to who sent it to the broker, by Published or Error
//	*messages.PublishBatch   broker   likewise, by PublishedBatch or Error
//	*Ticket, *batchTicket    Go API   the same, with room made before
//	wantsRoom                Go API   takes room from throttled shards that have more than their part
//	*messages.StatusRequest  broker   answered by Status
//	effectDone, timerFired   itself   goes on
//	drain, PoisonPill        broker   sends what it has, then stops
//
//	publishing ──▶ flushing ──▶ (stopped)
//
// Several PutRecords are under way at a time, with different keys (see outbox). A record goes at once if none is; what comes meanwhile goes when it
// fills a request, or when one returns, or after a moment. Only entries that failed are sent again. Every record is answered exactly once: stored, or not, or
// unknown, at the latest shortly after its deadline.
//
// A panic restarts it; while it flushes, it ends it. Whoever was waiting is told that the outcome is unknown.
type publisher struct {
	// Constructor. The clients are shared and belong to the broker; the outlet lives as long as the broker, too.
	publisherSpec
	ref streamRef

	// Incarnation.
	fx     *effects
	timers *timers[publisherTimer]
	out    *outbox

	flying      int       // requests under way
	bytesFlying int       // in them
	idle        []*flight // to be used again
	gathering   bool      // something is ready, since gatheredAt
	gatheredAt  time.Time
	wakesAt     time.Time // when timerSend fires; zero: it is not armed
	failures    int       // of whole requests in a row
	worked      bool      // something was stored: the configuration is right
	pausedUntil time.Time
	flushing    bool

	// The shard map.
	listing      bool
	listedAt     time.Time // zero: never, or it is of another stream
	listNext     time.Time // not before
	listPause    time.Duration
	listFailures int
	patient      bool // records have waited for the first listing
	auto         bool // the stream distributes records by itself
	mismatched   bool // since the last listing
	astray       []putEntry
	gateVersion  uint64

	// What a message has settled, to be answered at its end.
	settled    []settledRecord
	freedBytes int64
	spare      []*outgoing // answered, to be used again
	touched    []*shardLane
	one        [1]*outgoing
}

type publisherSpec struct {
	cfg     *Config
	clients *Clients
	stream  string
	how     publishing
	quota   *quota
	outlet  *Outlet
}

// settledRecord is a record that is to be answered.
type settledRecord struct {
	record  *outgoing
	outcome Outcome
}

type publisherTimer uint8

// Timers of a publisher.
const (
	timerSend publisherTimer = iota
	timerFlush
	timerExpire
	timerRelist
	timerPatience
)

const (
	publishFlushMargin = 100 * time.Millisecond
	// expireSlack is how much later than its deadline a record that waits may be told.
	expireSlack = 50 * time.Millisecond
	maxSpare    = 4 * maxPutRecords
)

func publisherProps(spec publisherSpec, system *actor.ActorSystem) *actor.Props {
	ref, _ := parseStream(spec.stream) // it was checked by the broker
	return props(spec.cfg, rolePublisher, system, func() actor.Actor { return &publisher{publisherSpec: spec, ref: ref} })
}

// Receive implements actor.Actor.
func (p *publisher) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *Ticket:
		p.onTicket(m)
	case *messages.Publish:
		p.onPublish(c, m)
	case *batchTicket:
		p.onBatchTicket(m)
	case wantsRoom:
		p.makeRoom(time.Now())
	case *messages.PublishBatch:
		p.onPublishBatch(c, m)
	case *actor.Started:
		p.start(c)
	case *actor.Stopping:
		p.end()
		p.outlet.ended.Store(true)
	case *actor.Restarting:
		p.end()
	case *actor.Stopped:
		leaveTombstone(c) // Go code may know it still
	case effectDone:
		p.onEffect(m)
	case timerFired[publisherTimer]:
		if p.timers.fired(m) {
			p.onTimer(m.name)
		}
	case drain:
		p.onDrain(m)
	case *messages.StatusRequest:
		c.Respond(&messages.Status{
			State: messages.BrokerState_BROKER_STATE_CONNECTED, Correlation: m.GetCorrelation(),
			Publishers: []*messages.PublisherStatus{p.status()},
		})
	}
}

func (p *publisher) start(c actor.Context) {
	l := p.cfg.Limits
	p.fx, p.timers = newEffects(c, p.cfg.pool), newTimers[publisherTimer](c)
	p.out = newOutbox(outboxSpec{
		relaxed: p.how.relaxed, aggregate: p.how.aggregate, aggregateBytes: l.AggregateBytes, aggregateRecords: l.AggregateRecords,
		maxRecords: l.PendingRecords, maxBytes: l.PendingBytes,
	})
	if p.outlet.draining.Load() { // nobody tells it again
		p.flushing = true
		c.Stop(c.Self())
	}
}

// end ends an incarnation.
func (p *publisher) end() {
	p.fx.stop()
	p.timers.stop()
	p.giveUp("the publisher stopped before the record was known to be stored")
}

func (p *publisher) status() *messages.PublisherStatus {
	s := &messages.PublisherStatus{
		Stream: p.stream, Pending: int64(p.out.count), PendingBytes: p.out.bytes, Options: p.how.message(), Requests: int32(p.flying), //nolint:gosec // a few
	}
	for _, l := range p.out.slow {
		if l != &p.out.rest {
			s.ThrottledShards = append(s.ThrottledShards, l.shard.id)
		}
	}
	return s
}

func (p *publisher) onEffect(m effectDone) {
	result, ok := p.fx.result(m)
	if !ok {
		return
	}
	switch done := result.(type) {
	case putDone:
		p.onPutDone(done)
	case mapDone:
		p.onMapDone(done)
	}
}

func (p *publisher) onTimer(name publisherTimer) {
	now := time.Now()
	switch name {
	case timerSend:
		p.wakesAt = time.Time{}
		p.out.wake(now)
		p.send(now, false)
	case timerFlush:
		p.giveUp("the shutdown's time was up before the record was known to be stored")
		p.fx.root.Stop(p.fx.self)
	case timerExpire:
		p.onExpire(now)
	case timerRelist:
		p.wantMap(now)
	case timerPatience:
		p.endPatience(now)
		p.send(now, false)
	}
}

// onExpire tells those whose record has waited past its deadline.
func (p *publisher) onExpire(now time.Time) {
	p.out.expire(now, func(r *outgoing) { p.settle1(r, Outcome{Err: publishFailure(p.stream, r)}) })
	p.resolve(now)
	switch at, waits := p.out.expires(); {
	case waits && len(p.astray) == 0:
		p.timers.set(timerExpire, max(expireSlack, at.Sub(now)))
	case !p.out.empty():
		p.timers.set(timerExpire, 2*expireSlack)
	}
	p.send(now, false)
	p.answer()
}

// takeIn takes a record in, for which there is room.
func (p *publisher) takeIn(to reply, f *recordFields, size int, now time.Time) {
	r := p.unused()
	*r = outgoing{
		reply: to, key: f.key, keyless: f.keyless, hashKey: f.hashKey, data: f.data, size: size,
		deadline: now.Add(p.cfg.Timings.PublishDeadline),
	}
	p.out.add(r, now)
	if p.out.count == 1 && !p.timers.armed(timerExpire) { // it is armed while there are any
		p.timers.set(timerExpire, p.cfg.Timings.PublishDeadline)
	}
}

// unused is memory for a record: of one that was answered, if there is any.
func (p *publisher) unused() *outgoing {
	if n := len(p.spare); n > 0 {
		r := p.spare[n-1]
		p.spare = p.spare[:n-1]
		return r
	}
	return new(outgoing)
}

// randomKeySize is the length of a random partition key.
const randomKeySize = 16

// randomKey spreads records without a key over the shards.
func randomKey() string {
	var b [randomKeySize / 2]byte
	binary.BigEndian.PutUint64(b[:], rand.Uint64()) //nolint:gosec // spreads load, guards nothing
	return hex.EncodeToString(b[:])
}

// done settles a record; whoever waits for it is told by answer.
func (p *publisher) done(r *outgoing, outcome Outcome, now time.Time) {
	p.out.finish(r, now)
	p.settle1(r, outcome)
}

func (p *publisher) settle1(r *outgoing, outcome Outcome) {
	p.freedBytes += int64(r.size)
	p.settled = append(p.settled, settledRecord{record: r, outcome: outcome})
}

// answer tells the senders of what was settled. There is room for their next records by then.
func (p *publisher) answer() {
	if n := len(p.settled); n > 0 {
		p.quota.release(n, p.freedBytes)
		p.freedBytes = 0
		p.tellAll()
		clear(p.settled)
		p.settled = p.settled[:0]
	}
	if p.flushing && p.out.empty() {
		p.fx.root.Stop(p.fx.self)
	}
}

func (p *publisher) tellAll() {
	var block []messages.Published // the answers of a request share memory
	for i := range p.settled {
		s := &p.settled[i]
		r := s.record
		if r.sender != nil && s.outcome.Err == nil {
			if len(block) == 0 {
				block = make([]messages.Published, len(p.settled)-i)
			}
			p.fx.root.Send(r.sender, s.outcome.fill(&block[0], r.number))
			block = block[1:]
		} else {
			p.tell(r, s.outcome)
		}
		if len(p.spare) < maxSpare && !r.flying { // a call that was given up may still read one that flies
			*r = outgoing{}
			p.spare = append(p.spare, r)
		}
	}
}

// tell answers one record.
func (p *publisher) tell(r *outgoing, outcome Outcome) {
	switch {
	case r.ticket != nil:
		r.ticket.settle(r.number, outcome)
	case r.batch != nil:
		p.tellBatch(r.batch, r.index, outcome)
	case r.sender == nil:
		if outcome.Err != nil {
			p.log().Warn("record not stored, and nobody to tell", slog.Any("error", outcome.Err))
		}
	case outcome.Err != nil:
		answer(p.fx.root.ActorSystem(), r.sender, outcome.Err, r.number)
	default:
		p.fx.root.Send(r.sender, outcome.fill(new(messages.Published), r.number))
	}
}

// fill makes an answer of an outcome.
func (o *Outcome) fill(m *messages.Published, correlation uint64) *messages.Published {
	m.ShardId, m.SequenceNumber, m.SubSequenceNumber = o.Shard, o.Sequence, o.SubSequence
	m.PossibleDuplicate, m.Correlation = o.PossibleDuplicate, correlation
	return m
}

// onDrain flushes: what was taken in before is sent, up to the timeout.
func (p *publisher) onDrain(m drain) {
	p.outlet.draining.Store(true)
	p.flushing = true
	timeout := m.timeout
	if timeout < 0 {
		timeout = p.cfg.Timings.ShutdownTimeout
	}
	p.timers.set(timerFlush, max(timeout, publishFlushMargin))
	p.send(time.Now(), false)
	p.answer()
}

// giveUp answers everything that is left.
func (p *publisher) giveUp(why string) {
	if p.out == nil {
		return
	}
	for r := p.out.oldest; r != nil; r = r.newer {
		p.settle1(r, Outcome{Err: &Error{
			Kind: messages.ErrorKind_ERROR_KIND_PUBLISH, Stream: p.stream, Text: why, OutcomeUnknown: r.unknown || r.flying,
		}})
	}
	p.out, p.astray, p.flushing = newOutbox(p.out.outboxSpec), nil, false
	p.outlet.gate.Store(nil)
	p.answer()
}

// overloaded is the answer to an actor for whose record there is no room.
func (p *publisher) overloaded() *Error {
	records, size := p.quota.held()
	return &Error{
		Kind: messages.ErrorKind_ERROR_KIND_OVERLOADED, Stream: p.stream,
		Text:   fmt.Sprintf("%d records (%d bytes) wait to be stored", records, size),
		Advice: "publish again when earlier ones have been answered",
	}
}

// laneFull is the answer to a record of a shard that is throttled and has too many waiting.
func (p *publisher) laneFull(l *shardLane) *Error {
	return &Error{
		Kind: messages.ErrorKind_ERROR_KIND_OVERLOADED, Stream: p.stream, Shard: l.shard.id,
		Text:   fmt.Sprintf("the shard is throttled, and %d of its records (%d bytes) wait to be stored", l.count, l.bytes),
		Advice: "publish to other shards meanwhile; give the stream more shards, or spread the keys",
	}
}

func (p *publisher) log() *slog.Logger {
	return p.cfg.logger().With(slog.String("stream", p.stream))
}
