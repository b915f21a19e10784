package actors

import (
	"math/big"
	"slices"
	"strings"

	"github.com/protokinesis/protokinesis/leasestore"
)

// findings are what is missing from a listing, by all that is known besides.
type findings struct {
	// audited: every shard that counts has a range of hash keys; only then holes mean anything.
	audited bool
	// holes are the hash keys that no shard stands for, in order.
	holes []keyRange
	// lost are the leases of shards that were trimmed away before they were read to their end, ordered by shard.
	lost []leasestore.Lease
}

// keyRange is a range of hash keys, both ends included.
type keyRange struct{ from, to *big.Int }

func (k keyRange) String() string { return k.from.String() + " to " + k.to.String() }

// whole: the listing lacks no shard that is to be read.
func (f *findings) whole() bool { return f.audited && len(f.holes) == 0 }

// lastKey is the largest hash key, 2^128 - 1.
func lastKey() *big.Int {
	key := new(big.Int).Lsh(big.NewInt(1), 128)
	return key.Sub(key, big.NewInt(1))
}

// audit finds what the listing lacks. At any time the open shards of a stream cover all hash keys, so keys without one are a shard that was
// not listed: a page got lost, or the listing lags behind a reshard. A closed shard stands for its children as long as none is known and
// it is still to be read, as its end will name them. A listing with a hole says nothing about which shards were trimmed away.
func (l *lineage) audit(decisions map[string]decision) findings {
	var f findings
	ranges, ok := l.liveRanges(decisions)
	if f.audited = ok; ok {
		f.holes = holesBetween(ranges)
	}
	if len(f.holes) > 0 {
		return f
	}
	for id, lease := range l.leases {
		if _, listed := l.shards[id]; !listed && l.isLost(lease) {
			f.lost = append(f.lost, lease)
		}
	}
	slices.SortFunc(f.lost, func(a, b leasestore.Lease) int { return strings.Compare(a.Shard, b.Shard) })
	return f
}

// liveRanges are the hash keys of the shards that records come to, or may come from; false when one does not tell its keys.
func (l *lineage) liveRanges(decisions map[string]decision) (ranges []keyRange, ok bool) {
	hasChild := make(map[string]bool)
	for _, s := range l.shards {
		for _, parent := range s.parents {
			hasChild[parent] = true
		}
	}
	for id, s := range l.shards {
		verdict := decisions[id].verdict
		unread := (verdict == verdictStart || verdict == verdictWait) && !hasChild[id]
		if s.closed && !unread {
			continue
		}
		from, isFrom := new(big.Int).SetString(s.startingKey, 10)
		to, isTo := new(big.Int).SetString(s.endingKey, 10)
		if !isFrom || !isTo {
			return nil, false
		}
		ranges = append(ranges, keyRange{from, to})
	}
	return ranges, true
}

// holesBetween are the hash keys that are in none of the ranges, which may overlap.
func holesBetween(ranges []keyRange) (holes []keyRange) {
	slices.SortFunc(ranges, func(a, b keyRange) int { return a.from.Cmp(b.from) })
	one := big.NewInt(1)
	next, last := new(big.Int), lastKey() // all keys before next are covered
	for _, r := range ranges {
		if r.from.Cmp(next) > 0 {
			holes = append(holes, keyRange{next, new(big.Int).Sub(r.from, one)})
		}
		if r.to.Cmp(next) >= 0 {
			next = new(big.Int).Add(r.to, one)
		}
	}
	if next.Cmp(last) <= 0 {
		holes = append(holes, keyRange{next, last})
	}
	return holes
}

// isLost reports whether the lease, of a shard that is not listed, is that of one whose last records may never have been read.
func (l *lineage) isLost(lease leasestore.Lease) bool {
	if lease.Checkpoint.IsShardEnd() || l.isUnlistedYet(lease) {
		return false
	}
	return lease.Seek == l.state.Seek || !l.state.Tip // else the seek to the tip gave up what was not read
}

// isUnlistedYet tells a shard that a listing does not show yet from one that it does no more: shards are trimmed away after their parents.
func (l *lineage) isUnlistedYet(lease leasestore.Lease) bool {
	return slices.ContainsFunc(lease.Parents, func(parent string) bool {
		_, listed := l.shards[parent]
		return listed
	})
}
