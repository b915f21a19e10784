package actors

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/internal/kpl"
	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

// reader reads one shard under its lease and delivers it to the subscriber.
//
//	receives                 from            does
//	effectDone, timerFired   itself          goes on
//	*messages.Settle         the subscriber  settles, advances the watermark, delivers more
//	*messages.Published,     the broker      the end of a spent record's way to the dead-letter stream
//	*messages.Error
//	moveReader               coordinator     seeks; answered by readerMoved
//	drain, PoisonPill        coordinator     lets what is in flight settle, checkpoints, releases the lease, stops
//	statusQuery              coordinator     answers readerStatus
//
//	positioning ──▶ reading ◀──▶ paused
//	     │  ▲          │            │      paused: the lease could not be renewed for a ttl
//	     │  └─ seek ───┤            │
//	     ▼             ▼            ▼
//	  draining ──▶ releasing ──▶ (stopped)
//
// It tells the coordinator readerReady once it holds its first iterator, readerTrouble when that fails, and
// readerEnded, once, before it stops by itself.
//
// Invariants: one call of the service and one write of the lease are under way at a time. Nothing is delivered after the trust in
// the lease has run out, and every write of it is conditional on its counter. The checkpoint is the watermark, never
// more. LATEST is asked for once.
//
// A panic stops it; the coordinator starts another, which takes the lease from the store again. All that is lost are the
// settlements since the last checkpoint.
type reader struct {
	// Constructor: never changes. Clients and store are shared and closed by the broker.
	readerSpec

	// Incarnation.
	fx       *effects
	timers   *timers[readerTimer]
	turns    readerTurns
	behavior actor.Behavior
	state    messages.ShardState

	generation uint64
	lease      keeper
	window     *window
	unpack     unpacker
	fetch      fetcher
	end        shardEnd
	seek       *moveReader // under way
	drain      drainState
	envelopes  envelopes         // none while nothing is unsettled, as they keep the last ones
	reported   bool              // readerReady was sent
	unknown    int               // settlements that were not ours
	spent      map[uint64]uint64 // correlation of a dead letter under way → delivery id

	lettersTold bool // the subscriber knows that dead letters can't be stored
}

// readerSpec is what a coordinator gives a reader.
type readerSpec struct {
	cfg          *Config
	clients      *Clients
	store        leasestore.Store
	owner        string
	how          reading
	stream       leasestore.StreamID
	consumerARN  string // with enhanced fan-out
	shard        shard
	lease        leasestore.Lease // as last seen; Counter 0 when there is none
	start        decision
	source       string // what decided start
	moveFirst    bool   // the stored checkpoint gives way to start
	share        *share // of the budget
	paces        *paces // of the shard; its alone while it lives
	number       uint64 // tells this reader from its predecessors
	seekNumber   int64
	subscriber   *actor.PID
	broker       *actor.PID
	subscription *actor.PID
}

// What a reader and its coordinator say to each other.
type (
	// readerReady: the first iterator is held.
	readerReady struct{ shard string }
	// readerTrouble: the first iterator can't be had yet; the reader goes on trying.
	readerTrouble struct {
		shard string
		err   *Error
	}
	// readerMoved answers moveReader.
	readerMoved struct {
		shard string
		id    uint64
		left  bool // the lease goes to another reader, here or elsewhere, which begins at the new position
		err   *Error
	}
	// readerEnded is a reader's last word.
	readerEnded struct {
		shard      string
		reader     uint64 // spec number, so that a late word is not taken for a successor's
		reason     endReason
		seek       int64            // the seek that the lease's last state belongs to
		last       leasestore.Lease // that state, with what was settled since; zero when the lease was never held
		row        leasestore.Lease // the lease as this reader left it, if it gave it back or away
		children   []shard
		unfinished string
		unlisted   bool // it is listed no more, whatever that means
	}
	// readerGiving: the lease is being handed over, as somebody else has decided.
	readerGiving struct {
		shard string
		to    string
	}
	// shardDoubted: the service does not know a position of the shard, or the shard itself; is it still the same stream?
	shardDoubted struct{}
	// statusQuery asks for readerStatus.
	statusQuery struct{ id uint64 }
	// readerStatus answers statusQuery.
	readerStatus struct {
		id     uint64
		status *messages.ShardStatus
	}
)

type endReason uint8

const (
	endReleased endReason = iota
	endFinished
	endLost
)

type readerTimer uint8

// Timers of a reader.
const (
	timerRenew readerTimer = iota
	timerCheckpoint
	timerTrust
	timerLeaseRetry
	timerFetch
	timerOpen
	timerRetry
	timerDrain
	timerConfirm
	timerRedeliver
	timerHandover
)

func readerProps(spec readerSpec, system *actor.ActorSystem) *actor.Props {
	return props(spec.cfg, roleReader, system, func() actor.Actor { return &reader{readerSpec: spec} })
}

// Receive implements actor.Actor.
func (r *reader) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		r.begin(c)
	case *actor.Stopping, *actor.Restarting:
		r.fetch.drop()
		r.fx.stop()
		r.timers.stop()
		r.turns.drop()
		r.share.free()
	case *actor.Stopped:
	case effectDone:
		if result, ok := r.fx.result(m); ok {
			r.onResult(c, result)
		}
	case timerFired[readerTimer]:
		if r.timers.fired(m) {
			r.onTimer(c, m.name)
		}
	case statusQuery:
		c.Send(c.Parent(), readerStatus{id: m.id, status: r.status()})
	default:
		r.behavior.Receive(c)
	}
}

// begin begins with the lease; the iterator comes after it.
func (r *reader) begin(c actor.Context) {
	r.fx, r.timers = newEffects(c, r.cfg.pool), newTimers[readerTimer](c)
	r.turns = newReaderTurns(r.cfg, r.fx)
	r.behavior = actor.NewBehavior()
	r.lease = keeper{lease: r.readerSpec.lease}
	start := r.readerSpec.start
	r.fetch = fetcher{pace: &r.paces.reads, opens: &r.paces.opens, position: start.start, tip: start.tip, wasTip: start.tip}
	r.newGeneration()
	r.transition(statePositioning, r.positioning)
	r.acquire()
}

// newGeneration voids everything delivered and fetched so far.
func (r *reader) newGeneration() {
	settled := int64(0)
	if r.window != nil {
		settled = r.window.settled
	}
	r.generation = nextGeneration()
	r.window = newWindow(r.how.windowRecords, r.how.windowBytes, r.how.perKeyOrder)
	r.window.settled = settled
	r.unpack = unpacker{
		stream: r.how.stream.spelling, shard: r.shard.id, generation: r.generation, policy: r.how.strays,
		keys: kpl.ParseRange(r.shard.startingKey, r.shard.endingKey), stray: strays{count: r.unpack.stray.count},
	}
	r.spent, r.envelopes = make(map[uint64]uint64), envelopes{}
	r.fetch.abandon()
	r.end = shardEnd{}
	for _, t := range []readerTimer{timerFetch, timerOpen, timerRetry, timerConfirm, timerRedeliver} {
		r.timers.cancel(t)
	}
	r.share.free()
}

// positioning: the lease is being taken or the iterator opened; nothing is delivered.
func (r *reader) positioning(c actor.Context) {
	switch m := c.Message().(type) {
	case drain:
		r.onDrain(c, m)
	case moveReader:
		r.onMove(c, m)
	case *messages.Settle:
		r.onSettle(c, m)
	default:
		r.unhandled(c)
	}
}

// reading: records are fetched, delivered and settled.
func (r *reader) reading(c actor.Context) {
	switch m := c.Message().(type) {
	case *messages.Settle:
		r.onSettle(c, m)
	case *messages.Published:
		r.onDeadLetterStored(c, m.GetCorrelation())
	case *messages.Error:
		r.onDeadLetterFailed(c, m)
	case drain:
		r.onDrain(c, m)
	case moveReader:
		r.onMove(c, m)
	default:
		r.unhandled(c)
	}
}

// paused: the trust in the lease has run out. What is in flight may settle, nothing more is delivered, until the lease is
// renewed (reading) or found to be someone else's (the end).
func (r *reader) paused(c actor.Context) { r.reading(c) }

// draining: no more is fetched, and delivered only what waits behind its key and before records that were; what is in flight may settle until the
// drain's deadline.
func (r *reader) draining(c actor.Context) {
	switch m := c.Message().(type) {
	case *messages.Settle:
		r.onSettle(c, m)
	case *messages.Published:
		r.onDeadLetterStored(c, m.GetCorrelation())
	case *messages.Error:
		r.onDeadLetterFailed(c, m)
	case drain:
		r.onDrainAgain(c, m)
	case moveReader:
		r.refuseMove(c, m)
	default:
		r.unhandled(c)
	}
}

// releasing: the last checkpoint and the release are being written. What settles now is too late.
func (r *reader) releasing(c actor.Context) {
	switch m := c.Message().(type) {
	case moveReader:
		r.refuseMove(c, m)
	case drain:
		r.drain.to = m.to // unless it is being written
	case *messages.Settle, *messages.Published, *messages.Error:
	default:
		r.unhandled(c)
	}
}

func (r *reader) onResult(c actor.Context, result any) {
	switch m := result.(type) {
	case leaseWritten:
		r.onLeaseWritten(c, m)
	case iteratorOpened:
		r.onIteratorOpened(c, m)
	case pageRead:
		r.onPageRead(c, m)
		r.handover(c)
	case endChecked:
		r.onEndChecked(c, m)
	case moveProbed:
		r.onMoveProbed(c, m)
	case turnCame:
		r.onTurn(m)
	}
}

func (r *reader) onTimer(c actor.Context, name readerTimer) {
	switch name {
	case timerRenew:
		r.lease.renewDue = true
		r.writeLease()
	case timerCheckpoint:
		// A renewal may have saved it meanwhile; then nothing is due, and the next settlement arms the timer again.
		r.lease.checkpointDue = r.window.watermark.Compare(r.lease.lease.Checkpoint) > 0
		r.writeLease()
	case timerLeaseRetry:
		r.writeLease()
	case timerTrust:
		r.onTrustEnded(c)
	case timerFetch:
		r.fetchMore()
	case timerOpen:
		r.openIterator()
	case timerRetry:
		r.onRetriesDue(c)
	case timerDrain:
		r.onDrainDeadline(c)
	case timerConfirm:
		r.confirmEnd()
	case timerRedeliver:
		r.onRedeliverDue(c)
	case timerHandover:
		r.handover(c)
	}
}

func (r *reader) transition(to messages.ShardState, behavior actor.ReceiveFunc) {
	r.log().Debug("shard reader", slog.String("from", r.state.String()), slog.String("to", to.String()))
	r.state = to
	r.behavior.Become(behavior)
}

// unhandled: a message this state has no use for, which no one waits to have answered.
func (r *reader) unhandled(c actor.Context) {
	switch c.Message().(type) {
	case actor.SystemMessage, actor.AutoReceiveMessage:
	default:
		r.log().Debug("ignored", slog.String("state", r.state.String()), slog.String("message", fmt.Sprintf("%T", c.Message())))
	}
}

func (r *reader) log() *slog.Logger {
	return r.cfg.logger().With(slog.String("stream", r.how.stream.spelling), slog.String("shard", r.shard.id))
}

// tell reports a failure to the subscriber. The reader goes on.
func (r *reader) tell(c actor.Context, e *Error) {
	c.Send(r.subscriber, &messages.SubscriptionError{Subscription: r.subscription, Error: e.Message(0)})
}

// stopSelf ends the reader for good, with its last word to the coordinator.
func (r *reader) stopSelf(c actor.Context, m readerEnded) {
	if r.drain.ended {
		return
	}
	r.drain.ended = true
	m.shard, m.reader, m.seek = r.shard.id, r.number, r.lease.lease.Seek
	m.last = r.lease.lastState(r.window.watermark)
	if r.seek != nil {
		r.answerMove(c, r.endedWhileMoving())
	}
	c.Send(c.Parent(), m)
	c.Stop(c.Self())
}

func (r *reader) status() *messages.ShardStatus {
	return &messages.ShardStatus{
		ShardId: r.shard.id, State: r.state, Owner: r.lease.lease.Owner, Checkpoint: r.lease.lease.Checkpoint.String(),
		MillisBehindLatest: r.fetch.behind(r.how.pollInterval), InFlight: int64(r.window.out), Buffered: int64(r.window.buffered() + len(r.unpack.queue)),
		Settled: r.window.settled, Stray: r.unpack.stray.count,
	}
}

// jitter is d, give or take a fifth.
func jitter(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64())) //nolint:gosec // spreads load, guards nothing
}
