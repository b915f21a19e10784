package actors

import (
	"slices"
	"strings"

	"github.com/protokinesis/protokinesis/leasestore"
)

// shard is one shard of a listing: what of it can matter. Its identity is its id; that it is closed may change.
type shard struct {
	id               string
	parents          []string // one or two of a reshard, listed or not
	closed           bool
	startingKey      string
	endingKey        string
	startingSequence string // where known; it differs between streams that were created under one name
}

// verdict says what is to become of a shard.
type verdict uint8

const (
	// verdictStart: it may be read now, from start.
	verdictStart verdict = iota
	// verdictWait: a parent is still to be read to its end.
	verdictWait
	// verdictFinished: read to its end.
	verdictFinished
	// verdictOutOfScope: it was closed before the position this application started at.
	verdictOutOfScope
)

// decision is a verdict and, for verdictStart, where the shard starts.
type decision struct {
	verdict verdict
	// start is the position; for a shard with a usable checkpoint, that.
	start leasestore.Checkpoint
	// tip: the shard is opened at the tip for the first time. start is the instant that is stored for it; the
	// first iterator, and only that, may be asked for as LATEST.
	tip bool
	// look: what it waits for is seen in the leases only.
	look bool
}

// lineage is what decide looks at: a complete listing, the leases, and the stream's state.
type lineage struct {
	shards map[string]shard
	leases map[string]leasestore.Lease
	state  leasestore.StreamState
	// opening: the stream is being opened at the tip just now, for the first time or by a seek, and state.Start is this
	// moment: a shard that is closed by now has nothing to read.
	opening bool
	// relaxed: children do not wait for their parents.
	relaxed bool
	// assumed are shards whose lease is taken for granted, as a reader is about to acquire it, and not seen yet.
	assumed map[string]bool
	// absent are shards that are leased and not finished, and that the listing may lack by mistake: their children wait.
	absent map[string]bool
}

func newLineage(shards []shard, leases []leasestore.Lease, state leasestore.StreamState, opening bool) *lineage {
	l := &lineage{
		shards: make(map[string]shard, len(shards)), leases: make(map[string]leasestore.Lease, len(leases)),
		state: state, opening: opening,
	}
	for _, s := range shards {
		l.shards[s.id] = s
	}
	for _, lease := range leases {
		l.leases[lease.Shard] = lease
	}
	return l
}

// decide says for every shard listed whether and where it is read. The rules, in order:
//
//   - A checkpoint of the current seek counts: SHARD_END is finished, anything else is where the shard goes on. At TRIM_HORIZON
//     nothing of it has been read yet, so it waits for its parents like a new one.
//   - A shard with a listed parent that is in scope waits until all such parents are finished, then starts at the
//     oldest record: nothing written to it before its discovery is lost. A parent that is listed no more counts as finished,
//     unless it is absent.
//   - Any other shard starts where the stream's state says: the position of the last stream-wide seek, or, when the application opens
//     the stream for the first time, the tip for open shards. A shard closed by then is out of scope.
//   - A shard without a checkpoint when others have one is the ancestor of one that was opened at the tip, and out of scope; or its
//     own ancestors were trimmed away meanwhile, and then it starts at the oldest record.
//
// Relaxed, a child of a parent in scope starts where it would start after it, without waiting for its end. What it waits for, after an
// opening at the tip, is that the parent has its lease: the last rule would take a parent without one for out of scope.
func (l *lineage) decide() map[string]decision {
	out := make(map[string]decision, len(l.shards))
	leased := l.ancestorsOfLeased()
	for _, id := range l.oldestFirst() {
		out[id] = l.decideOne(l.shards[id], out, leased)
	}
	return out
}

func (l *lineage) decideOne(s shard, out map[string]decision, leased map[string]bool) decision {
	lease, hasLease := l.leases[s.id]
	current := hasLease && lease.Seek == l.state.Seek && !lease.Checkpoint.IsZero()
	if current && lease.Checkpoint.IsShardEnd() {
		return decision{verdict: verdictFinished}
	}
	if current && lease.Checkpoint.Kind() != leasestore.KindTrimHorizon {
		return decision{verdict: verdictStart, start: lease.Checkpoint}
	}
	inherits, beyondScope := false, false
	for _, id := range s.parents {
		parent, listed := out[id]
		if !listed {
			row, had := l.leases[id]
			if l.absent[id] && !l.relaxed {
				return decision{verdict: verdictWait, look: true}
			}
			inherits = inherits || (had && row.Seek == l.state.Seek)
			continue
		}
		switch parent.verdict {
		case verdictStart, verdictWait:
			if !l.mayStartBeside(id) {
				return decision{verdict: verdictWait, look: l.relaxed}
			}
			inherits = true
		case verdictFinished:
			inherits = true
		case verdictOutOfScope:
			beyondScope = true
		}
	}
	switch {
	case current:
		return decision{verdict: verdictStart, start: lease.Checkpoint}
	case inherits && !hasLease:
		return decision{verdict: verdictStart, start: l.inherited()}
	case l.opening:
		return l.openingNow(s)
	default:
		return l.laterOpening(s, hasLease, beyondScope, leased)
	}
}

// mayStartBeside reports whether the children of a parent that is not finished may be read already.
func (l *lineage) mayStartBeside(parent string) bool {
	lease, leased := l.leases[parent]
	return l.relaxed && (!l.state.Tip || leased && lease.Seek == l.state.Seek && !l.assumed[parent])
}

// inherited is where a child of a shard in scope starts. It did not exist when the stream was opened at the tip, so the
// oldest record is right then; but it may reach back before an instant that was asked for.
func (l *lineage) inherited() leasestore.Checkpoint {
	if l.state.Start.Kind() == leasestore.KindTimestamp && !l.state.Tip {
		return l.state.Start
	}
	return leasestore.TrimHorizon()
}

func (l *lineage) openingNow(s shard) decision {
	if s.closed {
		return decision{verdict: verdictOutOfScope}
	}
	return decision{verdict: verdictStart, start: l.state.Start, tip: true}
}

func (l *lineage) laterOpening(s shard, hasLease, beyondScope bool, leased map[string]bool) decision {
	if !l.state.Tip {
		return decision{verdict: verdictStart, start: l.state.Start}
	}
	switch current, hasDescendant := leased[s.id]; {
	case current:
		return decision{verdict: verdictOutOfScope}
	case hasLease, hasDescendant:
		// A seek to the tip was stored and has not reached this shard, or its descendants, yet.
		return decision{verdict: verdictStart, start: l.state.Start}
	case len(s.parents) == 0, beyondScope:
		// As old as the stream, or as a parent that was closed before the opening: it was there at the opening, where its lease failed.
		return decision{verdict: verdictStart, start: l.state.Start}
	default:
		return decision{verdict: verdictStart, start: leasestore.TrimHorizon()}
	}
}

// ancestorsOfLeased finds the listed shards that have a descendant with a lease; true when one of these leases is of
// the current seek.
func (l *lineage) ancestorsOfLeased() map[string]bool {
	found := make(map[string]bool)
	var mark func(id string, current bool)
	mark = func(id string, current bool) {
		for _, parent := range l.shards[id].parents {
			if was, seen := found[parent]; seen && (was || !current) {
				continue
			}
			found[parent] = current
			mark(parent, current)
		}
	}
	for id, lease := range l.leases {
		mark(id, lease.Seek == l.state.Seek)
	}
	return found
}

// oldestFirst orders the shards so that parents come before their children. Shard ids of a stream are numbered in order of
// creation, so this is the order of ids; lineage is followed all the same, as emulators number as they like.
func (l *lineage) oldestFirst() []string {
	ids := make([]string, 0, len(l.shards))
	for id := range l.shards {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, strings.Compare)
	order := make([]string, 0, len(ids))
	placed := make(map[string]bool, len(ids))
	var place func(id string)
	place = func(id string) {
		if _, listed := l.shards[id]; !listed || placed[id] {
			return
		}
		placed[id] = true // before the parents: a listing with a cycle must not hang us
		for _, parent := range l.shards[id].parents {
			place(parent)
		}
		order = append(order, id)
	}
	for _, id := range ids {
		place(id)
	}
	return order
}
