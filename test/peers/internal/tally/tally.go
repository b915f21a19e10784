package tally

import (
	"sync"
	"sync/atomic"
	"time"
)

// Tally counts the records of a run.
type Tally struct {
	flags    Flags
	distinct atomic.Int64
	repeated atomic.Int64
	damaged  atomic.Int64
	shards   sync.Map // *Shard by shard id

	begun, ended       time.Time
	cpuBegun, cpuEnded time.Duration
	all                chan struct{}
}

// Shard counts the records of a shard. It is for one goroutine at a time, as a shard's records come in order.
type Shard struct {
	of   *Tally
	last string // the newest sequence number so far
	n    int
}

// New makes a tally of the run that the flags describe.
func New(flags Flags) *Tally { return &Tally{flags: flags, all: make(chan struct{})} }

// Start begins to measure: call it right before the consumer is started.
func (t *Tally) Start() { t.cpuBegun, t.begun = cpuTime(), time.Now() }

// Shard finds a shard's counter.
func (t *Tally) Shard(id string) *Shard {
	if s, ok := t.shards.Load(id); ok {
		return s.(*Shard)
	}
	s, _ := t.shards.LoadOrStore(id, &Shard{of: t})
	return s.(*Shard)
}

// Add counts a record. One that is not newer than all before it in its shard is counted as repeated, also if it only came out of order: the run then
// ends late or never, and is seen to be wrong. It returns how many have come from the shard.
func (s *Shard) Add(sequenceNumber string, data []byte) int {
	t := s.of
	s.n++
	if len(data) != t.flags.Size {
		t.damaged.Add(1)
	}
	if !newer(sequenceNumber, s.last) {
		t.repeated.Add(1)
		return s.n
	}
	s.last = sequenceNumber
	if t.distinct.Add(1) == int64(t.flags.Records) {
		t.ended, t.cpuEnded = time.Now(), cpuTime()
		close(t.all)
	}
	return s.n
}

// newer compares two decimal numbers without leading zeros.
func newer(a, b string) bool {
	if len(a) != len(b) {
		return len(a) > len(b)
	}
	return a > b
}
