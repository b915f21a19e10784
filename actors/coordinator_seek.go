package actors

import (
	"context"
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

// seekState is a coordinator's seeks: one under way, others wait their turn.
type seekState struct {
	queue   []askedSeek
	current *askedSeek
	saving  bool // its position is being stored
	id      uint64
	waiting map[string]bool // shards that have not reported
	moved   []string
	err     *Error
}

type askedSeek struct {
	request *messages.Seek
	asker   *actor.PID
}

func (st *seekState) later(m *messages.Seek, asker *actor.PID) {
	st.queue = append(st.queue, askedSeek{request: m, asker: asker})
}

// next begins the next seek, if none is under way.
func (st *seekState) next(c actor.Context, co *coordinator) {
	if st.current != nil || len(st.queue) == 0 {
		return
	}
	seek := st.queue[0]
	st.queue = st.queue[1:]
	co.beginSeek(c, seek)
}

// onSeek checks a seek and begins it, or lets it wait for the one under way.
func (co *coordinator) onSeek(c actor.Context, m *messages.Seek, asker *actor.PID) {
	if err := checkPosition(co.how.stream.spelling, "to", m.GetTo()); err != nil {
		answer(c.ActorSystem(), asker, err, m.GetCorrelation())
		return
	}
	co.seeks.later(m, asker)
	if co.live {
		co.seeks.next(c, co)
	}
}

func (co *coordinator) beginSeek(c actor.Context, seek askedSeek) {
	st := &co.seeks
	st.current, st.id = &seek, nextGeneration()
	st.waiting, st.moved, st.err, st.saving = make(map[string]bool), nil, nil, false
	if at := seek.request.GetTo().GetSequence(); at != nil {
		co.seekShard(c, at)
		return
	}
	co.saveSeek(seek.request.GetTo())
}

// seekShard moves one shard that is read here.
func (co *coordinator) seekShard(c actor.Context, at *messages.Sequence) {
	s := co.shards[at.GetShardId()]
	if s == nil || s.reader == nil {
		e := invalid(co.how.stream.spelling, "to.sequence.shard_id", "the shard is not read by this node")
		if s != nil && s.decision.verdict == verdictFinished {
			e.Text = "the shard has been read to its end"
		}
		e.Shard = at.GetShardId()
		co.seeks.err = e
		co.answerSeek(c)
		return
	}
	co.seeks.waiting[s.id] = true
	c.Send(s.reader, moveReader{
		id: co.seeks.id, to: leasestore.Before(at.GetSequenceNumber(), at.GetSubSequenceNumber()), number: co.state.Seek, alone: true, probe: true,
	})
}

// saveSeek stores a stream-wide position. From then on it holds, whatever happens to this node: a lease that carries a smaller
// seek number has yet to be moved by whoever reads it.
func (co *coordinator) saveSeek(to *messages.Position) {
	state := co.state
	state.Stream = co.found.id
	state.Seek++
	state.Start, state.Tip = co.streamWide(to)
	store, from := co.store, co.lister()
	var id uint64
	if co.seeks.current != nil {
		id, co.seeks.saving = co.seeks.id, true
	}
	co.fx.run(co.cfg.Timings.CallTimeout, func(ctx context.Context) any {
		// Which shards are open at this moment decides what the tip is, so the last listing will not do.
		listed := from.list(ctx)
		if !listed.recreated.IsZero() {
			listed.listErr = errRecreated
		}
		if listed.listErr != nil {
			return stateSaved{listErr: listed.listErr, seek: true, id: id}
		}
		saved, err := store.SaveState(ctx, state)
		return stateSaved{state: saved, shards: listed.shards, err: err, seek: true, id: id}
	})
}

// streamWide is a position of the whole stream as it is stored; tip says that it is the tip of now.
func (co *coordinator) streamWide(to *messages.Position) (start leasestore.Checkpoint, tip bool) {
	switch at := to.GetAt().(type) {
	case *messages.Position_TrimHorizon:
		return leasestore.TrimHorizon(), false
	case *messages.Position_Latest:
		return leasestore.AtTimestamp(co.found.now()), true
	case *messages.Position_Timestamp:
		return leasestore.AtTimestamp(time.UnixMilli(at.Timestamp.GetUnixMillis())), false
	case *messages.Position_Sequence:
	}
	return co.state.Start, co.state.Tip
}

// isAt reports whether the stream was put at a position.
func (co *coordinator) isAt(to *messages.Position) bool {
	start, tip := co.streamWide(to)
	return tip == co.state.Tip && (tip || start == co.state.Start)
}

// onSeekSaved moves every reader, and starts those that the new position asks for.
func (co *coordinator) onSeekSaved(c actor.Context, m stateSaved) {
	startAt := m.id == 0
	if (startAt && co.live) || (!startAt && (co.seeks.current == nil || m.id != co.seeks.id)) {
		co.rescanSoon() // of a seek that is no more; a scan sees what it stored
		return
	}
	co.seeks.saving = false
	if startAt && errors.Is(m.err, leasestore.ErrFenced) {
		co.listDue = true
		co.scan() // the first pass again: another node has moved the stream meanwhile
		return
	}
	if m.listErr != nil || m.err != nil {
		co.listDue = co.listDue || errors.Is(m.listErr, errRecreated)
		co.rescanSoon() // it may be stored all the same
		e := co.seekError(m)
		if startAt {
			co.fail(c, e)
			return
		}
		co.seeks.err = e
		co.answerSeek(c)
		return
	}
	co.state, co.stateAt = m.state, time.Now()
	co.relist(m.shards)
	co.moving = true
	if startAt { // the first pass goes on
		co.startFirst(c)
	} else {
		co.moveAll(c)
		co.checkSeek(c)
	}
	co.moving = false
	co.hintAll(c, messages.HintKind_HINT_KIND_SOUGHT)
}

// seekError says why a position was not stored, or may not have been.
func (co *coordinator) seekError(m stateSaved) *Error {
	var e *Error
	if m.listErr != nil {
		e = streamError(co.how.stream.spelling, "the shards can't be listed", m.listErr)
	} else {
		e = leaseError(leasestore.Key{Stream: co.found.id}, co.how.stream.spelling, "the new position can't be stored", m.err)
	}
	if errors.Is(m.err, leasestore.ErrFenced) {
		e.Text = "another seek came first"
	}
	e.Advice = "seek again"
	return e
}

// follow moves this node's readers to where a seek that another node stored has put the stream. Of a seek to the tip that is its instant, which
// is over: the tip of now would skip what was published since, and a shard that was closed since is still in scope.
func (co *coordinator) follow(c actor.Context) {
	co.log().Info("the stream was moved by a seek elsewhere")
	if co.seeks.current == nil {
		co.seeks.id, co.seeks.waiting = nextGeneration(), make(map[string]bool)
	}
	co.moving, co.follows = true, true
	co.moveAll(c)
	co.moving, co.follows = false, false
}

// moveAll brings every shard of this node to the stream's new position.
func (co *coordinator) moveAll(c actor.Context) {
	co.movedTo = co.state.Seek
	decisions := co.decide(true)
	for _, s := range co.ordered() {
		s.decision = decisions[s.id]
		if s.reader == nil {
			continue
		}
		s.lease.Seek, s.lease.Checkpoint = co.state.Seek, s.decision.start // what its reader is about to write
		switch s.decision.verdict {
		case verdictStart:
			co.seeks.waiting[s.id] = true
			c.Send(s.reader, moveReader{
				id: co.seeks.id, to: s.decision.start, tip: s.decision.tip, number: co.state.Seek,
			})
		case verdictWait, verdictFinished, verdictOutOfScope:
			s.lease.Seek, s.lease.Checkpoint = 0, leasestore.Checkpoint{}
			// A parent is to be read first. What is in flight is void, so there is nothing to wait for.
			c.Send(s.reader, drain{discard: true})
		}
	}
	for _, id := range co.reconcile(c) {
		co.seeks.waiting[id] = true
	}
}

// onMoved: a reader holds its new iterator, or could not.
func (co *coordinator) onMoved(c actor.Context, m readerMoved) {
	if m.id != co.seeks.id {
		return
	}
	if m.left {
		delete(co.seeks.waiting, m.shard)
	} else {
		co.seeks.done(co, m.shard, m.err)
	}
	co.checkSeek(c)
}

// done takes a shard off the list of those that a seek waits for.
func (st *seekState) done(co *coordinator, id string, err *Error) {
	if st.current == nil || !st.waiting[id] {
		return
	}
	delete(st.waiting, id)
	if err != nil {
		st.err = err
	} else {
		st.moved = append(st.moved, id)
	}
	if len(st.waiting) == 0 {
		co.fx.root.Send(co.fx.self, seekComplete{id: st.id})
	}
}

// alone reports whether the seek under way moves one shard: its position is stored by the shard's reader, and nowhere else.
func (st *seekState) alone() bool {
	return st.current != nil && st.current.request.GetTo().GetSequence() != nil
}

// begun: a reader is at work, or says why it is not yet. It may have said so before it was told of the seek of its shard, which it answers by itself.
func (st *seekState) begun(co *coordinator, id string, err *Error) {
	if !st.alone() {
		st.done(co, id, err)
	}
}

// ended: a reader has ended, and can't answer a seek that it had not answered. One of the whole stream is stored, and holds for whoever reads the
// shard next; one of the shard is lost.
func (st *seekState) ended(co *coordinator, id string) {
	if st.alone() {
		st.done(co, id, endedWhileMoving(co.how.stream.spelling, id))
		return
	}
	st.done(co, id, nil)
}

// seekComplete lets a seek be answered after the message that completed it has been handled.
type seekComplete struct{ id uint64 }

func (co *coordinator) checkSeek(c actor.Context) {
	if co.seeks.current != nil && !co.seeks.saving && len(co.seeks.waiting) == 0 {
		co.answerSeek(c)
	}
}

func (co *coordinator) answerSeek(c actor.Context) {
	st := &co.seeks
	asked := st.current
	st.current = nil
	if st.err != nil {
		answer(c.ActorSystem(), asked.asker, st.err, asked.request.GetCorrelation())
	} else if asked.asker != nil {
		c.Send(asked.asker, &messages.Sought{Shards: st.moved, Correlation: asked.request.GetCorrelation()})
	}
	st.next(c, co)
}

// refuseAll answers every seek that can't be carried out any more.
func (st *seekState) refuseAll(c actor.Context, e *Error) {
	st.saving = false
	if st.current != nil {
		answer(c.ActorSystem(), st.current.asker, e, st.current.request.GetCorrelation())
		st.current = nil
	}
	for _, s := range st.queue {
		answer(c.ActorSystem(), s.asker, e, s.request.GetCorrelation())
	}
	st.queue = nil
}
