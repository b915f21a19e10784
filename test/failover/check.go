package failover

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"
)

// Rules, as a Violation names them.
const (
	RuleLost       = "nothing is lost"
	RuleOrder      = "order per key"
	RuleDuplicate  = "a record comes again only where its checkpoint had not got to"
	RuleReader     = "only the owner of a lease reads its shard, within its ttl"
	RuleFence      = "only the owner of a lease writes it, until it has been silent for the ttl"
	RuleCheckpoint = "checkpoints never run ahead of what was printed, and never go back"
	RuleHandover   = "a lease is given away with all that was printed in its checkpoint"
)

// keptViolations bounds how many of a rule are described; what breaks one record often breaks many.
const keptViolations = 3

// Violation is a rule that does not hold.
type Violation struct {
	Rule, Text string
}

// Report is what Check found.
type Report struct {
	Violations []Violation
	More       int // violations that are not described

	Records    int
	Lines      int
	Duplicates int
	Late       int // lines of a shard that another node had by then, of records that were on their way before
	Takeovers  int // leases taken from a node that had not given them away
	Foreign    int // writes of leases that were another's; none must be
}

// Check goes through a log.
func Check(l *Log) *Report {
	c := newChecker(l)
	for i := range l.Events {
		e := &l.Events[i]
		switch e.What {
		case Line:
			c.onLine(e)
		case Write:
			c.onWrite(e)
		case Stopped:
			c.stops[e.Node] = stop{from: e.At, to: math.MaxInt64}
		case Continued:
			c.stops[e.Node] = stop{from: c.stops[e.Node].from, to: e.At}
		case Started, Killed, Told, Left, Cut, Healed:
		}
	}
	c.end()
	return c.report
}

type checker struct {
	*service
	ttl    time.Duration
	report *Report
	broken map[string]int
	states map[string]*shardState
	turns  map[string]int  // key → how many of its records, from the first, have been printed
	stops  map[string]stop // node → the last
}

// stop is when a node stood still.
type stop struct{ from, to time.Duration }

// shardState is a shard on the way through the log.
type shardState struct {
	id      string
	row     Row
	last    *Event // the write that left it like that
	tenures map[string]*tenure
	printed map[int]bool // by index
}

// tenure is the last time that a node had a shard.
type tenure struct {
	node    string
	start   int    // the index of the first record that it had to read
	last    *Event // the last write that left it the owner
	gave    bool   // it ended it itself
	printed map[int]bool
	highest int // the index after the last record that it has printed
}

func newChecker(l *Log) *checker {
	return &checker{
		service: newService(l.Records), ttl: l.TTL, report: &Report{Records: len(l.Records)}, broken: map[string]int{},
		states: map[string]*shardState{}, turns: map[string]int{}, stops: map[string]stop{},
	}
}

func (c *checker) violate(rule, format string, args ...any) {
	if c.broken[rule]++; c.broken[rule] > keptViolations {
		c.report.More++
		return
	}
	c.report.Violations = append(c.report.Violations, Violation{rule, fmt.Sprintf(format, args...)})
}

func (c *checker) state(shard string) *shardState {
	s := c.states[shard]
	if s == nil {
		s = &shardState{id: shard, tenures: map[string]*tenure{}, printed: map[int]bool{}}
		c.states[shard] = s
	}
	return s
}

func (c *checker) onLine(e *Event) {
	c.report.Lines++
	r, ok := c.find(e.Shard, e.Sequence)
	if !ok {
		c.violate(RuleLost, "node %s printed %s %s, which was not published", e.Node, e.Shard, e.Sequence)
		return
	}
	s := c.state(e.Shard)
	c.mayRead(s, e, r)
	if s.printed[r.index] {
		c.report.Duplicates++
	} else {
		c.inTurn(e, r)
	}
	s.printed[r.index] = true
}

// mayRead: a node prints what it has delivered as the owner of the lease, once. After its ttl, that is what was on its way before.
func (c *checker) mayRead(s *shardState, e *Event, r place) {
	t := s.tenures[e.Node]
	if t == nil {
		c.violate(RuleReader, "%v: node %s printed a record of %s, whose lease it never had", e.At, e.Node, s.id)
		return
	}
	switch {
	case t.gave:
		c.violate(RuleReader, "%v: node %s printed %s %s after it had given the lease away at %v", e.At, e.Node, s.id, e.Sequence, t.last.At)
	case e.At > t.last.At+c.ttl && r.Sent > c.lastRead(t):
		c.violate(RuleReader, "%v: node %s printed %s %s, which was published at %v, though its last write of the lease was at %v",
			e.At, e.Node, s.id, e.Sequence, r.Sent, t.last.At)
	case s.row.Owner != e.Node:
		c.report.Late++
	}
	switch {
	case t.printed[r.index]:
		c.violate(RuleDuplicate, "%v: node %s printed %s %s twice without another having had the shard", e.At, e.Node, s.id, e.Sequence)
	case r.index < t.start:
		c.violate(RuleDuplicate, "%v: node %s printed %s %s, which was below the checkpoint when it took the shard", e.At, e.Node, s.id, e.Sequence)
	}
	t.printed[r.index], t.highest = true, max(t.highest, r.index+1)
}

// lastRead is when an owner can have read for the last time: its ttl after its last write, or when it was stopped before that.
func (c *checker) lastRead(t *tenure) time.Duration {
	end := t.last.At + c.ttl
	if s, was := c.stops[t.node]; was && t.last.At < s.to {
		end = min(end, s.from)
	}
	return end
}

func (c *checker) inTurn(e *Event, r place) {
	if r.Number > c.turns[r.Key] {
		c.violate(RuleOrder, "%v: node %s printed record %d of key %s before record %d had been printed", e.At, e.Node, r.Number, r.Key, c.turns[r.Key])
	}
	s := c.state(e.Shard)
	for of := c.keys[r.Key]; c.turns[r.Key] < len(of); c.turns[r.Key]++ {
		if next := of[c.turns[r.Key]]; next.index != r.index && !s.printed[next.index] {
			break
		}
	}
}

func (c *checker) onWrite(e *Event) {
	s := c.state(e.Shard)
	c.mayWrite(s, e)
	c.checkpoint(s, e)
	before := s.row
	if s.last != nil && e.Row.Counter < before.Counter && e.Row != (Row{}) {
		c.violate(RuleFence, "%v: node %s set the counter of %s from %d to %d", e.At, e.Node, s.id, before.Counter, e.Row.Counter)
	}
	s.row, s.last = e.Row, e
	owner := e.Row.Owner
	switch {
	case owner == before.Owner:
		if owner == e.Node {
			s.tenures[owner].last = e
		}
		return
	case before.Owner == e.Node:
		c.given(s, s.tenures[e.Node], e)
	}
	if owner != "" {
		s.tenures[owner] = &tenure{node: owner, start: c.position(e.Shard, e.Row.Checkpoint), last: e, printed: map[int]bool{}}
	}
}

// mayWrite: who is not the owner may take a lease that is free, or whose owner has been silent for the ttl; and take back one that it has given to a node that
// has not taken it up.
func (c *checker) mayWrite(s *shardState, e *Event) {
	switch {
	case s.row.Owner == "" || s.row.Owner == e.Node || s.last.Node == e.Node:
	case e.Row.Owner != e.Node:
		c.report.Foreign++
		c.violate(RuleFence, "%v: node %s wrote the lease of %s, which node %s has, to %+v", e.At, e.Node, s.id, s.row.Owner, e.Row)
	case e.At-s.last.Began < c.ttl:
		c.violate(RuleFence, "%v: node %s took %s from node %s, whose last write was at %v", e.At, e.Node, s.id, s.row.Owner, s.last.At)
	default:
		c.report.Takeovers++
	}
}

func (c *checker) checkpoint(s *shardState, e *Event) {
	if e.Row == (Row{}) {
		return
	}
	before, after := c.position(s.id, s.row.Checkpoint), c.position(s.id, e.Row.Checkpoint)
	switch {
	case after < 0:
		c.violate(RuleCheckpoint, "%v: the checkpoint of %s is %q, which is of no record published to it", e.At, s.id, e.Row.Checkpoint)
	case after < before:
		c.violate(RuleCheckpoint, "%v: node %s put the checkpoint of %s back from %q to %q", e.At, e.Node, s.id, s.row.Checkpoint, e.Row.Checkpoint)
	case s.last != nil && after != before && s.row.Owner != e.Node: // also if it gave the lease away
		c.violate(RuleCheckpoint, "%v: node %s moved the checkpoint of %s, which node %q had", e.At, e.Node, s.id, s.row.Owner)
	}
	for i := before; i < after; i++ {
		if !s.printed[i] {
			c.violate(RuleCheckpoint, "%v: the checkpoint of %s is %q, and record %d below it had not been printed", e.At, s.id, e.Row.Checkpoint, i)
			break
		}
	}
}

// given: a node that gives a lease away has its last checkpoint in it.
func (c *checker) given(s *shardState, t *tenure, e *Event) {
	t.gave, t.last = true, e
	if at := c.position(s.id, e.Row.Checkpoint); e.Row != (Row{}) && at < t.highest {
		c.violate(RuleHandover, "%v: node %s gave %s away with the checkpoint %q, and had printed %d records beyond it", e.At, t.node, s.id, e.Row.Checkpoint, t.highest-at)
	}
}

func (c *checker) end() {
	for _, shard := range slices.Sorted(maps.Keys(c.shards)) {
		for i, r := range c.shards[shard] {
			if !c.state(shard).printed[i] {
				c.violate(RuleLost, "%s %s, record %d of key %s, was never printed; the lease of its shard is %+v", shard, r.Sequence, r.Number, r.Key, c.state(shard).row)
			}
		}
	}
}
