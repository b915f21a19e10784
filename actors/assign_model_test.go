package actors

import (
	"fmt"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
)

// The model is nodes that share the shards of a stream by assign: what coordinators and readers do to a lease store, one step at a time, each
// step by any node, so that between any two steps of one node the others do anything. Time passes only when the model says so.

const (
	modelTTL   = 10 // seconds
	modelRenew = 3
)

// modelView is one look at the store.
type modelView struct {
	at      int
	rows    []leasestore.Lease
	members []leasestore.Member
}

// model is the store, the clock and the nodes. It can be copied by clone.
type model struct {
	t       require.TestingT
	now     int
	rows    []leasestore.Lease  // by the shard's number; counter 0: none yet
	members []leasestore.Member // by the node's number; beat 0: no row
	nodes   []*modelNode
	// parents[i] is the shard that must be finished before shard i is read, -1 for none.
	parents []int
	// moves are the leases that got another owner: by a take, by a handover.
	takes, handovers int
	// lost: a reply has been lost; one is enough for a walk through all there is.
	lost bool
	// history are looks that a read may show instead of the present, if the store's reads are eventual.
	history []modelView
}

// modelState is what a node is to the world.
type modelState uint8

const (
	modelRuns modelState = iota
	modelPaused
	modelDead // crashed, or left
)

// modelNode is one node. What it knows is what a process knows: it dies with it.
type modelNode struct {
	id      string
	state   modelState
	leaving bool
	said    bool // that it is leaving, in the store
	beat    int64
	// glimpse is a look that has been made and not been taken in.
	glimpse *modelView
	rows    []leasestore.Lease // as last known
	seen    []modelSighting    // rows by shard
	beats   []modelSighting    // members by node
	free    []int              // looks in a row
	leavers []bool             // members by node that were ever seen to be leaving: there is no way back
	held    []modelHeld        // by shard
	before  *fleet
	last    *fleet
}

// modelSighting is a number that its owner keeps changing, and since when it has been the same.
type modelSighting struct {
	mark  int64
	since int
}

// modelHeld is what a node has to do with a shard.
type modelHeld struct {
	step modelStep
	// lease is the row that the next write is conditional on.
	lease leasestore.Lease
	// trust is until when the lease is trusted; start is when the write began whose outcome is not known.
	trust, start int
	// to is who it is being handed to.
	to string
	// doubt: the reply to the last write was lost.
	doubt bool
}

type modelStep uint8

const (
	modelNone      modelStep = iota
	modelWanted              // to be taken, or to be taken over from a donor
	modelReading             // the only step in which records are delivered, and only while the lease is trusted
	modelOffering            // still delivering, the offer is to be written
	modelDraining            // still delivering what was read, the offer has been written
	modelDrained             // all is settled: to be handed over
	modelReleasing           // all is settled: to be released
)

// modelReply is what becomes of a write.
type modelReply uint8

const (
	modelAnswered modelReply = iota
	modelLost                // applied, and the reply is lost
	modelRefused             // not applied, and the writer does not know
)

func newModel(t require.TestingT, shards, nodes int) *model {
	m := &model{t: t, now: 100}
	for i := range shards {
		key := leasestore.Key{Stream: leasestore.StreamID{Name: "orders", CreatedMillis: 1}, Shard: fmt.Sprintf("shard-%04d", i)}
		m.rows = append(m.rows, leasestore.Lease{Key: key})
		m.parents = append(m.parents, -1)
	}
	for range nodes {
		m.join()
	}
	return m
}

func (m *model) join() {
	n := &modelNode{
		id:   nodeName(len(m.nodes)),
		rows: slices.Clone(m.rows), seen: make([]modelSighting, len(m.rows)), free: make([]int, len(m.rows)), held: make([]modelHeld, len(m.rows)),
	}
	for i := range n.rows { // it knows the shards, and nothing of their leases
		n.rows[i] = leasestore.Lease{Key: n.rows[i].Key}
	}
	m.nodes = append(m.nodes, n)
	m.members = append(m.members, leasestore.Member{ID: n.id})
	m.sayAlive(n)
}

// own makes a node the reader of a shard, for a start in the middle of things.
func (m *model) own(n *modelNode, shard int) {
	n.held[shard] = modelHeld{step: modelWanted, lease: m.rows[shard]}
	m.work(n, shard, modelAnswered)
}

// sayAlive writes the node's row.
func (m *model) sayAlive(n *modelNode) {
	member, err := leasestore.ApplyBeat(leasestore.Member{ID: n.id, Beat: n.beat, Leaving: n.leaving})
	require.NoError(m.t, err)
	n.beat, n.said = member.Beat, n.leaving
	m.members[m.number(n.id)] = member
}

func (m *model) number(id string) int {
	return slices.IndexFunc(m.nodes, func(n *modelNode) bool { return n.id == id })
}

// work is the next write of a node about a shard.
func (m *model) work(n *modelNode, shard int, reply modelReply) {
	h := &n.held[shard]
	if h.doubt {
		m.confirm(n, shard)
		return
	}
	switch h.step {
	case modelNone:
	case modelDraining:
		h.step = modelDrained
	case modelWanted, modelReading, modelOffering, modelDrained, modelReleasing:
		rule, _ := h.write(n.id)
		m.store(n, shard, rule, reply)
	}
}

// write is the rule of the next write, and who owns the lease once it has been applied.
func (h *modelHeld) write(me string) (func(stored leasestore.Lease) (leasestore.Lease, error), string) {
	lease, to := h.lease, h.to
	switch h.step {
	case modelWanted:
		if lease.Owner == me {
			return func(stored leasestore.Lease) (leasestore.Lease, error) { return leasestore.ApplyRenew(stored, lease) }, me
		}
		return func(stored leasestore.Lease) (leasestore.Lease, error) {
			return leasestore.ApplyAcquire(stored, lease, me)
		}, me
	case modelOffering:
		return func(stored leasestore.Lease) (leasestore.Lease, error) {
			return leasestore.ApplyOffer(stored, lease, to)
		}, me
	case modelDrained:
		return func(stored leasestore.Lease) (leasestore.Lease, error) {
			return leasestore.ApplyAcquire(stored, lease, to)
		}, to
	case modelReleasing:
		return func(stored leasestore.Lease) (leasestore.Lease, error) { return leasestore.ApplyRelease(stored, lease) }, ""
	case modelNone, modelReading, modelDraining:
	}
	return func(stored leasestore.Lease) (leasestore.Lease, error) { return leasestore.ApplyRenew(stored, lease) }, me
}

// store carries a write out.
func (m *model) store(n *modelNode, shard int, rule func(leasestore.Lease) (leasestore.Lease, error), reply modelReply) {
	h := &n.held[shard]
	h.start = m.now
	if reply == modelRefused {
		h.doubt = true
		return
	}
	row, err := rule(m.rows[shard])
	if err == nil {
		m.count(m.rows[shard], row, n)
		m.rows[shard] = row
	}
	switch {
	case reply == modelLost:
		h.doubt = true
	case err == nil:
		m.done(n, shard, row)
	default:
		require.ErrorIs(m.t, err, leasestore.ErrFenced)
		*h = modelHeld{}
	}
}

func (m *model) count(was, is leasestore.Lease, by *modelNode) {
	switch {
	case is.Owner == "" || is.Owner == was.Owner:
	case is.Owner == by.id:
		m.takes++
	default:
		m.handovers++
	}
}

// confirm finds out what became of a write, by the rule of leasestore.Confirm.
func (m *model) confirm(n *modelNode, shard int) {
	h := &n.held[shard]
	_, owner := h.write(n.id)
	switch row := m.rows[shard]; {
	case row.Counter == h.lease.Counter+1 && row.Owner == owner:
		h.doubt = false
		m.done(n, shard, row)
	case row.Counter == h.lease.Counter:
		h.doubt = false // not applied: again
	default:
		*h = modelHeld{}
	}
}

// done: the write was applied.
func (m *model) done(n *modelNode, shard int, row leasestore.Lease) {
	h := &n.held[shard]
	n.rows[shard] = row
	h.lease, h.trust = row, h.start+modelTTL
	switch h.step {
	case modelWanted:
		h.step = modelReading
	case modelOffering:
		h.step = modelDraining
	case modelDrained, modelReleasing:
		*h = modelHeld{}
	case modelNone, modelReading, modelDraining:
	}
}

// finish: the node has read a shard to its end.
func (m *model) finish(n *modelNode, shard int) {
	h := &n.held[shard]
	if h.step != modelReading || h.doubt || m.now >= h.trust {
		return
	}
	row, err := leasestore.ApplyCheckpoint(m.rows[shard], h.lease, leasestore.ShardEnd())
	if err == nil {
		m.rows[shard], n.rows[shard] = row, row
	}
	*h = modelHeld{}
}

// leave tells a node to leave; it says so before it gives anything away.
func (m *model) leave(n *modelNode) {
	n.leaving = true
	m.sayAlive(n)
}

// left: a node that is leaving and has nothing left is gone.
func (m *model) left(n *modelNode) {
	if n.leaving && n.said && !slices.ContainsFunc(n.held, func(h modelHeld) bool { return h.step != modelNone }) {
		n.state = modelDead
		m.members[m.number(n.id)].Beat = 0
	}
}

// isRead reports whether a node delivers records of a shard now.
func (m *model) isRead(n *modelNode, shard int) bool {
	h := n.held[shard]
	delivers := h.step == modelReading || h.step == modelOffering || h.step == modelDraining
	return n.state != modelDead && delivers && m.now < h.trust
}

// check is what holds at any moment: no two nodes deliver records of one shard.
func (m *model) check() {
	for shard := range m.rows {
		reader := ""
		for _, n := range m.nodes {
			if !m.isRead(n, shard) {
				continue
			}
			require.Emptyf(m.t, reader, "%s is read by %s, too", m.rows[shard].Shard, n.id)
			require.Equalf(m.t, n.id, m.rows[shard].Owner, "%s is read by who does not own it", m.rows[shard].Shard)
			reader = n.id
		}
	}
}

// live are the nodes that run and stay.
func (m *model) live() (live []*modelNode) {
	for _, n := range m.nodes {
		if n.state == modelRuns && !n.leaving {
			live = append(live, n)
		}
	}
	return live
}

// counts are how many of the shards that can be read each live node owns; "" are those that none of them does.
func (m *model) counts() map[string]int {
	counts := map[string]int{}
	for _, n := range m.live() {
		counts[n.id] = 0
	}
	for i, row := range m.rows {
		if !m.isReadable(i) {
			continue
		}
		if _, live := counts[row.Owner]; live {
			counts[row.Owner]++
		} else {
			counts[""]++
		}
	}
	return counts
}

// round lets every node do all it has to do, one after the other in the order given, and lets modelRenew seconds pass.
func (m *model) round(order []int) {
	for _, i := range order {
		n := m.nodes[i]
		if n.state != modelRuns {
			continue
		}
		m.turn(n)
		m.check()
	}
	m.now += modelRenew
	m.check()
}

// turn lets a node renew, look, and do what it planned.
func (m *model) turn(n *modelNode) {
	m.sayAlive(n)
	for shard := range n.held {
		m.work(n, shard, modelAnswered)
	}
	m.look(n, 0)
	m.digest(n)
	for shard := range n.held {
		for range 4 { // an offer, a drain and a handover
			if h := n.held[shard]; h.step != modelNone && (h.doubt || h.step != modelReading) {
				m.work(n, shard, modelAnswered)
			}
		}
	}
	m.left(n)
}

// renew renews what the node reads, and does nothing else.
func (m *model) renew(n *modelNode) {
	for shard := range n.held {
		if h := &n.held[shard]; h.step >= modelReading {
			step := h.step
			h.step = modelReading
			m.work(n, shard, modelAnswered)
			if h.step == modelReading {
				h.step = step
			}
		}
	}
}
