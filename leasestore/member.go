package leasestore

import (
	"slices"
	"time"
)

// Member is a node's sign of life in a store, so that nodes which hold no lease yet are known to those that could give them one.
// Like an owner, a member is dead when its row has been the same for a ttl as seen by the observer; no clocks are compared.
// Nothing of it decides who owns a lease.
type Member struct {
	// ID is the owner id that the node holds leases under.
	ID string
	// Beat is raised by one by every Store.Beat: it is what observers watch.
	Beat int64
	// Leaving says that the node is handing over what it has: it is given nothing more.
	Leaving bool
	// Streams are the streams that the node reads; it is given shards of no other.
	Streams []StreamID
	// Address, Broker and System say where other nodes find its broker actor: the address of its actor system, the actor's id, and
	// the actor system's id. They are hints only; Address is empty or "nonhost" for a node that no other can reach.
	Address, Broker, System string
	// Period is how long the node may be silent and still be alive; 0 means the observer's ttl. Stores set it for members that are not
	// ours, such as KCL workers, who show a sign of life every 30 s only.
	Period time.Duration
	// AllStreams says that the node reads every stream of the application, as KCL workers do.
	AllStreams bool
}

// Reads reports whether the member takes shards of the stream.
func (m Member) Reads(stream StreamID) bool {
	return m.AllStreams || slices.Contains(m.Streams, stream)
}

// clone copies the member, so that nobody can change the streams of a stored one.
func (m Member) clone() Member {
	m.Streams = slices.Clone(m.Streams)
	return m
}

// Planner is somebody else who decides about all leases of the application: the leader of a fleet of KCL workers on the same
// table. While it lives, nodes do not move leases on their own account. The zero Planner is none.
type Planner struct {
	// Owner is who it is.
	Owner string
	// Mark changes with its every sign of life.
	Mark string
	// Period is how long it may be silent and still be alive.
	Period time.Duration
}

// View is what a store holds about one stream, from one look.
type View struct {
	// Leases are all leases of the stream, ordered by shard id.
	Leases []Lease
	// State is the stream's state; Version is 0 when none is stored.
	State StreamState
	// Members are all members, of every stream, ordered by id.
	Members []Member
	// Planner is set when somebody else plans.
	Planner Planner
}
