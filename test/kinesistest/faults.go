package kinesistest

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const anyOp = "*"

// opSubscriptionEvent stands for one event of an open subscription in [Service.Fault].
const opSubscriptionEvent = "SubscribeToShardEvent"

// Match narrows a fault to some calls. Empty fields match everything.
type Match struct {
	Stream string // name of the stream
	// Shard is the id of the shard that is read or written. PutRecords matches if one of its records
	// goes to the shard.
	Shard string
	// PartitionKey matches PutRecord with that key, and PutRecords if one of its records has it.
	PartitionKey string
}

func (m *Match) fitsEntry(p *putEntry) bool {
	return (m.Shard == "" || (p.shard != nil && p.shard.id == m.Shard)) &&
		(m.PartitionKey == "" || string(p.key) == m.PartitionKey)
}

func (m *Match) fitsCall(call *Call) bool {
	return (m.Shard == "" || m.Shard == call.Shard) && (m.PartitionKey == "" || m.PartitionKey == call.Key)
}

// Fault is a fault that has been set; see [Service.Fault].
type Fault struct {
	table  *faultTable
	op     string
	match  Match
	effect Effect
	left   int // calls still to hit; negative = no end
	count  int
}

// Clear ends the fault. Calls it holds back are not let go.
func (f *Fault) Clear() { f.table.remove(func(other *Fault) bool { return other == f }) }

// Count returns how many calls the fault has hit.
func (f *Fault) Count() int {
	f.table.mu.Lock()
	defer f.table.mu.Unlock()
	return f.count
}

// faultTable holds the faults that are set, in the order in which they were.
type faultTable struct {
	mu     sync.Mutex
	active atomic.Int32 // len(faults), to see without the lock that there is none
	faults []*Fault
}

// Fault makes the next n calls of an operation that match have an effect; with a negative n all of
// them until the fault is cleared. op is the name of the operation, such as "GetRecords"; "" or "*"
// is any. The name "SubscribeToShardEvent" stands for each event of an open subscription: [Error]
// ends it with that exception, [Reset] breaks it, [Hang] silences it, [Delay] holds it up.
//
// If several faults match a call, the one that was set first takes effect and only it is counted;
// delays add to it.
func (s *Service) Fault(op string, match Match, n int, effect Effect) *Fault {
	if op == "" {
		op = anyOp
	}
	f := &Fault{table: &s.faults, op: op, match: match, effect: effect, left: n}
	if n == 0 {
		return f
	}
	t := &s.faults
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults = append(t.faults, f)
	t.active.Store(int32(len(t.faults))) //nolint:gosec // a handful
	return f
}

// ClearFaults ends all faults.
func (s *Service) ClearFaults() { s.faults.remove(func(*Fault) bool { return true }) }

func (t *faultTable) remove(match func(*Fault) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.faults = slices.DeleteFunc(t.faults, match)
	t.active.Store(int32(len(t.faults))) //nolint:gosec // a handful
}

// plan is what the faults decided for one call.
type plan struct {
	Effect
	match Match
	wait  time.Duration
}

// entryMatcher is a request whose records decide whether a fault fits.
type entryMatcher interface{ anyEntry(m Match) bool }

// plan picks the faults that hit a call and counts them.
func (t *faultTable) plan(op string, call *Call, r request) plan {
	var p plan
	if t.active.Load() == 0 {
		return p
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range t.faults {
		if !f.hits(op, call, r) || (f.effect.kind != effectDelay && p.kind != effectNone) {
			continue
		}
		if f.effect.kind == effectDelay {
			p.wait += f.effect.delay
		} else {
			p.Effect, p.match = f.effect, f.match
		}
		f.count++
		f.left--
	}
	t.faults = slices.DeleteFunc(t.faults, func(f *Fault) bool { return f.left == 0 })
	t.active.Store(int32(len(t.faults))) //nolint:gosec // a handful
	return p
}

func (f *Fault) hits(op string, call *Call, r request) bool {
	switch {
	case f.op == anyOp && op == opSubscriptionEvent: // the call is "any", its events are not
		return false
	case f.op != anyOp && f.op != op, !f.effect.fits(op), f.match.Stream != "" && f.match.Stream != call.Stream:
		return false
	}
	if m, ok := r.(entryMatcher); ok {
		return m.anyEntry(f.match)
	}
	return f.match.fitsCall(call)
}

// hits reports whether a partial failure strikes the i-th entry. matched counts the entries that fit.
func (p *plan) hits(e *putEntry, i int, matched *int) bool {
	if !p.match.fitsEntry(e) {
		return false
	}
	*matched++
	switch {
	case p.every > 0:
		return *matched%p.every == 0
	case len(p.indexes) > 0:
		return slices.Contains(p.indexes, i)
	default:
		return true
	}
}
