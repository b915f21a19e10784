package soak

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// ShutdownLimit is the deadline that the run gives to Shutdown, in milliseconds.
const ShutdownLimit = 15_000

// LeaseTTL is the ttl of the run's leases, in milliseconds.
const LeaseTTL = 1_500

const (
	shutdownGrace = 5_000     // how late it may return, on a machine that has other things to do
	maxHeap       = 512 << 20 // a tenth would do
	// keptViolations bounds how many of a rule are described; what breaks one record often breaks many.
	keptViolations = 3
)

// Rules, as a Violation names them.
const (
	RuleLost       = "nothing is lost"
	RuleOrder      = "order per key"
	RuleLineage    = "children after their parents"
	RuleDuplicate  = "a record comes again only for a reason"
	RuleReader     = "one reader per shard"
	RuleHandover   = "what a node gives away is settled and checkpointed"
	RuleCheckpoint = "checkpoints never run ahead and never go back"
	RuleEnd        = "orderly end"
)

// Violation is a rule that does not hold, and the events that show it.
type Violation struct {
	Rule, Text string
	Events     []Event
}

// Report is what Check found.
type Report struct {
	Violations []Violation
	More       int // violations that are not described

	Records, Delivered, Done, Failed int
	Skipped                          int            // records that a seek left out and nobody read
	Duplicates                       map[string]int // by cause
	Takeovers                        int            // leases taken from a node that had not given them back, and lived
	Late                             int            // deliveries of a shard that another node had by then, all asked for before
	Given                            int            // leases that their owner gave to another
	MaxHeap                          uint64
}

// Causes of duplicates.
const (
	CauseRetry    = "retry"
	CauseKill     = "kill"
	CauseRestart  = "restart"
	CauseSeek     = "seek"
	CauseTakeover = "lease lost"
	CauseHandover = "lease given back"
	CauseAgain    = "lease taken again"
)

// Check goes through a log. records are in the order of their shard, shards parents first.
func Check(records []Record, shards []Shard, events []Event) *Report {
	c := newChecker(records, shards, events)
	for i := range events {
		c.event(&events[i])
	}
	c.end()
	return c.report
}

// record is a Record and what has become of it.
type record struct {
	Record
	shard   *shardState
	index   int // in its shard
	arrival int64
	turn    int // among the records of its key

	delivered bool
	done      *Event
	skippable bool // some seek has left it out before it was done
}

// shardState is a shard and the last state of its lease.
type shardState struct {
	Shard
	records    []*record
	bySequence map[string]*record
	finished   bool // SHARD_END was stored at some time
	begun      bool // a record was delivered

	lease   *Event // the last write
	at      position
	scope   scope
	checked int // records below are known to be done or out of scope

	acquired *Event            // the write by which its owner has it, nil if nobody has
	held     bool              // by someone, now or before
	cause    string            // why it was acquired
	lost     map[string]*Event // node → the acquisition that took the lease from it, by another node
}

// seekState is a stream-wide position.
type seekState struct {
	scope scope
	tip   bool
}

type checker struct {
	report *Report
	broken map[string]int // violations by rule

	shards map[string]*shardState
	all    []*record
	keys   map[string][]*record
	turns  map[string]int // key → its first record that is neither done nor skippable, as far as known
	bounds map[string]int64

	seeks    map[int64]seekState
	lastSeek int64
	asked    map[string]bool // "shard sequence" of seeks of one shard
	seeking  *Event          // stream-wide, under way

	nodes  map[string]*nodeState
	owners map[string]string  // node → the owner id of its process
	gone   map[string]What    // owner id → how its process ended
	last   map[*record]*Event // the last event about a record
	calm   bool
}

// newChecker arranges what the service has.
func newChecker(records []Record, shards []Shard, events []Event) *checker {
	c := &checker{
		report: &Report{Duplicates: map[string]int{}, Records: len(records)},
		shards: map[string]*shardState{}, keys: map[string][]*record{}, turns: map[string]int{}, bounds: map[string]int64{},
		broken: map[string]int{}, seeks: map[int64]seekState{0: {scope: everything}}, asked: map[string]bool{},
		nodes: map[string]*nodeState{}, owners: map[string]string{}, gone: map[string]What{}, last: map[*record]*Event{},
	}
	byShard := map[string][]Record{}
	for _, r := range records {
		byShard[r.Shard] = append(byShard[r.Shard], r)
	}
	for _, s := range shards {
		st := &shardState{Shard: s, bySequence: map[string]*record{}, scope: everything, lost: map[string]*Event{}}
		c.shards[s.ID] = st
		for i, r := range byShard[s.ID] {
			rec := &record{Record: r, shard: st, index: i, arrival: r.Arrival, turn: len(c.keys[r.Key])}
			st.records, st.bySequence[r.Sequence] = append(st.records, rec), rec
			c.all, c.keys[r.Key] = append(c.all, rec), append(c.keys[r.Key], rec)
		}
	}
	for _, e := range events {
		if e.What == Bound {
			c.bounds[e.ID] = e.Millis
		}
	}
	return c
}

func (c *checker) violate(rule string, events []*Event, format string, args ...any) {
	if c.broken[rule]++; c.broken[rule] > keptViolations {
		c.report.More++
		return
	}
	v := Violation{Rule: rule, Text: fmt.Sprintf(format, args...)}
	for _, e := range events {
		if e != nil {
			v.Events = append(v.Events, *e)
		}
	}
	c.report.Violations = append(c.report.Violations, v)
}

func (c *checker) event(e *Event) {
	switch e.What {
	case Started:
		c.onStarted(e)
	case Ended, Killed:
		c.onEnded(e)
	case Crashed:
		c.onEnded(e)
		c.violate(RuleEnd, []*Event{e}, "the process of node %s ended by itself: %s", e.Node, e.Text)
	case Down:
		c.onDown(e)
	case Fetched:
		c.onFetched(e)
	case Delivered:
		c.onDelivered(e)
	case Done:
		c.onDone(e)
	case Failed:
		c.onFailed(e)
	case Opened:
		c.onOpened()
	case Acquire, Give, Offer, Renew, Checkpoint, Move, Release, Delete:
		c.onLease(e)
	case State:
		c.onState(e)
	case Seek:
		if e.Shard != "" {
			c.asked[e.Shard+" "+e.Sequence] = true
		} else {
			c.seeking = e
		}
	case Sought:
		if c.seeking != nil && c.seeking.ID == e.ID && e.Text == "" {
			c.seeking = nil
		}
	case Calm:
		c.calm = true
	case Heap:
		c.report.MaxHeap = max(c.report.MaxHeap, e.Bytes)
	case Leak:
		c.violate(RuleEnd, []*Event{e}, "goroutines are left when all is shut down: %s", e.Text)
	case Up, Stopped, Continued, Bound, Partition, Heal, Note:
	}
}

func (c *checker) onDown(e *Event) {
	if e.Millis > ShutdownLimit+shutdownGrace {
		c.violate(RuleEnd, []*Event{e}, "Shutdown of node %s returned after %d ms, its deadline was %d ms", e.Node, e.Millis, ShutdownLimit)
	}
	if c.calm && e.Text != "" {
		c.violate(RuleEnd, []*Event{e}, "Shutdown of node %s failed, with nothing to do and nobody to disturb it: %s", e.Node, e.Text)
	}
}

// onState takes in where a stream-wide seek has put the stream. What it leaves out and is not done need not come any more.
func (c *checker) onState(e *Event) {
	if _, known := c.seeks[e.Seek]; known {
		return
	}
	if c.seeking == nil {
		c.violate(RuleCheckpoint, []*Event{e}, "the stream's position was changed, but there was no seek")
	}
	s := seekState{scope: everything, tip: e.Tip}
	switch {
	case e.Tip:
		s.scope.since = math.MaxInt64
		if bound, answered := c.bounds[c.seekID()]; answered {
			s.scope.since = bound
		}
	case e.Checkpoint != "TRIM_HORIZON":
		none := &shardState{}
		at, ok := none.parse(e.Checkpoint)
		if !ok {
			c.violate(RuleCheckpoint, []*Event{e}, "%q is no position of a stream", e.Checkpoint)
		}
		s.scope.since = at.millis
	}
	c.seeks[e.Seek], c.lastSeek = s, max(c.lastSeek, e.Seek)
	for _, r := range c.all {
		r.skippable = r.skippable || r.done == nil && !s.scope.has(r)
	}
}

func (c *checker) seekID() string {
	if c.seeking == nil {
		return ""
	}
	return c.seeking.ID
}

func (c *checker) end() {
	for _, r := range c.all {
		if r.done != nil {
			continue
		}
		if !c.wanted(r) {
			c.report.Skipped++
			continue
		}
		c.violate(RuleLost, []*Event{r.shard.lease}, "record %s %s of key %s was never handled%s", r.Shard(), r.Sequence, r.Key, last(r.shard))
	}
	if c.report.MaxHeap > maxHeap {
		c.violate(RuleEnd, nil, "the heap grew to %d bytes", c.report.MaxHeap)
	}
}

// Shard is the id of the record's shard.
func (r *record) Shard() string { return r.Record.Shard }

// wanted reports whether the record has to be handled in the end: it is in the scope of the last seek, and in that of its shard.
func (c *checker) wanted(r *record) bool {
	if !c.seeks[c.lastSeek].scope.has(r) {
		return false
	}
	lease := r.shard.lease
	return lease == nil || lease.Seek != c.lastSeek || r.shard.scope.has(r)
}

func last(s *shardState) string {
	if s.lease == nil {
		return "; its shard was never leased"
	}
	return fmt.Sprintf("; the lease of its shard was last at %q", s.lease.Checkpoint)
}

// Missing are the records that still have to be handled, to see when a run may end.
func Missing(records []Record, shards []Shard, events []Event) int {
	c := newChecker(records, shards, events)
	for i := range events {
		switch e := &events[i]; e.What { //nolint:exhaustive // what decides it
		case Done:
			if r := c.find(e); r != nil {
				r.done = e
			}
		case Started, Ended, Killed, Opened, Acquire, Give, Offer, Renew, Checkpoint, Move, Release, State, Seek, Sought:
			c.event(e)
		}
	}
	missing := 0
	for _, r := range c.all {
		if r.done == nil && c.wanted(r) {
			missing++
		}
	}
	return missing
}

// String is the report in a few lines.
func (r *Report) String() string {
	var causes []string
	for _, cause := range slices.Sorted(maps.Keys(r.Duplicates)) {
		causes = append(causes, fmt.Sprintf("%s %d", cause, r.Duplicates[cause]))
	}
	return fmt.Sprintf("%d records, %d delivered, %d done, %d failed, %d left out by seeks; duplicates: %s; "+
		"given %d, taken over %d, delivered late %d; heap at most %d MiB",
		r.Records, r.Delivered, r.Done, r.Failed, r.Skipped, strings.Join(causes, ", "), r.Given, r.Takeovers, r.Late, r.MaxHeap>>20)
}
