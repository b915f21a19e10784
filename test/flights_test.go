package test

import (
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/emulators"
	"github.com/protokinesis/protokinesis/test/probe"
)

// departures are flights by their airport of origin, encoded, in the order they are published.
type departures map[string][]string

func departuresOf(t *testing.T, flights []emulators.Flight) departures {
	t.Helper()
	out := make(departures)
	for _, f := range flights {
		data, err := json.Marshal(f)
		require.NoError(t, err)
		out[f.Origin] = append(out[f.Origin], string(data))
	}
	return out
}

func (d departures) count() (n int) {
	for _, flights := range d {
		n += len(flights)
	}
	return n
}

// publish publishes all flights, those of one airport by one goroutine, which does not wait for answers.
func (d departures) publish(t *testing.T, n *node, stream string) {
	t.Helper()
	var (
		all     sync.WaitGroup
		failed  atomic.Int64
		waiting sync.WaitGroup
	)
	waiting.Add(d.count())
	office := probe.New(t, n.actors)
	office.SetAutoPilot(func(e probe.Envelope) any {
		if _, ok := e.Message.(*messages.Published); !ok {
			failed.Add(1)
		}
		waiting.Done()
		return nil
	})
	for origin, flights := range d {
		all.Go(func() {
			for _, data := range flights {
				office.Request(n.PID(), &messages.Publish{Stream: stream, PartitionKey: &origin, Data: []byte(data)})
			}
		})
	}
	all.Wait()
	waiting.Wait()
	assert.Zero(t, failed.Load())
}

// requireSame compares what was read with what was published, airport by airport: how many, and in which order.
func requireSame(t *testing.T, want departures, got map[string][]string) {
	t.Helper()
	require.Len(t, got, len(want))
	for origin, flights := range want {
		require.Len(t, got[origin], len(flights), origin)
		require.True(t, assert.ObjectsAreEqual(flights, got[origin]), "%s: the order is another", origin)
	}
}

// TestFlights sends the flights of a whole quarter through a stream.
func TestFlights(t *testing.T) {
	t.Parallel()
	for name, open := range services {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			flights := emulators.Flights(t)
			s.poll = 500 * time.Millisecond // there is much to read each time
			if s.name == kinesisLocal {     // the more records a shard has, the longer its calls take
				flights, s.poll = flights[:1500], 2*time.Second
			}
			want := departuresOf(t, flights)
			limits := protokinesis.WithLimits(protokinesis.Limits{ReadsPerSecond: -1, PendingRecords: len(flights)})
			patient := protokinesis.WithTimings(protokinesis.Timings{PublishDeadline: 5 * time.Minute}) // all of it waits at once
			n, stream, got := s.connect(t, limits, patient), s.newStream(t, 4), newRecorder()
			_, err := n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.Handler{Func: got.handle, Parallel: 2})
			require.NoError(t, err)

			var other *controlTower
			if s.server != nil { // a second reader of everything, with leases of its own
				second := s.connect(t, limits)
				other = &controlTower{want: len(flights), got: make(map[string][]string), done: make(chan struct{})}
				tower := second.actors.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return other }))
				_, err = second.Subscribe(t.Context(), protokinesis.Stream(stream, protokinesis.Batches(500)), protokinesis.Actor(tower))
				require.NoError(t, err)
			}

			want.publish(t, n, stream)
			got.wait(t, len(flights))
			n.shutdown(t)
			requireSame(t, want, byKey(got.all()))
			if other != nil {
				<-other.done
				requireSame(t, want, other.got)
			}
		})
	}
}

// controlTower is an actor that reads flights.
type controlTower struct {
	want, count int
	got         map[string][]string
	done        chan struct{} // closed when all have come; got may be read then
}

// Receive implements actor.Actor.
func (a *controlTower) Receive(c actor.Context) {
	batch, ok := c.Message().(*messages.DeliveryBatch)
	if !ok {
		return
	}
	for _, d := range batch.GetDeliveries() {
		a.got[d.GetPartitionKey()] = append(a.got[d.GetPartitionKey()], string(d.GetData()))
	}
	if a.count += len(batch.GetDeliveries()); a.count == a.want {
		close(a.done)
	}
	c.Respond(batch.Ack())
}
