package actors

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// What comes at an awkward moment: while a write is under way, before an answer, twice.

// badStore fails single acquisitions, and loses the replies of SaveState.
type badStore struct {
	leasestore.Store
	mu      sync.Mutex
	failAcq map[string]int
	late    bool
}

func (s *badStore) Acquire(ctx context.Context, l leasestore.Lease, owner string) (leasestore.Lease, error) {
	s.mu.Lock()
	n := s.failAcq[l.Key.Shard]
	if n > 0 {
		s.failAcq[l.Key.Shard]--
	}
	s.mu.Unlock()
	if n > 0 {
		return leasestore.Lease{}, errOutage
	}
	return s.Store.Acquire(ctx, l, owner)
}

func (s *badStore) SaveState(ctx context.Context, st leasestore.StreamState) (leasestore.StreamState, error) {
	out, err := s.Store.SaveState(ctx, st)
	s.mu.Lock()
	late := s.late
	s.mu.Unlock()
	if late {
		time.Sleep(20 * time.Second)
		return leasestore.StreamState{}, errOutage
	}
	return out, err
}

func seqSeek(shard, n string) *messages.Position {
	return &messages.Position{At: &messages.Position_Sequence{Sequence: &messages.Sequence{ShardId: shard, SequenceNumber: n}}}
}

func TestSameSeekTwiceDuringARenewal(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		o := w.open(horizon)
		w.put("k", "a")
		w.takeAll(1)
		time.Sleep(2 * time.Second)
		r := w.service.Records(testStream)[0]
		w.me.Request(o.GetSubscription(), &messages.Seek{To: seqSeek(r.Shard, r.SequenceNumber)})
		probe.Expect[*messages.Sought](w.me)
		w.next(false)
		w.store.slow(time.Second)
		time.Sleep(3200 * time.Millisecond)
		w.me.Request(o.GetSubscription(), &messages.Seek{To: seqSeek(r.Shard, r.SequenceNumber)})
		w.me.SetTimeout(10 * time.Minute)
		probe.Expect[*messages.Sought](w.me)
	})
}

func TestCheckpointIntervalAfterARenewalSavedIt(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		w.put("k", "b")
		a, b := w.next(false), w.next(false)
		n := w.store.count("renew")
		for w.store.count("renew") == n {
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(2500 * time.Millisecond)
		w.sub.Reply(a.Ack())
		time.Sleep(1500 * time.Millisecond)
		require.Equal(w.t, a.SequenceNumber, w.lease(shardName(0)).Checkpoint.String())
		w.sub.Reply(b.Ack())
		time.Sleep(1300 * time.Millisecond)
		require.Equal(w.t, b.SequenceNumber, w.lease(shardName(0)).Checkpoint.String())
	})
}

func TestFirstPassIsNotBegunTwice(t *testing.T) {
	s := &badStore{Store: leasestore.NewMemory(), failAcq: map[string]int{shardName(0): 1}}
	inBubble(t, 2, func(w *world) {
		w.service.Fault("GetShardIterator", kinesistest.Match{Shard: shardName(1)}, 1, kinesistest.Delay(2*time.Second))
		start := time.Now()
		w.open(horizon)
		require.GreaterOrEqual(w.t, time.Since(start), 2*time.Second, "every reader that was started has reported")
		e := probe.Fish(w.sub, func(*messages.SubscriptionError) bool { return true })
		require.Equal(w.t, shardName(0), e.GetError().GetShardId(), "the trouble of the first pass is told")
		time.Sleep(15 * time.Second)
		all, err := s.Streams(context.Background())
		require.NoError(w.t, err)
		require.EqualValues(w.t, 1, all[0].Seek, "start_at is one seek")
		for i := range 2 {
			l, err := s.Get(context.Background(), leasestore.Key{Stream: all[0].Stream, Shard: shardName(i)})
			require.NoError(w.t, err)
			require.EqualValues(w.t, 1, l.Seek)
		}
	}, func(c *Config) { c.Store = s })
}

func TestSeekThatReopensAShardThatCannotBeOpened(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		o := w.open(horizon)
		w.put("k", "a")
		split(w, shardName(0))
		w.put("k", "b")
		w.takeAll(2)
		time.Sleep(5 * time.Second)
		w.service.Fault("GetShardIterator", kinesistest.Match{Shard: shardName(0)}, -1, kinesistest.Error("AccessDeniedException", "no"))
		w.me.SetTimeout(20 * time.Minute)
		w.me.Request(o.GetSubscription(), &messages.Seek{To: toHorizon()})
		require.Equal(w.t, messages.ErrorKind_ERROR_KIND_READ, probe.Expect[*messages.Error](w.me).GetKind())
	})
}

func TestStartAtSurvivesAFailedAcquisition(t *testing.T) {
	s := &badStore{Store: leasestore.NewMemory(), failAcq: map[string]int{shardName(0): 1}}
	inBubble(t, 1, func(w *world) {
		w.put("k", "a")
		w.put("k", "b")
		time.Sleep(time.Minute)
		r := w.service.Records(testStream)[0]
		w.open(func(d *messages.StreamDescriptor) { d.StartAt = seqSeek(r.Shard, r.SequenceNumber) })
		require.Equal(w.t, []string{"a", "b"}, w.takeAll(2))
	}, func(c *Config) { c.Store = s })
}

func TestSeekWhoseReplyIsLost(t *testing.T) {
	s := &badStore{Store: leasestore.NewMemory()}
	inBubble(t, 1, func(w *world) {
		o := w.open(horizon)
		s.mu.Lock()
		s.late = true
		s.mu.Unlock()
		w.put("k", "a")
		w.takeAll(1)
		w.me.Request(o.GetSubscription(), &messages.Seek{To: toHorizon()})
		require.Equal(w.t, messages.ErrorKind_ERROR_KIND_LEASE, probe.Expect[*messages.Error](w.me).GetKind())
		require.Equal(w.t, []string{"a"}, w.takeAll(1), "it was stored all the same, and is followed")
	}, func(c *Config) { c.Store = s })
}

func TestSeekWhileAShardFinishesKeepsTheOrder(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		o := w.open(horizon)
		w.put("k", "p")
		split(w, shardName(0))
		w.put("k", "c")
		c := w.service.Records(testStream)[1].Shard
		require.Equal(w.t, []string{"p"}, w.takeAll(1))
		time.Sleep(3 * time.Second)
		split(w, c)
		w.put("k", "g")
		d := w.next(false)
		require.Equal(w.t, "c", string(d.GetData()))
		time.Sleep(5 * time.Second)
		w.store.slow(time.Second)
		n := w.store.count("checkpoint")
		w.sub.Reply(d.Ack())
		for w.store.count("checkpoint") == n {
			time.Sleep(10 * time.Millisecond)
		}
		w.me.Request(o.GetSubscription(), &messages.Seek{To: toHorizon()})
		require.Equal(w.t, []string{"p", "c", "g"}, w.takeAll(3))
	})
}

// A seek to the tip moves every node's shards to the instant of the seek, however much later they hear of it: what was published since, and
// what is in a shard that was closed since, is read.
func TestSeekToTheTipOnAnotherNode(t *testing.T) {
	for _, closed := range []bool{false, true} {
		inBubble(t, 1, func(w *world) {
			w.open(horizon)
			w.put("k", "before")
			w.takeAll(1)
			first := w.broker
			w.cfg.Name = "second"
			w.broker = w.spawnBroker()
			other := probe.New(w.t, w.system, "other")
			w.connect()
			w.me.Request(w.broker, &messages.Subscribe{Stream: &messages.StreamDescriptor{Name: testStream}, Subscriber: other.PID()})
			opened := probe.Expect[*messages.Subscribed](w.me)
			require.Empty(w.t, opened.GetShards(), "the first reads the shard")
			time.Sleep(time.Until(w.begun.Add(7 * time.Second))) // the first looks next in two seconds
			w.me.Request(opened.GetSubscription(), &messages.Seek{To: &messages.Position{At: &messages.Position_Latest{}}})
			probe.Expect[*messages.Sought](w.me)
			time.Sleep(time.Millisecond)
			w.put("k", "after")
			if closed {
				split(w, shardName(0))
			}
			require.Equal(w.t, "after", string(w.next(false).GetData()))
			time.Sleep(20 * time.Second)  // the first looks at the store and follows
			again := fishEither(w, other) // if the shard was closed, its child may be the other's by now
			require.Equal(w.t, "after", string(again.GetData()), "it was not settled when the first was moved")
			w.me.Request(first, &messages.Shutdown{Timeout: durationOf(0)})
			probe.Expect[*messages.Closed](w.me)
		}, quiet)
	}
}
