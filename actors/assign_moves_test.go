package actors

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// eventOfNodes is what happens to a fleet whose shares are fair, and how many shards have to move at least.
type eventOfNodes struct {
	shards, nodes int
	event         func(*model)
	moves         int
}

func joins(n int) func(*model) {
	return func(m *model) {
		for range n {
			m.join()
		}
	}
}

func lastLeaves(m *model) { m.leave(m.nodes[len(m.nodes)-1]) }

// Nodes look at different moments, at hints too, and at what may be an old picture; they carry out what they planned earlier or
// later. It makes no difference to how many shards move.
func TestAssignMovesTheFewestShardsInWhateverOrderNodesLook(t *testing.T) {
	t.Run("64 shards, 3 nodes become 4", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { eventOfNodes{64, 3, joins(1), 16}.run(t) })
	})
	t.Run("any", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			rapid.SampledFrom([]eventOfNodes{
				{64, 4, joins(1), 12},
				{30, 5, joins(2), 8},
				{20, 10, joins(1), 1},
				{48, 16, joins(1), 2},
				{64, 5, lastLeaves, 12},
				{22, 3, lastLeaves, 7},
			}).Draw(t, "event").run(t)
		})
	})
}

func (e eventOfNodes) run(t *rapid.T) {
	m := newModel(t, e.shards, e.nodes)
	for shard := range m.rows {
		m.own(m.nodes[shard%e.nodes], shard)
	}
	for range 2 {
		m.round(order(t, m))
	}
	require.Equal(t, e.shards, m.takes)
	m.takes = 0
	e.event(m)
	bustle(t, m)
	for range 4 {
		m.round(order(t, m))
	}
	settledDown(t, m)
	require.Equal(t, e.moves, m.takes+m.handovers, "moves")
}

// bustle lets nodes look, plan and work in any order for some seconds, in each of which all show that they live.
func bustle(t *rapid.T, m *model) {
	for range rapid.IntRange(0, 12).Draw(t, "seconds") {
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			n := rapid.SampledFrom(m.nodes).Draw(t, "node")
			if n.state != modelRuns {
				continue
			}
			switch rapid.IntRange(0, 6).Draw(t, "what") {
			case 0, 1:
				m.look(n, rapid.IntRange(0, 2).Draw(t, "back"))
			case 2, 3:
				m.digest(n)
			default:
				for shard := rapid.IntRange(0, 5).Draw(t, "first"); shard < len(m.rows); shard += 6 {
					m.work(n, shard, modelAnswered)
				}
			}
			m.left(n)
			m.check()
		}
		m.now++
		for _, n := range m.nodes {
			if n.state == modelRuns {
				m.sayAlive(n)
				m.renew(n)
			}
		}
	}
}
