package main

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// consumerBench is a consumer whose readers are probes and whose jobs wait until they are told how they end.
type consumerBench struct {
	t       *testing.T
	system  *actor.ActorSystem
	pid     *actor.PID
	running sync.WaitGroup
	began   chan string // the data of the first record of each job
	ends    sync.Map    // the same → chan error: how it ends
}

func newConsumerBench(t *testing.T, jobSize, parallel, count int) *consumerBench {
	t.Helper()
	b := &consumerBench{t: t, system: probe.NewSystem(t), began: make(chan string, 100)}
	handle := func(_ context.Context, records []*messages.Delivery, _ int) error {
		b.began <- string(records[0].GetData())
		return <-b.endOf(string(records[0].GetData()))
	}
	cfg := consumerConfig{handle: handle, ctx: t.Context(), running: &b.running, jobSize: jobSize, parallel: parallel, count: count, log: slog.New(slog.DiscardHandler)}
	b.pid = b.system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return newConsumer(cfg, newFinish()) }))
	t.Cleanup(func() {
		b.running.Wait()
		require.NoError(t, b.system.Root.StopFuture(b.pid).Wait())
	})
	return b
}

func (b *consumerBench) endOf(job string) chan error {
	end, _ := b.ends.LoadOrStore(job, make(chan error))
	return end.(chan error) //nolint:forcetypeassert // as stored
}

// deliver has a reader deliver records of one generation, with their numbers as data, each with a key of its own but for the last digit.
func (b *consumerBench) deliver(reader *probe.Probe, generation uint64, numbers ...int) {
	batch := &messages.DeliveryBatch{}
	for _, n := range numbers {
		batch.Deliveries = append(batch.Deliveries, &messages.Delivery{
			ShardId: "shardId-000000000000", Generation: generation, DeliveryId: uint64(n), Attempt: 1, //nolint:gosec // small
			PartitionKey: strconv.Itoa(n % 10), Data: []byte(strconv.Itoa(n)),
		})
	}
	reader.Request(b.pid, batch)
}

func (b *consumerBench) begins(want ...string) {
	b.t.Helper()
	var got []string
	for range want {
		got = append(got, <-b.began)
	}
	require.ElementsMatch(b.t, want, got)
}

// What a reader had delivered is not begun once it has stopped, as its shard is another's by then: not what waits, what was taken, what waits
// for its key, and what failed. What runs ends by itself, and the next reader's records are handled.
func TestRecordsOfAStoppedReaderAreNotBegun(t *testing.T) {
	for name, failing := range map[string]error{"handled": nil, "failed": errors.New("fails")} {
		t.Run(name, func(t *testing.T) {
			b := newConsumerBench(t, 1, 2, 0)
			reader := probe.New(t, b.system)
			b.deliver(reader, 7, 1, 2, 11, 3, 4, 5, 6, 7, 8, 9)
			b.begins("1", "2")
			reader.Stop()
			b.deliver(reader, 7, 20) // still on its way when it stopped
			next := probe.New(t, b.system)
			b.deliver(next, 8, 101, 103, 104)
			b.endOf("2") <- failing
			b.begins("103") // not what the reader had delivered, and not 101: 1 has its key, and runs
			b.endOf("103") <- nil
			b.begins("104")
			b.endOf("1") <- failing
			b.begins("101")
			b.endOf("101") <- nil
			b.endOf("104") <- nil
			for range 3 {
				require.EqualValues(t, 8, probe.Expect[*messages.Settle](next).GetGeneration())
			}
			b.running.Wait()
			require.Empty(t, b.began)
		})
	}
}

// With --count, what is not begun is not counted: as many are handled as were asked for.
func TestCountLeavesOutWhatIsNotBegun(t *testing.T) {
	b := newConsumerBench(t, 1, 2, 4)
	reader := probe.New(t, b.system)
	b.deliver(reader, 7, 1, 2, 3, 4)
	b.begins("1", "2")
	reader.Stop()
	b.endOf("1") <- nil
	b.endOf("2") <- nil
	next := probe.New(t, b.system)
	b.deliver(next, 8, 3, 4, 5)
	b.begins("3", "4")
	b.endOf("3") <- nil
	b.endOf("4") <- nil
	for range 2 {
		require.Equal(t, messages.Outcome_OUTCOME_ACK, probe.Expect[*messages.Settle](next).GetOutcome())
	}
	b.running.Wait()
	require.Empty(t, b.began)
}
