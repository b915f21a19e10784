package actors

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

var errOutage = errors.New("store unreachable")

// An idle lease is renewed every 3 s, and shards are listed every 10 s, give or take a tenth.
func TestTheRulesOfThreeAndTenSeconds(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open()
		before, listed := w.store.count("renew"), w.service.CallCount("ListShards")
		time.Sleep(10 * time.Minute)
		require.InDelta(w.t, 200, w.store.count("renew")-before, 2)
		require.InDelta(w.t, 60, w.service.CallCount("ListShards")-listed, 7)
		require.Zero(w.t, w.store.count("checkpoint"), "nothing moved")
	})
}

// At the tip a shard is polled every second, and never more than 5 times in a second while behind.
func TestPacingOfReads(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		for range 100 {
			w.put("k", "x")
		}
		w.open(horizon, func(d *messages.StreamDescriptor) { d.WindowRecords = new(int32(2)) })
		w.takeAll(100)
		byShard := readTimes(w)
		for i := 5; i < len(byShard); i++ {
			require.GreaterOrEqual(w.t, byShard[i].Sub(byShard[i-5]), time.Second, "six reads within a second")
		}
		n := len(byShard)
		time.Sleep(time.Minute)
		require.InDelta(w.t, 60, len(readTimes(w))-n, 2)
	}, func(c *Config) { c.Limits.ReadsPerSecond = 0 })
}

func readTimes(w *world) []time.Time {
	var out []time.Time
	for _, c := range w.service.Calls() {
		if c.Op == "GetRecords" {
			out = append(out, c.Time)
		}
	}
	return out
}

// L1: a subscriber that settles nothing for long does not lose its lease.
func TestASlowSubscriberDoesNotDelayRenewals(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		d := w.next(false)
		time.Sleep(5 * time.Minute)
		owner := w.lease(shardName(0)).Owner
		require.NotEmpty(w.t, owner)
		w.sub.Send(w.sub.Sender(), d.Ack())
		time.Sleep(2 * time.Second)
		require.Equal(w.t, d.GetSequenceNumber(), w.lease(shardName(0)).Checkpoint.String())
	})
}

// A hung GetRecords does not delay renewals either (G9).
func TestAHungReadDoesNotDelayRenewals(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.service.Fault("GetRecords", kinesistest.Match{}, 1, kinesistest.Hang())
		before := w.store.count("renew")
		time.Sleep(28 * time.Second)
		require.GreaterOrEqual(w.t, w.store.count("renew")-before, 9)
		w.put("k", "a")
		require.Equal(w.t, []string{"a"}, w.takeAll(1), "the call has a deadline, and reading goes on")
	})
}

// L18: renewals that fail for less than a ttl change nothing; beyond it nothing is delivered until one succeeds.
func TestSelfFencing(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		w.takeAll(1)
		time.Sleep(4 * time.Second)
		w.store.outage(errOutage, false)
		time.Sleep(5 * time.Second)
		w.put("k", "b")
		require.Equal(w.t, []string{"b"}, w.takeAll(1), "within the ttl deliveries go on")
		time.Sleep(6 * time.Second)
		w.put("k", "c")
		time.Sleep(20 * time.Second)
		for {
			e, ok := w.sub.TryReceive()
			if !ok {
				break
			}
			require.IsType(w.t, &messages.SubscriptionError{}, e.Message, "nothing is delivered without trust in the lease")
		}
		w.store.outage(nil, false)
		require.Equal(w.t, []string{"c"}, w.takeAll(1), "it reads on once the lease is renewed")
		time.Sleep(2 * time.Second)
		require.Equal(w.t, w.service.Records(testStream)[2].SequenceNumber, w.lease(shardName(0)).Checkpoint.String())
	})
}

// L3: a write that was applied though its reply was lost counts.
func TestLostRepliesOfTheStore(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.store.outage(errOutage, true)
		w.put("k", "a")
		w.takeAll(1)
		time.Sleep(30 * time.Second)
		w.put("k", "b")
		require.Equal(w.t, []string{"b"}, w.takeAll(1))
		w.store.outage(nil, false)
		time.Sleep(3 * time.Second)
		require.Equal(w.t, w.service.Records(testStream)[1].SequenceNumber, w.lease(shardName(0)).Checkpoint.String())
		require.Equal(w.t, 1, w.store.count("acquire"), "the lease was never given up")
	})
}

// A lease that someone else has written is lost: the reader stops without a checkpoint (L20, fencing).
func TestFencedReaderStopsWithoutCheckpoint(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		d := w.next(false)
		reader := w.sub.Sender()
		w.me.Watch(reader)
		stolen, err := w.store.Store.Acquire(context.Background(), w.lease(shardName(0)), "thief")
		require.NoError(w.t, err)
		w.sub.Send(reader, d.Ack())
		w.me.ExpectTerminated(reader)
		now := w.lease(shardName(0))
		require.Equal(w.t, stolen, now, "a zombie writes nothing")
		e := probe.Fish(w.sub, func(*messages.SubscriptionError) bool { return true })
		require.Equal(w.t, messages.ErrorKind_ERROR_KIND_LEASE, e.GetError().GetKind())
		// The thief does nothing more: after a ttl its lease is taken, and the record comes again.
		start := time.Now()
		require.Equal(w.t, []string{"a"}, w.takeAll(1))
		require.Greater(w.t, time.Since(start), 9*time.Second)
		require.Less(w.t, time.Since(start), 17*time.Second, "ttl and a scan")
	})
}

// A second broker on the same store takes over within ttl and a scan when the first dies, and at once when it leaves.
func TestTakeover(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		inBubble(t, 2, func(w *world) {
			w.open(horizon)
			w.put("k", "a")
			w.takeAll(1)
			time.Sleep(2 * time.Second)
			first := w.broker
			w.cfg.Name, w.cfg.Store = "second", w.store.Store
			w.broker = w.spawnBroker()
			other := probe.New(w.t, w.system, "other")
			w.connect()
			w.me.Request(w.broker, &messages.Subscribe{Stream: &messages.StreamDescriptor{Name: testStream}, Subscriber: other.PID()})
			opened := probe.Expect[*messages.Subscribed](w.me)
			require.Empty(w.t, opened.GetShards(), "all shards are taken")
			time.Sleep(time.Minute)
			start := time.Now()
			if leaves {
				w.me.Request(first, &messages.Shutdown{})
				probe.Expect[*messages.Closed](w.me)
			} else {
				w.store.outage(errOutage, false) // the first is alone with its store's outage: to the second it is dead
			}
			w.put("k", "b")
			d := probe.Fish(other, func(*messages.Delivery) bool { return true }, time.Minute)
			require.Equal(w.t, "b", string(d.GetData()))
			if leaves {
				require.Less(w.t, time.Since(start), 5*time.Second)
			} else {
				require.Less(w.t, time.Since(start), 15*time.Second)
			}
			w.me.Request(first, &messages.Shutdown{Timeout: durationOf(0)})
			probe.Expect[*messages.Closed](w.me)
		})
	}
}

// C11: checkpoints are coalesced: at most one write a second while acks pour in, and the last is saved at the end.
func TestCheckpointsAreCoalesced(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		for range 100 {
			w.put("k", "x")
			w.takeAll(1)
			time.Sleep(100 * time.Millisecond)
		}
		require.LessOrEqual(w.t, w.store.count("checkpoint"), 102)
		before := w.store.count("checkpoint")
		for range 900 {
			w.put("k", "x")
		}
		w.takeAll(900)
		w.me.Request(w.broker, &messages.Shutdown{})
		probe.Expect[*messages.Closed](w.me)
		require.LessOrEqual(w.t, w.store.count("checkpoint")-before, 4)
		records := w.service.Records(testStream)
		require.Equal(w.t, records[len(records)-1].SequenceNumber, w.lease(shardName(0)).Checkpoint.String())
	})
}

// C1: settlements out of order move the checkpoint only over what is settled without a gap; a slow store delays nothing.
func TestCheckpointIsTheWatermark(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.store.slow(2 * time.Second)
		w.open(horizon)
		for _, data := range []string{"1", "2", "3", "4", "5"} {
			w.put("k", data)
		}
		var ds []*messages.Delivery
		for range 5 {
			ds = append(ds, w.next(false))
		}
		reader := w.sub.Sender()
		for _, i := range []int{2, 0, 4} {
			w.sub.Send(reader, ds[i].Ack())
		}
		time.Sleep(10 * time.Second)
		require.Equal(w.t, ds[0].GetSequenceNumber(), w.lease(shardName(0)).Checkpoint.String())
		w.sub.Send(reader, ds[1].Drop())
		time.Sleep(10 * time.Second)
		require.Equal(w.t, ds[2].GetSequenceNumber(), w.lease(shardName(0)).Checkpoint.String())
		w.sub.Send(reader, ds[3].Ack())
		w.sub.Send(reader, ds[3].Ack()) // twice changes nothing
		time.Sleep(10 * time.Second)
		require.Equal(w.t, ds[4].GetSequenceNumber(), w.lease(shardName(0)).Checkpoint.String())
	})
}

// The reconciliation: a lease of ours whose reader was stopped by force has a reader again (L5).
func TestReaderStoppedByForceIsReplaced(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		w.takeAll(1)
		w.system.Root.Stop(w.sub.Sender())
		synctest.Wait()
		w.put("k", "b")
		probe.Fish(w.sub, func(d *messages.Delivery) bool { return string(d.GetData()) == "b" })
	})
}

// A store that fails from the start fails nothing but the shards: Subscribed comes, and so do the errors.
func TestTroubleOfTheFirstPassIsReportedAfterSubscribed(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		w.connect()
		w.service.Fault("GetShardIterator", kinesistest.Match{Shard: shardName(1)}, 2, kinesistest.Error("AccessDeniedException", "no"))
		w.me.Request(w.broker, &messages.Subscribe{Stream: &messages.StreamDescriptor{Name: testStream}, Subscriber: w.sub.PID()})
		probe.Expect[*messages.Subscribed](w.me)
		e := probe.Expect[*messages.SubscriptionError](w.sub)
		require.Equal(w.t, shardName(1), e.GetError().GetShardId())
		require.Equal(w.t, "AccessDeniedException", e.GetError().GetAwsCode())
		require.False(w.t, e.GetFatal())
		time.Sleep(time.Minute)
		for _, key := range []string{"k0", "k1", "k2", "k3"} {
			w.put(key, key)
		}
		require.ElementsMatch(w.t, []string{"k0", "k1", "k2", "k3"}, w.takeAll(4), "it recovered by itself")
	})
}

var _ leasestore.Store = (*flakyStore)(nil)
