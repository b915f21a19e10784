package test

import (
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// publishAll publishes records of one partition key each, in order.
func publishAll(t *testing.T, n *node, stream string, data ...string) {
	t.Helper()
	for i, d := range data {
		_, err := n.Publisher().Publish(t.Context(), protokinesis.Record{Stream: stream, PartitionKey: fmt.Sprint(i % 7), Data: []byte(d)})
		require.NoError(t, err)
	}
}

// TestASubscriberOnAnotherNode: whatever a subscriber does with records, on another node it does the same. What it does not get comes again.
func TestASubscriberOnAnotherNode(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]protokinesis.StreamOption{
		"single":  nil,
		"batches": {protokinesis.Batches(16)},
		"per key": {protokinesis.Batches(16), protokinesis.PerKeyOrder()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := embeddedService(t)
			store := leasestore.NewMemory()
			n, stream := nearNode(t, s, protokinesis.WithLeaseStore(store)), s.newStream(t, 1)
			f := startFarActor(t, n, protokinesis.Stream(stream, append(options,
				protokinesis.RetryBackoff(time.Millisecond), protokinesis.RedeliverAfter(2*time.Second))...))
			subscription := f.subscribed()
			attempts := make(map[string]int32)
			var data []string
			for i := range 300 {
				what := []string{"ack", "ack", "ack", "retry", "drop", "ack", "later"}[i%7]
				if i%100 == 50 {
					what = "lose"
				}
				data = append(data, fmt.Sprint(what, " ", i))
			}
			publishAll(t, n, stream, data...)
			for done := map[string]bool{}; len(done) < len(data); {
				w := f.next(func(w farWord) bool { return w.Data != "" })
				attempts[w.Data] = w.Attempt
				if w.Attempt >= 2 || w.Data[0] == 'a' || w.Data[0] == 'd' {
					done[w.Data] = true
				}
			}
			p := newProbe(t, n)
			p.Request(subscription, &messages.Unsubscribe{Timeout: durationpb.New(patience)})
			assert.Empty(t, probe.Fish[*messages.Unsubscribed](p, nil).GetUnfinished())
			f.next(func(w farWord) bool { return w.Ended })
			for _, d := range data {
				if d[0] != 'a' && d[0] != 'd' { // these may come again as well, on a machine that is slow enough
					assert.GreaterOrEqual(t, attempts[d], int32(2), d)
				}
			}
			shard := *s.shards(t, stream)[0].ShardId
			records := s.read(t, stream, shard)
			assert.Equal(t, *records[len(records)-1].SequenceNumber, checkpoint(t, store, shard))
		})
	}
}

// TestLargeBatchesReachAnotherNode: a batch as large as what is read at once, which is more than gRPC takes by default.
func TestLargeBatchesReachAnotherNode(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	n, stream := nearNode(t, s), s.newStream(t, 1)
	var data []string
	for i := range 24 {
		data = append(data, fmt.Sprintf("ack %02d%s", i, strings.Repeat(" ", 1_000_000)))
	}
	publishAll(t, n, stream, data...)
	f := startFarActor(t, n, protokinesis.Stream(stream, protokinesis.StartAt(protokinesis.TrimHorizon()), protokinesis.Batches(100)))
	f.subscribed()
	for i := range 24 {
		w := f.next(func(w farWord) bool { return w.Data != "" || w.Ended })
		assert.Equal(t, fmt.Sprintf("ack %02d", i), strings.TrimSpace(w.Data))
		assert.Equal(t, int32(1), w.Attempt)
	}
}

// TestASubscriberOnAnotherNodeIsTold of what goes wrong, and of what ends its subscription.
func TestASubscriberOnAnotherNodeIsTold(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	n, stream := nearNode(t, s), s.newStream(t, 1)
	f := startFarActor(t, n, protokinesis.Stream(stream))
	f.subscribed()
	publishAll(t, n, stream, "foreign")
	assert.False(t, f.next(func(w farWord) bool { return w.Error != "" }).Fatal)
	assert.Equal(t, int32(2), f.delivered("foreign").Attempt)
	n.shutdown(t)
	f.next(func(w farWord) bool { return w.Ended })

	again := startFarActor(t, n, protokinesis.Stream(stream))
	assert.Contains(t, again.next(func(w farWord) bool { return w.Error != "" }).Error, "closed")
}

// TestTheEndOfASubscribersNode: deliveries stop, the leases are given back, and what was not settled is for the next subscriber.
func TestTheEndOfASubscribersNode(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, f *farActor){
		"killed": func(t *testing.T, f *farActor) {
			t.Helper()
			f.killed = true
			require.NoError(t, f.cmd.Process.Kill())
		},
		"frozen": func(t *testing.T, f *farActor) {
			t.Helper()
			if runtime.GOOS == "windows" {
				t.Skip("processes do not stand still here")
			}
			require.NoError(t, stopProcess(f.cmd.Process))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := embeddedService(t)
			store := leasestore.NewMemory()
			n, stream := nearNode(t, s, protokinesis.WithLeaseStore(store)), s.newStream(t, 2)
			f := startFarActor(t, n, protokinesis.Stream(stream))
			p, subscription := newProbe(t, n), f.subscribed()
			p.Watch(subscription)
			publishAll(t, n, stream, "ack 1", "ack 2", "hold 3", "hold 4")
			for _, d := range []string{"ack 1", "ack 2", "hold 3", "hold 4"} {
				f.delivered(d)
			}
			began := time.Now()
			end(t, f)
			p.ExpectTerminated(subscription)
			t.Logf("the subscription had ended after %v", time.Since(began).Round(time.Millisecond))
			for _, shard := range s.shards(t, stream) {
				assert.Empty(t, leaseOf(t, store, *shard.ShardId).Owner)
			}
			got := newRecorder()
			_, err := n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.HandlerFunc(got.handle))
			require.NoError(t, err)
			assert.Subset(t, payloads(got.wait(t, 2)), []string{"hold 3", "hold 4"})
			if name == "frozen" {
				require.NoError(t, continueProcess(f.cmd.Process))
				f.next(func(w farWord) bool { return w.Ended || w.Fatal })
			}
		})
	}
}

// TestASubscribersNodeThatWasNeverThere ends the subscription too.
func TestASubscribersNodeThatWasNeverThere(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	store := leasestore.NewMemory()
	n, stream := nearNode(t, s, protokinesis.WithLeaseStore(store)), s.newStream(t, 1)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	p := newProbe(t, n)
	sub, err := n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.Actor(actor.NewPID(l.Addr().String(), "nobody")))
	require.NoError(t, err)
	p.Watch(sub.PID())
	publishAll(t, n, stream, "ack 1")
	p.ExpectTerminated(sub.PID())
	assert.Empty(t, leaseOf(t, store, sub.Shards()[0]).Owner)
}

// leaseOf is the lease of a shard in a store of one stream.
func leaseOf(t *testing.T, store leasestore.Store, shard string) leasestore.Lease {
	t.Helper()
	streams, err := store.Streams(t.Context())
	require.NoError(t, err)
	require.Len(t, streams, 1)
	lease, err := store.Get(t.Context(), leasestore.Key{Stream: streams[0].Stream, Shard: shard})
	require.NoError(t, err)
	return lease
}
