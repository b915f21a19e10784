package actors

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// gives are how many shards each node gives away, were all to plan now.
func (r *rounds) gives() map[string]int {
	n := map[string]int{}
	for id, p := range r.plans() {
		if len(p.give) > 0 {
			n[id] = len(p.give)
		}
	}
	return n
}

func (r *rounds) takes() (n int) {
	for _, p := range r.plans() {
		n += len(p.take)
	}
	return n
}

func TestAssignGivesOnceTheMembersWereTheSameTwice(t *testing.T) {
	r := newRounds(0, 6, 0)
	require.Empty(t, r.gives(), "no look before")
	r.before = r.seen("")
	r.before.members = []string{nodeName(0)}
	require.Empty(t, r.gives(), "it has only just joined")
	r.before.members = []string{nodeName(0), nodeName(2)}
	require.Empty(t, r.gives(), "another was there")
	r.before = r.seen("")
	require.Equal(t, map[string]int{nodeName(0): 3}, r.gives())
}

// A node that has just been handed something by another which is leaving, and does not know that it is, must not give that back.
func TestAssignGivesNoMoreThanWasTooMuchTwice(t *testing.T) {
	r := newRounds(0, 8, 2)
	r.before = r.seen("")
	r.before.shards[0].owner = nodeName(1)
	require.Equal(t, map[string]int{nodeName(0): 2}, r.gives())
	r.before.shards[1].owner = nodeName(1)
	r.before.shards[2].owner = nodeName(1)
	require.Empty(t, r.gives())
}

func TestAssignMovesTheOddShardsOnlyBetweenLooksAtTheSameShards(t *testing.T) {
	r := newRounds(0, 4, 4, 0) // 8 shards: two have 3, one has 2
	r.before = r.seen("")
	require.Len(t, r.gives(), 2)
	r.before.shards[0].id = "another"
	require.Equal(t, map[string]int{nodeName(0): 1, nodeName(1): 1}, r.gives(), "4 is more than anyone is to have")

	r = newRounds(0, 2, 2, 0) // 4 shards: one has 2
	r.before = r.seen("")
	require.Len(t, r.gives(), 1, "one of two keeps both")
	r.before.shards[0].id = "another"
	require.Empty(t, r.gives(), "2 is what one may have")
}

// A node is not seen for a while, because it is cut off or paused, and its leases have not expired.
func TestAssignMovesNothingForANodeThatMayLive(t *testing.T) {
	r := newRounds(0, 5, 5, 5, 4)
	r.before = r.seen("")
	r.members = r.members[:3]
	for range 4 {
		require.Zero(t, r.round(t))
	}
	back := *r
	back.members = append(slices.Clone(r.members), nodeName(3))
	for range 4 {
		require.Zero(t, back.round(t), "it was alive")
	}
	r.crash(nodeName(3))
	for range 4 {
		r.round(t)
	}
	require.Equal(t, 4, r.moves, "it was dead")
	require.LessOrEqual(t, r.spread(), 1)
}

func TestAssignKeepsRoomForTheShardsOfANodeThatMayBeDead(t *testing.T) {
	r := newRounds(0, 10, 10, 0) // 20 shards for the first and the newcomer, if the second is dead
	r.leave(nodeName(1))
	delete(r.gone, nodeName(1))
	r.before = r.seen("")
	require.Empty(t, r.gives(), "the newcomer gets those of the dead node")
	r.crash(nodeName(1))
	r.round(t)
	r.round(t)
	require.Equal(t, 10, r.moves)
	require.Zero(t, r.spread())
}

func TestAssignLetsALeavingNodeGiveAllAtOnce(t *testing.T) {
	r := newRounds(2, 5, 5, 1)
	r.leave(nodeName(0))
	require.Equal(t, map[string]int{nodeName(0): 5}, r.gives(), "without a look before")
	require.Equal(t, 2, r.takes())
	r.round(t)
	require.LessOrEqual(t, r.spread(), 1)
	require.Equal(t, 7, r.moves)

	r = newRounds(0, 5, 5)
	r.leave(nodeName(0))
	r.shards[0].holder = nodeName(1) // on its way to the one that is leaving
	r.shards[1].holder, r.shards[1].owner = nodeName(0), nodeName(2)
	require.Equal(t, map[string]int{nodeName(0): 3}, r.gives(), "what it both has and holds")

	alone := newRounds(1, 5)
	alone.leave(nodeName(0))
	require.Empty(t, alone.gives(), "nobody is there to be given to")
	require.Zero(t, alone.takes(), "a node that is leaving takes nothing")
}

func TestAssignLeavesWhatIsOnItsWay(t *testing.T) {
	r := newRounds(0, 6, 0)
	r.before = r.seen("")
	p := r.plans()[nodeName(0)]
	require.Len(t, p.give, 3)
	for i := range r.shards {
		if to, given := p.give[r.shards[i].id]; given {
			r.shards[i].owner = to
		}
	}
	require.Empty(t, r.gives(), "it has been offered")
	r.leave(nodeName(1)) // and is being taken back: its owner is its holder again
	for i := range r.shards {
		r.shards[i].owner = nodeName(0)
	}
	require.Empty(t, r.gives())

	r = newRounds(0, 6, 0)
	for i := range r.shards[:4] {
		r.shards[i].holder = nodeName(2) // on its way here
	}
	r.before = r.seen("")
	given := slices.Sorted(maps.Keys(r.plans()[nodeName(0)].give))
	require.Equal(t, []string{r.shards[4].id, r.shards[5].id}, given, "what it does not hold is not its to give")
}

func TestExpects(t *testing.T) {
	a, b, c := nodeName(0), nodeName(1), nodeName(2)
	expecting := func(r *rounds) (who []string) {
		for _, id := range []string{a, b, c} {
			if expects(r.seen(id)) {
				who = append(who, id)
			}
		}
		return who
	}
	require.Empty(t, expecting(newRounds(0, 2, 2, 2)))
	require.Empty(t, expecting(newRounds(0, 3, 2, 2)))
	require.Equal(t, []string{c}, expecting(newRounds(0, 3, 3, 0)))
	require.Empty(t, expecting(newRounds(3, 3, 3, 0)), "what is free makes up for it")
	require.Equal(t, []string{c}, expecting(newRounds(0, 4, 2, 1)), "it is one short")
	r := newRounds(0, 2, 2, 2)
	r.shards[0].owner = c
	require.Equal(t, []string{a, c}, expecting(r), "one is on its way to c, and makes a one short")
	r = newRounds(0, 3, 3)
	require.Empty(t, expecting(r), "a node that is no member")
}
