package actors

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/protokinesis/protokinesis/leasestore"
)

// L10, L14: All that few nodes can do with few shards, in every order, to some depth: the states are told apart by all that can matter later.
func TestAssignEveryInterleaving(t *testing.T) {
	for name, c := range map[string]struct {
		shards, nodes, depth int
		start                func(*model)
	}{
		"two nodes start":              {2, 2, 7, func(*model) {}},
		"one reads, another joins":     {2, 1, 7, func(m *model) { ownAll(m); m.join() }},
		"two read, another joins":      {3, 2, 5, func(m *model) { ownAll(m); m.join() }},
		"one reads all, and leaves":    {2, 2, 6, func(m *model) { ownAll(m); m.leave(m.nodes[0]) }},
		"two read, one is to be dead":  {2, 2, 6, func(m *model) { ownAll(m); m.now += modelTTL - 1; m.turn(m.nodes[1]) }},
		"a child waits for its parent": {2, 2, 7, func(m *model) { m.parents[1] = 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, c.shards, c.nodes)
			c.start(m)
			t.Logf("%d states", explore(t, m, c.depth))
		})
	}
}

func ownAll(m *model) {
	for shard := range m.rows {
		m.own(m.nodes[shard%len(m.nodes)], shard)
	}
	for range 2 {
		for _, n := range m.nodes {
			m.turn(n)
		}
	}
}

// explore walks through all states that are up to depth steps away, and lets the last ones settle. It returns how many there are.
func explore(t *testing.T, start *model, depth int) int {
	t.Helper()
	seen := map[string]bool{string(start.key()): true}
	layer := []*model{start}
	for range depth {
		var next []*model
		for _, m := range layer {
			for _, step := range m.steps() {
				after := m.clone()
				step(after)
				if key := string(after.key()); !seen[key] {
					seen[key] = true
					after.check()
					next = append(next, after)
				}
			}
		}
		layer = next
	}
	for i, m := range layer {
		if i%(1+len(layer)/300) != 0 {
			continue
		}
		m.resume()
		for range 12 {
			m.round(firstToLast(m))
		}
		settledDown(t, m)
	}
	return len(seen)
}

func firstToLast(m *model) []int {
	all := make([]int, len(m.nodes))
	for i := range all {
		all[i] = (i + m.now) % len(all)
	}
	return all
}

// steps are all the next steps there are. A node that is paused is one that no step is chosen of.
func (m *model) steps() []func(*model) {
	steps := []func(*model){func(m *model) { m.now += 5 }}
	dead := slices.ContainsFunc(m.nodes, func(n *modelNode) bool { return n.state == modelDead })
	for i, n := range m.nodes {
		if n.state == modelDead {
			continue
		}
		if !dead && len(m.live()) > 1 {
			steps = append(steps, func(m *model) { m.nodes[i].state = modelDead })
		}
		steps = append(steps,
			func(m *model) { m.sayAlive(m.nodes[i]); m.renew(m.nodes[i]) },
			func(m *model) { m.look(m.nodes[i], 0) },
		)
		if n.glimpse != nil {
			steps = append(steps, func(m *model) { m.digest(m.nodes[i]); m.left(m.nodes[i]) })
		}
		for shard, h := range n.held {
			if h.step == modelReading && slices.Contains(m.parents, shard) {
				steps = append(steps, func(m *model) { m.finish(m.nodes[i], shard); m.left(m.nodes[i]) })
			}
			if h.step == modelNone || h.step == modelReading && !h.doubt {
				continue
			}
			steps = append(steps, func(m *model) { m.work(m.nodes[i], shard, modelAnswered); m.left(m.nodes[i]) })
			if !m.lost && !h.doubt && h.step != modelDraining {
				steps = append(steps, func(m *model) { m.lost = true; m.work(m.nodes[i], shard, modelLost) })
			}
		}
	}
	return steps
}

// clone copies all that changes.
func (m *model) clone() *model {
	c := *m
	c.rows, c.members, c.history = slices.Clone(m.rows), slices.Clone(m.members), nil
	c.nodes = make([]*modelNode, len(m.nodes))
	for i, n := range m.nodes {
		o := *n
		o.rows, o.seen, o.beats = slices.Clone(n.rows), slices.Clone(n.seen), slices.Clone(n.beats)
		o.leavers = slices.Clone(n.leavers)
		o.free, o.held = slices.Clone(n.free), slices.Clone(n.held)
		c.nodes[i] = &o
	}
	return &c
}

// key is all that matters to what can happen later. Numbers that only rise count by what others know of them, times by how long ago they are.
func (m *model) key() []byte {
	k := keyWriter{m: m, b: make([]byte, 0, 512)}
	k.flag(m.lost)
	k.lookedAt(&modelView{at: m.now, rows: m.rows, members: m.members})
	for _, n := range m.nodes {
		k.b = append(k.b, '|', byte(n.state))
		k.flag(n.leaving)
		k.flag(n.said)
		for shard := range m.rows {
			h := &n.held[shard]
			k.row(shard, &n.rows[shard])
			k.ago(n.seen[shard].since)
			k.number(m.rows[shard].Counter - n.seen[shard].mark)
			k.number(int64(min(n.free[shard], looksOfFew+len(m.nodes))))
			k.b = append(k.b, byte(h.step))
			k.flag(h.doubt)
			k.text(h.to)
			k.row(shard, &h.lease)
			k.ago(h.trust - modelTTL)
			k.ago(h.start)
		}
		for i := range n.beats {
			k.number(m.members[i].Beat - n.beats[i].mark)
			k.ago(n.beats[i].since)
			k.flag(n.leavers[i])
		}
		k.lookedAt(n.glimpse)
		k.fleet(n.last)
	}
	return k.b
}

type keyWriter struct {
	m *model
	b []byte
}

func (k *keyWriter) flag(is bool) {
	if is {
		k.b = append(k.b, 1)
		return
	}
	k.b = append(k.b, 0)
}

func (k *keyWriter) number(n int64) { k.b = binary.AppendVarint(k.b, n) }
func (k *keyWriter) text(s string)  { k.b = append(append(k.b, s...), 0) }

// ago writes how long ago something was; longer ago than ttl is all the same.
func (k *keyWriter) ago(at int) { k.number(int64(min(k.m.now-at, modelTTL))) }

func (k *keyWriter) row(shard int, row *leasestore.Lease) {
	k.number(k.m.rows[shard].Counter - row.Counter)
	k.text(row.Owner)
	k.text(row.Next)
	k.flag(row.Checkpoint.IsShardEnd())
	k.flag(row.Counter == 0)
}

func (k *keyWriter) lookedAt(view *modelView) {
	if view == nil {
		k.b = append(k.b, 'n')
		return
	}
	k.ago(view.at)
	for i := range view.rows {
		k.row(i, &view.rows[i])
	}
	for i, member := range view.members {
		k.number(k.m.members[i].Beat - member.Beat)
		k.flag(member.Leaving)
		k.flag(member.Beat == 0)
	}
}

func (k *keyWriter) fleet(f *fleet) {
	if f == nil {
		k.b = append(k.b, 'n')
		return
	}
	for _, id := range f.members {
		k.text(id)
	}
	for _, s := range f.shards {
		k.text(s.id)
		k.text(s.owner)
		k.text(s.holder)
		k.number(int64(s.looks))
	}
}
