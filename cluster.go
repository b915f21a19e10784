package protokinesis

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"

	"github.com/protokinesis/protokinesis/actors"
)

// WithCluster is for a service whose node is a member of a Proto.Actor cluster; start the member before New, with package remoting's configuration. The
// broker learns from it that nodes have come or gone, and looks at the lease store at once instead of within seconds. When its own node is out of
// the cluster, evicted or gone in order, the broker shuts down: what is in flight may settle, shards are handed over, subscribers are told by an
// ErrNotConnected. The node's process should then be started again. A node that ends in order shuts the System down before it leaves the cluster.
//
// The cluster never decides who reads a shard: that is the lease store's, and members that do not agree who is in the cluster do no harm.
func WithCluster(c *cluster.Cluster) Option {
	return func(cfg *actors.Config) {
		if c != nil {
			cfg.Cluster = membership{c}
		}
	}
}

// membership is a cluster as the broker sees it.
type membership struct{ cluster *cluster.Cluster }

// System implements actors.Cluster.
func (m membership) System() *actor.ActorSystem { return m.cluster.ActorSystem }

// Follow implements actors.Cluster. The members of now are told first, and not after the subscription: they could overtake what is newer.
func (m membership) Follow(tell func(actors.Topology)) (stop func()) {
	tell(actors.Topology{Members: members(m.cluster.MemberList.Members().Members())})
	events := m.cluster.ActorSystem.EventStream
	subscription := events.Subscribe(func(event any) {
		if t, ok := event.(*cluster.ClusterTopology); ok {
			tell(actors.Topology{Members: members(t.GetMembers()), Left: members(t.GetLeft()), Blocked: t.GetBlocked()})
		}
	})
	return func() { events.Unsubscribe(subscription) }
}

func members(all []*cluster.Member) []actors.ClusterMember {
	out := make([]actors.ClusterMember, 0, len(all))
	for _, m := range all {
		out = append(out, actors.ClusterMember{ID: m.GetId(), Address: m.Address()})
	}
	return out
}
