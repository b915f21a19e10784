package actors

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// fakeCluster is the cluster of a world's nodes: it says what a test lets it say.
type fakeCluster struct {
	system *actor.ActorSystem

	mu   sync.Mutex
	tell map[int]func(Topology)
	next int
}

func (f *fakeCluster) System() *actor.ActorSystem { return f.system }

func (f *fakeCluster) Follow(tell func(Topology)) (stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.next
	f.next++
	if f.tell == nil {
		f.tell = make(map[int]func(Topology))
	}
	f.tell[n] = tell
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.tell, n)
	}
}

func (f *fakeCluster) followers() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.tell)
}

// says tells all who follow.
func (f *fakeCluster) says(members ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := Topology{}
	for _, id := range members {
		t.Members = append(t.Members, ClusterMember{ID: id, Address: id + ":1"})
	}
	for _, tell := range f.tell {
		tell(t)
	}
}

// inClusterOf gives the world's brokers a cluster.
func inClusterOf(f *fakeCluster) func(*Config) { return func(c *Config) { c.Cluster = f } }

// A node that is out of its cluster lets what is in flight settle, hands over or releases its shards, and stops: its subscribers are told why, and
// whoever asks is.
func TestANodeThatIsOutOfItsClusterStops(t *testing.T) {
	f := &fakeCluster{}
	inBubble(t, 2, func(w *world) {
		f.system = w.system
		sub := w.open(horizon)
		me := w.system.ID
		f.says("another")
		f.says("another", me)
		w.put("k", "a")
		d := w.next(false)
		f.says("another")
		synctest.Wait()
		w.sub.ExpectNone(5 * time.Second)
		w.me.Watch(sub.GetSubscription())
		w.me.Request(w.broker, &messages.Subscribe{Stream: &messages.StreamDescriptor{Name: "other"}})
		assert.Equal(t, messages.ErrorKind_ERROR_KIND_NOT_CONNECTED, probe.Fish(w.me, func(*messages.Error) bool { return true }).GetKind())

		w.sub.Reply(d.Ack())
		told := probe.Expect[*messages.SubscriptionError](w.sub)
		assert.True(t, told.GetFatal())
		assert.Equal(t, messages.ErrorKind_ERROR_KIND_NOT_CONNECTED, told.GetError().GetKind())
		assert.Contains(t, told.GetError().GetText(), "out of its cluster")
		w.me.ExpectTerminated(sub.GetSubscription())
		lease := w.lease(d.GetShardId())
		assert.Empty(t, lease.Owner)
		assert.Equal(t, d.GetSequenceNumber(), lease.Checkpoint.String())
		synctest.Wait() // its row among the members is removed
		w.me.Request(w.broker, &messages.StatusRequest{})
		assert.Equal(t, messages.BrokerState_BROKER_STATE_CLOSED, probe.Fish(w.me, func(*messages.Status) bool { return true }).GetState())
		assert.Zero(t, f.followers())
	}, inClusterOf(f))
}

// A node that is out of its cluster does not wait for ever for what is in flight.
func TestANodeThatIsOutOfItsClusterWaitsNoLongerThanAShutdown(t *testing.T) {
	f := &fakeCluster{}
	inBubble(t, 1, func(w *world) {
		f.system = w.system
		sub := w.open(horizon)
		w.me.Watch(sub.GetSubscription())
		w.put("k", "a")
		w.next(false)
		f.says(w.system.ID)
		f.says()
		start := time.Now()
		w.me.ExpectTerminated(sub.GetSubscription())
		assert.Equal(t, 30*time.Second, time.Since(start).Round(time.Second))
	}, inClusterOf(f))
}

// News of the cluster is a reason to look at the store at once, and nothing else: nobody loses or takes anything by it.
func TestNewsOfTheClusterIsAReasonToLook(t *testing.T) {
	f := &fakeCluster{}
	inBubble(t, 4, func(w *world) {
		f.system = w.system
		w.open(horizon)
		broker, other := second(w)
		subscribeAt(w, broker, other)
		time.Sleep(time.Minute)
		synctest.Wait()
		writes := w.store.count("acquire")
		for range 50 {
			f.says(w.system.ID, "another")
			f.says(w.system.ID)
			time.Sleep(time.Second)
		}
		assert.Equal(t, writes, w.store.count("acquire"), "leases were taken or given")
		assert.Equal(t, 2, f.followers())
		shutDown(w, broker)
		assert.Equal(t, 1, f.followers())
	}, inClusterOf(f))
}

// viewCounter counts the looks at a store.
type viewCounter struct {
	leasestore.Store
	views atomic.Int64
}

func (s *viewCounter) View(ctx context.Context, stream leasestore.StreamID) (leasestore.View, error) {
	s.views.Add(1)
	return s.Store.View(ctx, stream)
}

// A node that hears of news looks at once, and not at its next look.
func TestNewsOfTheClusterSparesTheWait(t *testing.T) {
	f, counter := &fakeCluster{}, &viewCounter{}
	inBubble(t, 1, func(w *world) {
		f.system = w.system
		w.open(horizon)
		time.Sleep(time.Minute)
		for range 3 {
			looks := counter.views.Load()
			f.says("another")
			time.Sleep(200 * time.Millisecond)
			synctest.Wait()
			assert.Equal(t, looks+1, counter.views.Load())
			time.Sleep(time.Minute)
		}
	}, inClusterOf(f), func(c *Config) {
		counter.Store, c.Store = c.Store, counter
		c.Timings.RenewEvery, c.Timings.LeaseTTL, c.Timings.ListEvery = time.Hour, 4*time.Hour, 5*time.Hour
	})
}

// A broker that is stopped by force follows nobody any more.
func TestABrokerThatIsStoppedFollowsNoCluster(t *testing.T) {
	f := &fakeCluster{}
	inBubble(t, 1, func(w *world) {
		f.system = w.system
		w.connect()
		require.Equal(t, 1, f.followers())
		w.me.Watch(w.broker)
		w.system.Root.Stop(w.broker)
		w.me.ExpectTerminated(w.broker)
		require.Zero(t, f.followers())
	}, inClusterOf(f))
}

// The cluster must be of the broker's actor system.
func TestAClusterOfAnotherSystemIsRefused(t *testing.T) {
	f := &fakeCluster{}
	inBubble(t, 1, func(w *world) {
		w.me.Request(w.broker, &messages.Connect{})
		e := probe.Expect[*messages.Error](w.me)
		assert.Equal(t, messages.ErrorKind_ERROR_KIND_INVALID, e.GetKind())
		assert.Equal(t, "WithCluster", e.GetField())
		f.system = w.system
		w.connect()
	}, inClusterOf(f))
}
