package actors

import (
	"context"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/protokinesis/protokinesis/leasestore"
)

// shardEnd is how far a shard's end is known.
type shardEnd struct {
	// checking: the end is being confirmed by a listing.
	checking bool
	// closed: a listing has said that the shard takes no more records.
	closed bool
	// notFound is set when it was not a missing iterator, but the service saying that there is no such shard.
	notFound *Error
	// unlisted: the shard was not in the listing that decided.
	unlisted bool
	// reached: there is nothing more to read.
	reached  bool
	children []shard
	failures int
	missed   int // listings in a row that lacked it
}

const (
	// missedPause is the pause before a shard that a listing lacked is looked for again: one page may have got lost.
	missedPause = 2 * time.Second
	// youngMissed is how many listings in a row may lack a shard that none has shown yet: it was learned of from its parent's last page, and
	// listings lag behind.
	youngMissed = 15
)

// mayBeMissed is how many listings in a row may lack the shard before it is taken for gone.
func (s shard) mayBeMissed() int {
	if s.startingSequence == "" {
		return youngMissed
	}
	return forgetAfter - 1
}

// endChecked is the result of looking for the shard in a listing.
type endChecked struct {
	generation uint64
	listed     bool
	closed     bool
	children   []shard
	err        error
}

// onNotFound: the service says that there is no such shard. When it is listed all the same, that is not its end, closed or not: some services
// say so of a position that is not the shard's.
func (r *reader) onNotFound(e *Error) {
	r.end.notFound = e
	r.onEndCandidate(nil, true)
}

// onEndCandidate: the service gave no iterator to go on with. With child shards in the answer that is the end. Without, some services do it
// on an open shard too, so a listing decides. What it calls closed may have been open when the answer came, and the answer may
// have left records out, so the shard is opened once more: the end is an answer that brings nothing new, of a shard known to be closed.
func (r *reader) onEndCandidate(children []types.ChildShard, nothingNew bool) {
	switch {
	case r.drain.draining, r.end.reached:
	case len(children) > 0:
		r.endReached(childShards(children))
	case r.end.closed && !nothingNew:
		r.openIterator()
	default:
		r.confirmEnd()
	}
}

func (r *reader) confirmEnd() {
	if r.end.checking || r.end.reached {
		return
	}
	r.end.checking = true
	client, ref, id, generation := r.clients.Control, r.how.stream, r.shard.id, r.generation
	r.fx.run(r.cfg.Timings.CallTimeout, func(ctx context.Context) any {
		listing, err := listShards(ctx, client, ref)
		done := endChecked{generation: generation, err: err}
		for _, s := range listing {
			if s.id == id {
				done.listed, done.closed = true, s.closed
			}
			for _, parent := range s.parents {
				if parent == id {
					done.children = append(done.children, s)
				}
			}
		}
		return done
	})
}

func (r *reader) onEndChecked(c actor.Context, m endChecked) {
	if m.generation != r.generation || r.drain.draining {
		return
	}
	r.end.checking = false
	if m.listed {
		r.end.missed = 0
	}
	switch {
	case m.err != nil:
		r.end.failures++
		if r.end.failures == 1 {
			e := readError(r.how.stream.spelling, r.shard.id, "its end can't be confirmed", m.err)
			r.log().Warn("can't confirm the end of the shard", slog.Any("error", m.err))
			if !r.reported {
				c.Send(c.Parent(), readerTrouble{shard: r.shard.id, err: e})
			}
		}
		if classify(m.err) == failureNotFound {
			// The stream is gone; the coordinator finds out at its own listing and ends the subscription.
			r.timers.set(timerConfirm, jitter(deniedPause))
			return
		}
		r.timers.set(timerConfirm, jitter(backoff(failureFirst, failureMax, r.end.failures)))
	case m.listed && r.end.notFound != nil:
		e := r.end.notFound
		r.end.notFound = nil
		r.notOpened(c, e)
	case m.listed && !m.closed:
		r.notOpened(c, readError(r.how.stream.spelling, r.shard.id, "no next iterator on an open shard", nil))
	case !m.listed && r.end.missed < r.shard.mayBeMissed():
		r.end.missed++
		r.timers.set(timerOpen, jitterUp(missedPause))
	case !m.listed:
		r.end.unlisted = true
		r.onUnlisted(c)
		r.endReached(m.children)
		r.afterEnd(c)
	case !r.end.closed:
		r.end.closed = true
		r.openIterator()
	default:
		r.endReached(m.children)
		r.afterEnd(c)
	}
}

// onUnlisted: the shard's records have passed the retention. If it was being read, there may have been more.
func (r *reader) onUnlisted(c actor.Context) {
	e := readError(r.how.stream.spelling, r.shard.id, "the shard is listed no more: what followed "+r.placeText()+" is lost, if there was anything", nil)
	e.Advice = "its children are read; lengthen the stream's retention if consumers may stand still for as long"
	r.log().Warn(e.Text)
	if r.fetch.lastRead != "" || r.fetch.position.Kind() == leasestore.KindSequence {
		r.tell(c, e)
	}
}

// endReached: everything of the shard has been read.
func (r *reader) endReached(children []shard) {
	r.end.reached, r.end.children = true, children
	r.fetch.drop()
	r.log().Info("end of shard", slog.Int("children", len(children)), slog.Int("unsettled", r.window.entries.len()))
	r.checkShardEnd()
}

// afterEnd reports a shard that ended before it ever had an iterator.
func (r *reader) afterEnd(c actor.Context) {
	if !r.reported {
		r.reported = true
		c.Send(c.Parent(), readerReady{shard: r.shard.id})
	}
	if r.seekWritten() {
		r.answerMove(c, nil)
	}
}

// checkShardEnd writes SHARD_END once everything read is settled. It is a step of its own, taken also when no record was read.
func (r *reader) checkShardEnd() {
	if r.end.reached && r.window.empty() && !r.unpack.waiting() && !r.lease.shardEnd {
		r.lease.shardEnd = true
		r.writeLease()
	}
}

// onFinished: SHARD_END is stored, so children may start.
func (r *reader) onFinished(c actor.Context) {
	r.log().Info("shard finished")
	r.stopSelf(c, readerEnded{reason: endFinished, children: r.end.children, unlisted: r.end.unlisted})
}

// childShards reads the children that came with the last page.
func childShards(children []types.ChildShard) []shard {
	out := make([]shard, 0, len(children))
	for _, ch := range children {
		out = append(out, newShard(ch.ShardId, ch.ParentShards, ch.HashKeyRange, nil))
	}
	return out
}

// drainState is a reader's way out.
type drainState struct {
	draining   bool
	ended      bool
	until      time.Time
	discard    bool
	to         string // who the lease is handed to
	letters    int    // dead letters that failed meanwhile
	unfinished string
	after      *drain // a handover that begins after the next read
}

// onDrain stops fetching and delivering and waits for what is in flight.
func (r *reader) onDrain(c actor.Context, m drain) {
	if r.drainAfterRead(m) {
		return
	}
	r.drain.after = nil
	r.drain.draining, r.drain.discard, r.drain.to = true, m.discard, m.to
	r.lease.offerDue = m.to != ""
	r.fetch.abandon()
	for _, t := range []readerTimer{timerFetch, timerOpen, timerRetry, timerConfirm, timerRedeliver, timerHandover} {
		r.timers.cancel(t)
	}
	if r.seek != nil {
		r.leaveMove(c)
	}
	if m.discard {
		r.discard()
	}
	r.share.free()
	r.window.giveUpUndelivered()
	r.transition(stateDraining, r.draining)
	r.writeLease()
	timeout := m.timeout
	if timeout < 0 {
		timeout = r.cfg.Timings.ShutdownTimeout
	}
	if timeout > 0 {
		r.drain.until = time.Now().Add(timeout)
		r.timers.set(timerDrain, timeout)
		r.deliver(c) // what waited behind its key, before records that were delivered
		r.checkDrained(c)
		return
	}
	r.onDrainDeadline(c)
}

// discard voids what is in flight.
func (r *reader) discard() {
	r.window = newWindow(r.how.windowRecords, r.how.windowBytes, r.how.perKeyOrder)
	r.generation, r.spent = nextGeneration(), make(map[uint64]uint64)
	r.end, r.lease.shardEnd = shardEnd{}, false
}

// onDrainAgain: a second drain may only shorten the first. Who the lease is handed to is for the last to say.
func (r *reader) onDrainAgain(c actor.Context, m drain) {
	r.drain.to = m.to
	if m.timeout == 0 {
		r.onDrainDeadline(c)
	} else if until := time.Now().Add(m.timeout); m.timeout > 0 && until.Before(r.drain.until) {
		r.drain.until = until
		r.timers.set(timerDrain, m.timeout)
	}
}

// checkDrained goes on to the release when nothing is in flight any more.
func (r *reader) checkDrained(c actor.Context) {
	r.checkShardEnd()
	if r.state == stateDraining && r.window.out == 0 && len(r.spent) == 0 && (r.window.readyCount() == 0 || !r.trusted()) {
		r.release(c)
	}
}

func (r *reader) onDrainDeadline(c actor.Context) {
	if r.state != stateDraining {
		return
	}
	r.release(c)
}

// noteUnfinished keeps for the last word what was not settled, and comes again.
func (r *reader) noteUnfinished() {
	letters := r.drain.letters + len(r.spent)
	if r.window.out+letters > 0 {
		r.drain.unfinished = unfinishedText(r.how.stream.spelling, r.shard.id, r.window.out, letters)
		r.log().Warn("shutdown: records not settled in time; they come again",
			slog.Int("records", r.window.out), slog.Int("dead_letters", letters))
	}
}

// release writes what is settled and gives the lease back. Without a lease there is nothing to give.
func (r *reader) release(c actor.Context) {
	r.timers.cancel(timerDrain)
	if r.state != stateReleasing {
		r.noteUnfinished()
		r.transition(stateReleasing, r.releasing)
	}
	k := &r.lease
	if !k.held {
		if k.writing {
			return // the acquisition under way comes first; onAcquired calls again
		}
		r.stopSelf(c, readerEnded{reason: endReleased, unfinished: r.drain.unfinished})
		return
	}
	k.release, k.move = true, nil
	r.timers.cancel(timerLeaseRetry)
	r.writeLease()
}
