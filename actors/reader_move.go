package actors

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

// Aliases that keep the long generated names out of the code.
const (
	statePositioning = messages.ShardState_SHARD_STATE_POSITIONING
	stateReading     = messages.ShardState_SHARD_STATE_READING
	statePaused      = messages.ShardState_SHARD_STATE_PAUSED
	stateDraining    = messages.ShardState_SHARD_STATE_DRAINING
	stateReleasing   = messages.ShardState_SHARD_STATE_RELEASING
)

// moveReader moves a reader to another position. It is answered by readerMoved once the position is stored and the new
// iterator held; a second one takes the place of the first, which is answered then.
type moveReader struct {
	id     uint64
	to     leasestore.Checkpoint
	tip    bool
	number int64
	// alone: it is a seek of this shard, and stored nowhere yet.
	alone bool
	// probe: first see whether the service accepts the position, and move nothing if not.
	probe bool
}

// onMove begins a seek. What was delivered before is void from now on, except while a position is only probed.
func (r *reader) onMove(c actor.Context, m moveReader) {
	if r.seek != nil {
		r.answerMove(c, &Error{
			Kind: messages.ErrorKind_ERROR_KIND_READ, Stream: r.how.stream.spelling, Shard: r.shard.id, Text: "another seek came before this one was done",
		})
	}
	if r.end.reached && m.probe {
		e := invalid(r.how.stream.spelling, "to.sequence.shard_id", "the shard has been read to its end")
		e.Shard = r.shard.id
		c.Send(c.Parent(), readerMoved{shard: r.shard.id, id: m.id, err: e})
		return
	}
	r.seek = &m
	if m.probe {
		r.probe(m)
		return
	}
	r.move(c)
}

// probe asks for an iterator at the new position without giving the old one up.
func (r *reader) probe(m moveReader) {
	place := fetcher{position: m.to}
	in := place.iteratorInput()
	in.StreamName, in.StreamARN = r.how.stream.target()
	in.ShardId = aws.String(r.shard.id)
	now := time.Now()
	wait := r.fetch.opens.wait(now)
	r.fetch.opens.called(now.Add(wait))
	client := r.clients.Data
	r.fx.run(wait+r.cfg.Timings.CallTimeout, func(ctx context.Context) any {
		err := pause(ctx, wait)
		if err == nil {
			_, err = client.GetShardIterator(ctx, in)
		}
		return moveProbed{id: m.id, err: err}
	})
}

// moveProbed is the result of probe.
type moveProbed struct {
	id  uint64
	err error
}

func (r *reader) onMoveProbed(c actor.Context, m moveProbed) {
	if r.seek == nil || r.seek.id != m.id || !r.seek.probe {
		return
	}
	if m.err != nil {
		e := readError(r.how.stream.spelling, r.shard.id, "the service does not accept the position "+r.seek.to.String(), m.err)
		if classify(m.err) == failureInvalid {
			e.Kind, e.Field = messages.ErrorKind_ERROR_KIND_INVALID, "to.sequence.sequence_number"
		}
		r.answerMove(c, e)
		return
	}
	r.seek.probe = false
	r.move(c)
}

// move voids what was delivered, stores the new position and opens there. The position is written first: should the process die in
// between, the next reader starts at the new place too.
func (r *reader) move(c actor.Context) {
	r.newGeneration()
	r.fetch.position, r.fetch.tip, r.fetch.wasTip = r.seek.to, r.seek.tip, r.seek.tip
	r.lease.shardEnd, r.lease.checkpointDue = false, false
	if r.state != statePositioning {
		r.transition(statePositioning, r.positioning)
	}
	to := r.seek.to
	r.lease.move, r.lease.moveNumber = &to, r.seek.number
	r.seekNumber = r.seek.number
	if !r.lease.held && !r.lease.writing && !r.lease.acquireDue {
		r.answerMove(c, r.endedWhileMoving())
		return
	}
	r.writeLease()
}

// seekWritten reports whether a seek's position is stored and only its iterator is missing.
func (r *reader) seekWritten() bool {
	return r.seek != nil && !r.seek.probe && r.lease.move == nil
}

func (r *reader) answerMove(c actor.Context, err *Error) {
	c.Send(c.Parent(), readerMoved{shard: r.shard.id, id: r.seek.id, err: err})
	r.seek = nil
}

// refuseMove answers a seek that comes while the reader is on its way out. One of the whole stream is stored: the next reader begins there, and
// what is in flight here is void, so there is nothing left to wait for.
func (r *reader) refuseMove(c actor.Context, m moveReader) {
	if m.alone {
		c.Send(c.Parent(), readerMoved{shard: r.shard.id, id: m.id, err: r.endedWhileMoving()})
		return
	}
	c.Send(c.Parent(), readerMoved{shard: r.shard.id, id: m.id, left: true})
	r.discard()
	r.onDrainDeadline(c)
}

// leaveMove answers a seek under way as the reader begins to drain. Whoever reads the shard next begins at a position that is stored.
func (r *reader) leaveMove(c actor.Context) {
	if r.seek.alone && !r.seekWritten() {
		r.answerMove(c, r.endedWhileMoving())
		return
	}
	c.Send(c.Parent(), readerMoved{shard: r.shard.id, id: r.seek.id, left: true})
	r.seek = nil
}

func (r *reader) endedWhileMoving() *Error {
	return endedWhileMoving(r.how.stream.spelling, r.shard.id)
}

func endedWhileMoving(stream, shard string) *Error {
	return &Error{
		Kind: messages.ErrorKind_ERROR_KIND_READ, Stream: stream, Shard: shard,
		Text: "the shard stopped being read here during the seek", Advice: "seek again",
	}
}

func unfinishedText(stream, shard string, records, deadLetters int) string {
	var what []string
	if records > 0 {
		what = append(what, fmt.Sprintf("%d records delivered and not settled", records))
	}
	if deadLetters > 0 {
		what = append(what, fmt.Sprintf("%d dead letters not stored", deadLetters))
	}
	return fmt.Sprintf("stream %q: %s: %s; they come again", stream, shard, strings.Join(what, ", "))
}
