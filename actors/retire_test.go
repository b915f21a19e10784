package actors

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// R19, L19: which leases may go. In all cases shard 0 was split into 1 and 2.
func TestRetirable(t *testing.T) {
	one, two := openShard("1", "0"), openShard("2", "0")
	begun := func(seek int64) []leasestore.Lease {
		return []leasestore.Lease{childLease(leaseAt("1", "50", seek), "0"), childLease(leaseAt("2", "<60", seek), "0")}
	}
	for _, c := range []struct {
		name   string
		shards []shard
		leases []leasestore.Lease
		state  leasestore.StreamState
		told   []string
		want   []string
	}{
		{name: "finished, and both children are read from", shards: []shard{one, two}, leases: append(begun(0), leaseAt("0", "SHARD_END", 0)), want: []string{"0"}},
		{name: "it is listed still", shards: []shard{closedShard("0"), one, two}, leases: append(begun(0), leaseAt("0", "SHARD_END", 0))},
		{name: "nothing is listed", leases: append(begun(0), leaseAt("0", "SHARD_END", 0))},
		{
			name: "the opening is not done: the stream's state is not stored", state: leasestore.StreamState{Start: atMillis(5), Tip: true},
			shards: []shard{one, two}, leases: append(begun(0), leaseAt("0", "SHARD_END", 0)),
		},
		{
			name: "a child has no lease yet", shards: []shard{one, two},
			leases: []leasestore.Lease{leaseAt("0", "SHARD_END", 0), leaseAt("1", "50", 0)},
		},
		{
			name: "a child has not been read from: horizon", shards: []shard{one, two},
			leases: []leasestore.Lease{leaseAt("0", "SHARD_END", 0), leaseAt("1", "50", 0), leaseAt("2", "TRIM_HORIZON", 0)},
		},
		{
			name: "a child has not been read from: timestamp", shards: []shard{one, two},
			leases: []leasestore.Lease{leaseAt("0", "SHARD_END", 0), leaseAt("1", "AT_TIMESTAMP@5", 0), leaseAt("2", "6", 0)},
		},
		{
			name: "a child has a lease without a checkpoint", shards: []shard{one, two},
			leases: []leasestore.Lease{leaseAt("0", "SHARD_END", 0), leaseAt("1", "", 0), leaseAt("2", "6", 0)},
		},
		{
			name: "a child has not been moved by the last seek", state: horizonAt(1), shards: []shard{one, two},
			leases: append(begun(0), leaseAt("0", "SHARD_END", 0)),
		},
		{
			name: "a child that is listed no more was read to its end", shards: []shard{openShard("3", "1"), two}, want: []string{"0"},
			leases: []leasestore.Lease{leaseAt("0", "SHARD_END", 0), childLease(leaseAt("1", "SHARD_END", 0), "0"), leaseAt("2", "7", 0)},
		},
		{
			name: "a child that is listed no more was never read from, and is not told yet", shards: []shard{openShard("3", "1"), two},
			leases: []leasestore.Lease{
				leaseAt("0", "SHARD_END", 0), childLease(leaseAt("1", "TRIM_HORIZON", 0), "0"), leaseAt("2", "7", 0), leaseAt("3", "8", 0),
			},
		},
		{
			name: "once it is told it goes, and its parent after it", shards: []shard{openShard("3", "1"), two}, told: []string{"1"}, want: []string{"1"},
			leases: []leasestore.Lease{
				leaseAt("0", "SHARD_END", 0), childLease(leaseAt("1", "TRIM_HORIZON", 0), "0"), leaseAt("2", "7", 0), leaseAt("3", "8", 0),
			},
		},
		{
			name: "all its children were trimmed away", shards: []shard{openShard("5", "3"), openShard("6", "4")}, want: []string{"0"},
			leases: []leasestore.Lease{leaseAt("0", "SHARD_END", 0)},
		},
		{name: "R6: not read to its end, and not told", shards: []shard{one, two}, leases: append(begun(0), leaseAt("0", "9", 0))},
		{
			name: "R6: not read to its end, and told", shards: []shard{one, two}, leases: append(begun(0), leaseAt("0", "9", 0)),
			told: []string{"0"}, want: []string{"0"},
		},
		{
			name: "given up by a seek", state: horizonAt(1), shards: []shard{one, two}, want: []string{"0"},
			leases: append(begun(1), leaseAt("0", "9", 0)),
		},
		{
			name: "of a seek that was not seen yet", shards: []shard{one, two}, leases: append(begun(0), leaseAt("0", "SHARD_END", 1)),
		},
		{
			name: "a child that is not listed yet", shards: []shard{closedShard("0")},
			leases: []leasestore.Lease{leaseAt("0", "SHARD_END", 0), childLease(leaseAt("1", "SHARD_END", 0), "0")},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.state.Start.IsZero() {
				c.state = tipAt(1000, 0)
			}
			told := make(map[string]bool)
			for _, id := range c.told {
				told[id] = true
			}
			var got []string
			for _, lease := range newLineage(c.shards, c.leases, c.state, false).retirable(told) {
				got = append(got, lease.Shard)
			}
			require.Equal(t, c.want, got)
		})
	}
}

// reshardAll splits every shard of a stream of n, has every child read from, and drops the parents. The first delivery of the last child
// is not settled when hold is set; it is returned.
func reshardAll(w *world, n int, hold bool) (held *messages.Delivery) {
	w.t.Helper()
	w.open(horizon)
	for i := range n {
		split(w, shardName(i))
	}
	for i := range 40 * n {
		w.put(fmt.Sprint("key ", i), "data")
	}
	for range 40 * n {
		d := w.next(false)
		if hold && d.GetShardId() == shardName(3*n-1) {
			if held == nil {
				held = d
			}
			continue
		}
		w.sub.Reply(d.Ack())
	}
	time.Sleep(15 * time.Second)
	for i := range n {
		require.True(w.t, w.lease(shardName(i)).Checkpoint.IsShardEnd())
		require.True(w.t, w.service.DropShard(testStream, shardName(i)))
	}
	return held
}

func (w *world) hasLease(shard string) bool { return w.lease(shard).Counter > 0 }

// L19: the leases of shards that were trimmed away go, a few after each listing; but not one whose child was not read from yet.
func TestLeasesOfTrimmedShardsAreRemoved(t *testing.T) {
	inBubble(t, 12, func(w *world) {
		held := reshardAll(w, 12, true)
		left := func() (n int) {
			for i := range 12 {
				if w.hasLease(shardName(i)) {
					n++
				}
			}
			return n
		}
		var seen []int
		for range 40 {
			time.Sleep(time.Second)
			if n := left(); len(seen) == 0 || seen[len(seen)-1] != n {
				seen = append(seen, n)
			}
		}
		require.Equal(w.t, []int{12, 2, 1}, seen, "at most ten at a time, and one is needed")
		require.True(w.t, w.hasLease(shardName(11)))
		w.sub.Send(readersOf(w)[held.GetShardId()], held.Ack())
		time.Sleep(15 * time.Second)
		require.Zero(w.t, left())
		require.Empty(w.t, subscriptionErrors(w))
		require.True(w.t, w.hasLease(shardName(12)), "a shard that is listed keeps its lease")
	})
}

// R19: a node with a listing of before (or one that gets an old one) makes the row anew; nothing is read again.
func TestAStaleListingAfterTheLeaseWasRemoved(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "parent")
		split(w, shardName(0))
		for i := range 8 {
			w.put(fmt.Sprint(i), "child")
		}
		w.takeAll(9)
		time.Sleep(15 * time.Second)
		old := listingWithout(w)
		require.True(w.t, w.service.DropShard(testStream, shardName(0)))
		time.Sleep(30 * time.Second)
		require.False(w.t, w.hasLease(shardName(0)))
		w.service.Fault("ListShards", kinesistest.Match{}, 1, old)
		time.Sleep(time.Minute)
		w.put("k", "new")
		require.Equal(w.t, []string{"new"}, w.takeAll(1))
		time.Sleep(time.Minute)
		require.False(w.t, w.hasLease(shardName(0)), "the row made anew goes, too")
		require.Empty(w.t, subscriptionErrors(w))
	})
}

// S2, R19: nothing is removed by a listing that fails, is empty, or lacks a shard that can still be read.
func TestLeasesStayWhenTheListingProvesNothing(t *testing.T) {
	for name, effect := range map[string]func(w *world) kinesistest.Effect{
		"a listing that fails":    func(*world) kinesistest.Effect { return kinesistest.Error("InternalFailure", "no") },
		"a listing of nothing":    func(w *world) kinesistest.Effect { return listingWithout(w, shardName(0), shardName(1), shardName(2)) },
		"a listing without one":   func(w *world) kinesistest.Effect { return listingWithout(w, shardName(0)) },
		"a listing without half":  func(w *world) kinesistest.Effect { return listingWithout(w, shardName(0), shardName(1)) },
		"a listing of the parent": func(w *world) kinesistest.Effect { return listingWithout(w, shardName(1), shardName(2)) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(w *world) {
				w.open(horizon)
				split(w, shardName(0))
				for i := range 8 {
					w.put(fmt.Sprint(i), "data")
				}
				w.takeAll(8)
				time.Sleep(15 * time.Second)
				w.service.Fault("ListShards", kinesistest.Match{}, 1000, effect(w))
				time.Sleep(5 * time.Minute)
				for n := range 3 {
					require.True(w.t, w.hasLease(shardName(n)), shardName(n))
				}
			})
		})
	}
}

// R19: a row that someone has written since it was seen is not removed.
func TestALeaseIsRemovedOnlyAsItWasSeen(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		reshardAll(w, 1, false)
		w.service.Fault("GetShardIterator", kinesistest.Match{Shard: shardName(0)}, 1000, kinesistest.Error("ResourceNotFoundException", "gone"))
		stop := time.Now().Add(2 * time.Minute)
		row := w.lease(shardName(0))
		w.store.slowList(time.Second)
		for time.Now().Before(stop) { // someone else writes it again and again, after each look at it
			time.Sleep(500 * time.Millisecond)
			next, err := w.store.Store.Renew(context.Background(), row)
			require.NoError(w.t, err, "it was removed though its counter had moved on")
			row = next
		}
		time.Sleep(30 * time.Second)
		require.False(w.t, w.hasLease(shardName(0)))
	})
}

// R6: the row of a shard that was trimmed away unread goes after it was told, so that a restart does not tell it again.
func TestTheLeaseOfALostShardIsRemovedOnceTold(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "read")
		w.takeAll(1)
		w.me.Request(w.broker, &messages.Shutdown{})
		probe.Expect[*messages.Closed](w.me)
		split(w, shardName(0))
		for i := range 8 {
			w.put(fmt.Sprint(i), "data")
		}
		require.True(w.t, w.service.DropShard(testStream, shardName(0)))
		w.cfg.Name = "second"
		w.broker = w.spawnBroker()
		w.open()
		probe.Expect[*messages.SubscriptionError](w.sub)
		w.takeAll(8)
		time.Sleep(time.Minute)
		require.Empty(w.t, subscriptionErrors(w))
		require.False(w.t, w.hasLease(shardName(0)))
	})
}

// R19: as long as the service does not say that a shard is gone, or hash keys have no shard, leases stay.
func TestLeasesOfTrimmedShardsStayWithoutProof(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		reshardAll(w, 1, false)
		down := w.service.Fault("GetShardIterator", kinesistest.Match{Shard: shardName(0)}, 1000, kinesistest.Error("InternalFailure", "no"))
		time.Sleep(time.Minute)
		require.Positive(w.t, down.Count(), "it was asked")
		require.True(w.t, w.hasLease(shardName(0)))
		w.me.Request(w.broker, &messages.Shutdown{})
		probe.Expect[*messages.Closed](w.me)
		down.Clear()
		missing := w.service.Fault("ListShards", kinesistest.Match{}, 1000, listingWithout(w, shardName(2)))
		w.cfg.Name = "second"
		w.broker = w.spawnBroker()
		w.open()
		time.Sleep(time.Minute)
		require.True(w.t, w.hasLease(shardName(0)), "a listing with a hole proves nothing")
		missing.Clear()
		time.Sleep(45 * time.Second)
		require.False(w.t, w.hasLease(shardName(0)))
	})
}

// R6: the row of a lost shard whose owner lives stays: its reader may still have something to settle.
func TestTheLeaseOfALostShardStaysWhileItsOwnerLives(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "read")
		w.takeAll(1)
		w.me.Request(w.broker, &messages.Shutdown{})
		probe.Expect[*messages.Closed](w.me)
		held, err := w.store.Store.Acquire(w.t.Context(), w.lease(shardName(0)), "other")
		require.NoError(w.t, err)
		split(w, shardName(0))
		for i := range 8 {
			w.put(fmt.Sprint(i), "data")
		}
		require.True(w.t, w.service.DropShard(testStream, shardName(0)))
		w.cfg.Name = "second"
		w.broker = w.spawnBroker()
		w.open()
		for range 30 {
			time.Sleep(2 * time.Second)
			held, err = w.store.Store.Renew(w.t.Context(), held)
			require.NoError(w.t, err)
		}
		got, _ := w.received()
		require.Empty(w.t, got, "its children wait")
		time.Sleep(14 * time.Second)
		w.takeAll(8)
		time.Sleep(30 * time.Second)
		require.False(w.t, w.hasLease(shardName(0)))
	})
}

// R19, R20: the first two listings of a node that starts lack a closed shard that nobody has read yet: its records are not given up for it.
func TestListingsThatLackedAShardCostNothing(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open()
		w.acked()
		w.put("k", "parent")
		time.Sleep(5 * time.Second)
		w.store.refuse(shardName(1))
		split(w, shardName(0))
		w.put(keyFor(w, shardName(1), false), "child")
		w.put(keyFor(w, shardName(2), false), "other")
		time.Sleep(30 * time.Second)
		got, _ := w.received()
		require.Equal(w.t, []string{"parent", "other"}, got)
		w.shutdown()
		w.store.refuse("")
		split(w, shardName(1))
		require.True(w.t, w.service.DropShard(testStream, shardName(0)))
		w.service.Fault("ListShards", kinesistest.Match{}, 2, listingWithout(w, shardName(1)))
		w.subscribe()
		time.Sleep(2 * time.Minute)
		got, _ = w.received()
		require.Equal(w.t, []string{"child"}, got)
	})
}

// S1, R19: A removal of leases under way when the stream turns out to be another must not be the last one.
func TestLeasesAreRetiredAfterStartingOver(t *testing.T) {
	co := &coordinator{}
	co.cfg = &Config{}
	co.retiring = true
	co.forgetAll()
	require.False(t, co.retiring)
}

// L19: Rows that the service gives no proof for do not hold up the others.
func TestFirstTenThatAreNotProvenDoNotHoldUpTheRest(t *testing.T) {
	inBubble(t, 11, func(w *world) {
		reshardAll(w, 11, false)
		for i := range 10 {
			w.service.Fault("GetShardIterator", kinesistest.Match{Shard: shardName(i)}, 1<<30, kinesistest.Error("InternalFailure", "no"))
		}
		time.Sleep(10 * time.Minute)
		require.False(w.t, w.hasLease(shardName(10)))
	})
}
