package actors

import (
	"fmt"
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/protokinesis/protokinesis/leasestore"
)

// keys gives a shard the part from a to b, of 16, of all hash keys.
func keys(s shard, a, b int64) shard {
	part := new(big.Int).Lsh(big.NewInt(1), 124)
	s.startingKey = new(big.Int).Mul(part, big.NewInt(a)).String()
	end := new(big.Int).Mul(part, big.NewInt(b))
	s.endingKey = end.Sub(end, big.NewInt(1)).String()
	return s
}

// hole is a range as keys makes it.
func hole(a, b int64) string {
	s := keys(shard{}, a, b)
	return s.startingKey + " to " + s.endingKey
}

func childLease(lease leasestore.Lease, parents ...string) leasestore.Lease {
	lease.Parents = parents
	return lease
}

func auditOf(shards []shard, leases []leasestore.Lease, state leasestore.StreamState) findings {
	l := newLineage(shards, leases, state, false)
	return l.audit(l.decide())
}

func textsOf(f findings) (holes, lost []string) {
	for _, h := range f.holes {
		holes = append(holes, h.String())
	}
	for _, l := range f.lost {
		lost = append(lost, l.Shard)
	}
	return holes, lost
}

func TestAudit(t *testing.T) {
	for _, c := range []struct {
		name   string
		shards []shard
		leases []leasestore.Lease
		state  leasestore.StreamState
		holes  []string
		lost   []string
	}{
		// R20: hash keys that no shard stands for.
		{name: "one shard has all keys", shards: []shard{keys(openShard("0"), 0, 16)}},
		{name: "nothing is listed", holes: []string{hole(0, 16)}},
		{
			name:   "a shard is missing at each place",
			shards: []shard{keys(openShard("1"), 2, 4), keys(openShard("3"), 6, 12)}, holes: []string{hole(0, 2), hole(4, 6), hole(12, 16)},
		},
		{
			name: "a closed parent does not stand for a child that is missing when the other is listed", state: horizonAt(1),
			shards: []shard{keys(closedShard("0"), 0, 16), keys(openShard("1", "0"), 0, 8)}, holes: []string{hole(8, 16)},
		},
		{
			name: "a parent that is to be read stands for children that are not listed yet", state: horizonAt(1),
			shards: []shard{keys(closedShard("0"), 0, 8), keys(openShard("3"), 8, 16)},
		},
		{
			name: "so does one that waits itself", state: horizonAt(1),
			shards: []shard{keys(closedShard("0"), 0, 8), keys(closedShard("1", "0"), 0, 8), keys(openShard("3"), 8, 16)},
		},
		{
			name: "a finished one does not", state: horizonAt(1), leases: []leasestore.Lease{leaseAt("0", "SHARD_END", 1)},
			shards: []shard{keys(closedShard("0"), 0, 8), keys(openShard("3"), 8, 16)}, holes: []string{hole(0, 8)},
		},
		{
			name: "nor does one that is out of scope", state: tipAt(1000, 0), leases: []leasestore.Lease{leaseAt("1", "5", 0)},
			shards: []shard{keys(closedShard("0"), 0, 16), keys(openShard("1", "0"), 0, 8)}, holes: []string{hole(8, 16)},
		},
		{
			name: "a listing that shows parents open and children, too", state: horizonAt(1),
			shards: []shard{keys(openShard("0"), 0, 16), keys(openShard("1", "0"), 0, 8), keys(openShard("2", "0"), 8, 16)},
		},
		{
			name: "a range within another takes nothing from it", state: horizonAt(1),
			shards: []shard{keys(openShard("0"), 0, 16), keys(openShard("1", "0"), 2, 4)},
		},
		{
			name:   "one key is missing at the end",
			shards: []shard{{id: "0", startingKey: "0", endingKey: new(big.Int).Sub(lastKey(), big.NewInt(1)).String()}},
			holes:  []string{lastKey().String() + " to " + lastKey().String()},
		},
		{name: "one key is missing at the start", shards: []shard{{id: "0", startingKey: "1", endingKey: lastKey().String()}}, holes: []string{"0 to 0"}},
		{
			name:   "keys beyond the last are none",
			shards: []shard{{id: "0", startingKey: "0", endingKey: new(big.Int).Lsh(big.NewInt(1), 130).String()}},
		},
		// What can't be known is not alarmed.
		{name: "a shard without keys", shards: []shard{openShard("0"), keys(openShard("1"), 0, 4)}},
		{name: "keys that are no numbers", shards: []shard{{id: "0", startingKey: "0x0", endingKey: "ff"}}},
		{
			name: "a closed shard without keys does not matter when it is finished", state: horizonAt(1),
			shards: []shard{closedShard("0"), keys(openShard("1", "0"), 0, 8)}, leases: []leasestore.Lease{leaseAt("0", "SHARD_END", 1)},
			holes: []string{hole(8, 16)},
		},

		// R6: shards that were trimmed away before they were read to their end.
		{
			name: "R6: the parent is listed no more", state: horizonAt(1), lost: []string{"0"},
			shards: []shard{keys(openShard("1", "0"), 0, 8), keys(openShard("2", "0"), 8, 16)}, leases: []leasestore.Lease{leaseAt("0", "100", 1)},
		},
		{
			name: "R6: it was finished", state: horizonAt(1),
			shards: []shard{keys(openShard("1", "0"), 0, 16)}, leases: []leasestore.Lease{leaseAt("0", "SHARD_END", 1)},
		},
		{
			name: "R7: two generations are listed no more", state: tipAt(1000, 0), lost: []string{"0", "2"},
			shards: []shard{keys(openShard("5", "2"), 0, 16)},
			leases: []leasestore.Lease{childLease(leaseAt("2", "TRIM_HORIZON", 0), "0"), leaseAt("0", "100", 0)},
		},
		{
			name: "a seek to the tip gave it up", state: tipAt(2000, 1),
			shards: []shard{keys(openShard("1", "0"), 0, 16)}, leases: []leasestore.Lease{leaseAt("0", "100", 0)},
		},
		{
			name: "a seek to the horizon did not", state: horizonAt(1), lost: []string{"0"},
			shards: []shard{keys(openShard("1", "0"), 0, 16)}, leases: []leasestore.Lease{leaseAt("0", "100", 0)},
		},
		{
			name: "a child that another node has leased is not listed yet", state: horizonAt(0),
			shards: []shard{keys(closedShard("0"), 0, 16)},
			leases: []leasestore.Lease{leaseAt("0", "7", 0), childLease(leaseAt("1", "TRIM_HORIZON", 0), "0")},
		},
		{
			name: "a listing with a hole does not say what was trimmed away", state: horizonAt(1), holes: []string{hole(8, 16)},
			shards: []shard{keys(openShard("1"), 0, 8)}, leases: []leasestore.Lease{leaseAt("2", "100", 1)},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			holes, lost := textsOf(auditOf(c.shards, c.leases, c.state))
			require.Equal(t, c.holes, holes)
			require.Equal(t, c.lost, lost)
		})
	}
}

// auditHistory is a stream after splits and merges at any place, with positions of any kind, and its oldest shards trimmed away.
func auditHistory(t *rapid.T) (shards []shard, leases []leasestore.Lease, state leasestore.StreamState) {
	type part struct{ s, from, to int }
	const all = 1 << 10
	last := lastKey()
	at := func(n int) *big.Int { // the n-th key of all; keys are cut at places that are no multiples of anything
		k := new(big.Int).Mul(last, big.NewInt(int64(n)))
		return k.Div(k, big.NewInt(all))
	}
	create := func(from, to int, parents ...string) part {
		s := openShard(fmt.Sprintf("shard-%03d", len(shards)), parents...)
		end := new(big.Int).Sub(at(to), big.NewInt(1))
		if to == all {
			end = last
		}
		s.startingKey, s.endingKey = at(from).String(), end.String()
		shards = append(shards, s)
		return part{len(shards) - 1, from, to}
	}
	open := []part{create(0, all)}
	for range rapid.IntRange(0, 12).Draw(t, "reshards") {
		i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
		p := open[i]
		shards[p.s].closed = true
		if i+1 < len(open) && rapid.Bool().Draw(t, "merge") {
			q := open[i+1]
			shards[q.s].closed = true
			open = slices.Replace(open, i, i+2, create(p.from, q.to, shards[p.s].id, shards[q.s].id))
		} else if p.to-p.from > 1 {
			cut := rapid.IntRange(p.from+1, p.to-1).Draw(t, "cut")
			open = slices.Replace(open, i, i+1, create(p.from, cut, shards[p.s].id), create(cut, p.to, shards[p.s].id))
		} else {
			shards[p.s].closed = false
		}
	}
	for _, s := range shards {
		if text := rapid.SampledFrom([]string{"", "TRIM_HORIZON", "5", "SHARD_END"}).Draw(t, "checkpoint"); text != "" && (s.closed || text != "SHARD_END") {
			leases = append(leases, childLease(leaseAt(s.id, text, 1), s.parents...))
		}
	}
	for len(shards) > 0 && shards[0].closed && rapid.Bool().Draw(t, "trimmed") {
		shards = shards[1:]
	}
	return shards, leases, rapid.SampledFrom([]leasestore.StreamState{horizonAt(1), tipAt(1000, 1), timestampAt(900, 1)}).Draw(t, "state")
}

// R20: no history of splits and merges is alarmed, and what is called lost is what was trimmed unread.
func TestAuditNeverAlarmsACompleteListing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shards, leases, state := auditHistory(t)
		f := auditOf(shards, leases, state)
		require.True(t, f.audited)
		require.Empty(t, f.holes)
		var want []string
		for _, l := range leases {
			listed := slices.ContainsFunc(shards, func(s shard) bool { return s.id == l.Shard })
			if !listed && !l.Checkpoint.IsShardEnd() {
				want = append(want, l.Shard)
			}
		}
		_, lost := textsOf(f)
		require.Equal(t, want, lost)
	})
}

// R20: when a listing lacks any open shard, exactly its keys are missed; except those of parents that are still to be read, which will name it.
func TestAuditFindsEveryOpenShardThatIsMissing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shards, leases, state := auditHistory(t)
		open := slices.DeleteFunc(slices.Clone(shards), func(s shard) bool { return s.closed })
		missing := open[rapid.IntRange(0, len(open)-1).Draw(t, "missing")]
		rest := slices.DeleteFunc(slices.Clone(shards), func(s shard) bool { return s.id == missing.id })
		l := newLineage(rest, leases, state, false)
		decisions := l.decide()
		var stands []shard // its parents that are still to be read and have no other child
		for _, s := range rest {
			d := decisions[s.id].verdict
			sibling := slices.ContainsFunc(rest, func(o shard) bool { return slices.Contains(o.parents, s.id) })
			if slices.Contains(missing.parents, s.id) && !sibling && (d == verdictStart || d == verdictWait) {
				stands = append(stands, s)
			}
		}
		holes, _ := textsOf(l.audit(decisions))
		switch {
		case len(stands) == 0:
			require.Equal(t, []string{missing.startingKey + " to " + missing.endingKey}, holes)
		case len(stands) == len(missing.parents):
			require.Empty(t, holes)
		default: // one of two parents: its keys are an end of the child's
			require.Len(t, holes, 1)
			if stands[0].startingKey == missing.startingKey {
				require.Contains(t, holes[0], " to "+missing.endingKey)
			} else {
				require.Contains(t, holes[0], missing.startingKey+" to ")
			}
		}
	})
}
