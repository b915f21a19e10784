package actors

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

// coordinator is one subscription: it knows the stream's shards and leases, decides which shards this node reads, and keeps a reader alive
// for each of them.
//
//	receives                  from             does
//	effectDone, timerFired    itself           goes on
//	streamClaimed             broker           the stream is ours to read: goes on to the first pass
//	readerReady, …Trouble,    its readers      completes the first pass, seeks; starts children; repairs
//	…Moved, …Ended, …Status
//	shardDoubted              its readers      lists soon
//	readerGiving              its readers      notes who is to have the shard
//	*messages.Hint,           other nodes,     looks at the leases at once
//	peersChanged              the broker
//	*messages.Seek            anyone           moves readers; answered by Sought or Error
//	*messages.Unsubscribe     anyone           ends; answered by Unsubscribed
//	*messages.StatusRequest   anyone           asks its readers; answered by Status
//	drain, PoisonPill         broker           ends
//	subscriptionForgotten     broker           tells what ended it, and stops
//	*actor.Terminated         the subscriber   ends
//	                          a reader         forgets it; repairs
//
//	opening ──▶ running ──▶ closing ──▶ (stopped)
//	  ▲ └──────────┼───────────▲
//	  │            ▼           │
//	  └────── startingOver ────┘
//
// It shares the stream with other nodes: every few seconds it looks at all leases and members, takes what falls to this node and hands over what is beyond
// its share (coordinator_share.go).
//
// In opening it describes the stream (creating it if asked), lists shards and leases, starts a reader for each shard it may take, and waits
// until each has its first iterator or trouble; only then it tells the broker that the subscription is open. In running it lists
// every 10 s and looks at the leases every 3 s if others use the store too or some shard is not its own, and each time brings "leases of ours in the store" and
// "readers alive" together. In startingOver, as the stream was created again, it waits until its readers have stopped. In closing it drains
// its readers and stops when the last has stopped, and the broker has forgotten it if there is an end to tell.
//
// A panic of a reader stops that reader; another is started after a pause. A panic of the coordinator restarts it under the
// same PID (its readers stop with it and are started anew); it then opens again without asking the broker, or ends if the broker has told it to.
type coordinator struct {
	// Constructor.
	coordinatorSpec

	// Incarnation.
	fx       *effects
	timers   *timers[coordinatorTimer]
	behavior actor.Behavior
	opened   bool // this or an earlier incarnation has told the broker
	live     bool // this incarnation's first pass is done
	claimed  bool // the broker has said that the stream is ours to read

	found      streamFound
	state      leasestore.StreamState
	stateAt    time.Time // when the state was known to be stored so
	restoring  bool      // a state that was lost is being stored again
	observer   *leasestore.Observer
	shards     map[string]*shardInfo
	inOrder    []*shardInfo                // of their ids; nil: to be made
	rows       map[string]leasestore.Lease // all leases of the stream as last seen, of shards listed no more too
	strangers  map[string]bool             // shards with a lease that the shards were listed for
	moving     bool                        // a seek's position is stored, and readers are about to be moved there
	follows    bool                        // it is another node's seek
	movedTo    int64                       // the seek that the readers have been moved to
	awaited    map[string]*Error           // first pass: shards whose reader has not reported; then their trouble
	audits     auditState
	heirsAt    time.Time // when children were last started because their parents had ended
	endedAt    time.Time // when the leases were last looked at because of that
	retiring   bool
	soonAt     time.Time // when timerSoon fires, if armed
	scanning   bool
	rescan     bool // look again when the scan under way is done
	listDue    bool
	listing    bool     // under way
	unseen     *listing // the last, until a scan takes it in
	listFail   int
	lookFail   int  // looks at the leases in a row that failed
	gone       bool // the stream was not there at the last look, and is waited for
	recreating bool // it was created again, and the readers of before are stopping
	reopens    int  // tries in vain to open again

	seeks   seekState
	shares  shareState
	status  gatherings
	closing closingState
}

// coordinatorSpec is what the broker gives a coordinator.
type coordinatorSpec struct {
	cfg        *Config
	clients    *Clients
	store      leasestore.Store
	shared     bool // by other brokers
	owner      string
	how        reading
	subscriber *actor.PID
	deadline   time.Time
	// kept survives restarts. Only this actor's incarnations use it, one after another.
	kept *keptState
}

// keptState is what one incarnation of a coordinator leaves to the next.
type keptState struct {
	opened   bool   // the subscription has been open
	draining bool   // the broker has told it to end, and does not say so again
	fatal    *Error // what ended it, not told yet
}

// shardInfo is what is known of one shard.
type shardInfo struct {
	shard
	lease      leasestore.Lease
	last       leasestore.Lease // as it was before its row was deleted, if it is
	decision   decision
	reader     *actor.PID
	share      *share                 // the reader's, of the budget
	paces      *paces                 // kept from reader to reader
	started    uint64                 // number of the reader's spec, for late last words
	override   *leasestore.Checkpoint // start_at gave this shard a position
	finished   bool                   // read to its end here, in the seek finishedIn
	finishedIn int64
	giving     string    // who its reader is handing the lease to
	heir       heir      // who it was to go to, until that one is known to have it
	gaveAway   bool      // its last reader handed the lease over, or released it
	knownAt    time.Time // when lease was learned from its reader: an older look knows less
	freeSince  time.Time // since when looks have shown the lease free
	ahead      int       // looks in a row that showed the lease moved by a seek, and not the seek
	missed     int       // listings in a row that did not show it
	losses     int       // readers in a row that ended without the lease
	crashed    bool
	failures   int
	// crashedAt is when its reader last panicked; notUntil, before when none is started.
	crashedAt time.Time
	notUntil  time.Time
}

// What coordinator and broker say to each other.
type (
	// streamIdentified asks the broker whether another subscription reads the stream.
	streamIdentified struct {
		coordinator *actor.PID
		stream      leasestore.StreamID
	}
	// streamClaimed answers: err is set if one does.
	streamClaimed struct{ err *Error }
	// subscriptionOpened: the first pass is done.
	subscriptionOpened struct {
		coordinator *actor.PID
		arn         string
		shards      []string
		troubles    []*Error
	}
	// subscriptionFailed: it could not be opened; the coordinator stops.
	subscriptionFailed struct {
		coordinator *actor.PID
		err         *Error
	}
	// subscriptionEnded is the last that the broker hears of a coordinator. Sent as a request, it is answered by subscriptionForgotten: then the
	// coordinator has still to tell its subscriber what ended it.
	subscriptionEnded struct {
		coordinator *actor.PID
		unfinished  []string
		askers      []asked // of Unsubscribe, for the broker to answer
	}
	subscriptionForgotten struct{}
)

type coordinatorTimer uint8

// Timers of a coordinator.
const (
	timerList coordinatorTimer = iota
	timerScan
	timerSoon
	timerStatus
	timerClose
	timerOpenDeadline
	timerReopen
	timerGather
	timerHeirs
	timerLeft
)

func coordinatorProps(spec coordinatorSpec, system *actor.ActorSystem) *actor.Props {
	spec.kept = new(keptState)
	return props(spec.cfg, roleCoordinator, system, func() actor.Actor { return &coordinator{coordinatorSpec: spec} })
}

// Receive implements actor.Actor.
func (co *coordinator) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		co.begin(c)
	case *actor.Stopping:
		co.endIncarnation(c)
		co.tellFatal(c) // if it is stopped by force before the broker has forgotten it
	case *actor.Restarting:
		co.endIncarnation(c)
	case *actor.Stopped:
	case effectDone:
		if result, ok := co.fx.result(m); ok {
			co.onResult(c, result)
		}
	case timerFired[coordinatorTimer]:
		if co.timers.fired(m) {
			co.onTimer(c, m.name)
		}
	case *actor.Terminated:
		co.onTerminated(c, m)
	case childGone:
		co.onGone(c, m.who)
	case subscriberLost:
		co.onSubscriberLost(c)
	case evicted:
		co.onEvicted(m)
	case *messages.StatusRequest:
		co.onStatusRequest(c, m)
	case readerStatus:
		co.onReaderStatus(c, m)
	default:
		co.behavior.Receive(c)
	}
}

func (co *coordinator) begin(c actor.Context) {
	co.fx, co.timers = newEffects(c, co.cfg.pool), newTimers[coordinatorTimer](c)
	co.behavior = actor.NewBehavior()
	co.forgetAll()
	co.behavior.Become(co.opening)
	co.opened = co.kept.opened
	c.Watch(co.subscriber)
	if co.kept.fatal != nil {
		co.end(c, co.kept.fatal) // an incarnation of before had begun to
		return
	}
	if co.kept.draining {
		co.endAgain(c)
		return
	}
	co.timers.set(timerOpenDeadline, time.Until(co.deadline))
	if co.opened {
		co.timers.cancel(timerOpenDeadline)
		co.tell(c, &Error{
			Kind: messages.ErrorKind_ERROR_KIND_READ, Stream: co.how.stream.spelling,
			Text: "the coordinator panicked and starts again; what was not settled comes again",
		}, false)
	}
	co.find()
}

// forgetAll is how an incarnation begins, and the reading of a stream that was created again.
func (co *coordinator) forgetAll() {
	co.observer = leasestore.NewObserver(co.cfg.Timings.LeaseTTL)
	co.shards, co.inOrder, co.rows, co.audits = make(map[string]*shardInfo), nil, nil, auditState{told: make(map[string]bool)}
	co.state, co.movedTo, co.awaited = leasestore.StreamState{}, 0, nil
	co.stateAt, co.restoring = time.Time{}, false
	co.scanning, co.rescan, co.listing, co.unseen, co.listFail, co.lookFail, co.gone, co.recreating = false, false, false, nil, 0, 0, false, false
	co.retiring, co.strangers = false, make(map[string]bool)
	co.shares = shareState{roster: newRoster(co.cfg.Timings.LeaseTTL)}
}

// opening: up to the answer to Subscribe.
func (co *coordinator) opening(c actor.Context) {
	switch m := c.Message().(type) {
	case streamClaimed:
		co.onClaimed(c, m)
	case readerReady:
		co.onReady(c, m.shard, nil)
	case readerTrouble:
		co.onReady(c, m.shard, m.err)
	case readerMoved:
		co.onMoved(c, m)
	case readerEnded:
		co.onEnded(c, m)
	case *messages.Seek:
		co.onSeek(c, m, c.Sender())
	case *messages.Unsubscribe:
		co.close(c, closeRequest{unsubscribe: m, asker: c.Sender()})
	case drain:
		co.onDrain(c, m)
	default:
		co.unhandled(c)
	}
}

// running: after Subscribed.
func (co *coordinator) running(c actor.Context) {
	switch m := c.Message().(type) {
	case readerReady:
		co.onRunningReady(m)
	case readerTrouble:
		co.log().Debug("reader not ready yet", slog.String("shard", m.shard), slog.Any("error", m.err))
		co.seeks.begun(co, m.shard, m.err)
	case shardDoubted:
		co.listDue = true
		co.soon(spread(auditAgain))
	case readerGiving:
		co.onGiving(c, m)
	case *messages.Hint:
		co.onHint(c, m)
	case peersChanged:
		co.hinted()
	case readerMoved:
		co.onMoved(c, m)
	case seekComplete:
		if m.id == co.seeks.id { // else it is of a seek that was answered already
			co.checkSeek(c)
		}
	case readerEnded:
		co.onEnded(c, m)
	case *messages.Seek:
		co.onSeek(c, m, c.Sender())
	case *messages.Unsubscribe:
		co.close(c, closeRequest{unsubscribe: m, asker: c.Sender()})
	case drain:
		co.onDrain(c, m)
	default:
		co.unhandled(c)
	}
}

func (co *coordinator) onResult(c actor.Context, result any) {
	switch m := result.(type) {
	case streamLooked:
		co.onLooked(c, m)
	case listing:
		co.onListing(c, m)
	case scanned:
		co.onScanned(c, m)
	case stateRestored:
		co.onStateRestored(m)
	case stateSaved:
		co.onStateSaved(c, m)
	case startProbed:
		co.onStartProbed(c, m)
	case retired:
		co.onRetired(m)
	case lastLook:
		co.onLastLook(c, m)
	case sweepSeen:
		co.onSweepSeen(c, m)
	case swept:
		co.onSwept(c, m)
	}
}

func (co *coordinator) onTimer(c actor.Context, name coordinatorTimer) {
	switch name {
	case timerList:
		co.watchAgain(c)
		co.listDue = true
		co.list()
	case timerGather:
		co.listDue = true
		co.scan()
	case timerScan, timerSoon:
		co.scan()
	case timerHeirs:
		co.onHeirsDue(c)
	case timerReopen:
		co.find()
	case timerStatus:
		if wait, more := co.status.expireOld(c); more {
			co.timers.set(timerStatus, wait)
		}
	case timerClose:
		co.onCloseDeadline(c)
	case timerLeft:
		co.sweep()
	case timerOpenDeadline:
		co.fail(c, &Error{
			Kind: messages.ErrorKind_ERROR_KIND_TIMEOUT, Stream: co.how.stream.spelling,
			Text: fmt.Sprintf("the subscription was not open within %v", co.cfg.Timings.OpenTimeout),
		})
	}
}

func (co *coordinator) unhandled(c actor.Context) {
	if m := c.Message(); isRequest(m) {
		e := invalid(co.how.stream.spelling, "request", "a subscription has no use for %T", m)
		e.Advice = "send it to the broker"
		answer(c.ActorSystem(), c.Sender(), e, correlationOf(m))
	}
}

func (co *coordinator) log() *slog.Logger {
	return co.cfg.logger().With(slog.String("stream", co.how.stream.spelling))
}

// tell reports a failure to the subscriber.
func (co *coordinator) tell(c actor.Context, e *Error, fatal bool) {
	c.Send(co.subscriber, &messages.SubscriptionError{Subscription: c.Self(), Error: e.Message(0), Fatal: fatal})
}

// HandleFailure makes the coordinator the supervisor of its readers (actor.SupervisorStrategy); it runs on the coordinator's own
// mailbox. A reader that panicked stops. Its successor takes the lease again from the store, as if the node had died.
func (co *coordinator) HandleFailure(_ *actor.ActorSystem, supervisor actor.Supervisor, child *actor.PID,
	_ *actor.RestartStatistics, reason, _ any,
) {
	if s := co.byReader(child); s != nil {
		s.crashed = true
		co.log().Error("a reader panicked", slog.String("shard", s.id), slog.Any("panic", reason))
		if root := co.fx; root != nil {
			e := &Error{
				Kind: messages.ErrorKind_ERROR_KIND_READ, Stream: co.how.stream.spelling, Shard: s.id,
				Text: fmt.Sprintf("the reader panicked (%v)", reason),
			}
			if !co.recreating && !co.closing.begun {
				e.Text += " and is started again; what was not settled comes again"
			}
			root.root.Send(co.subscriber, &messages.SubscriptionError{Subscription: root.self, Error: e.Message(0)})
		}
	}
	supervisor.StopChildren(child)
}

// byReader finds the shard of a reader, which is named after it.
func (co *coordinator) byReader(pid *actor.PID) *shardInfo {
	s := co.shards[pid.GetId()[strings.LastIndexByte(pid.GetId(), '/')+1:]]
	if s == nil || s.reader == nil || !s.reader.Equal(pid) {
		return nil
	}
	return s
}
