package actors

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// The 17th node of 256 shards gets its share, though none of the others has more than the mean of 17 rounded up: within two looks at the store, with as few
// moves as there can be. Planners that take from those above that mean only leave it without a shard for ever.
func TestTheSeventeenthNodeGetsItsShare(t *testing.T) {
	const shards, nodes = 256, 16
	inBubble(t, shards, func(w *world) {
		w.cfg.Store = sharedStore{w.store}
		l := &fleetLog{w: w}
		look := w.cfg.Timings.withDefaults().RenewEvery
		w.startTogether(nodes)
		l.pass(2 * look)
		require.Empty(w.t, w.differences(shards, nodes), "16 shards each")
		require.Zero(w.t, w.moves(), "nodes that start together move nothing")

		joined := time.Now()
		w.join("newcomer").subscribe()
		for len(w.differences(shards, nodes+1)) > 0 && time.Since(joined) < time.Minute {
			l.pass(100 * time.Millisecond)
		}
		took := time.Since(joined)
		l.pass(2 * look)
		t.Logf("256 shards, 17 nodes: spread at most 1 after %v, %.1f looks; %d moves", took, took.Seconds()/look.Seconds(), w.moves())
		require.Empty(w.t, w.differences(shards, nodes+1))
		require.LessOrEqual(w.t, took, 2*look)
		require.Equal(w.t, shards/(nodes+1), w.moves(), "the least there can be")
		l.check(0)
	}, quiet, func(c *Config) { c.Timings.PollInterval = 2 * time.Second })
}

// startTogether starts so many nodes at the same time.
func (w *world) startTogether(nodes int) {
	var all []*node
	for i := range nodes {
		all = append(all, w.join(fmt.Sprintf("node-%02d", i)))
	}
	for _, n := range all {
		w.me.Request(n.broker, &messages.Subscribe{Stream: &messages.StreamDescriptor{Name: testStream}, Subscriber: w.sub.PID()})
	}
	for range all {
		probe.Fish(w.me, func(*messages.Subscribed) bool { return true })
	}
}

// differences are the numbers of shards of nodes that have not their share.
func (w *world) differences(shards, nodes int) []int {
	var wrong []int
	owned := w.owned(shards)
	for _, n := range owned {
		if n < shards/nodes || n > (shards+nodes-1)/nodes {
			wrong = append(wrong, n)
		}
	}
	for range nodes - len(owned) {
		wrong = append(wrong, 0)
	}
	slices.Sort(wrong)
	return wrong
}

// moves is how often a shard has got another owner than it had.
func (w *world) moves() int {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	owners, n := make(map[string]string), 0
	for _, row := range w.store.seen {
		switch was := owners[row.Shard]; {
		case row.Owner == "":
			continue
		case was != "" && was != row.Owner:
			n++
		}
		owners[row.Shard] = row.Owner
	}
	return n
}
