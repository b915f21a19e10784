package actors

import (
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
)

// Cluster tells a broker who is in the Proto.Actor cluster that its node is a member of. It decides nothing about leases.
type Cluster interface {
	// System is the cluster's actor system.
	System() *actor.ActorSystem
	// Follow calls tell with the topology of now and with every one from now on, until stop is called; tell returns at once.
	Follow(tell func(Topology)) (stop func())
}

// Topology is what a cluster says of its members at one moment.
type Topology struct {
	// Members are all there are, Left those that were among them before.
	Members, Left []ClusterMember
	// Blocked are the ids of members that may not come back.
	Blocked []string
}

// ClusterMember is one member.
type ClusterMember struct {
	// ID is the id of its actor system, on its own or behind an @; some providers make their own.
	ID string
	// Address is that of its actor system.
	Address string
}

// standing is what a node knows of its own place in its cluster. It is pure.
type standing struct {
	system, address string // the actor system's id, and its address
	byID            bool   // the cluster has called this node by its actor system's id
	in              bool   // it was a member at the last look
}

// isMe reports whether this is the node's id.
func (s *standing) isMe(id string) bool { return id == s.system || strings.HasSuffix(id, "@"+s.system) }

func (s *standing) names(m ClusterMember) bool { return s.isMe(m.ID) }

// lies reports whether the member lives at this node's address.
func (s *standing) lies(m ClusterMember) bool { return m.Address == s.address }

// evicted takes in a topology and reports whether this node is out of the cluster. One that was never in it, such as one that has not joined yet, is not
// out. Where members have ids of their own making, the address has to do; it may have been another node's before, so that only its going counts.
func (s *standing) evicted(t Topology) bool {
	named, left := slices.ContainsFunc(t.Members, s.names), slices.ContainsFunc(t.Left, s.names)
	s.byID = s.byID || named || left
	in := named
	if !s.byID {
		in = slices.ContainsFunc(t.Members, s.lies)
	}
	out := !in && (s.in || left) || slices.ContainsFunc(t.Blocked, s.isMe)
	s.in = in
	return out
}
