package actors

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// quiet makes nodes send no hints: they see what others do at their next look.
func quiet(c *Config) { c.quiet = true }

// node is one of several brokers in a world. Their subscriptions share the world's subscriber, so that it sees the order in which they deliver.
type node struct {
	w      *world
	broker *pidOf
	owner  string
	opened *messages.Subscribed
}

// fleetLog is what the nodes of a world have delivered, in order; all of it is acked.
type fleetLog struct {
	w    *world
	put  int
	got  []gotten
	left map[string]bool // nodes that hold back their acks
}

// gotten is a delivery, by which node, and when it came.
type gotten struct {
	at time.Time
	d  *messages.Delivery
	by string

	reader *pidOf
}

// join starts another node in the world's actor system.
func (w *world) join(name string, change ...func(*Config)) *node {
	w.t.Helper()
	cfg := w.cfg
	cfg.Name, cfg.OwnerID = name, name
	for _, f := range change {
		f(&cfg)
	}
	broker, err := SpawnBroker(w.system, cfg)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { w.system.Root.Stop(broker) })
	n := &node{w: w, broker: broker}
	w.me.Request(broker, &messages.Connect{})
	n.owner = probe.Expect[*messages.Connected](w.me).GetOwnerId()
	return n
}

func (n *node) subscribe(change ...func(*messages.StreamDescriptor)) *node {
	n.w.t.Helper()
	d := &messages.StreamDescriptor{Name: testStream}
	for _, f := range change {
		f(d)
	}
	n.w.me.Request(n.broker, &messages.Subscribe{Stream: d, Subscriber: n.w.sub.PID()})
	n.opened = probe.Fish(n.w.me, func(*messages.Subscribed) bool { return true })
	return n
}

// leave begins to shut the node down; closed waits for the end.
func (n *node) leave() { n.w.me.Request(n.broker, &messages.Shutdown{}) }

func (n *node) closed() {
	n.w.t.Helper()
	require.Empty(n.w.t, probe.Fish(n.w.me, func(*messages.Closed) bool { return true }).GetUnfinished())
}

// owned counts the shards of each owner in the store.
func (w *world) owned(shards int) map[string]int {
	w.t.Helper()
	count := make(map[string]int)
	for i := range shards {
		count[w.lease(shardName(i)).Owner]++
	}
	return count
}

// take notes and acks what has come.
func (l *fleetLog) take() {
	for e, ok := l.w.sub.TryReceive(); ok; e, ok = l.w.sub.TryReceive() {
		if d, isDelivery := e.Message.(*messages.Delivery); isDelivery {
			by, _, _ := strings.Cut(e.Sender.GetId(), "/")
			l.got = append(l.got, gotten{time.Now(), d, by, e.Sender})
			if !l.left[by] {
				l.w.system.Root.Send(e.Sender, d.Ack())
			}
		}
	}
}

// pass lets time pass while records are put and acked.
func (l *fleetLog) pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for range 4 {
			l.w.put(fmt.Sprint(l.put%40), fmt.Sprint(l.put))
			l.put++
		}
		l.take()
	}
}

// check requires that each record was delivered, in order of its key, and so many twice.
func (l *fleetLog) check(twice int) {
	l.w.t.Helper()
	for range 60 { // what was put last is read
		time.Sleep(50 * time.Millisecond)
		l.take()
	}
	times, last := make(map[string]int), make(map[string]int)
	for _, g := range l.got {
		data := string(g.d.GetData())
		var number int
		_, err := fmt.Sscan(data, &number)
		require.NoError(l.w.t, err)
		if times[data]++; times[data] == 1 {
			require.GreaterOrEqual(l.w.t, number, last[g.d.GetPartitionKey()], "order of key %s", g.d.GetPartitionKey())
			last[g.d.GetPartitionKey()] = number
		}
	}
	require.Equal(l.w.t, l.put, len(times), "none lost") //nolint:testifylint // not to print them all
	require.LessOrEqual(l.w.t, len(l.got)-len(times), twice, "come twice")
}

// L7, L9: A node that joins gets its share by handover: no record is lost, none comes twice, none out of order; the same when it leaves.
func TestNodesJoinAndLeave(t *testing.T) {
	for _, hints := range []bool{true, false} {
		t.Run(fmt.Sprintf("hints=%v", hints), func(t *testing.T) {
			inBubble(t, 16, func(w *world) {
				l := &fleetLog{w: w}
				a := w.join("a").subscribe(horizon)
				require.Len(w.t, a.opened.GetShards(), 16)
				l.pass(2 * time.Second)
				b := w.join("b").subscribe()
				l.pass(within(hints, 2*time.Second, 8*time.Second))
				require.Equal(w.t, map[string]int{a.owner: 8, b.owner: 8}, w.owned(16))
				c, d := w.join("c").subscribe(), w.join("d").subscribe()
				l.pass(within(hints, 2*time.Second, 8*time.Second))
				require.Equal(w.t, map[string]int{a.owner: 4, b.owner: 4, c.owner: 4, d.owner: 4}, w.owned(16))
				a.leave()
				l.pass(within(hints, time.Second, 4*time.Second))
				a.closed()
				owned := w.owned(16)
				require.Len(w.t, owned, 3)
				require.Equal(w.t, 16, owned[b.owner]+owned[c.owner]+owned[d.owner])
				for _, n := range owned {
					require.InDelta(w.t, 5.5, n, 0.5)
				}
				l.pass(30 * time.Second)
				require.Equal(w.t, owned, w.owned(16), "who is balanced moves nothing")
				l.check(0)
			}, func(c *Config) { c.quiet = !hints })
		})
	}
}

func within(hints bool, with, without time.Duration) time.Duration {
	if hints {
		return with
	}
	return without
}

// Nodes that start together in a store that nodes share divide the shards without moving any.
func TestNodesThatStartTogetherMoveNothing(t *testing.T) {
	inBubble(t, 64, func(w *world) {
		w.cfg.Store = sharedStore{w.store}
		nodes := make([]*node, 5)
		for i := range nodes {
			nodes[i] = w.join(fmt.Sprint("node-", i))
		}
		for _, n := range nodes {
			w.me.Request(n.broker, &messages.Subscribe{Stream: &messages.StreamDescriptor{Name: testStream}, Subscriber: w.sub.PID()})
		}
		for range nodes {
			probe.Fish(w.me, func(*messages.Subscribed) bool { return true })
		}
		time.Sleep(12 * time.Second)
		owned := w.owned(64)
		require.Len(w.t, owned, 5)
		for _, n := range owned {
			require.InDelta(w.t, 12.5, n, 0.5)
		}
		require.LessOrEqual(w.t, w.store.count("acquire"), 64+5)
	})
}

// sharedStore says that other processes may use it.
type sharedStore struct{ leasestore.Store }

func (sharedStore) Shared() bool { return true }

// L8: a node that joins while shards are still being opened gets its share all the same, also of those.
func TestAShardIsHandedOverBeforeItIsOpen(t *testing.T) {
	inBubble(t, 4, func(w *world) {
		l := &fleetLog{w: w}
		a := w.join("a").subscribe(horizon)
		l.pass(time.Second)
		w.service.Fault("GetShardIterator", kinesistest.Match{}, 8, kinesistest.Hang())
		w.me.Request(a.opened.GetSubscription(), &messages.Seek{To: toHorizon()})
		time.Sleep(time.Second) // all of its shards are being opened anew
		b := w.join("b").subscribe()
		l.pass(2 * time.Minute)
		require.Equal(w.t, map[string]int{a.owner: 2, b.owner: 2}, w.owned(4))
		l.check(l.put)
	})
}

// L9: With per_key_order a record may wait behind its key while later ones are settled. It is still delivered before the shard is handed over: the
// later ones would come again otherwise.
func TestWhatWaitsBehindItsKeyIsDeliveredBeforeAHandover(t *testing.T) {
	perKey := func(d *messages.StreamDescriptor) { d.PerKeyOrder = true }
	inBubble(t, 2, func(w *world) {
		a := w.join("a").subscribe(horizon, perKey)
		busy, other := keyFor(w, shardName(0), false), keyFor(w, shardName(1), false)
		shards := map[string]string{busy: shardName(0), other: shardName(1)}
		for range 3 {
			for key := range shards {
				w.put(key, key) // the second and third wait behind the first
			}
		}
		for i := range 20 {
			w.put(fmt.Sprint("k", i), "later")
		}
		var first []probe.Envelope
		for range 22 {
			e := delivered(w)
			if d, _ := e.Message.(*messages.Delivery); string(d.GetData()) != "later" {
				first = append(first, e)
				continue
			}
			settle(w, e)
		}
		require.Len(w.t, first, 2)
		b := w.join("b").subscribe(perKey)
		time.Sleep(2 * time.Second) // a shard is being handed over
		for _, e := range first {
			settle(w, e)
		}
		for range 4 {
			e := delivered(w)
			d, _ := e.Message.(*messages.Delivery)
			require.NotEqual(w.t, "later", string(d.GetData()))
			settle(w, e)
		}
		w.sub.ExpectNone(20 * time.Second)
		require.Equal(w.t, map[string]int{a.owner: 1, b.owner: 1}, w.owned(2))
	})
}

func delivered(w *world) probe.Envelope {
	w.t.Helper()
	probe.Fish(w.sub, func(*messages.Delivery) bool { return true })
	return w.sub.Last()
}

func settle(w *world, e probe.Envelope) {
	d, _ := e.Message.(*messages.Delivery)
	w.system.Root.Send(e.Sender, d.Ack())
}
