package actors

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

// streamLooked is the result of describing (and creating) the stream.
type streamLooked struct {
	found streamFound
	err   error
}

// stateSaved is the result of storing the stream's state.
type stateSaved struct {
	state   leasestore.StreamState
	err     error
	seek    bool   // for a seek, not for the first opening
	id      uint64 // the seek's; 0 for start_at
	shards  []shard
	listErr error // nothing was stored, as the shards could not be listed
}

// find begins the opening: what is the stream, and is it there?
func (co *coordinator) find() {
	client, how := co.clients.Control, co.how
	timeout := max(time.Until(co.deadline), co.cfg.Timings.CallTimeout)
	co.fx.run(timeout, func(ctx context.Context) any {
		found, err := findStream(ctx, client, how)
		return streamLooked{found: found, err: err}
	})
}

func (co *coordinator) onLooked(c actor.Context, m streamLooked) {
	if co.closing.begun {
		return
	}
	if m.err != nil {
		co.fail(c, streamError(co.how.stream.spelling, "the stream can't be opened", m.err))
		return
	}
	co.found, co.claimed = m.found, false
	co.list()
}

// onFirstListingFailed tries again if many nodes that start together got in each other's way.
func (co *coordinator) onFirstListingFailed(c actor.Context, err error) {
	if classify(err) != failureThrottled {
		co.fail(c, streamError(co.how.stream.spelling, "the shards can't be listed", err))
		return
	}
	co.listFail++
	co.listDue = true
	co.timers.set(timerSoon, throttlePause(co.listFail, 0))
}

func (co *coordinator) onClaimed(c actor.Context, m streamClaimed) {
	if m.err != nil {
		co.fail(c, m.err)
		return
	}
	co.claimed = true
	co.scan()
}

// firstPass goes on with the first look at shards and leases.
func (co *coordinator) firstPass(c actor.Context, m scanned) {
	switch {
	case m.listErr != nil:
		co.onFirstListingFailed(c, m.listErr)
		return
	case m.leaseErr != nil:
		co.fail(c, leaseError(leasestore.Key{}, co.how.stream.spelling, "the leases can't be read", m.leaseErr))
		return
	}
	co.listFail = 0
	co.learn(m)
	if co.shares.firstSeen == nil {
		co.shares.firstSeen = &m.state.Version
	}
	if co.checkPast(c, m) || co.gather() {
		return
	}
	co.hintAll(c, messages.HintKind_HINT_KIND_JOINED)
	co.startWhereAsked(c)
}

// startWhereAsked begins with start_at, when the subscription opens for the first time and has one.
func (co *coordinator) startWhereAsked(c actor.Context) {
	at := co.how.startAt
	switch {
	case at == nil, co.opened:
		co.startFirst(c)
	case at.GetSequence() != nil:
		co.startAtSequence(c, at.GetSequence())
	case co.state.Version > *co.shares.firstSeen && co.isAt(at): // by a node that started together with this one
		co.startFirst(c)
	default:
		co.saveSeek(at)
	}
}

// startAtSequence makes the position of one shard what start_at says, if the service accepts it.
func (co *coordinator) startAtSequence(c actor.Context, at *messages.Sequence) {
	s, listed := co.shards[at.GetShardId()]
	if !listed {
		e := invalid(co.how.stream.spelling, "start_at.sequence.shard_id", "the stream has no such shard")
		e.Shard = at.GetShardId()
		co.fail(c, e)
		return
	}
	place := fetcher{position: leasestore.Before(at.GetSequenceNumber(), at.GetSubSequenceNumber())}
	in := place.iteratorInput()
	in.StreamName, in.StreamARN = co.how.stream.target()
	in.ShardId = aws.String(s.id)
	client := co.clients.Control
	co.fx.run(co.cfg.Timings.CallTimeout, func(ctx context.Context) any {
		_, err := client.GetShardIterator(ctx, in)
		return startProbed{shard: s.id, to: place.position, err: err}
	})
}

// startProbed is the result of startAtSequence.
type startProbed struct {
	shard string
	to    leasestore.Checkpoint
	err   error
}

func (co *coordinator) onStartProbed(c actor.Context, m startProbed) {
	if co.closing.begun {
		return
	}
	if m.err != nil {
		e := readError(co.how.stream.spelling, m.shard, "the service does not accept the position "+m.to.String(), m.err)
		if classify(m.err) == failureInvalid {
			e.Kind, e.Field = messages.ErrorKind_ERROR_KIND_INVALID, "start_at.sequence.sequence_number"
		}
		co.fail(c, e)
		return
	}
	if s := co.shards[m.shard]; s != nil {
		s.override = &m.to
	}
	co.startFirst(c)
}

// startFirst starts a reader for every shard this node may take now and waits for them.
func (co *coordinator) startFirst(c actor.Context) {
	co.awaited, co.movedTo = make(map[string]*Error), co.state.Seek
	for _, id := range co.reconcile(c) {
		co.awaited[id] = errAwaited
	}
	co.checkFirstPass(c)
}

// errAwaited marks a shard whose reader has not reported yet.
var errAwaited = &Error{}

// onReady takes a reader's first report, good or bad.
func (co *coordinator) onReady(c actor.Context, id string, trouble *Error) {
	if s := co.shards[id]; s != nil && trouble == nil && s.losses == 0 {
		s.override = nil // the position that start_at gave is stored and held
	}
	if err, waiting := co.awaited[id]; !waiting || err != errAwaited {
		if trouble == nil && waiting {
			co.awaited[id] = nil // it recovered in time
		}
		return
	}
	co.awaited[id] = trouble
	co.checkFirstPass(c)
}

// checkFirstPass completes the first pass when every reader has reported. The stream's state is stored last: it says
// that every shard of the opening has its lease, and with it its place.
func (co *coordinator) checkFirstPass(c actor.Context) {
	for _, err := range co.awaited {
		if err == errAwaited {
			return
		}
	}
	if co.awaited == nil {
		return
	}
	if co.state.Version == 0 {
		co.saveState(co.state)
		return
	}
	co.open(c)
}

// saveState stores the stream's state; another node may have done it first, and then its state is ours.
func (co *coordinator) saveState(state leasestore.StreamState) {
	store := co.store
	co.fx.run(co.cfg.Timings.LeaseTTL, func(ctx context.Context) any {
		saved, err := store.SaveState(ctx, state)
		if errors.Is(err, leasestore.ErrFenced) {
			saved, err = store.State(ctx, state.Stream)
		}
		return stateSaved{state: saved, err: err}
	})
}

func (co *coordinator) onStateSaved(c actor.Context, m stateSaved) {
	if co.closing.begun {
		return
	}
	if m.seek {
		co.onSeekSaved(c, m)
		return
	}
	if m.err != nil {
		co.fail(c, leaseError(leasestore.Key{}, co.how.stream.spelling, "the stream's state can't be stored", m.err))
		return
	}
	co.state, co.stateAt = m.state, time.Now()
	if co.awaited == nil { // the first pass has still to begin
		co.startWhereAsked(c)
		return
	}
	co.open(c)
}

// open ends the opening: the broker answers Subscribe.
func (co *coordinator) open(c actor.Context) {
	if co.closing.begun {
		return
	}
	co.behavior.Become(co.running)
	co.timers.cancel(timerOpenDeadline)
	done := subscriptionOpened{coordinator: c.Self(), arn: co.found.arn}
	for _, s := range co.ordered() {
		err, started := co.awaited[s.id]
		if started {
			done.shards = append(done.shards, s.id)
		}
		if err != nil {
			done.troubles = append(done.troubles, err)
		}
	}
	co.awaited = nil
	first := !co.opened
	co.opened, co.kept.opened, co.live, co.reopens = true, true, true, 0
	co.log().Info("subscription open", slog.Int("shards", len(co.shards)), slog.Int("read_here", len(done.shards)))
	if first {
		c.Send(c.Parent(), done)
	}
	co.audit(c, scanned{})
	co.scheduleScans()
	co.expect(time.Now())
	for _, s := range co.shards {
		if s.losses > 0 || s.crashed {
			co.rescanSoon()
		}
	}
	co.seeks.next(c, co)
}

// ordered are the shards in the order of their ids.
func (co *coordinator) ordered() []*shardInfo {
	if co.inOrder == nil {
		co.inOrder = slices.SortedFunc(maps.Values(co.shards), func(a, b *shardInfo) int { return strings.Compare(a.id, b.id) })
	}
	return co.inOrder
}

// fail ends a subscription that could not be opened, or that can't go on. One that was open, and opens again after a panic or because its stream is another,
// goes on trying unless that is of no use.
func (co *coordinator) fail(c actor.Context, e *Error) {
	useless := e.Kind == messages.ErrorKind_ERROR_KIND_INVALID || e.Kind == messages.ErrorKind_ERROR_KIND_NOT_CONNECTED || (classify(e) == failureNotFound && !co.resets())
	if !co.opened || co.live || useless {
		co.end(c, e)
		return
	}
	co.reopens++
	co.log().Warn("the subscription can't be opened again yet", slog.Int("failures", co.reopens), slog.Any("error", e))
	if co.reopens == tellAfter {
		co.tell(c, e, false)
	}
	co.awaited = nil
	co.seeks.refuseAll(c, e)
	c.Send(c.Parent(), subscriptionLeaving{c.Self()}) // it joins again as it opens
	co.timers.set(timerReopen, jitter(backoff(restartFirst, restartMax, co.reopens)))
}

// end ends the subscription.
func (co *coordinator) end(c actor.Context, e *Error) {
	if co.opened {
		co.log().Error("the subscription ends", slog.Any("error", e))
		if co.kept.fatal == nil {
			co.kept.fatal = e
		}
	} else {
		co.log().Info("the subscription could not be opened", slog.Any("error", e))
		c.Send(c.Parent(), subscriptionFailed{coordinator: c.Self(), err: e})
	}
	co.close(c, closeRequest{})
}
