package actors

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"

	"github.com/protokinesis/protokinesis/messages"
)

// publisher stores the records of one stream.
//
//	receives                 from     does
//	*messages.Publish        broker,  takes it in; answered, to who sent it to the broker, by Published or Error
//	                         Go API
//	*messages.StatusRequest  broker   answered by Status
//	effectDone, timerFired   itself   goes on
//	drain, PoisonPill        broker   sends what it has, then stops
//
//	publishing ──▶ flushing ──▶ (stopped)
//
// One PutRecords is under way at a time; what comes meanwhile makes up the next one, which is ready and goes the moment the first has
// returned. Only entries that failed are sent again, and a key's next record waits for them (see outbox). Every record is answered exactly once: stored, or not, or unknown, at the latest shortly after its
// deadline.
//
// A panic restarts it. Whoever was waiting is told that the outcome is unknown.
type publisher struct {
	// Constructor. The client is shared and belongs to the broker.
	publisherSpec
	ref streamRef

	// Incarnation.
	fx       *effects
	timers   *timers[publisherTimer]
	out      *outbox
	flights  []*flight   // the request under way, and the full one ready behind it
	spare    []*outgoing // answered, to be used again; as many as a request holds
	failures int         // of whole requests, or with failed entries, in a row
	flushing bool
}

type publisherSpec struct {
	cfg    *Config
	client Kinesis
	stream string
}

// flight is a PutRecords. returned is closed when the service has answered, which lets the next one go without asking the actor.
type flight struct {
	batch    []*outgoing
	returned chan struct{}
}

// putDone is the result of a PutRecords.
type putDone struct {
	flight *flight
	out    *kinesis.PutRecordsOutput
	err    error
}

type publisherTimer uint8

// Timers of a publisher.
const (
	timerSend publisherTimer = iota
	timerFlush
)

const (
	// maxPutRecords is the most entries of a PutRecords, as the service allows.
	maxPutRecords = 500
	// maxPutBytes is the most bytes of one. The service takes 10 MiB since October 2025; what it
	// took before is enough for the full rate of any shard, and every emulator takes it.
	maxPutBytes = 5 << 20

	publishRetryFirst  = 100 * time.Millisecond
	publishThrottled   = 250 * time.Millisecond
	publishRetryMax    = 5 * time.Second
	publishFlushMargin = 100 * time.Millisecond
)

func publisherProps(spec publisherSpec, system *actor.ActorSystem) *actor.Props {
	ref, _ := parseStream(spec.stream) // it was checked by the broker
	return props(spec.cfg, rolePublisher, system, func() actor.Actor { return &publisher{publisherSpec: spec, ref: ref} })
}

// Receive implements actor.Actor.
func (p *publisher) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *messages.Publish:
		p.onPublish(c, m)
	case *actor.Started:
		p.fx, p.timers, p.out = newEffects(c, p.cfg.pool), newTimers[publisherTimer](c), newOutbox()
	case *actor.Stopping, *actor.Restarting:
		p.fx.stop()
		p.timers.stop()
		p.giveUp(c, "the publisher stopped before the record was known to be stored")
	case *actor.Stopped:
		leaveTombstone(c) // Go code may know it still
	case effectDone:
		if result, ok := p.fx.result(m); ok {
			if done, ok := result.(putDone); ok {
				p.onPutDone(c, done)
			}
		}
	case timerFired[publisherTimer]:
		if p.timers.fired(m) {
			p.onTimer(c, m.name)
		}
	case drain:
		p.onDrain(c, m)
	case *messages.StatusRequest:
		c.Respond(&messages.Status{
			State: messages.BrokerState_BROKER_STATE_CONNECTED, Correlation: m.GetCorrelation(),
			Publishers: []*messages.PublisherStatus{{
				Stream: p.stream, Pending: int64(p.out.count), PendingBytes: p.out.bytes,
			}},
		})
	}
}

func (p *publisher) onTimer(c actor.Context, name publisherTimer) {
	switch name {
	case timerSend:
		p.send()
	case timerFlush:
		p.giveUp(c, "the shutdown's time was up before the record was known to be stored")
		c.Stop(c.Self())
	}
}

// onPublish takes a record in, unless it is wrong or there are too many.
func (p *publisher) onPublish(c actor.Context, m *messages.Publish) {
	if p.flushing {
		answer(c.ActorSystem(), c.Sender(), notConnected(messages.BrokerState_BROKER_STATE_CLOSING), m.GetCorrelation())
		return
	}
	if err := checkRecord(m, p.cfg.Limits); err != nil {
		answer(c.ActorSystem(), c.Sender(), err, m.GetCorrelation())
		return
	}
	size := recordSize(m)
	if p.out.count >= p.cfg.Limits.PendingRecords || (p.out.count > 0 && p.out.bytes+int64(size) > p.cfg.Limits.PendingBytes) {
		answer(c.ActorSystem(), c.Sender(), &Error{
			Kind: messages.ErrorKind_ERROR_KIND_OVERLOADED, Stream: p.stream,
			Text:   fmt.Sprintf("%d records (%d bytes) wait to be stored", p.out.count, p.out.bytes),
			Advice: "publish again when earlier ones have been answered",
		}, m.GetCorrelation())
		return
	}
	o := p.unused()
	*o = outgoing{
		sender: c.Sender(), correlation: m.GetCorrelation(), hashKey: m.GetExplicitHashKey(), size: size,
		data: wrapEnvelope(m.GetHeaders(), m.GetData()), deadline: time.Now().Add(p.cfg.Timings.PublishDeadline),
	}
	if m.PartitionKey != nil {
		o.key = m.GetPartitionKey()
	} else {
		o.key = randomKey()
		o.size += len(o.key)
	}
	p.out.add(o)
	p.send()
}

// unused is memory for a record: of one that was answered, if there is any.
func (p *publisher) unused() *outgoing {
	if n := len(p.spare); n > 0 {
		o := p.spare[n-1]
		p.spare = p.spare[:n-1]
		return o
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

// send starts the next PutRecords if none is under way and there is something to send; or, if one is, makes a full one ready behind it. Its
// keys are others than those on their way, so order is kept whatever becomes of the first.
func (p *publisher) send() {
	if p.timers.armed(timerSend) || !p.out.sendable() {
		return
	}
	var before chan struct{}
	switch {
	case len(p.flights) == 1 && p.out.readyCount() >= maxPutRecords:
		before = p.flights[0].returned
	case len(p.flights) > 0:
		return
	}
	batch := p.takeUnexpired()
	if len(batch) == 0 {
		return
	}
	f := &flight{batch: batch, returned: make(chan struct{})}
	p.flights = append(p.flights, f)
	client, ref, timeout := p.client, p.ref, p.cfg.Timings.CallTimeout
	p.fx.run(2*timeout, func(ctx context.Context) any {
		defer close(f.returned)
		in := putInput(ref, f.batch)
		if before != nil {
			select {
			case <-before:
			case <-ctx.Done():
				return putDone{flight: f, err: ctx.Err()}
			}
		}
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		out, err := client.PutRecords(ctx, in)
		return putDone{flight: f, out: out, err: err}
	})
}

// takeUnexpired is the next batch. Records whose deadline has passed while they waited are told so instead of being sent.
func (p *publisher) takeUnexpired() []*outgoing {
	now := time.Now()
	for p.out.sendable() {
		batch := p.out.take(maxPutRecords, maxPutBytes)
		fresh := batch[:0]
		for _, o := range batch {
			if now.Before(o.deadline) || o.failures > 0 { // one that was tried is judged with its try
				fresh = append(fresh, o)
				continue
			}
			p.out.finish(o)
			answer(p.fx.root.ActorSystem(), o.sender, &Error{
				Kind: messages.ErrorKind_ERROR_KIND_PUBLISH, Stream: p.stream, Text: "not sent before its deadline",
				Advice: "the service is slow, or many records of one key wait for each other",
			}, o.correlation)
		}
		if len(fresh) > 0 {
			return fresh
		}
	}
	return nil
}

// putInput is the request for a batch. What it reads of the batch does not change after it was taken in.
func putInput(ref streamRef, batch []*outgoing) *kinesis.PutRecordsInput {
	in := &kinesis.PutRecordsInput{Records: make([]types.PutRecordsRequestEntry, len(batch))}
	in.StreamName, in.StreamARN = ref.target()
	for i, o := range batch {
		e := &in.Records[i]
		e.Data, e.PartitionKey = o.data, &o.key
		if e.Data == nil {
			e.Data = []byte{} // an empty payload is fine; the SDK refuses a missing one
		}
		if o.hashKey != "" {
			e.ExplicitHashKey = &o.hashKey
		}
	}
	return in
}

// onPutDone sorts a request's entries into stored, failed for good, and to be sent again; then the next request goes, and
// only then the senders are told, who may be many.
func (p *publisher) onPutDone(c actor.Context, m putDone) {
	batch := m.flight.batch
	p.flights = slices.DeleteFunc(p.flights, func(f *flight) bool { return f == m.flight })
	v := p.judge(batch, m)
	for _, r := range v.done {
		p.out.finish(r.record)
	}
	p.out.again(v.again)
	switch {
	case v.halve:
		p.out.halve(batch)
	case len(v.again) > 0:
		if v.stored() {
			p.failures = 0 // one shard that is throttled for long must not slow down the others more and more
		}
		p.failures++
		p.timers.set(timerSend, jitter(backoff(v.pause, publishRetryMax, p.failures)))
	default:
		p.failures = 0
	}
	p.send()
	p.answerAll(c, v.done)
	p.checkFlushed(c)
}

// answerAll tells the senders. The answers of a request share a block of memory.
func (p *publisher) answerAll(c actor.Context, done []settledRecord) {
	block := make([]messages.Published, len(done))
	for i, r := range done {
		p.answer(c, r, &block[i])
		if len(p.spare) < maxPutRecords {
			*r.record = outgoing{}
			p.spare = append(p.spare, r.record)
		}
	}
}

func (p *publisher) answer(c actor.Context, r settledRecord, published *messages.Published) {
	o := r.record
	switch {
	case o.sender == nil:
		if r.err != nil {
			p.log().Warn("record not stored, and nobody to tell", slog.Any("error", r.err))
		}
	case r.err != nil:
		answer(c.ActorSystem(), o.sender, r.err, o.correlation)
	default:
		published.ShardId, published.SequenceNumber = r.shard, r.sequence
		published.PossibleDuplicate, published.Correlation = o.unknown, o.correlation
		c.Send(o.sender, published)
	}
}

// onDrain flushes: what was taken in before is sent, up to the timeout.
func (p *publisher) onDrain(c actor.Context, m drain) {
	p.flushing = true
	timeout := m.timeout
	if timeout < 0 {
		timeout = p.cfg.Timings.ShutdownTimeout
	}
	p.timers.set(timerFlush, max(timeout, publishFlushMargin))
	p.checkFlushed(c)
}

func (p *publisher) checkFlushed(c actor.Context) {
	if p.flushing && p.out.empty() {
		c.Stop(c.Self())
	}
}

// giveUp answers everything that is left.
func (p *publisher) giveUp(c actor.Context, why string) {
	if p.out == nil {
		return
	}
	onItsWay := make(map[*outgoing]bool)
	for _, f := range p.flights {
		for _, o := range f.batch {
			onItsWay[o] = true
		}
	}
	p.out.all(func(o *outgoing) {
		answer(c.ActorSystem(), o.sender, &Error{
			Kind: messages.ErrorKind_ERROR_KIND_PUBLISH, Stream: p.stream, Text: why, OutcomeUnknown: o.unknown || onItsWay[o],
		}, o.correlation)
	})
	p.out, p.flights = newOutbox(), nil
}

func (p *publisher) log() *slog.Logger {
	return p.cfg.logger().With(slog.String("stream", p.stream))
}

// settledRecord is a record that is to be answered.
type settledRecord struct {
	record          *outgoing
	shard, sequence string
	err             *Error
}

// putVerdict says what becomes of a request's records.
type putVerdict struct {
	done  []settledRecord
	again []*outgoing
	pause time.Duration
	halve bool
}

// stored reports whether the request stored anything.
func (v *putVerdict) stored() bool {
	return slices.ContainsFunc(v.done, func(r settledRecord) bool { return r.err == nil })
}

// judge decides it.
func (p *publisher) judge(batch []*outgoing, m putDone) putVerdict {
	if m.err == nil && len(m.out.Records) == len(batch) {
		return p.judgeEntries(batch, m.out.Records)
	}
	err := m.err
	if err == nil {
		err = fmt.Errorf("PutRecords answered %d entries for %d", len(m.out.Records), len(batch))
	}
	v := putVerdict{pause: publishRetryFirst}
	kind := classify(err)
	if kind == failureInvalid && len(batch) > 1 {
		v.halve = true // one record is at fault: find it, and store the others
		return v
	}
	for _, o := range batch {
		o.failures++
		if kind == failureThrottled {
			v.pause = publishThrottled
		} else if !kind.lasting() && !refused(err) {
			o.unknown = true
		}
		v.retryOrFail(p.stream, o, err, kind.lasting())
	}
	return v
}

func (p *publisher) judgeEntries(batch []*outgoing, entries []types.PutRecordsResultEntry) putVerdict {
	v := putVerdict{pause: publishRetryFirst, done: make([]settledRecord, 0, len(batch))}
	for i, o := range batch {
		e := &entries[i]
		if e.ErrorCode == nil || *e.ErrorCode == "" {
			v.done = append(v.done, settledRecord{record: o, shard: aws.ToString(e.ShardId), sequence: aws.ToString(e.SequenceNumber)})
			continue
		}
		o.failures++
		kind, known := failureByCode[*e.ErrorCode]
		if known && kind == failureThrottled {
			v.pause = publishThrottled
		}
		v.retryOrFail(p.stream, o, &entryError{code: *e.ErrorCode, message: aws.ToString(e.ErrorMessage)}, known && kind.lasting())
	}
	return v
}

// retryOrFail: a record is tried until its deadline, unless trying can't help.
func (v *putVerdict) retryOrFail(stream string, o *outgoing, cause error, lasting bool) {
	if !lasting && time.Now().Before(o.deadline) {
		v.again = append(v.again, o)
		return
	}
	e := &Error{
		Kind: messages.ErrorKind_ERROR_KIND_PUBLISH, Stream: stream, Cause: cause, OutcomeUnknown: o.unknown,
		Text: fmt.Sprintf("not stored after %d tries", o.failures),
	}
	if kind := classify(cause); kind == failureConfig || kind == failureCredentials {
		e.Kind, e.Advice = messages.ErrorKind_ERROR_KIND_CONFIG, "check the credentials, the region and the endpoint"
	}
	v.done = append(v.done, settledRecord{record: o, err: e})
}

// entryError is the error of one entry of a PutRecords; it is a smithy.APIError like that of a whole call.
type entryError struct {
	code, message string
}

func (e *entryError) Error() string        { return e.code + ": " + e.message }
func (e *entryError) ErrorCode() string    { return e.code }
func (e *entryError) ErrorMessage() string { return e.message }

// ErrorFault implements smithy.APIError.
func (e *entryError) ErrorFault() smithy.ErrorFault { return smithy.FaultUnknown }
