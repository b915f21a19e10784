package actors

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// neighbour is a second broker on the world's store, with a subscriber of its own.
type neighbour struct {
	*world
	sub    *probe.Probe
	opened *messages.Subscribed
	owner  string
}

// neighbour starts one. What change does to its configuration, it does to nobody else's.
func (w *world) neighbour(change ...func(*Config)) *neighbour {
	w.t.Helper()
	cfg := w.cfg
	cfg.Name, cfg.Store = "neighbour", w.store.Store
	for _, f := range change {
		f(&cfg)
	}
	broker, err := SpawnBroker(w.system, cfg)
	require.NoError(w.t, err)
	n := &neighbour{world: w, sub: probe.New(w.t, w.system, "neighbour-subscriber")}
	n.sub.SetTimeout(time.Minute)
	w.me.Request(broker, &messages.Connect{})
	n.owner = probe.Expect[*messages.Connected](w.me).GetOwnerId()
	w.me.Request(broker, &messages.Subscribe{Stream: &messages.StreamDescriptor{Name: testStream}, Subscriber: n.sub.PID()})
	n.opened = probe.Expect[*messages.Subscribed](w.me)
	w.t.Cleanup(func() { w.system.Root.Stop(broker) })
	return n
}

// L1: a handler that blocks for three ttls loses no lease, and its record is handled once.
func TestABlockedHandlerKeepsItsLease(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		var mu sync.Mutex
		handled := make(map[string]int)
		w.handle(4, func(_ context.Context, d *messages.Delivery) error {
			time.Sleep(30 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			handled[string(d.GetData())]++
			return nil
		})
		other := w.neighbour()
		require.Empty(w.t, other.opened.GetShards())
		for i := range 20 {
			w.put(fmt.Sprint(i%5), fmt.Sprint(i))
		}
		other.sub.ExpectNone(5 * time.Minute)
		require.Equal(w.t, 1, w.store.count("acquire"))
		mu.Lock()
		defer mu.Unlock()
		require.Len(w.t, handled, 20)
		for data, times := range handled {
			require.Equal(w.t, 1, times, "%s", data)
		}
	})
}

// L2: a lease of its own that looks expired is not taken from the reader that holds it: one reader per shard, whatever the store does.
func TestANodeDoesNotStealFromItself(t *testing.T) {
	book := newLogBook()
	inBubble(t, 2, func(w *world) {
		w.open(horizon)
		w.neighbour()                // so that there is something to watch for
		time.Sleep(10 * time.Second) // it has its share
		for renewals := w.store.count("renew"); w.store.count("renew") == renewals; {
			time.Sleep(time.Millisecond)
		}
		w.store.outage(errOutage, false)
		before := w.store.count("acquire")
		time.Sleep(8500 * time.Millisecond) // and a second until it tries again: the neighbour is not to see it expired
		w.store.outage(nil, false)
		time.Sleep(time.Minute)
		require.Equal(w.t, before, w.store.count("acquire"))
		require.Empty(w.t, book.all("reader not started"))
		require.Empty(w.t, book.all("has no reader"))
	}, logged(book))
}

// L4: settlements pour in for minutes while renewals fall due and the store takes its time. Each lease has one writer at a time, and none of
// its writes fences another.
func TestRenewalsAndCheckpointsDoNotFenceEachOther(t *testing.T) {
	s := &hookStore{}
	var mu sync.Mutex
	writing, most := make(map[string]int), 0
	s.setHook(func(ctx context.Context, wr storeWrite) (context.Context, error) {
		mu.Lock()
		writing[wr.lease.Shard]++
		most = max(most, writing[wr.lease.Shard])
		mu.Unlock()
		time.Sleep(700 * time.Millisecond)
		mu.Lock()
		writing[wr.lease.Shard]--
		mu.Unlock()
		return ctx, nil
	})
	book := newLogBook()
	inBubble(t, 2, func(w *world) {
		w.open(horizon)
		for i := range 1000 {
			w.put(fmt.Sprint(i%7), "x")
			w.takeAll(1)
		}
		require.Empty(w.t, book.all("fenced"))
		require.Empty(w.t, book.all("lease lost"))
		mu.Lock()
		defer mu.Unlock()
		require.Equal(w.t, 1, most)
		require.Len(w.t, ofKind(s.written(), "acquire"), 2)
	}, hooked(s), logged(book))
}

// L5, D5: renewals fail until the trust is gone, the reader is stopped, its release fails; once the store is back the shard is read again
// within two ttls. A shard is either read, or its lease is not renewed.
func TestAShardIsReadAgainAfterAnOutage(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		opened := w.open(horizon)
		w.put("k", "a")
		w.takeAll(1)
		w.store.outage(errOutage, false)
		time.Sleep(15 * time.Second)
		w.system.Root.Poison(childPID(opened.GetSubscription(), shardName(0)))
		time.Sleep(30 * time.Second)
		w.store.outage(nil, false)
		w.put("k", "b")
		start := time.Now()
		probe.Fish(w.sub, func(d *messages.Delivery) bool { return string(d.GetData()) == "b" })
		require.Less(w.t, time.Since(start), 20*time.Second)
	})
}

// D5: a reader that is stopped by force renews no more: what renews afterwards is its successor, which reads.
func TestADeadReaderRenewsNothing(t *testing.T) {
	s := &hookStore{}
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		w.takeAll(1)
		// No successor can take the lease.
		s.setHook(func(ctx context.Context, wr storeWrite) (context.Context, error) {
			if wr.op == "acquire" {
				return ctx, errOutage
			}
			return ctx, nil
		})
		w.system.Root.Stop(w.sub.Sender())
		synctest.Wait()
		before := w.lease(shardName(0))
		time.Sleep(time.Minute)
		require.Equal(w.t, before, w.lease(shardName(0)))
		s.setHook(nil)
		w.put("k", "b")
		probe.Fish(w.sub, func(d *messages.Delivery) bool { return string(d.GetData()) == "b" })
	}, hooked(s))
}

// L13: two nodes given the same id are two owners. Neither reads what the other does.
func TestNodesOfOneNameAreTwoOwners(t *testing.T) {
	inBubble(t, 4, func(w *world) {
		w.me.Request(w.broker, &messages.Connect{})
		first := probe.Expect[*messages.Connected](w.me).GetOwnerId()
		w.subscribe(horizon)
		other := w.neighbour()
		require.NotEqual(w.t, first, other.owner)
		require.Empty(w.t, other.opened.GetShards())
		time.Sleep(10 * time.Second)
		owned := make(map[string]int)
		for i := range 4 {
			owned[w.lease(shardName(i)).Owner]++
		}
		require.Equal(w.t, map[string]int{first: 2, other.owner: 2}, owned)
		seen := make(map[string]bool)
		for i := range 40 {
			w.put(fmt.Sprint(i), fmt.Sprint(i))
			seen[string(fishEither(w, other.sub).GetData())] = true
		}
		require.Len(w.t, seen, 40)
		other.sub.ExpectNone(time.Minute)
	}, func(c *Config) { c.OwnerID = "same" })
}

// L15: shard ids repeat across streams, and across the lives of a stream of one name. Their leases have nothing to do with each other.
func TestShardsOfOneIDInTwoStreams(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		const second = "payments"
		require.NoError(w.t, w.service.CreateStream(second, 1))
		w.open(horizon)
		opened := w.subscribe(horizon, func(d *messages.StreamDescriptor) { d.Name = second })
		w.put("k", "a")
		_, other, err := w.service.Put(second, "k", []byte("b"))
		require.NoError(w.t, err)
		require.ElementsMatch(w.t, []string{"a", "b"}, w.takeAll(2))
		time.Sleep(2 * time.Second)
		rows := w.rows(shardName(0))
		require.Len(w.t, rows, 2)
		require.ElementsMatch(w.t, []string{w.service.Records(testStream)[0].SequenceNumber, other},
			[]string{rows[0].Checkpoint.String(), rows[1].Checkpoint.String()})
		w.me.Request(opened.GetSubscription(), &messages.Seek{To: toHorizon()})
		require.Equal(w.t, []string{"b"}, w.takeAll(1), "a seek moves its own stream")
		w.me.Request(opened.GetSubscription(), &messages.Unsubscribe{})
		w.sub.ExpectNone(20 * time.Second)
		// The same name again is another stream.
		_, err = admin(w).DeleteStream(w.t.Context(), deleteInput())
		require.NoError(w.t, err)
		probe.Fish(w.sub, func(m *messages.SubscriptionError) bool { return m.GetFatal() })
		require.NoError(w.t, w.service.CreateStream(testStream, 1))
		w.put("k", "anew")
		w.subscribe(horizon)
		require.Equal(w.t, []string{"anew"}, w.takeAll(1))
		require.Len(w.t, w.rows(shardName(0)), 3)
	})
}

// rows are the leases of a shard id, of whatever stream.
func (w *world) rows(shard string) (rows []leasestore.Lease) {
	w.t.Helper()
	streams, err := w.store.Streams(context.Background())
	require.NoError(w.t, err)
	for _, s := range streams {
		row, err := w.store.Get(context.Background(), leasestore.Key{Stream: s.Stream, Shard: shard})
		require.NoError(w.t, err)
		rows = append(rows, row)
	}
	return rows
}
