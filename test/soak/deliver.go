package soak

// nodeState is what is known of a node's process that runs now, or ran last.
type nodeState struct {
	fetched      map[*record]int          // the log's length when the node first asked for a page with the record, at least
	incarnations map[string][]incarnation // shard → each time the node began to read it
	begun        map[*record]int          // first attempts
	failed       map[attempt]bool
	work         map[string]*work // shard → since the node began to read it, or was given it
}

type (
	attempt struct {
		record *record
		number int
	}
	incarnation struct {
		at    position
		cause string
	}
)

// work is what a node does with a shard from when it began to read it at a position.
type work struct {
	running map[*record]*Event
	settled map[*record]bool
	gave    *Event // it has given the lease away, or back
}

func newNode() *nodeState {
	return &nodeState{
		fetched: map[*record]int{}, incarnations: map[string][]incarnation{}, begun: map[*record]int{}, failed: map[attempt]bool{}, work: map[string]*work{},
	}
}

func newWork() *work { return &work{running: map[*record]*Event{}, settled: map[*record]bool{}} }

func (c *checker) node(name string) *nodeState {
	if c.nodes[name] == nil {
		c.nodes[name] = newNode()
	}
	return c.nodes[name]
}

// onStarted: who starts knows nothing of before.
func (c *checker) onStarted(e *Event) {
	c.nodes[e.Node] = newNode()
	for _, s := range c.shards {
		delete(s.lost, e.Node)
	}
}

// onEnded: the leases that it has keep their owner until they are taken from it.
func (c *checker) onEnded(e *Event) {
	c.gone[c.owners[e.Node]] = e.What
	delete(c.owners, e.Node)
}

// onOpened: nobody else has the store, so whoever had leases is no more.
func (c *checker) onOpened() {
	for _, s := range c.shards {
		s.acquired = nil
	}
}

// find is the record an event is about; nil if the service does not have it.
func (c *checker) find(e *Event) *record {
	s := c.shards[e.Shard]
	if s == nil {
		return nil
	}
	return s.bySequence[e.Sequence]
}

// onFetched remembers when a node first asked for the records of a page.
func (c *checker) onFetched(e *Event) {
	s := c.shards[e.Shard]
	if s == nil {
		return
	}
	n := c.node(e.Node)
	first, last := s.bySequence[e.Sequence], s.bySequence[e.Last]
	if first == nil || last == nil {
		c.violate(RuleLost, []*Event{e}, "a page of %s with records that the service does not have", e.Shard)
		return
	}
	for _, r := range s.records[first.index : last.index+1] {
		if begun, seen := n.fetched[r]; !seen || e.Begun < begun {
			n.fetched[r] = e.Begun
		}
	}
}

func (c *checker) onDone(e *Event) {
	c.report.Done++
	r := c.find(e)
	if r == nil {
		c.violate(RuleLost, []*Event{e}, "done with a record that the service does not have")
		return
	}
	c.last[r] = e
	if r.done == nil {
		r.done = e
	}
	if w := c.node(e.Node).work[e.Shard]; w != nil && w.running[r] != nil {
		delete(w.running, r)
		w.settled[r] = true
	}
}

func (c *checker) onFailed(e *Event) {
	c.report.Failed++
	r := c.find(e)
	if r == nil {
		return
	}
	n := c.node(e.Node)
	n.failed[attempt{r, e.Attempt}] = true
	if w := n.work[e.Shard]; w != nil {
		delete(w.running, r)
	}
}

func (c *checker) onDelivered(e *Event) {
	c.report.Delivered++
	r := c.find(e)
	if r == nil {
		c.violate(RuleLost, []*Event{e}, "a record was delivered that the service does not have")
		return
	}
	c.again(r, e)
	if !r.delivered {
		c.inTurn(r, e)
	}
	if !r.shard.begun {
		c.afterParents(r.shard, e)
	}
	c.fenced(r, e)
	if w := c.node(e.Node).work[e.Shard]; w != nil {
		if w.gave != nil {
			c.violate(RuleHandover, []*Event{w.gave, e}, "node %s delivered %s %s after it had given the shard away", e.Node, e.Shard, e.Sequence)
		}
		w.running[r] = e
	}
	r.delivered, r.shard.begun = true, true
	c.last[r] = e
}

// inTurn: when a record is delivered for the first time, all that come before it under its key are done, or a seek left them out.
func (c *checker) inTurn(r *record, e *Event) {
	of := c.keys[r.Key]
	for c.turns[r.Key] < r.turn {
		before := of[c.turns[r.Key]]
		if before.done == nil && !before.skippable {
			c.violate(RuleOrder, []*Event{c.last[before], e}, "key %s: %s %s was delivered before %s %s was done",
				r.Key, r.Shard(), r.Sequence, before.Shard(), before.Sequence)
			return
		}
		c.turns[r.Key]++
	}
}

// afterParents: the first record of a shard comes after its parents' ends are stored. A seek to the tip leaves parents out that were closed by then.
func (c *checker) afterParents(s *shardState, e *Event) {
	for _, id := range s.Parents {
		parent := c.shards[id]
		if parent == nil || parent.finished || c.leftOut(parent) {
			continue
		}
		c.violate(RuleLineage, []*Event{parent.lease, e}, "a record of %s was delivered before the end of its parent %s was stored", s.ID, id)
	}
}

func (c *checker) leftOut(s *shardState) bool {
	for _, seek := range c.seeks {
		if seek.tip && s.Closed != 0 && s.Closed < seek.scope.since {
			return true
		}
	}
	return false
}

// again: a node is given a record once each time it begins to read its shard at or before it, and once more for each failure.
func (c *checker) again(r *record, e *Event) {
	n := c.node(e.Node)
	if e.Attempt > 1 {
		c.report.Duplicates[CauseRetry]++
		if !n.failed[attempt{r, e.Attempt - 1}] {
			c.violate(RuleDuplicate, []*Event{c.last[r], e}, "attempt %d of %s %s, but the one before it did not fail", e.Attempt, r.Shard(), r.Sequence)
		}
		return
	}
	n.begun[r]++
	allowed, cause := 0, ""
	for _, i := range n.incarnations[e.Shard] {
		if i.at.reads(r) {
			allowed++
			cause = i.cause
		}
	}
	if n.begun[r] > allowed {
		c.violate(RuleDuplicate, []*Event{c.last[r], r.shard.lease, e},
			"%s %s was delivered %d times by node %s, which has begun to read the shard at or before it %d times",
			r.Shard(), r.Sequence, n.begun[r], e.Node, allowed)
		return
	}
	if r.delivered {
		c.report.Duplicates[cause]++
	}
}

// fenced: once another node holds the lease, a node delivers nothing that it has asked the service for since.
func (c *checker) fenced(r *record, e *Event) {
	taken := r.shard.lost[e.Node]
	if taken == nil {
		return
	}
	begun, seen := c.node(e.Node).fetched[r]
	if seen && begun >= taken.Line {
		c.violate(RuleReader, []*Event{taken, e}, "node %s delivered %s %s, which it asked for (after line %d of the log) after node %s had taken the shard",
			e.Node, r.Shard(), r.Sequence, begun, NodeOf(taken.Owner))
		return
	}
	c.report.Late++
}
