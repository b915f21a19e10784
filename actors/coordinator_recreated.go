package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

// A stream that was deleted and created again under its name is another stream: its shards have the same ids and other records. It is recognised
// by its creation time, which is part of every lease's key. On opening, the leases of a stream of the same name and another time tell of it; while
// running, listings that do not fit to each other.

// lister lists shards and notices when they are another stream's.
type lister struct {
	client Kinesis
	ref    streamRef
	id     leasestore.StreamID
	known  streamLife
	// look makes it ask whether the stream is being resharded.
	look bool
}

func (co *coordinator) lister() lister {
	shards := make([]shard, 0, len(co.shards))
	for _, s := range co.shards {
		if s.reader != nil || s.missed == 0 {
			shards = append(shards, s.shard)
		}
	}
	return lister{
		client: co.clients.Control, ref: co.how.stream, id: co.found.id, known: lifeOf(shards, co.gone), look: co.audits.doubtful(),
	}
}

func (l lister) list(ctx context.Context) listing {
	var m listing
	m.shards, m.listErr = listShards(ctx, l.client, l.ref)
	doubts := m.listErr == nil && l.known.doubts(m.shards)
	if !doubts && !l.look {
		return m
	}
	out, err := l.client.DescribeStreamSummary(ctx, describeInput(l.ref))
	switch {
	case err == nil:
		m.updating = isUpdating(out)
		if created := aws.ToTime(out.StreamDescriptionSummary.StreamCreationTimestamp); created.UnixMilli() != l.id.CreatedMillis {
			m.recreated = created
		}
	case doubts:
		m.shards, m.listErr = nil, err // whose shards they are is not known
	default:
		m.updating = true
	}
	return m
}

// resets reports whether the subscription starts over when its stream is created again.
func (co *coordinator) resets() bool {
	return co.how.onRecreated == messages.OnRecreated_ON_RECREATED_RESET
}

// onRecreated: the listing is another stream's. The policy decides.
func (co *coordinator) onRecreated(c actor.Context, created time.Time) {
	e := co.recreatedError(leasestore.NewStreamID(co.found.id.Name, created), co.found.id)
	if !co.resets() {
		co.end(c, e)
		return
	}
	e.Text, e.Advice = e.Text+"; starting over at its oldest record", ""
	co.log().Warn("the stream was created again: starting over", slog.Time("created", created))
	co.tell(c, e, false)
	co.seeks.refuseAll(c, e)
	co.startOver(c)
}

func (co *coordinator) recreatedError(now, before leasestore.StreamID) *Error {
	at := func(id leasestore.StreamID) string {
		return time.UnixMilli(id.CreatedMillis).UTC().Format(time.RFC3339Nano)
	}
	return &Error{
		Kind: messages.ErrorKind_ERROR_KIND_STREAM, Stream: co.how.stream.spelling,
		Text:   fmt.Sprintf("the stream was deleted and created again at %s; the checkpoints are of the one created at %s", at(now), at(before)),
		Advice: "subscribe with on_recreated RESET to start over at its oldest record, or say where to start_at",
	}
}

// startOver stops every reader and opens the subscription again. What is in flight is void.
func (co *coordinator) startOver(c actor.Context) {
	co.behavior.Become(co.startingOver)
	co.live, co.recreating = false, true
	co.fx.stop() // what is under way is about the stream of before
	co.fx = newEffects(c, co.cfg.pool)
	for _, t := range []coordinatorTimer{timerList, timerScan, timerSoon} {
		co.timers.cancel(t)
	}
	for _, s := range co.shards {
		if s.reader != nil {
			c.Send(s.reader, drain{discard: true})
		}
	}
	co.checkStartOver()
}

// startingOver: the readers of the stream of before are stopping.
func (co *coordinator) startingOver(c actor.Context) {
	switch m := c.Message().(type) {
	case *messages.Seek:
		co.onSeek(c, m, c.Sender())
	case *messages.Unsubscribe:
		co.close(c, closeRequest{unsubscribe: m, asker: c.Sender()})
	case drain:
		co.onDrain(c, m)
	case readerEnded, readerReady, readerTrouble, readerMoved, seekComplete, shardDoubted:
	default:
		co.unhandled(c)
	}
}

func (co *coordinator) checkStartOver() {
	for _, s := range co.shards {
		if s.reader != nil {
			return
		}
	}
	co.forgetAll()
	co.behavior.Become(co.opening)
	co.find()
}

// checkPast deals with the leases of a stream of before, when the subscription opens and has none of its own yet. It reports whether the first pass is
// taken care of.
func (co *coordinator) checkPast(c actor.Context, m scanned) bool {
	past, found := pastLife(co.found.id, m.stored)
	explicit := co.how.startAt != nil && co.how.startAt.GetSequence() == nil && !co.opened
	if !found || explicit || co.state.Version > 0 || len(co.rows) > 0 {
		return false
	}
	if !co.resets() {
		co.end(c, co.recreatedError(co.found.id, past))
		return true
	}
	co.log().Warn("the stream was created again since its leases were written: starting over at its oldest record", slog.String("before", past.String()))
	co.state = leasestore.StreamState{Stream: co.found.id, Start: leasestore.TrimHorizon()}
	co.saveState(co.state)
	return true
}

// errRecreated: what was listed are another stream's shards.
var errRecreated = errors.New("the stream was deleted and created again")
