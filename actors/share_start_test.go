package actors

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// Nodes that start together with the same start_at move the stream there once, and none of them fails because another was faster.
func TestNodesThatStartTogetherAtOnePosition(t *testing.T) {
	positions := map[string]*messages.Position{
		"horizon":   {At: &messages.Position_TrimHorizon{TrimHorizon: &messages.TrimHorizon{}}},
		"timestamp": {At: &messages.Position_Timestamp{Timestamp: &messages.Timestamp{UnixMillis: 1000}}},
		"tip":       {At: &messages.Position_Latest{Latest: &messages.Latest{}}},
	}
	for name, at := range positions {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 8, func(w *world) {
				w.cfg.Store = sharedStore{w.store}
				l := &fleetLog{w: w}
				var nodes []*node
				for i := range 3 {
					nodes = append(nodes, w.join(fmt.Sprint("node-", i)))
				}
				for _, n := range nodes {
					w.me.Request(n.broker, &messages.Subscribe{Stream: &messages.StreamDescriptor{Name: testStream, StartAt: at}, Subscriber: w.sub.PID()})
				}
				for range nodes {
					probe.Fish(w.me, func(*messages.Subscribed) bool { return true })
				}
				l.pass(10 * time.Second)
				l.check(0)
				require.Len(w.t, w.owned(8), 3)
				require.EqualValues(w.t, 1, w.lease(shardName(0)).Seek)
			})
		})
	}
}

// Nodes that start together with positions that differ move the stream one after the other.
func TestNodesThatStartTogetherAtTwoPositions(t *testing.T) {
	inBubble(t, 4, func(w *world) {
		w.cfg.Store = sharedStore{w.store}
		starts := []*messages.Position{
			{At: &messages.Position_TrimHorizon{TrimHorizon: &messages.TrimHorizon{}}},
			{At: &messages.Position_Timestamp{Timestamp: &messages.Timestamp{UnixMillis: 1000}}},
		}
		a, b := w.join("a"), w.join("b")
		for i, n := range []*node{a, b} {
			w.me.Request(n.broker, &messages.Subscribe{Stream: &messages.StreamDescriptor{Name: testStream, StartAt: starts[i]}, Subscriber: w.sub.PID()})
		}
		for range starts {
			probe.Fish(w.me, func(*messages.Subscribed) bool { return true })
		}
		time.Sleep(10 * time.Second)
		for i := range 4 {
			require.EqualValues(w.t, 2, w.lease(shardName(i)).Seek)
		}
	})
}
