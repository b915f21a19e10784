package actors

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

// broker is the root of the library's actors: it connects, opens subscriptions, passes records to publishers, and ends all of it in order.
//
//	receives                      from            does
//	*messages.Connect             anyone          loads the configuration; answered by Connected or Error
//	*messages.Subscribe           anyone          spawns a coordinator; answered by Subscribed or Error
//	*messages.Publish             anyone          passes it to the stream's publisher, which answers
//	*messages.PublishBatch        anyone          likewise
//	findPublisher                 the Go API      names the publisher
//	*messages.Seek                anyone          passes it to the stream's coordinator, which answers
//	*messages.StatusRequest       anyone          asks the coordinators; answered by Status
//	*messages.Shutdown,PoisonPill anyone          ends; answered by Closed
//	stream…, subscription…        coordinators    keeps the book of subscriptions
//	*messages.Hint                other brokers   passes it to the stream's coordinator
//
//	configured ──▶ connecting ──▶ connected ──▶ closing ──▶ closed
//	     ▲              │  │          └────────────▲
//	     └── failure ───┘  └── Shutdown ───────────┘
//
// It never leaves closed: stopped brokers must go on saying NotConnected, so PoisonPill only drains it. Should it be stopped by force, its mailbox
// and a tombstone under its name answer what comes later (see tombstone.go).
//
// A panic leaves its state as it was before the message; it goes on with the next one.
type broker struct {
	// Constructor.
	cfg *Config

	// Incarnation.
	fx       *effects
	timers   *timers[brokerTimer]
	behavior actor.Behavior
	state    messages.BrokerState

	connecting []asked
	clients    *Clients
	closeIdle  func() // idle connections, if the clients are our own
	region     string
	store      leasestore.Store
	ownStore   bool
	owner      string
	membership membership
	cluster    inCluster

	applications applications

	subscriptions map[string]*subscription       // by coordinator's actor id
	ending        map[string]leasestore.StreamID // coordinators that have failed, and may hold leases still, by actor id
	claims        []streamIdentified             // that wait for them to end
	publishers    map[publisherKey]*Outlet       // by stream's spelling and options
	quotas        map[string]*quota              // of streams published to, by their spelling
	status        gatherings
	closing       brokerClosing
}

// asked is someone waiting for an answer.
type asked struct {
	pid         *actor.PID
	correlation uint64
}

// subscription is the broker's entry of one coordinator.
type subscription struct {
	pid        *actor.PID
	spelling   string
	consumer   string              // with enhanced fan-out; two consumers of a stream are two subscriptions
	stream     leasestore.StreamID // zero until known
	subscriber *actor.PID
	asker      asked
	open       bool
}

// connectDone is the result of connecting.
type connectDone struct {
	clients   *Clients
	closeIdle func()
	region    string
	owner     string
	err       error
}

// brokerClosing is the broker's way out.
type brokerClosing struct {
	askers     []asked
	unfinished []string
}

type brokerTimer uint8

// Timers of a broker.
const (
	timerBrokerStatus brokerTimer = iota
	timerBrokerClose
	timerApplication
	timerBeat
)

// SpawnBroker starts a broker in system. It is configured: no I/O has been done. The name is unique in system.
func SpawnBroker(system *actor.ActorSystem, cfg Config) (*actor.PID, error) {
	full := cfg.withDefaults()
	pid, err := system.Root.SpawnNamed(props(full, roleBroker, system, func() actor.Actor { return newBroker(full) },
		actor.WithGuardian(resumeOnPanic()),
		actor.WithSupervisor(restartWithBackoff{failed: func(child *actor.PID, reason any) {
			full.logger().Error("a child of the broker panicked", slog.String("pid", child.Id), slog.Any("panic", reason))
		}})), full.Name)
	if err != nil {
		return nil, fmt.Errorf("broker %q: %w", full.Name, err)
	}
	return pid, nil
}

func newBroker(cfg *Config) *broker {
	b := &broker{
		cfg: cfg, behavior: actor.NewBehavior(), state: messages.BrokerState_BROKER_STATE_CONFIGURED,
		subscriptions: make(map[string]*subscription), ending: make(map[string]leasestore.StreamID),
		publishers: make(map[publisherKey]*Outlet), quotas: make(map[string]*quota),
	}
	b.behavior.Become(b.configured)
	return b
}

// Receive implements actor.Actor.
func (b *broker) Receive(c actor.Context) {
	if b.fx == nil { // not on Started: it goes on even if that panics
		b.fx, b.timers = newEffects(c, b.cfg.pool), newTimers[brokerTimer](c)
	}
	switch m := c.Message().(type) {
	case *actor.Started:
	case *actor.Restarting:
		b.fx.stop()
		b.timers.stop()
	case *actor.Stopping:
		b.fx.stop()
		b.timers.stop()
		b.stopped(c)
	case *actor.Stopped:
		b.releaseAll()
		leaveTombstone(c)
	case effectDone:
		if result, ok := b.fx.result(m); ok {
			b.onResult(c, result)
		}
	case timerFired[brokerTimer]:
		if b.timers.fired(m) {
			b.onTimer(c, m.name)
		}
	case *actor.Terminated:
		c.Send(c.Self(), childGone{m.Who})
	case *messages.StatusRequest:
		b.onStatusRequest(c, m)
	case *messages.Status:
		b.onStatus(c, m)
	default:
		b.behavior.Receive(c)
	}
}

func (b *broker) onResult(c actor.Context, result any) {
	switch m := result.(type) {
	case connectDone:
		b.onConnectDone(c, m)
	case beaten:
		b.onBeaten(c, m)
	case memberRemoved:
		b.onMemberRemoved(c, m)
	case applicationLooked:
		b.onApplicationLooked(c, m)
	}
}

// configured: nothing but the configuration is known.
func (b *broker) configured(c actor.Context) {
	switch m := c.Message().(type) {
	case *messages.Connect:
		b.onConnect(c, asked{c.Sender(), m.GetCorrelation()})
	default:
		b.common(c)
	}
}

// connectingNow: Connect is under way.
func (b *broker) connectingNow(c actor.Context) {
	switch m := c.Message().(type) {
	case *messages.Connect:
		b.connecting = append(b.connecting, asked{c.Sender(), m.GetCorrelation()})
	default:
		b.common(c)
	}
}

// connected: in service.
func (b *broker) connected(c actor.Context) {
	switch m := c.Message().(type) {
	case *messages.Publish:
		b.onPublish(c, m)
	case *messages.PublishBatch:
		b.onPublishBatch(c, m)
	case findPublisher:
		b.onFindPublisher(c, m)
	case *messages.Subscribe:
		b.onSubscribe(c, m)
	case *messages.Seek:
		b.onSeek(c, m)
	case *messages.Connect:
		b.answerConnected(c, asked{c.Sender(), m.GetCorrelation()})
	case streamIdentified:
		b.onIdentified(c, m)
	case subscriptionOpened:
		b.onOpened(c, m)
	case subscriptionFailed:
		b.onFailed(c, m)
	case subscriptionEnded:
		b.onEnded(c, m)
	case childGone:
		b.onChildGone(c, m.who)
	case subscriptionLeaving:
		b.onLeaving(c, m)
	case *messages.Hint:
		b.onHint(c, m)
	case Topology:
		b.onTopology(c, m)
	default:
		b.common(c)
	}
}

// common is what every state before closing does with what it has no use for.
func (b *broker) common(c actor.Context) {
	switch m := c.Message().(type) {
	case *messages.Shutdown:
		b.onShutdown(c, m)
	case drain:
		b.shutdown(c, m.timeout)
	case actor.SystemMessage, actor.AutoReceiveMessage:
	case *messages.Unsubscribe:
		if b.state == messages.BrokerState_BROKER_STATE_CONNECTED {
			e := invalid("", "request", "a broker has no use for Unsubscribe")
			e.Advice = "send it to the subscription that Subscribed named"
			answer(c.ActorSystem(), c.Sender(), e, m.GetCorrelation())
			return
		}
		answer(c.ActorSystem(), c.Sender(), notConnected(b.state), m.GetCorrelation())
	default:
		if isRequest(m) {
			answer(c.ActorSystem(), c.Sender(), notConnected(b.state), correlationOf(m))
		}
	}
}

func (b *broker) onTimer(c actor.Context, name brokerTimer) {
	switch name {
	case timerBrokerStatus:
		if wait, more := b.status.expireOld(c); more {
			b.timers.set(timerBrokerStatus, wait)
		}
	case timerBrokerClose:
		b.onCloseDeadline(c)
	case timerApplication:
		b.onApplicationDue(c)
	case timerBeat:
		b.beat()
	}
}

func (b *broker) become(state messages.BrokerState, behavior actor.ReceiveFunc) {
	b.cfg.logger().Info("broker", slog.String("from", b.state.String()), slog.String("to", state.String()))
	b.state = state
	b.behavior.Become(behavior)
}

func (b *broker) onConnect(c actor.Context, who asked) {
	err := b.cfg.validate()
	if err == nil {
		err = b.checkCluster(c.ActorSystem())
	}
	if err != nil {
		answer(c.ActorSystem(), who.pid, err, who.correlation)
		return
	}
	b.connecting = append(b.connecting, who)
	b.become(messages.BrokerState_BROKER_STATE_CONNECTING, b.connectingNow)
	cfg := b.cfg
	b.fx.run(cfg.Timings.CallTimeout, func(ctx context.Context) any {
		owner, err := uniqueOwner(cfg.OwnerID)
		if err != nil {
			return connectDone{err: err}
		}
		if cfg.Clients != nil {
			return connectDone{clients: cfg.Clients, owner: owner, region: cfg.Region}
		}
		loaded, closeIdle, err := LoadAWS(ctx, *cfg)
		if err != nil {
			return connectDone{err: err}
		}
		return connectDone{clients: cfg.clients(loaded), closeIdle: closeIdle, owner: owner, region: loaded.Region}
	})
}

func (b *broker) onConnectDone(c actor.Context, m connectDone) {
	if b.state != messages.BrokerState_BROKER_STATE_CONNECTING {
		return // a Shutdown came first
	}
	waiting := b.connecting
	b.connecting = nil
	if m.err != nil {
		e := &Error{
			Kind: messages.ErrorKind_ERROR_KIND_CONFIG, Text: "the AWS configuration can't be loaded", Cause: m.err,
			Advice: "set the region and credentials, by options or in the environment",
		}
		b.become(messages.BrokerState_BROKER_STATE_CONFIGURED, b.configured)
		for _, who := range waiting {
			answer(c.ActorSystem(), who.pid, e, who.correlation)
		}
		return
	}
	b.clients, b.closeIdle, b.region, b.owner, b.store = m.clients, m.closeIdle, m.region, m.owner, b.cfg.Store
	if b.store == nil {
		b.store, b.ownStore = leasestore.NewMemory(), true
	}
	b.become(messages.BrokerState_BROKER_STATE_CONNECTED, b.connected)
	b.follow(c)
	for _, who := range waiting {
		b.answerConnected(c, who)
	}
}

func (b *broker) answerConnected(c actor.Context, who asked) {
	if who.pid != nil {
		c.Send(who.pid, &messages.Connected{OwnerId: b.owner, Region: b.region, Correlation: who.correlation})
	}
}

func (b *broker) onStatusRequest(c actor.Context, m *messages.StatusRequest) {
	if m.GetApplication() && b.state == messages.BrokerState_BROKER_STATE_CONNECTED {
		b.onApplicationStatus(c, m)
		return
	}
	status := &messages.Status{State: b.state, OwnerId: b.owner}
	children := make([]*actor.PID, 0, len(b.subscriptions)+len(b.publishers))
	for _, s := range b.subscriptions {
		children = append(children, s.pid)
	}
	for _, p := range b.publishers {
		children = append(children, p.pid)
	}
	id := b.status.begin(c.Sender(), m.GetCorrelation(), status, len(children), 2*statusWait)
	for _, child := range children {
		c.Request(child, &messages.StatusRequest{Correlation: id})
	}
	b.status.settle(c, id)
	if !b.timers.armed(timerBrokerStatus) {
		b.timers.set(timerBrokerStatus, 2*statusWait)
	}
}

func (b *broker) onStatus(c actor.Context, m *messages.Status) {
	if b.onNodeStatus(c, m) {
		return
	}
	b.status.got(c, m.GetCorrelation(), func(status *messages.Status) {
		status.Subscriptions = append(status.Subscriptions, m.GetSubscriptions()...)
		status.Publishers = append(status.Publishers, m.GetPublishers()...)
		slices.SortFunc(status.Subscriptions, func(a, b *messages.SubscriptionStatus) int {
			return compareStrings(a.GetStream(), b.GetStream())
		})
		slices.SortFunc(status.Publishers, func(a, b *messages.PublisherStatus) int {
			return compareStrings(a.GetStream(), b.GetStream())
		})
	})
}

// callerTimeout is how long a request says something may take.
func callerTimeout(d interface{ AsDuration() time.Duration }, given bool, otherwise time.Duration) time.Duration {
	if !given {
		return otherwise
	}
	return max(0, d.AsDuration())
}
