package test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// withoutTicks puts listings, renewals and looks at the leases so far off that a test which needs one does not end.
func (s *target) withoutTicks() protokinesis.Option {
	timings := s.timings()
	timings.ListEvery, timings.RenewEvery, timings.LeaseTTL = 10*time.Minute, 10*time.Minute, 40*time.Minute
	return protokinesis.WithTimings(timings)
}

// nextDelivery takes the next delivery, which must be of a shard and hold data.
func nextDelivery(t *testing.T, p *probe.Probe, shard, data string) *messages.Delivery {
	t.Helper()
	d := probe.Expect[*messages.Delivery](p)
	assert.Equal(t, data, string(d.GetData()))
	assert.Equal(t, shard, d.GetShardId())
	return d
}

// TestChildrenStartWhenTheParentIsSettled: between the last settlement of a parent and the first delivery of its children no listing and
// no renewal has to come round. The end may be reached before the settlement, or after it.
func TestChildrenStartWhenTheParentIsSettled(t *testing.T) {
	t.Parallel()
	for name, open := range services {
		for _, first := range []string{"settled first", "split first"} {
			t.Run(name+"/"+first, func(t *testing.T) {
				s := open(t)
				n, stream, p := s.connect(t, s.withoutTicks()), s.newStream(t, 1), (*probe.Probe)(nil)
				p = newProbe(t, n)
				subscribe(t, p, n, protokinesis.Stream(stream))
				parent := publishTo(t, n, stream, lowest)
				d := nextDelivery(t, p, parent.Shard, "to "+lowest)
				if first == "settled first" {
					p.Reply(d.Ack())
				}
				s.split(t, stream, s.shards(t, stream)[0])
				low, high := publishTo(t, n, stream, lowest), publishTo(t, n, stream, highest)
				require.NotEqual(t, low.Shard, high.Shard)
				if first == "split first" {
					p.Reply(d.Ack())
				}
				got, _ := take(t, p, 2)
				assert.Len(t, got[low.Shard], 1)
				assert.Len(t, got[high.Shard], 1)
			})
		}
	}
}

// TestMergedChildStartsWhenBothParentsAreSettled: by the second, without a tick.
func TestMergedChildStartsWhenBothParentsAreSettled(t *testing.T) {
	t.Parallel()
	for name, open := range services {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			store := leasestore.NewMemory()
			n, stream := s.connect(t, s.withoutTicks(), protokinesis.WithLeaseStore(store)), s.newStream(t, 2)
			p := newProbe(t, n)
			opened := subscribe(t, p, n, protokinesis.Stream(stream))
			low, high := opened.GetShards()[0], opened.GetShards()[1]
			publishTo(t, n, stream, lowest)
			publishTo(t, n, stream, highest)
			got, readers := take(t, p, 2)
			s.merge(t, stream, s.shards(t, stream)[0], s.shards(t, stream)[1])
			merged := publishTo(t, n, stream, lowest)

			p.Send(readers[low], got[low][0].Ack())
			require.Eventually(t, func() bool { return checkpoint(t, store, low) == "SHARD_END" }, patience, 5*time.Millisecond)
			assert.NotContains(t, leased(t, store), merged.Shard, "the other parent is not settled")
			p.Send(readers[high], got[high][0].Ack())
			nextDelivery(t, p, merged.Shard, "to "+lowest)
			assert.Equal(t, "SHARD_END", checkpoint(t, store, high))
		})
	}
}

// leased are the shards that have a lease.
func leased(t *testing.T, store leasestore.Store) (shards []string) {
	t.Helper()
	streams, err := store.Streams(t.Context())
	require.NoError(t, err)
	require.Len(t, streams, 1)
	leases, err := store.List(t.Context(), streams[0].Stream)
	require.NoError(t, err)
	for _, l := range leases {
		shards = append(shards, l.Shard)
	}
	return shards
}

// TestTipWithoutLoss: what is published after Subscribed is read by whoever comes next, when nothing was settled: also of children that
// were made meanwhile.
func TestTipWithoutLoss(t *testing.T) {
	t.Parallel()
	for name, open := range services {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			store, stream := leasestore.NewMemory(), s.newStream(t, 1)
			first := s.connect(t, protokinesis.WithLeaseStore(keep{store}))
			p := newProbe(t, first)
			opened := subscribe(t, p, first, protokinesis.Stream(stream))
			parent := publishTo(t, first, stream, lowest)
			nextDelivery(t, p, parent.Shard, "to "+lowest)
			assert.Len(t, unsubscribe(t, p, opened.GetSubscription()).GetUnfinished(), 1)
			first.shutdown(t)

			second := s.connect(t, protokinesis.WithLeaseStore(keep{store}))
			again := publishTo(t, second, stream, highest)
			s.split(t, stream, s.shards(t, stream)[0])
			low, high := publishTo(t, second, stream, lowest), publishTo(t, second, stream, highest)
			p = newProbe(t, second)
			subscribe(t, p, second, protokinesis.Stream(stream))
			p.Reply(nextDelivery(t, p, parent.Shard, "to "+lowest).Ack())
			p.Reply(nextDelivery(t, p, again.Shard, "to "+highest).Ack())
			got, _ := take(t, p, 2)
			assert.Len(t, got[low.Shard], 1)
			assert.Len(t, got[high.Shard], 1)
		})
	}
}

// keep is a store that outlives the nodes that use it.
type keep struct{ leasestore.Store }

// Close does nothing.
func (keep) Close() error { return nil }

// TestRestartAfterReshards: a node that comes later reads nothing again of the finished shards, and goes on in the open ones.
func TestRestartAfterReshards(t *testing.T) {
	t.Parallel()
	for name, open := range services {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			store, stream, records := keep{leasestore.NewMemory()}, s.newStream(t, 2), load{keys: 6, each: 3}
			n, got := s.connect(t, protokinesis.WithLeaseStore(store)), newRecorder()
			_, err := n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.HandlerFunc(got.handle))
			require.NoError(t, err)
			records.publish(t, n, stream)
			s.split(t, stream, s.shards(t, stream)[0])
			s.merge(t, stream, s.shards(t, stream)[3], s.shards(t, stream)[1])
			all := records.and(records.then())
			records.then().publish(t, n, stream)
			got.wait(t, all.count())
			n.shutdown(t)
			assert.Equal(t, all.payloads(), byKey(got.all()))

			later := records.then().then()
			n, got = s.connect(t, protokinesis.WithLeaseStore(store)), newRecorder()
			_, err = n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.HandlerFunc(got.handle))
			require.NoError(t, err)
			later.publish(t, n, stream)
			got.wait(t, later.count())
			n.shutdown(t)
			assert.Equal(t, later.payloads(), byKey(got.all()))
		})
	}
}

// TestSeekOverReshards: finished shards are read again, parents before children, at the horizon and at an instant before all.
func TestSeekOverReshards(t *testing.T) {
	t.Parallel()
	for name, open := range services {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			n, stream, got, records := s.connect(t), s.newStream(t, 2), newRecorder(), load{keys: 6, each: 3}
			began := time.Now().Add(-time.Second) // the service keeps arrivals in whole milliseconds, or seconds
			sub, err := n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.HandlerFunc(got.handle))
			require.NoError(t, err)
			records.publish(t, n, stream)
			s.split(t, stream, s.shards(t, stream)[1])
			records.then().publish(t, n, stream)
			s.merge(t, stream, s.shards(t, stream)[0], s.shards(t, stream)[2])
			records.then().then().publish(t, n, stream)
			all := records.and(records.then()).and(records.then().then())
			got.wait(t, all.count())
			for i, to := range []*messages.Position{protokinesis.TrimHorizon(), protokinesis.AtTimestamp(began)} {
				require.NoError(t, sub.Seek(t.Context(), to))
				again := got.wait(t, (i+2)*all.count())[(i+1)*all.count():]
				assert.Equal(t, all.payloads(), byKey(again))
			}
			n.shutdown(t)
			assert.Len(t, got.all(), 3*all.count())
		})
	}
}

const (
	lowest  = "0"
	highest = "340282366920938463463374607431768211455"
)
