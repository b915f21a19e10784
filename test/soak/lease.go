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
	c.ownership(s, e)
	at, ok := s.parse(e.Checkpoint)
	if !ok {
		c.violate(RuleCheckpoint, []*Event{e}, "%q is no checkpoint of %s, or of a record that the service does not have", e.Checkpoint, s.ID)
		return
	}
	if moved := c.moved(s, e, at); !moved && at.less(s.at) {
		c.violate(RuleCheckpoint, []*Event{s.lease, e}, "the checkpoint of %s went back from %q to %q without a seek",
			s.ID, s.lease.Checkpoint, e.Checkpoint)
	}
	s.lease, s.at, s.perhaps = e, at, false
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
	key := reading{e.Node, e.Shard}
	switch e.What { //nolint:exhaustive // the writes by which a node begins to read
	case Acquire:
		c.process.incarnations[key] = append(c.process.incarnations[key], incarnation{at, s.cause})
	case Move:
		c.process.incarnations[key] = append(c.process.incarnations[key], incarnation{at, CauseSeek})
	}
}

// moved takes in a new position, if the write gave the shard one: its first lease, a seek of the whole stream, or of this shard. The latter may have
// been stored and not logged, when the process was killed in between; the next acquisition shows it.
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
		c.violate(RuleCheckpoint, []*Event{c.process.lastOf(first), e}, "the checkpoint of %s is %q, and %d records below it were not done before, the first is %s of key %s",
			s.ID, e.Checkpoint, undone, first.Sequence, first.Key)
	}
}

// ownership follows who holds the lease.
func (c *checker) ownership(s *shardState, e *Event) {
	held := s.acquired
	switch {
	case e.What == Acquire:
		c.acquired(s, e)
		return
	case held == nil, held.Node != e.Node:
		c.violate(RuleReader, []*Event{held, e}, "node %s wrote (%s) the lease of %s, which it does not hold", e.Node, e.What, s.ID)
	}
	if e.What == Release || e.What == Delete {
		s.acquired = nil
	}
}

func (c *checker) acquired(s *shardState, e *Event) {
	held := s.acquired
	s.cause = CauseAgain
	switch {
	case held != nil && held.Node != e.Node:
		s.cause = CauseTakeover
		c.report.Takeovers++
	case held != nil:
	case s.held:
		s.cause = CauseHandover
	case c.before == Killed:
		s.cause = CauseKill
	case c.before == Ended:
		s.cause = CauseRestart
	}
	s.acquired, s.held = e, true
	c.process.nodes[e.Node] = true
	for node := range c.process.nodes {
		if node != e.Node && s.lost[node] == nil {
			s.lost[node] = e
		}
	}
	delete(s.lost, e.Node)
}
