package actors

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// applicationStatus asks the world's broker for the status of the application.
func (w *world) applicationStatus() *messages.Status {
	w.t.Helper()
	start := time.Now()
	w.me.Request(w.broker, &messages.StatusRequest{Application: true, Correlation: 77})
	status := probe.Fish(w.me, func(m *messages.Status) bool { return m.GetCorrelation() == 77 })
	require.LessOrEqual(w.t, time.Since(start), 4*time.Second)
	return status
}

// reading are the shards that a node says it reads.
func readingOf(n *messages.NodeStatus) (shards []string) {
	for _, s := range n.GetSubscriptions() {
		for _, shard := range s.GetShards() {
			if shard.GetOwner() == n.GetOwnerId() {
				shards = append(shards, shard.GetShardId())
			}
		}
	}
	return shards
}

// beatOf stores a member's row, as its node would.
func (w *world) beatOf(m leasestore.Member) {
	w.t.Helper()
	_, err := w.store.Beat(w.t.Context(), m)
	require.NoError(w.t, err)
}

// streamID is the only stream there are leases of.
func (w *world) streamID() leasestore.StreamID {
	w.t.Helper()
	all, err := w.store.Streams(w.t.Context())
	require.NoError(w.t, err)
	require.Len(w.t, all, 1)
	return all[0].Stream
}

// Each node answers for itself.
func TestStatusOfAllNodes(t *testing.T) {
	inBubble(t, 4, func(w *world) {
		w.open(horizon)
		broker, other := second(w)
		subscribeAt(w, broker, other)
		time.Sleep(time.Minute)
		status := w.applicationStatus()
		require.Len(t, status.GetNodes(), 2)
		assert.Len(t, status.GetSubscriptions(), 1, "and this node's, as without")
		assert.Equal(t, messages.BrokerState_BROKER_STATE_CONNECTED, status.GetState())
		var all []string
		for i, n := range status.GetNodes() {
			assert.Equal(t, messages.BrokerState_BROKER_STATE_CONNECTED, n.GetState())
			assert.Empty(t, n.GetAddress(), "other processes do not reach it")
			assert.Len(t, n.GetSubscriptions()[0].GetShards(), 4)
			assert.Len(t, readingOf(n), 2)
			all = append(all, readingOf(n)...)
			if i > 0 {
				assert.Less(t, status.GetNodes()[i-1].GetOwnerId(), n.GetOwnerId())
			}
		}
		assert.ElementsMatch(t, []string{shardName(0), shardName(1), shardName(2), shardName(3)}, all)
		assert.Contains(t, []string{status.GetNodes()[0].GetOwnerId(), status.GetNodes()[1].GetOwnerId()}, status.GetOwnerId())
		w.me.ExpectNone(10 * time.Second)

		shutDown(w, broker)
		time.Sleep(time.Second)
		status = w.applicationStatus()
		require.Len(t, status.GetNodes(), 1)
		assert.Len(t, readingOf(status.GetNodes()[0]), 4)
	})
}

// Of a node that does not answer, that is not the one that it was, or that can't be reached, the leases tell.
func TestStatusOfNodesThatDoNotAnswer(t *testing.T) {
	inBubble(t, 3, func(w *world) {
		far := newElsewhere(w)
		w.open(horizon)
		stream := w.streamID()
		other := leasestore.StreamID{Name: "arn:other", CreatedMillis: 5}
		lease := func(s leasestore.StreamID, shard, owner string) {
			l, err := w.store.Acquire(w.t.Context(), leasestore.Lease{Key: leasestore.Key{Stream: s, Shard: shard}, Checkpoint: leasestore.AtSequence("7", 0)}, owner)
			require.NoError(t, err)
			if shard == "finished" {
				_, err = w.store.Checkpoint(w.t.Context(), l, leasestore.ShardEnd())
				require.NoError(t, err)
			}
		}
		w.beatOf(leasestore.Member{ID: "silent", Address: far.address, Broker: "nobody", System: "s", Streams: []leasestore.StreamID{stream, other}, Leaving: true})
		w.beatOf(leasestore.Member{ID: "before", Address: far.address, Broker: w.broker.GetId(), System: "s"})
		w.beatOf(leasestore.Member{ID: "apart"})
		lease(other, "b", "silent")
		lease(other, "a", "silent")
		lease(other, "finished", "gone")
		lease(other, "c", "worker")

		status := w.applicationStatus()
		nodes := make(map[string]*messages.NodeStatus)
		for _, n := range status.GetNodes() {
			nodes[n.GetOwnerId()] = n
		}
		require.Len(t, nodes, 5, "finished shards say nothing of who lives")
		assert.Equal(t, messages.BrokerState_BROKER_STATE_CONNECTED, nodes[status.GetOwnerId()].GetState())
		for _, id := range []string{"silent", "before", "apart", "worker"} {
			assert.Equal(t, messages.BrokerState_BROKER_STATE_UNSPECIFIED, nodes[id].GetState(), id)
		}
		assert.True(t, nodes["silent"].GetLeaving())
		assert.Equal(t, far.address, nodes["silent"].GetAddress())
		assert.Equal(t, []string{"a", "b"}, readingOf(nodes["silent"]))
		shard := nodes["silent"].GetSubscriptions()[0].GetShards()[0]
		assert.Equal(t, "arn:other", nodes["silent"].GetSubscriptions()[0].GetStream())
		assert.Equal(t, "7", shard.GetCheckpoint())
		assert.EqualValues(t, -1, shard.GetMillisBehindLatest())
		assert.Equal(t, messages.ShardState_SHARD_STATE_ELSEWHERE, shard.GetState())
		assert.Empty(t, nodes["before"].GetSubscriptions(), "it is this broker that lives at its address")
		assert.Empty(t, nodes["apart"].GetSubscriptions())
		assert.Equal(t, []string{"c"}, readingOf(nodes["worker"]))
	})
}

// A node on another machine is asked there.
func TestStatusOfANodeElsewhere(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		far := newElsewhere(w)
		w.connect() // it reads nothing itself
		require.Len(t, w.applicationStatus().GetNodes(), 1, "nobody does")
		broker, other := second(w)
		subscribeAt(w, broker, other)
		all, err := w.store.View(w.t.Context(), leasestore.StreamID{})
		require.NoError(t, err)
		member := all.Members[0]
		member.Address, member.Broker = far.address, broker.GetId()
		w.beatOf(member)
		status := w.applicationStatus()
		require.Len(t, status.GetNodes(), 2)
		node := status.GetNodes()[0]
		if node.GetOwnerId() == status.GetOwnerId() {
			node = status.GetNodes()[1]
		}
		assert.Equal(t, member.ID, node.GetOwnerId())
		assert.Equal(t, far.address, node.GetAddress())
		assert.Equal(t, messages.BrokerState_BROKER_STATE_CONNECTED, node.GetState())
		assert.Len(t, readingOf(node), 2)
		assert.Empty(t, status.GetSubscriptions())
		shutDown(w, broker)
	})
}

// A broker with a store of its own is the whole application.
func TestStatusOfAnApplicationOfOneNode(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.me.Request(w.broker, &messages.StatusRequest{Application: true, Correlation: 3})
		status := probe.Fish(w.me, func(m *messages.Status) bool { return m.GetCorrelation() == 3 })
		assert.Equal(t, messages.BrokerState_BROKER_STATE_CONFIGURED, status.GetState())
		assert.Empty(t, status.GetNodes())
		w.open(horizon)
		status = w.applicationStatus()
		require.Len(t, status.GetNodes(), 1)
		assert.Equal(t, []string{shardName(0)}, readingOf(status.GetNodes()[0]))
		shutDown(w, w.broker)
		assert.Empty(t, w.applicationStatus().GetNodes())
	}, func(c *Config) { c.Store = nil })
}

// blindStore can't be looked at.
type blindStore struct {
	leasestore.Store
	err  error
	hang bool
}

func (s *blindStore) View(ctx context.Context, stream leasestore.StreamID) (leasestore.View, error) {
	if s.hang {
		<-ctx.Done()
		return leasestore.View{}, ctx.Err()
	}
	if s.err != nil {
		return leasestore.View{}, s.err
	}
	return s.Store.View(ctx, stream)
}

// Without the store nobody knows which nodes there are, and the answer says so.
func TestStatusWithoutTheStore(t *testing.T) {
	store := &blindStore{}
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		for name, set := range map[string]func(){
			"fails": func() { store.err = errors.New("no such table") },
			"hangs": func() { store.err, store.hang = nil, true },
		} {
			set()
			start := time.Now()
			w.me.Request(w.broker, &messages.StatusRequest{Application: true, Correlation: 3})
			e := probe.Fish(w.me, func(m *messages.Error) bool { return m.GetCorrelation() == 3 })
			assert.Equal(t, messages.ErrorKind_ERROR_KIND_LEASE, e.GetKind(), name)
			assert.LessOrEqual(t, time.Since(start), 2*time.Second)
			store.hang = false
		}
		store.err = nil
		assert.Len(t, w.applicationStatus().GetNodes(), 1)
	}, func(c *Config) { store.Store, c.Store = c.Store, store })
}

// A shutdown that overtakes the request answers it with what there is.
func TestStatusThatAShutdownOvertakes(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		far := newElsewhere(w)
		far.losing(everything)
		w.open(horizon)
		w.beatOf(leasestore.Member{ID: "silent", Address: far.address, Broker: "nobody", System: "s"})
		for i := range 3 {
			w.me.Request(w.broker, &messages.StatusRequest{Application: true, Correlation: uint64(i + 10)})
			time.Sleep(100 * time.Millisecond)
		}
		w.me.Request(w.broker, &messages.StatusRequest{Application: true, Correlation: 13}) // not looked yet
		w.me.Request(w.broker, &messages.Shutdown{Timeout: durationOf(0)})
		for range 4 {
			m := probe.Fish(w.me, func(m *messages.Status) bool { return m.GetCorrelation() >= 10 })
			assert.NotEmpty(t, m.GetNodes())
		}
	})
}
