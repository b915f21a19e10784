package actors

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// rounds are nodes that all look at the same moment, plan, and do what they planned before they look again.
type rounds struct {
	fleet
	// before is what everybody saw in the round before.
	before *fleet
	// gone are nodes that are leaving: they take part and are no members.
	gone map[string]bool
	// moves are the changes of owner so far: shards taken, and shards handed over.
	moves int
}

// newRounds begins with counts[i] shards on node i and some free ones.
func newRounds(free int, counts ...int) *rounds {
	r := &rounds{gone: map[string]bool{}}
	r.salt = "orders"
	r.add("", free)
	for i, n := range counts {
		r.join(nodeName(i))
		r.add(nodeName(i), n)
	}
	return r
}

func nodeName(i int) string { return fmt.Sprintf("node-%03d", i) }

func (r *rounds) add(owner string, n int) {
	for range n {
		r.shards = append(r.shards, fleetShard{id: fmt.Sprintf("shardId-%012d", len(r.shards)), owner: owner, holder: owner})
	}
}

func (r *rounds) join(id string) {
	r.members = append(r.members, id)
	slices.Sort(r.members)
}

func (r *rounds) leave(id string) {
	r.members = slices.DeleteFunc(slices.Clone(r.members), func(m string) bool { return m == id })
	r.gone[id] = true
}

// crash lets a node die; its leases have expired.
func (r *rounds) crash(id string) {
	r.leave(id)
	delete(r.gone, id)
	for i := range r.shards {
		if r.shards[i].owner == id {
			r.shards[i].owner, r.shards[i].holder = "", ""
		}
	}
}

// seen is the picture as a node sees it.
func (r *rounds) seen(by string) *fleet {
	return &fleet{me: by, salt: r.salt, members: slices.Clone(r.members), shards: slices.Clone(r.shards)}
}

// plans lets every node plan.
func (r *rounds) plans() map[string]plan {
	out := map[string]plan{}
	for _, id := range r.nodes() {
		var before *fleet
		if r.before != nil {
			was := *r.before
			was.me = id
			before = &was
		}
		out[id] = assign(r.seen(id), before)
	}
	return out
}

// round lets every node look once, all at the same moment; it returns how many shards changed their owner.
func (r *rounds) round(t require.TestingT) int {
	plans, moved := r.plans(), 0
	r.before = r.seen("")
	for i := range r.shards {
		if r.shards[i].owner == "" {
			r.shards[i].looks++
		}
	}
	for node, p := range plans {
		moved += r.carryOut(t, node, p)
	}
	return moved
}

// sweep lets the nodes look one after the other, in the order given; each sees what those before it have done.
func (r *rounds) sweep(t require.TestingT, order []string, befores map[string]*fleet) (moved int) {
	for _, node := range order {
		now := r.seen(node)
		p := assign(now, befores[node])
		befores[node] = now
		moved += r.carryOut(t, node, p)
	}
	return moved
}

// carryOut does what a node planned.
func (r *rounds) carryOut(t require.TestingT, node string, p plan) int {
	at := make(map[string]*fleetShard, len(r.shards))
	for i := range r.shards {
		at[r.shards[i].id] = &r.shards[i]
	}
	for _, id := range p.take {
		require.Emptyf(t, at[id].owner, "%s takes %s", node, id)
		at[id].owner, at[id].holder, at[id].looks = node, node, 0
	}
	for id, to := range p.give {
		require.Equalf(t, node, at[id].owner, "%s gives %s", node, id)
		require.Equalf(t, node, at[id].holder, "%s gives %s", node, id)
		require.NotEqual(t, node, to)
		require.Contains(t, r.members, to)
		at[id].owner, at[id].holder = to, to
	}
	r.moves += len(p.take) + len(p.give)
	return len(p.take) + len(p.give)
}

// nodes are all that take part.
func (r *rounds) nodes() []string { return append(slices.Sorted(maps.Keys(r.gone)), r.members...) }

// counts are how many shards each member has; "" are the free ones.
func (r *rounds) counts() map[string]int {
	n := map[string]int{}
	for _, id := range r.members {
		n[id] = 0
	}
	for _, s := range r.shards {
		n[s.owner]++
	}
	return n
}

// spread is the most shards that a member has less the fewest.
func (r *rounds) spread() int {
	n := r.counts()
	most, fewest := 0, len(r.shards)
	for _, id := range r.members {
		most, fewest = max(most, n[id]), min(fewest, n[id])
	}
	return most - fewest
}

func TestAssignMovesFewShardsInFewRounds(t *testing.T) {
	level := func(nodes, shards int) *rounds {
		counts := make([]int, nodes)
		for i := range shards {
			counts[i%nodes]++
		}
		return newRounds(0, counts...)
	}
	join := func(n int) func(*rounds) {
		return func(r *rounds) {
			for range n {
				r.join(nodeName(len(r.members)))
			}
		}
	}
	for name, c := range map[string]struct {
		start         *rounds
		event         func(*rounds)
		moves, rounds int
	}{
		"64 shards, 3 nodes become 4":     {level(3, 64), join(1), 16, 2},
		"64 shards, 4 nodes become 5":     {level(4, 64), join(1), 12, 2},
		"64 shards, 4 nodes become 8":     {level(4, 64), join(4), 32, 2},
		"64 shards, 1 of 5 nodes dies":    {level(5, 64), func(r *rounds) { r.crash(nodeName(4)) }, 12, 1},
		"64 shards, 1 of 5 nodes leaves":  {level(5, 64), func(r *rounds) { r.leave(nodeName(0)) }, 13, 1},
		"64 shards, 5 nodes start":        {newRounds(64, 0, 0, 0, 0, 0), func(*rounds) {}, 64, 1},
		"256 shards, 16 nodes become 17":  {level(16, 256), join(1), 15, 2},
		"256 shards, 17 nodes start":      {newRounds(256, make([]int, 17)...), func(*rounds) {}, 256, 1},
		"1000 shards, 50 nodes become 51": {level(50, 1000), join(1), 19, 2},
		"2 shards, 1 of 3 nodes dies":     {level(3, 2), func(r *rounds) { r.crash(nodeName(0)) }, 1, 1},
		"no shards":                       {level(3, 0), join(1), 0, 0},
		"one node":                        {newRounds(7, 0), func(*rounds) {}, 7, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := c.start
			r.before = r.seen("") // all was quiet for a while
			befores := map[string]*fleet{}
			for _, id := range r.members {
				befores[id] = r.seen(id)
			}
			c.event(r)
			swept := *r
			swept.shards = slices.Clone(r.shards)

			needed := 0
			for n := range 4 {
				if r.round(t) > 0 {
					needed = n + 1
				}
			}
			require.Equal(t, c.moves, r.moves, "moves")
			require.Equal(t, c.rounds, needed, "rounds")
			require.LessOrEqual(t, r.spread(), 1)
			require.Zero(t, r.counts()[""], "free shards")

			needed = 0
			for n := range 4 {
				if swept.sweep(t, swept.nodes(), befores) > 0 {
					needed = n + 1
				}
			}
			require.Equal(t, c.moves, swept.moves, "moves, looking one after the other")
			require.Equal(t, c.rounds, needed, "rounds, looking one after the other")
			require.LessOrEqual(t, swept.spread(), 1)
		})
	}
}

func BenchmarkAssign(b *testing.B) {
	for name, r := range map[string]*rounds{
		"AllFree":  newRounds(10_000, make([]int, 100)...),
		"Balanced": newRounds(0, slices.Repeat([]int{100}, 100)...),
		"Joined":   newRounds(0, append(slices.Repeat([]int{101}, 99), 1)...),
	} {
		now := r.seen(nodeName(0))
		before := *now
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				assign(now, &before)
			}
		})
	}
}
