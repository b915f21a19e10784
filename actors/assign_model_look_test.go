package actors

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
)

// look reads the store; back is how many looks ago what it shows was true.
func (m *model) look(n *modelNode, back int) {
	view := modelView{at: m.now, rows: slices.Clone(m.rows), members: slices.Clone(m.members)}
	m.history = append(m.history, view)
	if len(m.history) > 4 {
		m.history = m.history[1:]
	}
	old := m.history[max(0, len(m.history)-1-back)]
	n.glimpse = &modelView{at: m.now, rows: old.rows, members: old.members}
}

// digest takes the last look in, and plans.
func (m *model) digest(n *modelNode) {
	view := n.glimpse
	if view == nil {
		return
	}
	n.glimpse = nil
	for i, row := range view.rows {
		if s := &n.seen[i]; s.mark != row.Counter {
			*s = modelSighting{mark: row.Counter, since: view.at}
		}
		if row.Counter > n.rows[i].Counter { // what it wrote itself may be newer
			n.rows[i] = row
		}
		if m.isFree(n, i, view.at) {
			n.free[i]++
		} else {
			n.free[i] = 0
		}
	}
	for len(n.beats) < len(view.members) {
		n.beats, n.leavers = append(n.beats, modelSighting{}), append(n.leavers, false)
	}
	for i, member := range view.members {
		if s := &n.beats[i]; s.mark != member.Beat {
			*s = modelSighting{mark: member.Beat, since: view.at}
		}
		n.leavers[i] = n.leavers[i] || member.Leaving
	}
	m.plan(n, m.fleet(n, view))
}

// isFree reports whether the node may take the shard, as far as it knew when it looked: what is judged by an old look must not be judged by
// the time that has passed since.
func (m *model) isFree(n *modelNode, shard, at int) bool {
	row := n.rows[shard]
	if row.Owner == "" {
		return true
	}
	s := n.seen[shard]
	return row.Owner != n.id && s.mark == row.Counter && at-s.since >= modelTTL
}

// fleet is the picture the node has.
func (m *model) fleet(n *modelNode, view *modelView) *fleet {
	f := &fleet{me: n.id, salt: "orders"}
	for i, member := range view.members {
		if member.ID == n.id && !n.leaving || member.ID != n.id && member.Beat > 0 && !n.leavers[i] && view.at-n.beats[i].since < modelTTL {
			f.members = append(f.members, member.ID)
		}
	}
	for i := range n.rows {
		if isReadable(n.rows, m.parents, i) {
			f.shards = append(f.shards, m.fleetShard(n, i, f.members, view.at))
		}
	}
	return f
}

// isReadable reports whether a shard is not finished and does not wait for its parent.
func isReadable(rows []leasestore.Lease, parents []int, shard int) bool {
	parent := parents[shard]
	return !rows[shard].Checkpoint.IsShardEnd() && (parent < 0 || rows[parent].Checkpoint.IsShardEnd())
}

func (m *model) isReadable(shard int) bool { return isReadable(m.rows, m.parents, shard) }

func (m *model) fleetShard(n *modelNode, shard int, members []string, at int) fleetShard {
	row, held := n.rows[shard], n.held[shard]
	one := fleetShard{id: row.Shard, owner: row.Owner, holder: row.Owner, looks: n.free[shard]}
	next := row.Next
	switch {
	case held.step != modelNone:
		one.owner, one.holder, next = n.id, n.id, held.to
	case row.Owner == n.id:
	case m.isFree(n, shard, at):
		one.owner, one.holder, next = "", "", ""
	}
	if next != "" && slices.Contains(members, next) {
		one.owner = next
	}
	return one
}

// plan makes the plan and begins to carry it out.
func (m *model) plan(n *modelNode, f *fleet) {
	n.before, n.last = n.last, f
	p := assign(f, n.before)
	byID := make(map[string]int, len(n.rows))
	for i, row := range n.rows {
		byID[row.Shard] = i
		h := &n.held[i]
		handed := row.Owner == n.id && h.step == modelNone && !row.Checkpoint.IsShardEnd()
		if handed || slices.Contains(p.take, row.Shard) && h.step == modelNone {
			*h = modelHeld{step: modelWanted, lease: row}
		}
		if h.to != "" && !slices.Contains(f.members, h.to) && !h.doubt && h.step != modelDrained {
			h.to, h.step = "", modelReleasing
		}
	}
	for id, to := range p.give {
		require.Contains(m.t, f.members, to)
		require.NotEqual(m.t, n.id, to)
		if h := &n.held[byID[id]]; h.step == modelReading && !h.doubt {
			h.step, h.to = modelOffering, to
		}
	}
	if n.leaving && len(f.members) == 0 {
		for i := range n.held {
			if h := &n.held[i]; h.step == modelReading && !h.doubt {
				h.step = modelReleasing
			}
		}
	}
}
