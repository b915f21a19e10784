package actors

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

// fetcher is a reader's place in its shard and the one call that may be under way.
type fetcher struct {
	// position is where to open when nothing has been read since: the checkpoint, or the start.
	position leasestore.Checkpoint
	// tip: position is the instant of an opening at the tip, for which LATEST has not been asked yet.
	tip bool
	// lastRead is the last record read by this generation; an iterator is opened after it, and what comes again at or below it
	// is dropped, as some services repeat.
	lastRead string

	iterator string
	push     *push     // the open subscription, with enhanced fan-out
	pushedAt time.Time // when it was last asked for
	opening  bool
	calling  bool
	cancel   context.CancelFunc
	pace     pacer
	called   time.Time // the last call
	wake     time.Time // when timerFetch fires, if armed
	spread   bool      // the first pause has been taken
	next     time.Time // not before: poll interval or backoff
	failures int       // in a row
	told     bool      // the subscriber knows of them
	lag      int64
	asked    bool // lag is known
}

// abandon gives up the call under way and the iterator.
func (f *fetcher) abandon() {
	if f.cancel != nil {
		f.cancel()
	}
	f.drop()
	f.cancel, f.opening, f.calling, f.lastRead, f.failures = nil, false, false, "", 0
	f.next = time.Time{}
}

// behind is the last known lag in milliseconds, -1 when unknown.
func (f *fetcher) behind() int64 {
	if !f.asked {
		return -1
	}
	return f.lag
}

// iteratorOpened is the result of GetShardIterator.
type iteratorOpened struct {
	generation uint64
	iterator   string
	push       *push
	err        error
}

// pageRead is the result of GetRecords. The actor makes deliveries of it itself, once the next call is under way.
type pageRead struct {
	generation   uint64
	out          *kinesis.GetRecordsOutput
	limit        int
	continuation string // where to subscribe again, with enhanced fan-out
	err          error
}

// iteratorInput says where to open: after what was read, else at the position.
func (f *fetcher) iteratorInput() *kinesis.GetShardIteratorInput {
	in := &kinesis.GetShardIteratorInput{}
	sequence, _ := f.position.Sequence()
	switch {
	case f.lastRead != "":
		in.ShardIteratorType = types.ShardIteratorTypeAfterSequenceNumber
		in.StartingSequenceNumber = aws.String(f.lastRead)
	case f.tip:
		in.ShardIteratorType = types.ShardIteratorTypeLatest
	default:
		switch f.position.Kind() {
		case leasestore.KindTimestamp:
			in.ShardIteratorType = types.ShardIteratorTypeAtTimestamp
			in.Timestamp = aws.Time(f.position.Time())
		case leasestore.KindBefore:
			in.ShardIteratorType = types.ShardIteratorTypeAtSequenceNumber
			in.StartingSequenceNumber = aws.String(sequence)
		case leasestore.KindSequence:
			in.ShardIteratorType = types.ShardIteratorTypeAfterSequenceNumber
			in.StartingSequenceNumber = aws.String(sequence)
		case leasestore.KindNone, leasestore.KindTrimHorizon, leasestore.KindShardEnd:
			in.ShardIteratorType = types.ShardIteratorTypeTrimHorizon
		}
	}
	return in
}

// after is the last record that is settled or read: what comes again at or below it is dropped.
func (f *fetcher) after() string {
	if f.lastRead == "" && f.position.Kind() == leasestore.KindSequence {
		sequence, _ := f.position.Sequence()
		return sequence
	}
	return f.lastRead
}

// openIterator asks for an iterator. The tip is asked for once, whatever comes of it: later tries open at the instant that
// the lease has stored.
func (r *reader) openIterator() {
	f := &r.fetch
	if f.opening || r.drain.draining {
		return
	}
	if r.consumerARN != "" {
		r.openPush()
		return
	}
	in := f.iteratorInput()
	f.tip = false
	f.opening = true
	in.StreamName, in.StreamARN = r.how.stream.target()
	in.ShardId = aws.String(r.shard.id)
	client, generation := r.clients.Data, r.generation
	f.cancel = r.fx.run(r.cfg.Timings.CallTimeout, func(ctx context.Context) any {
		out, err := client.GetShardIterator(ctx, in)
		if err != nil {
			return iteratorOpened{generation: generation, err: err}
		}
		return iteratorOpened{generation: generation, iterator: aws.ToString(out.ShardIterator)}
	})
}

func (r *reader) onIteratorOpened(c actor.Context, m iteratorOpened) {
	f := &r.fetch
	if m.generation != r.generation || r.drain.draining {
		if m.push != nil {
			m.push.close()
		}
		return
	}
	f.opening = false
	switch {
	case m.err != nil && r.consumerARN != "" && isInUse(m.err):
		r.timers.set(timerOpen, jitterUp(pushPause))
		return
	case m.err != nil:
		r.onIteratorFailure(c, m.err)
		return
	case m.iterator == "":
		// Some services answer a closed shard so.
		r.onEndCandidate(nil)
		return
	}
	f.iterator, f.push = m.iterator, m.push
	r.recovered()
	if r.state == statePositioning {
		r.transition(stateReading, r.reading)
	}
	r.afterOpened(c)
	r.fetchMore()
}

// afterOpened tells whoever waits for the iterator.
func (r *reader) afterOpened(c actor.Context) {
	if !r.reported {
		r.reported = true
		c.Send(c.Parent(), readerReady{shard: r.shard.id})
	}
	if r.seekWritten() {
		r.answerMove(c, nil)
	}
}

func (r *reader) onIteratorFailure(c actor.Context, err error) {
	e := readError(r.how.stream.spelling, r.shard.id, "no iterator at "+r.placeText(), err)
	if classify(err) == failureNotFound {
		r.onEndCandidate(nil) // the shard was trimmed away, or the whole stream is gone: the listing says
		return
	}
	if !r.reported {
		c.Send(c.Parent(), readerTrouble{shard: r.shard.id, err: e})
	}
	if r.seekWritten() && classify(err).lasting() {
		r.answerMove(c, e)
	}
	r.timers.set(timerOpen, r.failed(c, e))
}

func (r *reader) placeText() string {
	if r.fetch.lastRead != "" {
		return r.fetch.lastRead
	}
	return r.fetch.position.String()
}

// fetchMore reads the next page if there is an iterator, room for it, and it is time.
func (r *reader) fetchMore() { r.fetchAfter(0) }

// fetchAfter does so while so many records are about to be added to the window.
func (r *reader) fetchAfter(adding int) {
	f := &r.fetch
	room := r.window.roomAfter(adding)
	if f.calling || f.opening || f.iterator == "" || r.end.reached || r.drain.draining || room == 0 || r.state != stateReading {
		return
	}
	now := time.Now()
	wait := max(f.next.Sub(now), f.pace.wait(now))
	if f.push != nil {
		wait = 0 // the service sets the pace
	} else if adding == 0 && !r.window.worthReading() {
		wait = max(wait, f.called.Add(r.how.pollInterval).Sub(now))
	}
	if wait > 0 {
		if wake := now.Add(wait); !r.timers.armed(timerFetch) || wake.Before(f.wake) {
			f.wake = wake
			r.timers.set(timerFetch, wait)
		}
		return
	}
	r.timers.cancel(timerFetch)
	f.pace.called(now)
	f.called, f.calling = now, true
	generation, limit := r.generation, min(room, maxBatch)
	if open := f.push; open != nil {
		f.cancel = r.fx.run(pushWatchdog, func(ctx context.Context) any { return open.nextEvent(ctx, generation) })
		return
	}
	_, arn := r.how.stream.target()
	in := &kinesis.GetRecordsInput{
		ShardIterator: aws.String(f.iterator), Limit: aws.Int32(int32(limit)), StreamARN: arn, //nolint:gosec // ≤ 10,000
	}
	client := r.clients.Data
	f.cancel = r.fx.run(r.cfg.Timings.CallTimeout, func(ctx context.Context) any {
		out, err := client.GetRecords(ctx, in)
		return pageRead{generation: generation, out: out, limit: limit, err: err}
	})
}

func (r *reader) onPageRead(c actor.Context, m pageRead) {
	f := &r.fetch
	if m.generation != r.generation {
		return
	}
	f.calling = false
	if r.drain.draining {
		return
	}
	if m.err != nil {
		if f.push == nil || !r.onPushEnded(m.err) {
			r.onReadFailure(c, m.err)
		}
		return
	}
	r.recovered()
	page := pageSpec{
		generation: r.generation, stream: r.how.stream.spelling, shard: r.shard.id, after: f.after(), firstID: r.window.nextID(),
	}
	f.lag, f.asked = aws.ToInt64(m.out.MillisBehindLatest), true
	f.iterator = aws.ToString(m.out.NextShardIterator)
	if f.iterator != "" && f.lag == 0 && len(m.out.Records) < m.limit {
		f.next = time.Now().Add(f.idle(r.how.pollInterval))
	}
	r.fetchAfter(len(m.out.Records)) // the next page is on its way while this one is delivered
	records := page.fetched(m.out)
	r.take(records, m.continuation)
	if f.iterator == "" {
		f.drop()
		r.onLastPage(len(records), m.out.ChildShards)
	}
	r.deliver(c)
	r.fetchMore()
}

// take adds a page to the window.
func (r *reader) take(page []messages.Delivery, continuation string) {
	for i := range page {
		r.window.add(&page[i])
	}
	if n := len(page); n > 0 {
		r.fetch.lastRead = page[n-1].SequenceNumber
	}
	if continuation != "" {
		r.fetch.lastRead = continuation
	}
}

// idle is the pause after a shard was read to its tip: the poll interval, give or take a tenth, and any part of it the first time, so that
// shards that were opened together are not polled together for ever.
func (f *fetcher) idle(pollInterval time.Duration) time.Duration {
	if !f.spread {
		f.spread = true
		return time.Duration(rand.Float64() * float64(pollInterval)) //nolint:gosec // spreads load, guards nothing
	}
	return spread(pollInterval)
}

const (
	// throttleFirst is the pause after a throttle: the service counts over a second.
	throttleFirst = time.Second
	throttleMax   = 10 * time.Second
	failureFirst  = 100 * time.Millisecond
	failureMax    = 10 * time.Second
	// deniedPause is for failures that a person has to solve.
	deniedPause = 10 * time.Second
	// reopenAfter is how many failures in a row make the iterator suspect: some services answer 500 for an expired one.
	reopenAfter = 5
)

// onReadFailure keeps the place and tries again, each kind of failure in its way.
func (r *reader) onReadFailure(c actor.Context, err error) {
	f := &r.fetch
	e := readError(r.how.stream.spelling, r.shard.id, "the shard can't be read", err)
	kind := classify(err)
	switch kind {
	case failureExpired, failureInvalid:
		// Where reading goes on is known without the iterator.
		f.iterator = ""
		if f.failures == 0 {
			f.failures++
			r.openIterator()
			return
		}
		r.timers.set(timerOpen, r.failed(c, e))
		return
	case failureNotFound:
		f.iterator = ""
		r.onEndCandidate(nil)
		return
	case failureThrottled:
		f.failures++
		f.next = time.Now().Add(jitterUp(backoff(throttleFirst, throttleMax, f.failures)))
		if f.iterator == "" {
			r.timers.set(timerOpen, time.Until(f.next))
		}
	case failureTransient, failureTimeout, failureDenied, failureConfig:
		f.next = time.Now().Add(r.failed(c, e))
		if f.iterator == "" || f.failures%reopenAfter == 0 {
			f.iterator = ""
			r.timers.set(timerOpen, time.Until(f.next))
			return
		}
	}
	r.fetchMore()
}

// failed counts a failure, tells the subscriber when it lasts, and says how long to wait.
func (r *reader) failed(c actor.Context, e *Error) time.Duration {
	f := &r.fetch
	f.failures++
	kind := classify(e)
	r.log().Debug("read failed", slog.Int("failures", f.failures), slog.Any("error", e))
	if !f.told && (f.failures >= tellAfter || kind.lasting()) {
		f.told = true
		r.log().Warn("the shard can't be read", slog.Any("error", e))
		r.tell(c, e)
	}
	switch {
	case kind.lasting():
		return jitter(deniedPause)
	case kind == failureThrottled:
		return jitterUp(backoff(throttleFirst, throttleMax, f.failures))
	default:
		return jitter(backoff(failureFirst, failureMax, f.failures))
	}
}

// recovered: a call has succeeded.
func (r *reader) recovered() {
	if r.fetch.told {
		r.log().Info("the shard can be read again")
	}
	r.fetch.failures, r.fetch.told = 0, false
}

// jitterUp is d or up to a fifth more.
func jitterUp(d time.Duration) time.Duration { return max(d, jitter(d)) }
