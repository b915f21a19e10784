package actors

import (
	"log/slog"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/messages"
)

// inCluster is a broker's connection to its node's cluster.
type inCluster struct {
	standing standing
	stop     func() // nil while it does not follow
}

// evicted tells a coordinator that its node is out of the cluster, before it is drained.
type evicted struct{ err *Error }

func (b *broker) checkCluster(system *actor.ActorSystem) *Error {
	if b.cfg.Cluster == nil || b.cfg.Cluster.System() == system {
		return nil
	}
	e := invalid("", "WithCluster", "the cluster is of another actor system")
	e.Advice = "give New the cluster's ActorSystem"
	return e
}

// follow has the broker told of every topology from now on.
func (b *broker) follow(c actor.Context) {
	if b.cfg.Cluster == nil {
		return
	}
	system, self := c.ActorSystem(), c.Self()
	b.cluster.standing = standing{system: system.ID, address: system.Address()}
	// On the goroutine of whoever publishes: nothing but pass it on.
	b.cluster.stop = b.cfg.Cluster.Follow(func(t Topology) { system.Root.Send(self, t) })
}

func (b *broker) unfollow() {
	if b.cluster.stop != nil {
		b.cluster.stop()
		b.cluster.stop = nil
	}
}

// onTopology: members have come or gone. Who reads what is for the lease store to say, so this is a reason to look there, and no more. A node that is out
// of the cluster itself may be cut off from those who ask it, and others do not count on it: it hands over what it has, and stops.
func (b *broker) onTopology(c actor.Context, t Topology) {
	if !b.cluster.standing.evicted(t) {
		for _, s := range b.subscriptions {
			c.Send(s.pid, peersChanged{})
		}
		return
	}
	b.cfg.logger().Error("this node is out of its cluster: the broker hands over what it reads and stops", slog.Int("members", len(t.Members)))
	for _, s := range b.subscriptions {
		c.Send(s.pid, evicted{&Error{
			Kind: messages.ErrorKind_ERROR_KIND_NOT_CONNECTED, Stream: s.spelling,
			Text:   "this node is out of its cluster: the subscription ends, and so does the broker",
			Advice: "start the node's process again, or see why the cluster lost it",
		}})
	}
	b.shutdown(c, b.cfg.Timings.ShutdownTimeout)
}

// onEvicted: the drain follows. What ends the subscription is told when it has ended.
func (co *coordinator) onEvicted(m evicted) {
	if co.opened && !co.closing.begun && co.kept.fatal == nil {
		co.kept.fatal = m.err
	}
}
