package actors

// fleet is the picture that a plan is made of: the shards of one stream and the nodes that share them, as one look at the lease store
// showed them.
type fleet struct {
	// me is this node's owner id.
	me string
	// salt is the stream, so that the node which gets the odd shard is another from stream to stream.
	salt string
	// members are the nodes that take shards of the stream: alive, not leaving, in order of their ids. This node is among them unless it
	// is leaving.
	members []string
	// shards are those that may be read now, in order of their ids: finished ones, ones that wait for a parent and ones out of scope hold
	// no quota.
	shards []fleetShard
}

// fleetShard is one shard of a fleet.
type fleetShard struct {
	id string
	// owner is who has the shard: its lease's next owner while a handover to a live member is pending, else its owner if that one is alive.
	// Empty: it is free to be taken.
	owner string
	// holder is who reads it and alone may give it away; it differs from owner while a handover is pending.
	holder string
	// looks is in how many looks in a row it has been free.
	looks int
}

// plan is what this node is to do about a fleet.
type plan struct {
	// take are the free shards that fall to this node now.
	take []string
	// give are the shards that this node is to hand over, and to whom.
	give map[string]string
}

// assign decides what this node takes and gives. before is the picture of the look before this one, nil if there is none.
func assign(now, before *fleet) plan {
	p := plan{}
	for _, s := range now.shards {
		if s.owner == "" {
			p.take = append(p.take, s.id)
		}
	}
	return p
}
