package soak

// onLease takes in a write of a lease that was applied.
func (c *checker) onLease(e *Event) {
	s := c.shards[e.Shard]
	if s == nil {
		c.violate(RuleCheckpoint, []*Event{e}, "a lease of %s, which the service does not list", e.Shard)
		return
	}
	if s.lease != nil && e.Counter <= s.lease.Counter {
		c.violate(RuleCheckpoint, []*Event{s.lease, e}, "the counter of %s's lease went from %d to %d", s.ID, s.lease.Counter, e.Counter)
	}
	at, ok := s.parse(e.Checkpoint)
	c.ownership(s, e, at)
	if !ok {
		c.violate(RuleCheckpoint, []*Event{e}, "%q is no checkpoint of %s, or of a record that the service does not have", e.Checkpoint, s.ID)
		return
	}
	if moved := c.moved(s, e, at); !moved && at.less(s.at) {
		c.violate(RuleCheckpoint, []*Event{s.lease, e}, "the checkpoint of %s went back from %q to %q without a seek",
			s.ID, s.lease.Checkpoint, e.Checkpoint)
	}
	s.lease, s.at = e, at
	switch at.rank {
	case rankRecord:
		c.covered(s, e, at.next())
	case rankEnd:
		if s.Closed == 0 {
			c.violate(RuleCheckpoint, []*Event{e}, "SHARD_END of %s, which is open", s.ID)
		}
		s.finished = true
		c.covered(s, e, len(s.records))
	case rankNone, rankHorizon, rankTime:
	}
	n := c.node(e.Node)
	switch e.What { //nolint:exhaustive // the writes by which a node begins to read
	case Acquire:
		n.incarnations[e.Shard] = append(n.incarnations[e.Shard], incarnation{at, s.cause})
	case Move:
		n.incarnations[e.Shard] = append(n.incarnations[e.Shard], incarnation{at, CauseSeek})
		n.work[e.Shard] = newWork() // what was delivered before is void
	}
}

// moved takes in a new position, if the write gave the shard one: its first lease, a seek of the whole stream, or of this shard.
func (c *checker) moved(s *shardState, e *Event, at position) bool {
	bySequence := at.rank == rankRecord && at.before
	switch {
	case bySequence && (e.What == Move || s.lease == nil || at != s.at):
		if !c.asked[s.ID+" "+s.records[at.index].Sequence] {
			c.violate(RuleCheckpoint, []*Event{s.lease, e}, "%s was moved to %q, but there was no such seek", s.ID, e.Checkpoint)
		}
		s.scope = scope{since: everything.since, from: at.index}
	case s.lease == nil, e.What == Move, e.Seek != s.lease.Seek:
		seek, known := c.seeks[e.Seek]
		if !known || (s.lease != nil && e.Seek < s.lease.Seek) {
			c.violate(RuleCheckpoint, []*Event{s.lease, e}, "the lease of %s is of seek %d, which there was not", s.ID, e.Seek)
		}
		s.scope = seek.scope
	default:
		return false
	}
	s.checked = 0
	for _, r := range s.records {
		r.skippable = r.skippable || r.done == nil && !s.scope.has(r)
	}
	return true
}

// covered: all records up to the checkpoint must have been done before it.
func (c *checker) covered(s *shardState, e *Event, upTo int) {
	var first *record
	undone := 0
	for ; s.checked < upTo; s.checked++ {
		if r := s.records[s.checked]; r.done == nil && s.scope.has(r) {
			if undone++; first == nil {
				first = r
			}
		}
	}
	if undone > 0 {
		c.violate(RuleCheckpoint, []*Event{c.last[first], e}, "the checkpoint of %s is %q, and %d records below it were not done before, the first is %s of key %s",
			s.ID, e.Checkpoint, undone, first.Sequence, first.Key)
	}
}

// ownership follows who has the lease.
func (c *checker) ownership(s *shardState, e *Event, at position) {
	held := s.acquired
	if e.What == Acquire {
		c.acquired(s, e)
		return
	}
	own := held != nil && NodeOf(held.Owner) == e.Node && c.gone[held.Owner] == ""
	if !own && !takenBack(held, e) {
		c.violate(RuleReader, []*Event{held, e}, "node %s wrote (%s) the lease of %s, which it does not hold", e.Node, e.What, s.ID)
	}
	switch e.What { //nolint:exhaustive // the writes that end its hold
	case Give:
		c.report.Given++
		c.givenAway(s, e, at)
		s.acquired = e
		c.lost(s, e)
	case Release:
		c.givenAway(s, e, at)
		s.acquired = nil
	case Delete:
		s.acquired = nil
	}
}

// takenBack: who has given a lease to a node that has not taken it up, such as one that is dead, may still write it.
func takenBack(held, e *Event) bool {
	return held != nil && held.What == Give && held.Process == e.Process && held.Node == e.Node
}

func (c *checker) acquired(s *shardState, e *Event) {
	held := s.acquired
	s.cause = CauseAgain
	switch {
	case takenBack(held, e):
		s.cause = CauseHandover
	case held != nil && c.gone[held.Owner] == Killed:
		s.cause = CauseKill
	case held != nil && c.gone[held.Owner] != "":
		s.cause = CauseRestart
	case held != nil && held.Owner != e.Owner:
		s.cause = CauseTakeover
		c.report.Takeovers++
	case held != nil && held.What == Give, held == nil && s.held:
		s.cause = CauseHandover
	}
	if held != nil && held.Owner != e.Owner && !takenBack(held, e) && e.At > 0 && e.At-s.lease.At < LeaseTTL*1000 {
		c.violate(RuleReader, []*Event{s.lease, e}, "node %s took %s from %s, whose lease had been written %d µs before", e.Node, s.ID, held.Owner, e.At-s.lease.At)
	}
	s.acquired, s.held = e, true
	c.owners[e.Node] = e.Owner
	delete(c.gone, e.Owner)
	c.lost(s, e)
}

// lost: the shard is one node's now, and no other's.
func (c *checker) lost(s *shardState, e *Event) {
	owner := NodeOf(e.Owner)
	if e.What == Give && owner == e.Node {
		owner = "" // to a process that the node had before
	} else {
		c.node(owner)
	}
	for name, n := range c.nodes {
		switch w := n.work[s.ID]; {
		case name == owner:
			delete(s.lost, name)
			n.work[s.ID] = newWork()
			continue
		case w != nil && w.gave == nil:
			delete(n.work, s.ID) // what it is at will not be settled by it any more
		}
		if s.lost[name] == nil {
			s.lost[name] = e
		}
	}
}

// givenAway: a node that gives a lease away or back has no handler at work on it, and what it has done is in the checkpoint.
func (c *checker) givenAway(s *shardState, e *Event, at position) {
	w := c.node(e.Node).work[s.ID]
	if w == nil {
		return
	}
	if e.Seek != c.lastSeek { // what is at work is void
		delete(c.node(e.Node).work, s.ID)
		return
	}
	w.gave = e
	for _, delivered := range w.running {
		c.violate(RuleHandover, []*Event{delivered, e}, "node %s gave %s away while %d of its records were being handled", e.Node, s.ID, len(w.running))
		break
	}
	for _, r := range s.records {
		if !at.reads(r) || !s.scope.has(r) {
			continue
		}
		if w.settled[r] {
			c.violate(RuleHandover, []*Event{c.last[r], e}, "node %s gave %s away with the checkpoint %q, and had done %s beyond it", e.Node, s.ID, e.Checkpoint, r.Sequence)
		}
		return
	}
}
