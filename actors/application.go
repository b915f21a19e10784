package actors

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

// applicationWait bounds a look at the lease store for the status of an application, and then the wait for its nodes.
const applicationWait = 2 * time.Second

// applications are the requests for the status of the whole application that are under way. First the lease store says which nodes there are; then each is
// asked, this one too, and of those that do not answer the leases have to say what they read.
type applications struct {
	open map[uint64]*application
	// asked says to which of them, and to which of its nodes, the answer with this correlation belongs.
	asked map[uint64]askedNode
}

type askedNode struct {
	application uint64
	owner       string
}

// application is one of the requests.
type application struct {
	asker       *actor.PID
	correlation uint64
	members     []leasestore.Member
	leases      []leasestore.Lease
	answers     map[string]*messages.Status // by owner id
	waiting     int
	until       time.Time
}

// applicationLooked is the result of the look.
type applicationLooked struct {
	id      uint64
	members []leasestore.Member
	leases  []leasestore.Lease
	err     error
}

func (b *broker) onApplicationStatus(c actor.Context, m *messages.StatusRequest) {
	id := nextGeneration()
	if b.applications.open == nil {
		b.applications = applications{open: make(map[uint64]*application), asked: make(map[uint64]askedNode)}
	}
	b.applications.open[id] = &application{asker: c.Sender(), correlation: m.GetCorrelation(), answers: make(map[string]*messages.Status)}
	var streams []leasestore.StreamID
	for _, s := range b.subscriptions {
		if s.stream.Name != "" {
			streams = append(streams, s.stream)
		}
	}
	store, log := b.store, b.cfg.logger()
	b.fx.run(applicationWait, func(ctx context.Context) any {
		looked := lookAtApplication(ctx, store, streams, log)
		looked.id = id
		return looked
	})
}

// lookAtApplication looks at the streams of this node, or at any that the store knows, for the members, and then at those that other nodes read.
func lookAtApplication(ctx context.Context, store leasestore.Store, own []leasestore.StreamID, log *slog.Logger) applicationLooked {
	first := own
	if len(first) == 0 {
		all, err := store.Streams(ctx)
		if err != nil || len(all) == 0 {
			return applicationLooked{err: err}
		}
		first = []leasestore.StreamID{all[0].Stream}
	}
	views, err := viewAll(ctx, store, first)
	if err != nil {
		return applicationLooked{err: err}
	}
	looked := applicationLooked{members: views[0].Members}
	var others []leasestore.StreamID
	for _, m := range looked.members {
		for _, s := range m.Streams {
			if !slices.Contains(first, s) && !slices.Contains(others, s) {
				others = append(others, s)
			}
		}
	}
	more, err := viewAll(ctx, store, others)
	if err != nil {
		log.Warn("the leases of streams that other nodes read can't be looked at", slog.Any("error", err))
	}
	for _, v := range append(views, more...) {
		looked.leases = append(looked.leases, v.Leases...)
	}
	return looked
}

// viewAll looks at several streams together, which stores can do at the price of one.
func viewAll(ctx context.Context, store leasestore.Store, streams []leasestore.StreamID) ([]leasestore.View, error) {
	views, errs := make([]leasestore.View, len(streams)), make([]error, len(streams))
	var all sync.WaitGroup
	for i, s := range streams {
		all.Go(func() { views[i], errs[i] = store.View(ctx, s) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return views, nil
}

// onApplicationLooked asks the nodes.
func (b *broker) onApplicationLooked(c actor.Context, m applicationLooked) {
	one := b.applications.open[m.id]
	if one == nil {
		return
	}
	if m.err != nil {
		delete(b.applications.open, m.id)
		e := leaseError(leasestore.Key{}, "", "the nodes of the application can't be told: the lease store can't be read", m.err)
		e.Advice = "check the lease store; ask for the status of this node alone"
		answer(c.ActorSystem(), one.asker, e, one.correlation)
		return
	}
	one.members, one.leases, one.until = m.members, m.leases, time.Now().Add(applicationWait)
	b.askNode(c, m.id, b.owner, c.Self())
	for _, member := range m.members {
		if pid := reachable(c.ActorSystem(), member); pid != nil && member.ID != b.owner {
			b.askNode(c, m.id, member.ID, pid)
		}
	}
	if !b.timers.armed(timerApplication) {
		b.timers.set(timerApplication, applicationWait)
	}
}

func (b *broker) askNode(c actor.Context, id uint64, owner string, pid *actor.PID) {
	correlation := nextGeneration()
	b.applications.asked[correlation] = askedNode{application: id, owner: owner}
	b.applications.open[id].waiting++
	c.Request(pid, &messages.StatusRequest{Correlation: correlation})
}

// onNodeStatus takes a node's answer, and reports whether it was one. Another broker may live where the one that was asked has been.
func (b *broker) onNodeStatus(c actor.Context, m *messages.Status) bool {
	from, asked := b.applications.asked[m.GetCorrelation()]
	if !asked {
		return false
	}
	delete(b.applications.asked, m.GetCorrelation())
	one := b.applications.open[from.application]
	if one == nil {
		return true
	}
	one.waiting--
	if m.GetOwnerId() == from.owner {
		one.answers[from.owner] = m
	}
	if one.waiting == 0 {
		b.answerApplication(c, from.application)
	}
	return true
}

// onApplicationDue answers those that have waited long enough, with what there is.
func (b *broker) onApplicationDue(c actor.Context) {
	now := time.Now()
	var next time.Duration
	for id, one := range b.applications.open {
		switch left := one.until.Sub(now); {
		case one.until.IsZero(): // not looked yet
		case left <= 0:
			b.answerApplication(c, id)
		case next == 0 || left < next:
			next = left
		}
	}
	if next > 0 {
		b.timers.set(timerApplication, next)
	}
}

// answerApplications is for the end of the broker.
func (b *broker) answerApplications(c actor.Context) {
	for id := range b.applications.open {
		b.answerApplication(c, id)
	}
}

func (b *broker) answerApplication(c actor.Context, id uint64) {
	one := b.applications.open[id]
	delete(b.applications.open, id)
	for correlation, from := range b.applications.asked {
		if from.application == id {
			delete(b.applications.asked, correlation)
		}
	}
	if one.asker == nil {
		return
	}
	status := one.answers[b.owner]
	if status == nil {
		status = &messages.Status{State: b.state, OwnerId: b.owner}
	}
	c.Send(one.asker, &messages.Status{
		State: status.GetState(), OwnerId: status.GetOwnerId(), Subscriptions: status.GetSubscriptions(), Publishers: status.GetPublishers(),
		Correlation: one.correlation, Nodes: one.nodes(b.owner, c.ActorSystem().Address()),
	})
}
