package actors

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/protokinesis/protokinesis/leasestore"
)

// iteratorOpened is the result of GetShardIterator.
type iteratorOpened struct {
	generation uint64
	iterator   string
	push       *push
	err        error
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
			in.Timestamp = aws.Time(instantToAsk(f.position.Time(), time.Now(), f.refused))
		case leasestore.KindBefore, leasestore.KindSequence:
			// After a checkpoint too, as it may be within an aggregated record. What of the record is settled is dropped again.
			in.ShardIteratorType = types.ShardIteratorTypeAtSequenceNumber
			in.StartingSequenceNumber = aws.String(sequence)
		case leasestore.KindNone, leasestore.KindTrimHorizon, leasestore.KindShardEnd:
			in.ShardIteratorType = types.ShardIteratorTypeTrimHorizon
		}
	}
	return in
}

// opensAt notes what an iterator was asked for.
func (f *fetcher) opensAt(in *kinesis.GetShardIteratorInput) {
	f.tip, f.since = false, time.Time{}
	switch {
	case in.Timestamp == nil:
	case f.wasTip:
		// A tip that the service takes for the future is not to cost a record that came after the opening.
		f.since = *in.Timestamp
	default:
		f.since = f.position.Time()
	}
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
	now := time.Now()
	if wait := f.opens.wait(now); wait > 0 {
		r.timers.set(timerOpen, wait)
		return
	}
	done, ok := r.turns.call.take()
	if f.openDue = !ok; f.openDue {
		return
	}
	f.opens.called(now)
	r.timers.cancel(timerOpen)
	in := f.iteratorInput()
	f.opensAt(in)
	f.opening = true
	in.StreamName, in.StreamARN = r.how.stream.target()
	in.ShardId = aws.String(r.shard.id)
	client, generation := r.clients.Data, r.generation
	f.cancel = r.fx.run(r.cfg.Timings.CallTimeout, func(ctx context.Context) any {
		defer done()
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
		r.notOpened(c, readError(r.how.stream.spelling, r.shard.id, "another subscription of the consumer is in the way", m.err))
		r.timers.set(timerOpen, jitterUp(pushPause))
		return
	case m.err != nil:
		r.onIteratorFailure(c, m.err)
		return
	case m.iterator == "":
		// Some services answer a closed shard so.
		r.onEndCandidate(nil, true)
		return
	}
	f.iterator, f.push, f.refused, f.pushes = m.iterator, m.push, 0, 0
	r.end.notFound = nil // that was of a position, or a listing, of before
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
	switch f := &r.fetch; {
	case classify(err) == failureNotFound:
		r.onNotFound(e) // the shard was trimmed away, or the whole stream is gone: the listing says
		return
	case classify(err) != failureInvalid:
	case !f.since.IsZero() && f.refused < maxInstants:
		f.refused++ // the clocks differ, or it is to be read from some day on
		r.openIterator()
		return
	case f.lastRead == "" && f.position.Kind() == leasestore.KindSequence:
		// A checkpoint whose record was trimmed is accepted. Nobody but the owner of the data can say where to go on.
		e.Advice = "the checkpoint is not of this shard; seek to say where to read on"
	}
	r.notOpened(c, e)
}

// notOpened tells whoever waits for the iterator that there is none yet, and tries again later.
func (r *reader) notOpened(c actor.Context, e *Error) {
	if !r.reported {
		c.Send(c.Parent(), readerTrouble{shard: r.shard.id, err: e})
	}
	if kind := classify(e); kind == failureInvalid || kind == failureNotFound {
		c.Send(c.Parent(), shardDoubted{})
	}
	if r.seekWritten() && classify(e).lasting() {
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
