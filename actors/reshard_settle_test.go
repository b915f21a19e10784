package actors

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// When SHARD_END is written, what can come between, and what it starts.

// R11: SHARD_END comes after the last settlement. Whoever comes after a death before that reads the unsettled tail again.
func TestNoShardEndBeforeAllIsSettled(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		var want []string
		for i := range 100 {
			want = append(want, fmt.Sprint(i))
			w.put("k", want[i])
		}
		split(w, shardName(0))
		w.put("k", "child")
		for range want {
			w.next(false)
		}
		w.sub.ExpectNone(30 * time.Second)
		require.Equal(w.t, "TRIM_HORIZON", w.lease(shardName(0)).Checkpoint.String())
		w.system.Root.Stop(w.broker) // dies with all in flight
		time.Sleep(time.Second)
		w.cfg.Name = "heir"
		w.broker = w.spawnBroker()
		w.open()
		require.Equal(w.t, want, w.takeAll(100))
		require.Equal(w.t, "child", string(w.next(true).GetData()))
		require.True(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
	})
}

// R11, R13: whichever way the last record is settled, and in whichever order, the library writes SHARD_END by itself, once.
func TestLastSettlementEndsTheShard(t *testing.T) {
	for name, settle := range map[string]func(d *messages.Delivery) *messages.Settle{
		"ack":   (*messages.Delivery).Ack,
		"drop":  (*messages.Delivery).Drop,
		"retry": func(d *messages.Delivery) *messages.Settle { return d.RetryAfter(20 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(w *world) {
				w.open(horizon)
				w.put("k", "a")
				w.put("k", "b")
				split(w, shardName(0))
				a, b := w.next(false), w.next(false)
				reader := w.sub.Sender()
				w.sub.Send(reader, b.Ack())
				time.Sleep(10 * time.Second)
				require.Equal(w.t, "TRIM_HORIZON", w.lease(shardName(0)).Checkpoint.String())
				w.sub.Send(reader, settle(a))
				if name == "retry" {
					w.sub.ExpectNone(19 * time.Second)
					require.Equal(w.t, "TRIM_HORIZON", w.lease(shardName(0)).Checkpoint.String())
					require.Equal(w.t, []string{"a"}, w.takeAll(1))
				}
				w.me.Watch(reader)
				w.me.ExpectTerminated(reader, time.Second)
				time.Sleep(time.Minute)
				ends := 0
				for _, c := range w.store.written(shardName(0)) {
					if c.IsShardEnd() {
						ends++
					}
				}
				require.Equal(w.t, 1, ends)
				require.True(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
			})
		})
	}
}

// SHARD_END is written until it is stored: through an outage of the store longer than a ttl, and when replies are lost.
func TestShardEndIsWrittenUntilItIsStored(t *testing.T) {
	for name, lost := range map[string]bool{"outage": false, "lost replies": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(w *world) {
				w.open(horizon)
				w.put("k", "a")
				split(w, shardName(0))
				w.put("k", "b")
				a := w.next(false)
				time.Sleep(time.Second)
				w.store.outage(errOutage, lost)
				w.sub.Reply(a.Ack())
				if !lost {
					time.Sleep(30 * time.Second)
					require.Equal(w.t, "TRIM_HORIZON", w.lease(shardName(0)).Checkpoint.String())
					require.Empty(w.t, iteratorKinds(w, shardName(1)), "a child before its parent's SHARD_END is stored")
					w.store.outage(nil, false)
				}
				require.Equal(w.t, "b", string(w.next(true).GetData()))
				w.store.outage(nil, false)
				require.True(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
			})
		})
	}
}

// A reader that was fenced writes no SHARD_END; the new owner of the lease does.
func TestFencedReaderWritesNoShardEnd(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		split(w, shardName(0))
		w.put("k", "b")
		a := w.next(false)
		stolen, err := w.store.Store.Acquire(w.t.Context(), w.lease(shardName(0)), "thief")
		require.NoError(w.t, err)
		w.sub.Reply(a.Ack())
		time.Sleep(5 * time.Second)
		require.Equal(w.t, stolen, w.lease(shardName(0)))
		require.Empty(w.t, iteratorKinds(w, shardName(1)))
		_, err = w.store.Store.Release(w.t.Context(), stolen)
		require.NoError(w.t, err)
		require.Equal(w.t, []string{"a", "b"}, w.takeAll(2))
	})
}

// R12: a checkpoint that hangs while the rest is settled does not land over SHARD_END; writes of a lease take turns.
func TestLateCheckpointDoesNotReplaceShardEnd(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		w.put("k", "b")
		a, b := w.next(false), w.next(false)
		reader := w.sub.Sender()
		split(w, shardName(0))
		w.put("k", "c")
		time.Sleep(2 * time.Second)
		w.store.slow(2 * time.Second)
		writes := w.store.count("checkpoint")
		w.sub.Send(reader, a.Ack())
		for w.store.count("checkpoint") == writes {
			time.Sleep(10 * time.Millisecond)
		}
		w.sub.Send(reader, b.Ack())
		require.Equal(w.t, []string{"c"}, w.takeAll(1))
		time.Sleep(time.Minute)
		got := w.store.written(shardName(0))
		require.True(w.t, got[len(got)-1].IsShardEnd())
		require.Equal(w.t, a.GetSequenceNumber(), got[len(got)-2].String(), "the slow checkpoint first, then the end")
	})
}

// R12: a checkpoint that lands after the writer has given it up, before or after SHARD_END was written.
func TestCheckpointThatLandsAfterShardEnd(t *testing.T) {
	for _, lands := range []time.Duration{100 * time.Millisecond, 5 * time.Second} {
		inBubble(t, 1, func(w *world) {
			late := &lateStore{Store: w.store.Store, after: lands}
			w.store.Store = late
			w.open(horizon)
			w.put("k", "a")
			w.put("k", "b")
			a, b := w.next(false), w.next(false)
			reader := w.sub.Sender()
			split(w, shardName(0))
			w.put("k", "c")
			time.Sleep(2 * time.Second)
			late.arm(1)
			w.sub.Send(reader, a.Ack())
			for late.armed() {
				time.Sleep(10 * time.Millisecond)
			}
			w.sub.Send(reader, b.Ack())
			require.Equal(w.t, []string{"c"}, w.takeAll(1))
			time.Sleep(time.Minute)
			require.Equal(w.t, lands < time.Second, late.hasLanded() == nil, "the late write is refused once SHARD_END is stored")
			require.True(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
			require.Len(w.t, iteratorKinds(w, shardName(0)), 1, "the parent is not read again")
		})
	}
}

// The last settlement of a parent starts its children in the same second: no listing and no renewal has to come round.
func TestChildrenStartWithoutATick(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		split(w, shardName(0))
		w.put("k", "b")
		a := w.next(false)
		time.Sleep(20 * time.Second)
		settled := time.Now()
		w.sub.Reply(a.Ack())
		require.Equal(w.t, []string{"b"}, w.takeAll(1))
		require.Less(w.t, time.Since(settled), time.Second)
	}, func(c *Config) {
		c.Timings.ListEvery, c.Timings.RenewEvery, c.Timings.LeaseTTL = time.Hour, time.Hour, 3*time.Hour
	})
}

// What is settled while a reader drains at its shard's end still ends the shard.
func TestDrainAtShardEnd(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		opened := w.open(horizon)
		w.put("k", "a")
		split(w, shardName(0))
		w.put("k", "b")
		a := w.next(false)
		reader := w.sub.Sender()
		time.Sleep(5 * time.Second)
		w.me.Request(opened.GetSubscription(), &messages.Unsubscribe{Timeout: durationOf(20 * time.Second)})
		time.Sleep(time.Second)
		w.sub.Send(reader, a.Ack())
		require.Empty(w.t, probe.Expect[*messages.Unsubscribed](w.me).GetUnfinished())
		synctest.Wait()
		require.True(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
		require.Empty(w.t, iteratorKinds(w, shardName(1)), "the subscription has ended")
		w.subscribe()
		require.Equal(w.t, []string{"b"}, w.takeAll(1))
	})
}

var _ leasestore.Store = (*lateStore)(nil)
