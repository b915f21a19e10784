package actors

import (
	"slices"
	"strings"

	"github.com/protokinesis/protokinesis/leasestore"
)

// retirable are the leases that nobody needs any more, ordered by shard. A lease outlives its shard, as the row that says how far the
// shard was read, until
//
//   - the shard is listed no more, by several listings in a row that lacked nothing that is known, which is for the caller to see to;
//   - it was read to its end, or given up by a later seek, or isLost and told (the caller's as well);
//   - all its children that are listed, or leased, have been read from. Until then decide may have to know that they inherit from a
//     shard in scope. A child that is neither has been trimmed away, or all these listings lacked it: a closed child leaves no hole when
//     its own children are listed.
//
// A node that still has an old listing, or gets one, finds the shard without a lease, and makes the row anew: of the shard there is nothing
// left to read, and its children go on where their leases say.
func (l *lineage) retirable(toldLost map[string]bool) (done []leasestore.Lease) {
	if len(l.shards) == 0 || l.state.Version == 0 {
		return nil
	}
	needed := l.parentsOfUnread()
	for id, lease := range l.leases {
		_, listed := l.shards[id]
		switch {
		case listed, needed[id], l.isUnlistedYet(lease), lease.Seek > l.state.Seek:
		case lease.Seek == l.state.Seek && !lease.Checkpoint.IsShardEnd() && !toldLost[id]:
		default:
			done = append(done, lease)
		}
	}
	slices.SortFunc(done, func(a, b leasestore.Lease) int { return strings.Compare(a.Shard, b.Shard) })
	return done
}

// parentsOfUnread are the parents of shards from which no record has been settled since the last seek.
func (l *lineage) parentsOfUnread() map[string]bool {
	parents := make(map[string]bool)
	add := func(id string, of []string) {
		if l.hasBegun(id) {
			return
		}
		for _, parent := range of {
			parents[parent] = true
		}
	}
	for id, s := range l.shards {
		add(id, s.parents)
	}
	for id, lease := range l.leases {
		add(id, lease.Parents)
	}
	return parents
}

// hasBegun reports whether the shard's lease holds a place of its own, not one that it started with.
func (l *lineage) hasBegun(id string) bool {
	lease, leased := l.leases[id]
	if !leased || lease.Seek != l.state.Seek {
		return false
	}
	switch lease.Checkpoint.Kind() {
	case leasestore.KindBefore, leasestore.KindSequence, leasestore.KindShardEnd:
		return true
	case leasestore.KindNone, leasestore.KindTrimHorizon, leasestore.KindTimestamp:
	}
	return false
}
