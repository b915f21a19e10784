package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

// onRunningReady: a reader is at work.
func (co *coordinator) onRunningReady(m readerReady) {
	if s := co.shards[m.shard]; s != nil {
		s.losses, s.override = 0, nil
	}
	co.seeks.begun(co, m.shard, nil)
}

// onEnded is a reader's last word; that it has stopped (onGone) comes after.
func (co *coordinator) onEnded(c actor.Context, m readerEnded) {
	s := co.shards[m.shard]
	if s == nil || s.started != m.reader {
		return
	}
	s.rememberOwn(m.last)
	co.onGivenAway(c, s, m.row)
	switch m.reason {
	case endFinished:
		if m.seek < co.state.Seek { // the end of before a seek, which has reopened the shard
			co.rescanSoon()
			break
		}
		s.lease.Checkpoint, s.lease.Seek, s.lease.Counter = leasestore.ShardEnd(), co.state.Seek, max(1, s.lease.Counter)
		s.finished, s.finishedIn = true, co.state.Seek
		s.closed = s.closed || !m.unlisted // else the next listing is to ask whether it is the same stream
		for _, child := range m.children {
			co.meet(child)
		}
		co.onReady(c, m.shard, nil)
		co.listDue = true
		co.startHeirsSoon()
	case endLost:
		s.losses++
		pause := backoff(restartFirst, restartMax, s.losses)
		s.notUntil = time.Now().Add(pause)
		if co.awaited[m.shard] == errAwaited { // else it has reported, and what it said stands
			co.onReady(c, m.shard, nil)
		}
		co.soon(pause)
	case endReleased:
		co.rescanSoon()
	}
	co.seeks.ended(co, m.shard)
}

const (
	// heirsPause is the least time between two starts of children, endedScan between two scans because of ends.
	heirsPause = 50 * time.Millisecond
	endedScan  = 250 * time.Millisecond
)

// startHeirsSoon starts the children of a shard that was read to its end: now, unless those of another have just been. A reshard may end thousands of
// shards within a second, and each time all of them are gone through.
func (co *coordinator) startHeirsSoon() {
	if !co.timers.armed(timerHeirs) {
		co.timers.set(timerHeirs, max(0, heirsPause-time.Since(co.heirsAt)))
	}
}

func (co *coordinator) onHeirsDue(c actor.Context) {
	if co.recreating || (!co.live && co.awaited == nil) {
		return // the first pass starts them
	}
	co.heirsAt = time.Now()
	co.reconcile(c)
	wait := endedScan - co.heirsAt.Sub(co.endedAt)
	if wait <= 0 {
		wait, co.endedAt = 0, co.heirsAt
	}
	co.soon(wait)
}

// onGone: the subscriber is gone, or a reader has stopped.
func (co *coordinator) onGone(c actor.Context, who *actor.PID) {
	if who.Equal(co.subscriber) {
		co.log().Info("the subscriber has stopped: the subscription ends")
		if !co.opened {
			c.Send(c.Parent(), subscriptionFailed{coordinator: c.Self(), err: invalid(
				co.how.stream.spelling, "subscriber", "it has stopped")})
		}
		co.close(c, closeRequest{})
		return
	}
	s := co.byReader(who)
	if s == nil {
		return
	}
	s.reader = nil
	s.share.free() // if it could not do so itself
	if co.recreating && !co.closing.begun {
		co.checkStartOver()
		return
	}
	if co.closing.begun {
		co.checkClosed(c)
		return
	}
	if s.crashed {
		co.onCrashed(c, s)
	}
	// A seek that came between its last word and now waits for an answer that it can't give any more.
	co.seeks.ended(co, s.id)
	if s.decision.verdict == verdictStart && !s.lease.Checkpoint.IsShardEnd() {
		co.soon(restartFirst)
	}
}

// onCrashed puts the pause before a reader's successor; crashes more than a minute apart do not add up.
func (co *coordinator) onCrashed(c actor.Context, s *shardInfo) {
	now := time.Now()
	if now.Sub(s.crashedAt) > restartForget {
		s.failures = 0
	}
	s.failures++
	s.crashedAt = now
	s.notUntil = now.Add(backoff(restartFirst, restartMax, s.failures))
	e := &Error{
		Kind: messages.ErrorKind_ERROR_KIND_READ, Stream: co.how.stream.spelling, Shard: s.id, Text: "the reader panicked",
	}
	co.onReady(c, s.id, e)
	co.seeks.done(co, s.id, e)
	co.soon(time.Until(s.notUntil))
}
