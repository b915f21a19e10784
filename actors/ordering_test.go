package actors

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

func relaxed(d *messages.StreamDescriptor) { d.Ordering = messages.Ordering_ORDERING_RELAXED }

// unsettled takes n deliveries without settling any, by payload.
func (w *world) unsettled(n int) map[string]*messages.Delivery {
	w.t.Helper()
	out := make(map[string]*messages.Delivery)
	for range n {
		d := w.next(false)
		out[string(d.GetData())] = d
	}
	return out
}

// R26: the children of a shard with records unsettled are read at once; it is read to its end all the same.
func TestRelaxedOrderingReadsChildrenBesideTheirParent(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.put("k", "parent 1")
		w.put("k", "parent 2")
		split(w, shardName(0))
		w.put("k", "child")
		start := time.Now()
		w.open(horizon, relaxed, func(d *messages.StreamDescriptor) { d.WindowRecords = new(int32(1)) })
		out := w.unsettled(2)
		require.Contains(w.t, out, "parent 1")
		require.Contains(w.t, out, "child")
		require.Less(w.t, time.Since(start), time.Second)
		for _, d := range out {
			w.sub.Send(readersOf(w)[d.GetShardId()], d.Ack())
		}
		require.Equal(w.t, []string{"parent 2"}, w.takeAll(1))
		time.Sleep(5 * time.Second)
		require.True(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
		for n := range 3 {
			require.Equal(w.t, []string{"TRIM_HORIZON"}, iteratorKinds(w, shardName(n)))
		}
	})
}

// R26, R1: nor does a child wait that a reshard makes while the stream is read from the tip. It is read whole, and a restart loses
// nothing of either.
func TestRelaxedOrderingAfterTheTip(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(relaxed)
		w.put("k", "parent")
		require.Equal(w.t, "parent", string(w.next(false).GetData()))
		split(w, shardName(0))
		w.put("k", "child")
		require.Equal(w.t, []string{"child"}, w.takeAll(1), "at the next listing")
		w.me.Request(w.broker, &messages.Shutdown{Timeout: durationOf(0)})
		probe.Expect[*messages.Closed](w.me)
		w.cfg.Name = "second"
		w.broker = w.spawnBroker()
		w.open() // strict from here on
		w.put("k", "child 2")
		require.ElementsMatch(w.t, []string{"parent", "child 2"}, w.takeAll(2))
		time.Sleep(5 * time.Second)
		require.True(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
	})
}

// R26: after an opening at the tip, a parent whose lease can't be had yet does not become out of scope by its child's.
func TestRelaxedOrderingDoesNotSkipAParentWithoutALease(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.store.refuse(shardName(0))
		w.open(relaxed)
		time.Sleep(time.Second)
		w.put("k", "parent")
		split(w, shardName(0))
		w.put("k", "child")
		time.Sleep(30 * time.Second)
		w.store.refuse("")
		require.ElementsMatch(w.t, []string{"parent", "child"}, w.takeAll(2))
	})
}

// R26: a seek moves parents and children at once.
func TestRelaxedOrderingAcrossASeek(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.put("k", "parent")
		split(w, shardName(0))
		w.put("k", "child")
		opened := w.open(horizon, relaxed)
		w.takeAll(2)
		time.Sleep(5 * time.Second)
		w.me.Request(opened.GetSubscription(), &messages.Seek{To: toHorizon()})
		sought := probe.Fish(w.me, func(*messages.Sought) bool { return true })
		require.Len(w.t, sought.GetShards(), 3)
		again := w.unsettled(2)
		require.Contains(w.t, again, "parent")
		require.Contains(w.t, again, "child")
		require.NotEqual(w.t, leasestore.ShardEnd(), w.lease(shardName(0)).Checkpoint)
	})
}

// R26: what a child waits for after the tip is that its parent's lease is seen; the leases are looked at for it, not only at the next listing.
func TestRelaxedOrderingSeesTheLeaseOfAParentSoon(t *testing.T) {
	var s hookStore
	var allowed atomic.Bool
	s.setHook(func(ctx context.Context, w storeWrite) (context.Context, error) {
		switch {
		case w.op != "acquire" || w.lease.Shard != shardName(0):
		case !allowed.Load():
			return ctx, errOutage
		default:
			time.Sleep(3200 * time.Millisecond) // longer than the pause between looks
		}
		return ctx, nil
	})
	inBubble(t, 2, func(w *world) {
		w.open(relaxed)
		w.put(keyFor(w, shardName(0), false), "parent")
		split(w, shardName(0))
		time.Sleep(30 * time.Second)
		require.Empty(w.t, iteratorKinds(w, shardName(2)))
		allowed.Store(true)
		for range 600 {
			if w.hasLease(shardName(0)) {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(3500 * time.Millisecond)
		require.Equal(w.t, []string{"TRIM_HORIZON"}, iteratorKinds(w, shardName(2)))
	}, hooked(&s))
}
