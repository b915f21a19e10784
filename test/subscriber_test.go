package test

import (
	"fmt"
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

// newProbe is an actor that is as patient as the other tests.
func newProbe(t *testing.T, n *node) *probe.Probe {
	t.Helper()
	p := probe.New(t, n.actors)
	p.SetTimeout(patience)
	return p
}

// subscribe subscribes the probe, by message. Another probe has the answer, which may come after the first deliveries.
func subscribe(t *testing.T, p *probe.Probe, n *node, stream *messages.StreamDescriptor) *messages.Subscribed {
	t.Helper()
	clerk := newProbe(t, n)
	clerk.Request(n.PID(), &messages.Subscribe{Stream: stream, Subscriber: p.PID(), Correlation: 7})
	opened := probe.Expect[*messages.Subscribed](clerk)
	assert.Equal(t, uint64(7), opened.GetCorrelation())
	assert.Equal(t, stream.GetName(), opened.GetStream())
	return opened
}

// unsubscribe ends a subscription by message. What is in flight then is not waited for.
func unsubscribe(t *testing.T, p *probe.Probe, subscription *actor.PID) *messages.Unsubscribed {
	t.Helper()
	p.Request(subscription, &messages.Unsubscribe{Timeout: durationpb.New(0), Correlation: 8})
	ended := probe.Fish[*messages.Unsubscribed](p, nil)
	assert.Equal(t, uint64(8), ended.GetCorrelation())
	return ended
}

// checkpoint is what the store says of a shard.
func checkpoint(t *testing.T, store leasestore.Store, shard string) string {
	t.Helper()
	streams, err := store.Streams(t.Context())
	require.NoError(t, err)
	require.Len(t, streams, 1)
	lease, err := store.Get(t.Context(), leasestore.Key{Stream: streams[0].Stream, Shard: shard})
	require.NoError(t, err)
	return lease.Checkpoint.String()
}

func TestActorTakesBatches(t *testing.T) {
	t.Parallel()
	for name, open := range services {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			store := leasestore.NewMemory()
			n, stream, records := s.connect(t, protokinesis.WithLeaseStore(store)), s.newStream(t, 1), load{keys: 4, each: 5}
			records.publish(t, n, stream)
			p := newProbe(t, n)
			opened := subscribe(t, p, n, protokinesis.Stream(stream,
				protokinesis.StartAt(protokinesis.TrimHorizon()), protokinesis.Batches(7)))

			var last string
			got := make(map[string][]string)
			for count := 0; count < records.count(); {
				batch := probe.Expect[*messages.DeliveryBatch](p)
				require.NotEmpty(t, batch.GetDeliveries())
				assert.LessOrEqual(t, len(batch.GetDeliveries()), 7)
				p.Reply(batch.Ack())
				count += len(batch.GetDeliveries())
				for _, d := range batch.GetDeliveries() {
					got[d.GetPartitionKey()] = append(got[d.GetPartitionKey()], string(d.GetData()))
					last = d.GetSequenceNumber()
				}
			}
			assert.Equal(t, records.payloads(), got)
			assert.Empty(t, unsubscribe(t, p, opened.GetSubscription()).GetUnfinished())
			assert.Equal(t, last, checkpoint(t, store, opened.GetShards()[0]))
		})
	}
}

func TestActorTakesSingleDeliveries(t *testing.T) {
	t.Parallel()
	for name, open := range services {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			store := leasestore.NewMemory()
			n, stream, records := s.connect(t, protokinesis.WithLeaseStore(store)), s.newStream(t, 1), load{keys: 1, each: 6}
			p := newProbe(t, n)
			p.Request(n.PID(), &messages.Subscribe{ // without a subscriber: whoever sends it
				Stream: protokinesis.Stream(stream, protokinesis.RetryBackoff(time.Millisecond)),
			})
			opened := probe.Expect[*messages.Subscribed](p)
			records.publish(t, n, stream)

			// The second is tried again, after those behind it; the third is dropped.
			deliveries := make([]*messages.Delivery, 0, records.count())
			for i := range records.count() {
				d := probe.Expect[*messages.Delivery](p)
				assert.Equal(t, fmt.Sprintf("key-0 %d", i), string(d.GetData()))
				deliveries = append(deliveries, d)
			}
			reader := p.Sender()
			for i, d := range deliveries {
				switch i {
				case 1:
					p.Send(reader, d.RetryAfter(time.Millisecond))
				case 2:
					p.Send(reader, d.Drop())
				default:
					p.Send(reader, d.Ack())
				}
			}
			again := probe.Expect[*messages.Delivery](p)
			assert.Equal(t, "key-0 1", string(again.GetData()))
			assert.Equal(t, int32(2), again.GetAttempt())
			p.Reply(again.Ack())
			assert.Empty(t, unsubscribe(t, p, opened.GetSubscription()).GetUnfinished())
			assert.Equal(t, deliveries[5].GetSequenceNumber(), checkpoint(t, store, opened.GetShards()[0]))
		})
	}
}

// TestOddSettlements: settling twice, too late, or with the wrong reader settles nothing else.
func TestOddSettlements(t *testing.T) {
	t.Parallel()
	for name, open := range services {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			store := leasestore.NewMemory()
			n, stream := s.connect(t, protokinesis.WithLeaseStore(store)), s.newStream(t, 2)
			p := newProbe(t, n)
			opened := subscribe(t, p, n, protokinesis.Stream(stream))
			low, high := opened.GetShards()[0], opened.GetShards()[1]
			for range 3 {
				publishTo(t, n, stream, "0")
				publishTo(t, n, stream, "340282366920938463463374607431768211455")
			}
			first, readers := take(t, p, 6)

			p.Send(readers[low], first[low][0].Ack())
			p.Send(readers[low], first[low][0].Ack()) // twice
			p.Send(readers[low], first[low][2].Ack()) // not in order
			p.Send(readers[high], first[low][1].Ack())
			wrong := probe.Expect[*messages.SubscriptionError](p)
			assert.False(t, wrong.GetFatal())
			assert.Equal(t, messages.ErrorKind_ERROR_KIND_INVALID, wrong.GetError().GetKind())
			assert.Equal(t, high, wrong.GetError().GetShardId())
			assert.Contains(t, wrong.GetError().GetText(), low)
			assert.Equal(t, []int64{1, 3}, inFlight(t, p, opened.GetSubscription()))

			ended := unsubscribe(t, p, opened.GetSubscription())
			assert.Len(t, ended.GetUnfinished(), 2)
			assert.Equal(t, first[low][0].GetSequenceNumber(), checkpoint(t, store, low))

			// What was not settled without a gap comes again, to new readers. The old settlements are too late for it.
			opened = subscribe(t, p, n, protokinesis.Stream(stream))
			second, readers := take(t, p, 5)
			require.Len(t, second[low], 2)
			require.Len(t, second[high], 3)
			p.Send(readers[low], first[low][1].Ack())
			p.Send(readers[low], first[low][2].Ack())
			p.Send(readers[high], first[high][0].Ack())
			assert.Equal(t, []int64{2, 3}, inFlight(t, p, opened.GetSubscription()))
			for shard, deliveries := range second {
				for i, d := range deliveries {
					assert.Equal(t, first[shard][3-len(deliveries)+i].GetSequenceNumber(), d.GetSequenceNumber())
					p.Send(readers[shard], d.Ack())
				}
			}
			assert.Empty(t, unsubscribe(t, p, opened.GetSubscription()).GetUnfinished())
			assert.Equal(t, first[low][2].GetSequenceNumber(), checkpoint(t, store, low))
			assert.Equal(t, first[high][2].GetSequenceNumber(), checkpoint(t, store, high))
		})
	}
}

// publishTo publishes a record to the shard of a hash key.
func publishTo(t *testing.T, n *node, stream, hashKey string) protokinesis.Receipt {
	t.Helper()
	receipt, err := n.Publisher().Publish(t.Context(), protokinesis.Record{
		Stream: stream, ExplicitHashKey: hashKey, Data: []byte("to " + hashKey),
	})
	require.NoError(t, err)
	return receipt
}

// take takes single deliveries, shard by shard, and tells whose they are.
func take(t *testing.T, p *probe.Probe, count int) (deliveries map[string][]*messages.Delivery, readers map[string]*actor.PID) {
	t.Helper()
	deliveries, readers = make(map[string][]*messages.Delivery), make(map[string]*actor.PID)
	for range count {
		d := probe.Expect[*messages.Delivery](p)
		deliveries[d.GetShardId()] = append(deliveries[d.GetShardId()], d)
		readers[d.GetShardId()] = p.Sender()
	}
	return deliveries, readers
}

// inFlight is how many records each shard has delivered that are not settled.
func inFlight(t *testing.T, p *probe.Probe, subscription *actor.PID) []int64 {
	t.Helper()
	p.Request(subscription, &messages.StatusRequest{Correlation: 9})
	status := probe.Expect[*messages.Status](p)
	var counts []int64
	for _, s := range status.GetSubscriptions()[0].GetShards() {
		counts = append(counts, s.GetInFlight())
	}
	return counts
}

// TestUnknownOutcome: a settlement that says nothing this version knows settles nothing.
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	n, stream := s.connect(t), s.newStream(t, 1)
	p := newProbe(t, n)
	opened := subscribe(t, p, n, protokinesis.Stream(stream))
	publishTo(t, n, stream, "0")
	deliveries, readers := take(t, p, 1)
	shard := opened.GetShards()[0]
	for _, outcome := range []messages.Outcome{99, messages.Outcome_OUTCOME_UNSPECIFIED} {
		settle := deliveries[shard][0].Ack()
		settle.Outcome = outcome
		p.Send(readers[shard], settle)
		assert.Equal(t, []int64{1}, inFlight(t, p, opened.GetSubscription()), "%v", outcome)
	}
	assert.Len(t, unsubscribe(t, p, opened.GetSubscription()).GetUnfinished(), 1)
}

// TestSubscribeAfterUnsubscribed: whoever has the answer to Unsubscribe may subscribe at once.
func TestSubscribeAfterUnsubscribed(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	n, stream := s.connect(t), s.newStream(t, 1)
	p := newProbe(t, n)
	for range 20 {
		opened := subscribe(t, p, n, protokinesis.Stream(stream))
		unsubscribe(t, p, opened.GetSubscription())
	}
}
