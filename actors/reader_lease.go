package actors

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/leasestore"
)

// keeper is a reader's hold on its lease. All writes of the lease go through it, one at a time, each conditional on the counter that
// the one before returned: two writers of one lease would fence each other.
type keeper struct {
	lease leasestore.Lease
	held  bool
	// trustedUntil is when we must count the lease as lost: a ttl after the start of the last write that succeeded. Others
	// count from when they see that write, which is later.
	trustedUntil time.Time

	writing       bool
	acquireDue    bool // it is to be taken when there is a place for that
	renewDue      bool
	spread        bool // its renewals do not fall together with others'
	checkpointDue bool
	failures      int
	failedSince   time.Time              // start of the first of them
	move          *leasestore.Checkpoint // a seek's position to be written
	moveNumber    int64
	release       bool
	offerDue      bool // the next owner is to be named while what is in flight settles
	shardEnd      bool // all is settled: write SHARD_END
}

// leaseOp is a kind of write.
type leaseOp uint8

const (
	opAcquire leaseOp = iota
	opRenew
	opCheckpoint
	opMove
	opShardEnd
	opOffer
	opRelease
	opHand
)

func (op leaseOp) String() string {
	return [...]string{"acquire", "renew", "checkpoint", "move", "finish", "offer", "release", "hand over"}[op]
}

// leaseWritten is the result of a write.
type leaseWritten struct {
	op      leaseOp
	lease   leasestore.Lease
	err     error
	started time.Time
	// confirmed: the write seemed to fail, and reading back showed that one of ours had landed.
	confirmed bool
}

// nextOp decides what to write next, if anything. The order matters: a seek voids what is settled, the last checkpoint comes before
// the release, and a checkpoint is a renewal too.
func (k *keeper) nextOp(watermark leasestore.Checkpoint, to string) (leaseOp, bool) {
	moved := watermark.Compare(k.lease.Checkpoint) > 0
	switch {
	case k.writing || !k.held:
		return 0, false
	case k.move != nil:
		return opMove, true
	case k.shardEnd && !k.lease.Checkpoint.IsShardEnd():
		return opShardEnd, true
	case moved && (k.checkpointDue || k.renewDue || k.release):
		return opCheckpoint, true
	case k.release && to != "" && to != k.lease.Owner:
		return opHand, true
	case k.release:
		return opRelease, true
	case k.offerDue:
		return opOffer, true
	case k.renewDue:
		return opRenew, true
	}
	return 0, false
}

// renewIn is how long the lease is left alone after a write. It is any part of the interval once, after the lease was taken, after failures, and after the
// first renewal that follows checkpoints: leases that were written together are not to be renewed together for ever.
func (k *keeper) renewIn(op leaseOp, every time.Duration) time.Duration {
	if op == opCheckpoint {
		k.spread = false
		return every
	}
	if !k.spread {
		k.spread = true
		return time.Duration(rand.Float64() * float64(every)) //nolint:gosec // spreads load, guards nothing
	}
	return every
}

// lastState is the lease as this reader would have left it: with the watermark, unless a seek has voided that.
func (k *keeper) lastState(watermark leasestore.Checkpoint) leasestore.Lease {
	if k.trustedUntil.IsZero() {
		return leasestore.Lease{} // never held
	}
	last := k.lease
	if k.move == nil && watermark.Compare(last.Checkpoint) > 0 {
		last.Checkpoint = watermark.Clone()
	}
	return last
}

// acquire takes the lease, as last seen by the coordinator.
func (r *reader) acquire() {
	taken, ok := r.turns.acquire.take()
	if r.lease.acquireDue = !ok; !ok {
		return
	}
	r.lease.writing = true
	store, owner, lease := r.store, r.owner, r.lease.lease
	to, seek, move := r.readerSpec.start.start, r.seekNumber, r.moveFirst
	if r.lease.move != nil { // a seek came meanwhile; a lease that has its number is to have its position
		to, move = *r.lease.move, true
	}
	if lease.Counter == 0 {
		lease.Key = leasestore.Key{Stream: r.stream, Shard: r.shard.id}
		lease.Checkpoint, lease.Seek, lease.Parents = to, seek, r.shard.parents
	}
	void := lease.Counter != 0 && (move || lease.Seek != seek || lease.Checkpoint.IsZero())
	r.fx.run(r.leaseTimeout(), func(ctx context.Context) any {
		defer taken()
		done := leaseWritten{op: opAcquire, started: time.Now()}
		done.lease, done.err = store.Acquire(ctx, lease, owner)
		found := done.err != nil
		if found {
			done.lease, done.err = leasestore.Confirm(ctx, store, lease, owner, done.err)
		}
		before := done.lease
		switch {
		case done.err != nil:
			return done
		case void:
			// The stored checkpoint is of before the last stream-wide seek: move it before anything is read.
			done.started = time.Now()
			done.lease, done.err = store.Move(ctx, before, to, seek)
		case found:
			// It may be that another has made this node the owner, and others have counted the ttl since then.
			done.started = time.Now()
			done.lease, done.err = store.Renew(ctx, before)
		}
		if done.err != nil {
			done.lease, done.err = leasestore.Confirm(ctx, store, before, owner, done.err)
		}
		return done
	})
}

// writeLease starts the next write, if one is due.
func (r *reader) writeLease() {
	k := &r.lease
	watermark := r.window.watermark.Clone() // likely to outlive its page
	next := r.drain.to
	op, ok := k.nextOp(watermark, next)
	if !ok || r.timers.armed(timerLeaseRetry) {
		return
	}
	k.writing = true
	store, lease, owner := r.store, k.lease, r.owner
	var to leasestore.Checkpoint
	if k.move != nil {
		to = *k.move
	}
	number := k.moveNumber
	r.fx.run(r.leaseTimeout(), func(ctx context.Context) any {
		done := leaseWritten{op: op, started: time.Now()}
		switch op {
		case opRenew:
			done.lease, done.err = store.Renew(ctx, lease)
		case opCheckpoint:
			done.lease, done.err = store.Checkpoint(ctx, lease, watermark)
		case opShardEnd:
			done.lease, done.err = store.Checkpoint(ctx, lease, leasestore.ShardEnd())
		case opMove:
			done.lease, done.err = store.Move(ctx, lease, to, number)
		case opOffer:
			done.lease, done.err = store.Offer(ctx, lease, next)
		case opHand, opRelease:
			return giveAway(ctx, store, lease, op, next)
		case opAcquire:
		}
		if done.err != nil {
			// An earlier try of unknown outcome may have been ours: then the lease is still held, and what this write
			// was to store is compared again.
			done.lease, done.err = leasestore.Confirm(ctx, store, lease, owner, done.err)
			done.confirmed = done.err == nil
		}
		return done
	})
}

// giveAway makes another the owner of a lease, or nobody.
func giveAway(ctx context.Context, store leasestore.Store, lease leasestore.Lease, op leaseOp, to string) leaseWritten {
	done := leaseWritten{op: op, started: time.Now()}
	if op == opHand {
		if done.lease, done.err = store.Acquire(ctx, lease, to); done.err != nil {
			done.lease, done.err = leasestore.Confirm(ctx, store, lease, to, done.err)
		}
	} else if done.lease, done.err = store.Release(ctx, lease); done.err != nil {
		done.lease, done.err = leasestore.ConfirmRelease(ctx, store, lease, done.err)
	}
	if !errors.Is(done.err, leasestore.ErrFenced) {
		return done
	}
	// If that was an earlier write of ours, whose outcome is unknown, the lease is ours still, and has yet to be given away.
	switch row, err := leasestore.Confirm(ctx, store, lease, lease.Owner, done.err); {
	case err == nil:
		return leaseWritten{op: opRenew, lease: row, started: done.started, confirmed: true}
	case !errors.Is(err, leasestore.ErrFenced):
		done.err = err
	}
	return done
}

// leaseTimeout leaves room for a second try within the ttl.
func (r *reader) leaseTimeout() time.Duration { return r.cfg.Timings.LeaseTTL / 3 }

func (r *reader) onLeaseWritten(c actor.Context, m leaseWritten) {
	k := &r.lease
	k.writing = false
	switch {
	case m.err == nil:
		r.onLeaseHeld(c, m)
	case errors.Is(m.err, leasestore.ErrFenced), errors.Is(m.err, leasestore.ErrNotFound):
		r.onFenced(c, m)
	case errors.Is(m.err, leasestore.ErrBackwards) && m.op != opAcquire:
		// The stored checkpoint is ahead of what we settled, though we hold the lease: someone moved it by hand. Leave it.
		r.log().Warn("the stored checkpoint is ahead of this reader", slog.Any("error", m.err))
		r.onFenced(c, m)
	default:
		r.onLeaseFailure(c, m)
	}
}

func (r *reader) onLeaseHeld(c actor.Context, m leaseWritten) {
	k := &r.lease
	previous, since := k.lease, m.started
	if m.confirmed && k.failures > 0 {
		since = k.failedSince // the write that landed may be the first of those whose outcome was unknown
	}
	k.lease, k.failures = m.lease, 0
	if m.op == opRelease || m.op == opHand {
		what := "lease released"
		if m.op == opHand {
			what = "lease handed over"
		}
		r.log().Info(what, slog.String("to", k.lease.Owner), slog.String("checkpoint", k.lease.Checkpoint.String()))
		k.held = false
		r.stopSelf(c, readerEnded{reason: endReleased, row: k.lease, unfinished: r.drain.unfinished})
		return
	}
	k.offerDue = k.offerDue && m.op != opOffer
	k.held, k.renewDue = true, false
	if m.lease.Checkpoint != previous.Checkpoint {
		k.checkpointDue = false
	}
	k.trustedUntil = since.Add(r.cfg.Timings.LeaseTTL)
	if !r.timers.armed(timerTrust) { // else it is set anew when it fires, which is not at each renewal
		r.timers.set(timerTrust, time.Until(k.trustedUntil))
	}
	r.timers.set(timerRenew, together(time.Now(), k.renewIn(m.op, r.cfg.Timings.RenewEvery)))
	r.timers.cancel(timerLeaseRetry)
	moved := k.move != nil && k.lease.Checkpoint == *k.move && k.lease.Seek == k.moveNumber
	if moved {
		k.move = nil // whatever write it was that found it stored
	}
	switch {
	case m.op == opAcquire:
		r.onAcquired(c)
	case k.lease.Checkpoint.IsShardEnd() && k.shardEnd:
		r.onFinished(c)
		return
	case moved:
		r.openIterator() // whether or not the seek that moved it is still waited for
	}
	if r.state == statePaused {
		r.log().Info("lease renewed: reading on")
		r.transition(stateReading, r.reading)
		r.armRetry()
		r.deliver(c)
		r.fetchMore()
	}
	r.checkAsked(c)
	r.checkpointSoon()
	r.writeLease()
}

// checkAsked: the row says that the lease is to be handed over, and it was not this node that wrote so. Whoever did, such as the leader of KCL workers
// on the same table, counts on it.
func (r *reader) checkAsked(c actor.Context) {
	to := r.lease.lease.Next
	if to == "" || to == r.owner || r.drain.draining {
		return
	}
	r.log().Info("the lease is asked for", slog.String("by", to))
	c.Send(c.Parent(), readerGiving{shard: r.shard.id, to: to})
	r.onDrain(c, drain{timeout: r.cfg.Timings.HandoverTimeout, to: to})
}

// onAcquired goes on from what is stored. It may be ahead of what the coordinator saw: the last write of a reader of ours before this one may
// have landed since.
func (r *reader) onAcquired(c actor.Context) {
	if stored := r.lease.lease.Checkpoint; stored != r.fetch.position && r.lease.move == nil {
		r.fetch.position, r.fetch.tip, r.fetch.wasTip = stored, false, false
		r.source = sourceCheckpoint
	}
	if r.fetch.position.IsShardEnd() && r.lease.move == nil {
		r.stopSelf(c, readerEnded{reason: endFinished})
		return
	}
	r.log().Info("lease taken", slog.Int64("counter", r.lease.lease.Counter),
		slog.String("position", r.fetch.position.String()), slog.Bool("tip", r.fetch.tip), slog.String("source", r.source))
	if r.drain.draining {
		r.release(c)
		return
	}
	if r.lease.move == nil { // else a seek came meanwhile, and its position is written first
		r.openIterator()
	}
}

// onFenced: the lease is someone else's, or gone. Nothing more is delivered or written.
func (r *reader) onFenced(c actor.Context, m leaseWritten) {
	r.lease.held = false
	reason := endLost
	switch m.op {
	case opRelease, opHand:
		reason = endReleased // it is not ours, which is what we wanted
	case opAcquire:
		r.log().Info("lease not taken: another was faster", slog.Any("error", m.err))
	case opRenew, opCheckpoint, opMove, opShardEnd, opOffer:
		r.log().Warn("lease lost", slog.String("at", m.op.String()), slog.Any("error", m.err))
		e := leaseError(r.lease.lease.Key, r.how.stream.spelling, "the lease was lost; deliveries not settled come again from its new owner", m.err)
		e.Advice = ""
		r.tell(c, e)
	}
	r.generation = nextGeneration() // late settlements are void
	r.stopSelf(c, readerEnded{reason: reason, unfinished: r.drain.unfinished})
}

const (
	leaseRetryFirst = 200 * time.Millisecond
	leaseRetryMax   = time.Second
	// tellAfter is how many failures in a row of one thing the subscriber is told of.
	tellAfter = 5
)

// onLeaseFailure: the store failed; whether it wrote is unknown, and the next try finds out.
func (r *reader) onLeaseFailure(c actor.Context, m leaseWritten) {
	k := &r.lease
	if k.failures == 0 {
		k.failedSince = m.started
	}
	k.failures++
	k.spread = false
	r.log().Warn("lease store", slog.String("write", m.op.String()), slog.Int("failures", k.failures), slog.Any("error", m.err))
	e := r.leaseTrouble("the lease could not be written ("+m.op.String()+")", m.err)
	switch {
	case m.op == opAcquire && r.drain.draining:
		r.stopSelf(c, readerEnded{reason: endReleased})
		return
	case m.op == opAcquire:
		// Another look at the store decides; the coordinator starts a reader again.
		e.Shard = r.shard.id
		c.Send(c.Parent(), readerTrouble{shard: r.shard.id, err: e})
		r.stopSelf(c, readerEnded{reason: endLost})
		return
	case k.release && time.Now().After(k.trustedUntil):
		r.log().Warn("lease not released: it runs out by itself")
		r.stopSelf(c, readerEnded{reason: endReleased, unfinished: "the lease of " + r.shard.id + " could not be released: " + shortened(m.err.Error())})
		return
	case k.failures == tellAfter:
		r.tell(c, e)
	}
	r.timers.set(timerLeaseRetry, jitter(backoff(leaseRetryFirst, leaseRetryMax, k.failures)))
}

// leaseTrouble is a failure of the store that ends nothing.
func (r *reader) leaseTrouble(doing string, err error) *Error {
	e := leaseError(r.lease.lease.Key, r.how.stream.spelling, doing, err)
	e.Advice += "; the reader goes on trying"
	return e
}

// trusted reports whether the lease may be acted on.
func (r *reader) trusted() bool {
	return r.lease.held && time.Now().Before(r.lease.trustedUntil)
}

// onTrustEnded: no write has succeeded for a ttl, so another node may have taken the shard.
func (r *reader) onTrustEnded(c actor.Context) {
	if left := time.Until(r.lease.trustedUntil); left > 0 {
		r.timers.set(timerTrust, left)
		return
	}
	if r.lease.held && r.state == stateReading {
		r.log().Warn("lease not renewed within its ttl: delivering nothing until it is")
		r.tell(c, r.leaseTrouble("the lease could not be renewed within its ttl; deliveries pause", nil))
		r.transition(statePaused, r.paused)
	}
}

// checkpointSoon sees to it that a moved watermark is saved within the interval.
func (r *reader) checkpointSoon() {
	if r.window.watermark.Compare(r.lease.lease.Checkpoint) > 0 && !r.lease.checkpointDue && !r.timers.armed(timerCheckpoint) {
		r.timers.set(timerCheckpoint, r.how.checkpointInterval)
	}
}
