package actors

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// fleets draws shards of any owners: members, nodes that are leaving, ones that are silent and whose leases have not expired; and free ones.
func fleets(t *rapid.T) *rounds {
	r := newRounds(0)
	r.salt = rapid.StringMatching(`[a-z]{0,3}`).Draw(t, "salt")
	nodes := rapid.IntRange(1, 9).Draw(t, "nodes")
	owners := []string{""}
	for i := range nodes {
		r.join(nodeName(i))
		owners = append(owners, nodeName(i))
	}
	// Some have much more than others.
	owners = append(owners, slices.Repeat([]string{rapid.SampledFrom(owners).Draw(t, "favourite")}, rapid.IntRange(0, 10).Draw(t, "weight"))...)
	for range rapid.IntRange(0, 60).Draw(t, "shards") {
		r.add(rapid.SampledFrom(owners).Draw(t, "owner"), 1)
	}
	for i := range rapid.IntRange(0, nodes-1).Draw(t, "leaving") {
		r.leave(nodeName(i))
	}
	return r
}

// fewest is the smallest number of moves that makes the shares of these members fair and leaves no shard to others: of all ways to say who gets
// the shards that are left over, the best. counts are how many shards each owner has.
func fewest(counts map[string]int, members []string) int {
	total, orphans := 0, 0
	for owner, n := range counts {
		total += n
		if !slices.Contains(members, owner) {
			orphans += n
		}
	}
	floor, over := total/len(members), total%len(members)
	// least[k] is the least that the members so far give away if k of them get one more than others.
	least := []int{0}
	for _, id := range members {
		next := slices.Repeat([]int{math.MaxInt32}, len(least)+1)
		for k, gives := range least {
			next[k] = min(next[k], gives+max(0, counts[id]-floor))
			next[k+1] = min(next[k+1], gives+max(0, counts[id]-floor-1))
		}
		least = next
	}
	return orphans + least[over]
}

func TestAssignIsLevelAfterTwoRoundsOfTheFewestMoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := fleets(t)
		want, befores, oneByOne := fewest(r.counts(), r.members), map[string]*fleet{}, rapid.Bool().Draw(t, "one by one")
		round := func() int {
			if oneByOne {
				return r.sweep(t, rapid.Permutation(r.nodes()).Draw(t, "order"), befores)
			}
			return r.round(t)
		}
		round()
		round()
		require.LessOrEqual(t, r.spread(), 1)
		require.Equal(t, want, r.moves, "moves")
		counts := r.counts()
		for _, id := range r.members {
			delete(counts, id)
		}
		require.Empty(t, counts, "shards without a member")
		for range 3 {
			require.Zero(t, round(), "moves of a level fleet")
		}
	})
}

// What is left to do does not depend on what others have done of it already, nor on whether a dead node's lease is seen to have expired:
// nodes whose pictures differ in that make the same plan.
func TestAssignPlansTheSameWhenPartOfItIsDone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := fleets(t)
		r.before = r.seen("")
		plans := r.plans()
		// A node's shards become free one after the other.
		expired := r.seen("")
		for i := range expired.shards {
			if s := &expired.shards[i]; s.owner != "" && !slices.Contains(r.members, s.owner) {
				s.owner, s.holder = "", ""
			}
		}
		all := (&rounds{fleet: *expired, before: r.before}).plans()

		some := r.seen("")
		for i := range some.shards {
			s := &some.shards[i]
			if s.owner != "" && !slices.Contains(r.members, s.owner) && rapid.Bool().Draw(t, "expires") {
				s.owner, s.holder = "", ""
			}
			if !rapid.Bool().Draw(t, "done") {
				continue
			}
			for id, p := range plans {
				if slices.Contains(p.take, s.id) {
					s.owner, s.holder = id, id
				}
				if to, given := p.give[s.id]; given {
					s.owner = to
					if rapid.Bool().Draw(t, "handed over") {
						s.holder = to
					}
				}
			}
		}
		for id, p := range (&rounds{fleet: *some, before: r.before, gone: r.gone}).plans() {
			var take []string
			give := map[string]string{}
			for _, s := range some.shards {
				if to, given := plans[id].give[s.id]; given && s.owner == id {
					give[s.id] = to
				}
				if s.owner == "" && slices.Contains(all[id].take, s.id) {
					take = append(take, s.id)
				}
			}
			require.Equalf(t, take, p.take, "%s takes", id)
			require.Truef(t, maps.Equal(give, p.give), "%s gives %v, gave %v", id, p.give, give)
		}
	})
}

func TestAssignGivesNobodyMoreThanItsQuotaAndEachShardToOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := fleets(t)
		for i := range r.shards { // some are on their way already
			if s := &r.shards[i]; s.owner != "" && rapid.IntRange(0, 3).Draw(t, "pending") == 0 {
				if to := r.members[min(len(r.members)-1, rapid.IntRange(0, 12).Draw(t, "to"))]; to != s.owner { // to one more than to others
					s.owner = to
				}
			}
		}
		r.before = r.seen("")
		after := r.counts()
		got := map[string]bool{}
		for node, p := range r.plans() {
			for _, id := range p.take {
				require.Falsef(t, got[id], "%s is taken twice", id)
				got[id] = true
				after[node]++
			}
			for id, to := range p.give {
				i := slices.IndexFunc(r.shards, func(s fleetShard) bool { return s.id == id })
				require.Equal(t, node, r.shards[i].owner, "owner of what is given")
				require.Equal(t, node, r.shards[i].holder, "holder of what is given")
				after[to]++
				after[node]--
			}
		}
		before := r.counts()
		ceiling := (len(r.shards) + len(r.members) - 1) / len(r.members)
		for _, id := range r.members {
			require.LessOrEqual(t, after[id], max(ceiling, before[id]))
		}
		require.Len(t, got, before[""], "all that is free is taken")
		for id := range r.gone {
			require.Zerof(t, after[id], "%s keeps some", id)
		}
	})
}

func TestAssignDoesNotDependOnTheOrderOfWhatItIsTold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := fleets(t)
		r.before = r.seen("")
		plans := r.plans()
		was := *r.before
		r.members = rapid.Permutation(r.members).Draw(t, "members")
		r.shards = rapid.Permutation(r.shards).Draw(t, "shards")
		was.shards = rapid.Permutation(was.shards).Draw(t, "shards before")
		r.before = &was
		given, before := r.seen(""), was.shards
		require.Equal(t, plans, r.plans())
		require.Equal(t, given, r.seen(""), "changed by assign")
		require.Equal(t, before, r.before.shards, "changed by assign")
	})
}

// A member does not take what falls to it. Others do, and not all of them at once.
func TestAssignLeavesNothingUnreadThatOneCannotTake(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := fleets(t)
		broken := map[string]bool{}
		for _, id := range r.members[1:] {
			broken[id] = rapid.Bool().Draw(t, "broken")
		}
		for i := range r.shards {
			if s := &r.shards[i]; broken[s.owner] || !slices.Contains(r.members, s.owner) {
				s.owner, s.holder, s.looks = "", "", rapid.IntRange(1, 4).Draw(t, "looks")
			}
		}
		for range looksOfFew + len(r.members) {
			at := map[string]int{}
			for i := range r.shards {
				at[r.shards[i].id] = i
			}
			tries := map[string]int{}
			for id, p := range r.plans() {
				for _, shard := range p.take {
					if tries[shard]++; !broken[id] {
						s := &r.shards[at[shard]]
						s.owner, s.holder = id, id
					}
				}
			}
			for shard, n := range tries {
				require.LessOrEqualf(t, n, 2, "%s is taken by that many at once", shard)
			}
			for i := range r.shards {
				r.shards[i].looks++
			}
		}
		require.Zero(t, r.counts()[""], "free shards")
	})
}

func TestAssignSpreadsTheOddShardsOfManyStreams(t *testing.T) {
	const nodes, streams = 10, 1000
	total := map[string]int{}
	for i := range streams {
		r := newRounds(nodes+3, make([]int, nodes)...)
		r.salt = fmt.Sprintf("arn:aws:kinesis:eu-central-1:123456789012:stream/orders-%d@1700000000000", i)
		r.round(t)
		require.Zero(t, r.counts()[""])
		for _, id := range r.members {
			total[id] += r.counts()[id] - 1
		}
	}
	for id, odd := range total {
		require.InDelta(t, streams*3/nodes, odd, 60, id) // four times the standard deviation
	}
}

// Nor is it always the same nodes' shards that go to the newcomers, or one newcomer that gets all.
func TestAssignSpreadsFreeShards(t *testing.T) {
	r := newRounds(1000, make([]int, 10)...)
	r.round(t)
	runs := 0
	for i := 1; i < len(r.shards); i++ {
		if r.shards[i].owner == r.shards[i-1].owner {
			runs++
		}
	}
	require.InDelta(t, 100, runs, 60, "neighbours with one owner")
}
