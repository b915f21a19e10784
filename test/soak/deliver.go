package soak

import "slices"

// processState is what is known of the consumer process that runs now.
type processState struct {
	nodes        map[string]bool
	fetched      map[visit]int             // the first time the node has asked for a page with the record
	incarnations map[reading][]incarnation // each time a node began to read a shard
	begun        map[visit]int             // first attempts
	failed       map[attempt]bool
	last         map[*record]*Event // the last event about a record
}

type (
	visit struct {
		node   string
		record *record
	}
	reading struct{ node, shard string }
	attempt struct {
		node, shard, sequence string
		number                int
	}
	incarnation struct {
		at    position
		cause string
	}
)

func newProcess() *processState {
	return &processState{
		nodes: map[string]bool{}, fetched: map[visit]int{}, incarnations: map[reading][]incarnation{}, begun: map[visit]int{},
		failed: map[attempt]bool{}, last: map[*record]*Event{},
	}
}

func attemptOf(e *Event, number int) attempt { return attempt{e.Node, e.Shard, e.Sequence, number} }

// lastOf is the last event about a record, nil if there is none.
func (p *processState) lastOf(r *record) *Event { return p.last[r] }

// onStarted: whoever starts has no leases, and the process before has none any more.
func (c *checker) onStarted() {
	c.process = newProcess()
	for _, s := range c.shards {
		s.acquired, s.held, s.lost = nil, false, map[string]*Event{}
	}
}

// onKilled: a write may have been stored and not logged. For most that shows at the next acquisition; a finished shard is not acquired again.
func (c *checker) onKilled() {
	for _, s := range c.shards {
		s.perhaps = s.perhaps || s.acquired != nil && s.Closed != 0 && !slices.ContainsFunc(s.records, func(r *record) bool { return r.done == nil && s.scope.has(r) })
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
	c.process.nodes[e.Node] = true
	first, last := s.bySequence[e.Sequence], s.bySequence[e.Last]
	if first == nil || last == nil {
		c.violate(RuleLost, []*Event{e}, "a page of %s with records that the service does not have", e.Shard)
		return
	}
	for _, r := range s.records[first.index : last.index+1] {
		v := visit{e.Node, r}
		if begun, seen := c.process.fetched[v]; !seen || e.Begun < begun {
			c.process.fetched[v] = e.Begun
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
	c.process.last[r] = e
	if r.done == nil {
		r.done = e
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
	r.delivered, r.shard.begun = true, true
	c.process.last[r] = e
}

// inTurn: when a record is delivered for the first time, all that come before it under its key are done, or a seek left them out.
func (c *checker) inTurn(r *record, e *Event) {
	of := c.keys[r.Key]
	for c.turns[r.Key] < r.turn {
		before := of[c.turns[r.Key]]
		if before.done == nil && !before.skippable {
			c.violate(RuleOrder, []*Event{c.process.lastOf(before), e}, "key %s: %s %s was delivered before %s %s was done",
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
		if parent == nil || parent.finished || parent.perhaps || c.leftOut(parent) {
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
	p := c.process
	if e.Attempt > 1 {
		c.report.Duplicates[CauseRetry]++
		if !p.failed[attemptOf(e, e.Attempt-1)] {
			c.violate(RuleDuplicate, []*Event{p.lastOf(r), e}, "attempt %d of %s %s, but the one before it did not fail", e.Attempt, r.Shard(), r.Sequence)
		}
		return
	}
	v := visit{e.Node, r}
	p.begun[v]++
	allowed, cause := 0, ""
	for _, i := range p.incarnations[reading{e.Node, e.Shard}] {
		if i.at.reads(r) {
			allowed++
			cause = i.cause
		}
	}
	if p.begun[v] > allowed {
		c.violate(RuleDuplicate, []*Event{p.lastOf(r), r.shard.lease, e},
			"%s %s was delivered %d times by node %s, which has begun to read the shard at or before it %d times",
			r.Shard(), r.Sequence, p.begun[v], e.Node, allowed)
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
	begun, seen := c.process.fetched[visit{e.Node, r}]
	if seen && begun >= taken.Local {
		c.violate(RuleReader, []*Event{taken, e}, "node %s delivered %s %s, which it asked for (after event %d of its process) after node %s had taken the shard",
			e.Node, r.Shard(), r.Sequence, begun, taken.Node)
	}
}
