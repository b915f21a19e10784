package actors

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/protokinesis/protokinesis/leasestore"
)

// Whatever nodes do at whatever moment, and however they die: no shard has two readers, and once nothing more happens every shard is read,
// the shares are fair and nothing moves.
func TestAssignAnyHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := anyHistory(t)
		for range 14 {
			m.round(order(t, m))
		}
		settledDown(t, m)
	})
}

// Nor does it take more moves than it must, but for shards about which something was under way.
func TestAssignAnyHistoryEndsInFewMoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := anyHistory(t)
		m.tellWhoLives()
		members := []string{}
		for _, n := range m.live() {
			members = append(members, n.id)
		}
		most := m.takes + m.handovers + fewest(m.counts(), members) + m.underWay()
		for range 14 {
			m.round(order(t, m))
		}
		settledDown(t, m)
		require.LessOrEqual(t, m.takes+m.handovers, most, "moves")
	})
}

// anyHistory lets anything happen. After it, at least one node lives, and none is paused.
func anyHistory(t *rapid.T) *model {
	m := newModel(t, rapid.IntRange(1, 8).Draw(t, "shards"), rapid.IntRange(1, 4).Draw(t, "nodes"))
	for i := 1; i < len(m.rows); i++ {
		m.parents[i] = rapid.IntRange(-1, i-1).Draw(t, "parent")
		if rapid.Bool().Draw(t, "root") {
			m.parents[i] = -1
		}
	}
	for range rapid.IntRange(0, 300).Draw(t, "steps") {
		anything(t, m)
		m.check()
	}
	m.resume()
	return m
}

// anything is one step of any kind.
func anything(t *rapid.T, m *model) {
	n := rapid.SampledFrom(m.nodes).Draw(t, "node")
	what := rapid.IntRange(0, 39).Draw(t, "what")
	switch {
	case what == 0 && len(m.nodes) < 7:
		m.join()
	case what == 1:
		n.state = modelDead
	case what == 2 && n.state == modelRuns:
		m.leave(n)
	case what <= 4 && n.state != modelDead:
		n.state = modelPaused - n.state // paused, or resumed as what it was
	case what <= 9:
		m.now += rapid.IntRange(1, 4).Draw(t, "seconds")
	}
	if n.state != modelRuns {
		return
	}
	shard := rapid.IntRange(0, len(m.rows)-1).Draw(t, "shard")
	switch {
	case what == 10:
		m.finish(n, shard)
	case what <= 14:
		m.look(n, rapid.IntRange(0, 3).Draw(t, "back"))
	case what <= 18:
		m.digest(n)
	case what <= 21:
		m.sayAlive(n)
	case what <= 23:
		m.turn(n)
	case what <= 25:
		m.work(n, shard, rapid.SampledFrom([]modelReply{modelLost, modelRefused}).Draw(t, "reply"))
	default:
		m.work(n, shard, modelAnswered)
	}
	m.left(n)
}

// resume lets paused nodes go on; somebody is there.
func (m *model) resume() {
	for _, n := range m.nodes {
		if n.state == modelPaused {
			n.state = modelRuns
		}
	}
	if len(m.live()) == 0 {
		m.join()
	}
}

// tellWhoLives spares the nodes to find out who is dead and whose leases have expired.
func (m *model) tellWhoLives() {
	for i, n := range m.nodes {
		if n.state == modelRuns {
			m.sayAlive(n)
			m.renew(n)
			continue
		}
		m.members[i].Beat = 0
		for shard, row := range m.rows {
			if row.Owner != n.id || row.Checkpoint.IsShardEnd() {
				continue
			}
			released, err := leasestore.ApplyRelease(row, row)
			require.NoError(m.t, err)
			m.rows[shard] = released
		}
	}
}

// underWay is how many shards are such that some node is about to do something about them whatever its next look shows, or would not
// leave them to who they fall to because they have been free for long.
func (m *model) underWay() (shards int) {
	for shard, row := range m.rows {
		if slices.ContainsFunc(m.nodes, func(n *modelNode) bool {
			h := n.held[shard]
			at := h.step == modelNone || h.step == modelReading && !h.doubt
			return n.state != modelDead && (!at || n.id == row.Owner && !m.isRead(n, shard) || n.free[shard] >= looksOfOne)
		}) {
			shards++
		}
	}
	return shards
}

func order(t *rapid.T, m *model) []int {
	all := make([]int, len(m.nodes))
	for i := range all {
		all[i] = i
	}
	return rapid.Permutation(all).Draw(t, "order")
}

// settledDown is what holds when all has been done.
func settledDown(t require.TestingT, m *model) {
	counts := m.counts()
	require.Zero(t, counts[""], "shards that no live node owns")
	delete(counts, "")
	most, fewest := 0, len(m.rows)
	for _, n := range counts {
		most, fewest = max(most, n), min(fewest, n)
	}
	require.LessOrEqualf(t, most-fewest, 1, "%v", counts)
	for i, row := range m.rows {
		if m.isReadable(i) {
			read := slices.ContainsFunc(m.nodes, func(n *modelNode) bool { return m.isRead(n, i) })
			require.Truef(t, read, "%s is read by nobody", row.Shard)
		}
	}
	moves := m.takes + m.handovers
	for range 4 {
		for i := range m.nodes {
			m.round([]int{i})
			m.now -= modelRenew
		}
		m.now += modelRenew
	}
	require.Equal(t, moves, m.takes+m.handovers, "moves though all is level")
}
