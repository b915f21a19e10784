package actors

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// What is acked is settled exactly once, with its reader and generation, in whatever order it was handled.
func TestALaneSettlesWhatIsAcked(t *testing.T) {
	readers := []*actor.PID{actor.NewPID("local", "a"), actor.NewPID("local", "b")}
	type ack struct {
		reader         string
		generation, id uint64
	}
	rapid.Check(t, func(t *rapid.T) {
		l := newLane("shard")
		want := make(map[ack]bool)
		for range rapid.IntRange(0, 40).Draw(t, "acks") {
			a := ack{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "reader"), rapid.Uint64Range(1, 2).Draw(t, "generation"), rapid.Uint64Range(1, 30).Draw(t, "id")}
			if want[a] {
				continue
			}
			want[a] = true
			reader := readers[slices.IndexFunc(readers, func(p *actor.PID) bool { return p.GetId() == a.reader })]
			l.acks = append(l.acks, &job{reader: reader, delivery: &messages.Delivery{ShardId: "shard", Generation: a.generation, DeliveryId: a.id}})
		}
		got, sent := make(map[ack]bool), 0
		l.acked(func(reader *actor.PID, s *messages.Settle) {
			sent++
			require.Equal(t, messages.Outcome_OUTCOME_ACK, s.GetOutcome())
			require.Equal(t, "shard", s.GetShardId())
			s.EachRange(func(first, last uint64) {
				for id := first; id <= last; id++ {
					a := ack{reader.GetId(), s.GetGeneration(), id}
					require.False(t, got[a], "settled twice: %v", a)
					got[a] = true
				}
			})
		})
		require.Equal(t, want, got)
		require.LessOrEqual(t, sent, 4, "a message for each reader and generation")
		require.Empty(t, l.acks)
	})
}

// A lane hands on everything, in order, however little its workers have room for.
func TestALaneFeedsInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLane("shard")
		var added, got uint64
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "take") {
				block := make([]*messages.Delivery, rapid.IntRange(1, 2*jobsAhead).Draw(t, "records"))
				for i := range block {
					added++
					block[i] = &messages.Delivery{DeliveryId: added}
				}
				l.take(block, nil)
			}
			l.feed()
			for range rapid.IntRange(0, jobsAhead).Draw(t, "handled") {
				if len(l.jobs) == 0 {
					break
				}
				got++
				require.Equal(t, got, (<-l.jobs).delivery.GetDeliveryId())
			}
		}
		for got < added {
			l.feed()
			require.NotEmpty(t, l.jobs)
			got++
			require.Equal(t, got, (<-l.jobs).delivery.GetDeliveryId())
		}
		require.Empty(t, l.jobs)
		l.feed()
		require.Empty(t, l.waiting)
	})
}

// handling runs a test in a bubble with a handler whose reader is a probe.
func handling(t *testing.T, cfg HandlerConfig, test func(handler *actor.PID, reader *probe.Probe)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		system := probe.NewSystem(t)
		stopped := make(chan struct{})
		cfg.Stopped = func() { close(stopped) }
		handler, reader := SpawnHandler(system, cfg), probe.New(t, system, "reader")
		test(handler, reader)
		system.Root.Send(handler, drain{})
		<-stopped
		time.Sleep(time.Second)
	})
}

func deliveries(n int) *messages.DeliveryBatch {
	b := &messages.DeliveryBatch{}
	for i := range n {
		b.Deliveries = append(b.Deliveries, &messages.Delivery{ShardId: "shard", Generation: 1, DeliveryId: uint64(i + 1)})
	}
	return b
}

// settledWith collects the ids that the probe is told of, up to a pause.
func settledWith(reader *probe.Probe) (ids []uint64, outcomes []messages.Outcome) {
	synctest.Wait()
	for {
		e, ok := reader.TryReceive()
		if !ok {
			slices.Sort(ids)
			return ids, outcomes
		}
		s, _ := e.Message.(*messages.Settle)
		outcomes = append(outcomes, s.GetOutcome())
		s.EachRange(func(first, last uint64) {
			for id := first; id <= last; id++ {
				ids = append(ids, id)
			}
		})
	}
}

// A record that takes long holds up the settlement of no other, and no more of them run at a time than may.
func TestAHandlerSettlesWhatIsDone(t *testing.T) {
	running, most := 0, 0
	turn := make(chan struct{}, 1)
	count := func(d int) int {
		turn <- struct{}{}
		defer func() { <-turn }()
		running += d
		most = max(most, running)
		return most
	}
	handling(t, HandlerConfig{Parallel: 3, Handle: func(_ context.Context, d *messages.Delivery) error {
		count(1)
		defer count(-1)
		if d.GetDeliveryId() == 2 {
			time.Sleep(time.Hour)
		} else {
			time.Sleep(time.Millisecond)
		}
		return nil
	}}, func(handler *actor.PID, reader *probe.Probe) {
		reader.Request(handler, deliveries(600))
		time.Sleep(time.Minute)
		ids, _ := settledWith(reader)
		require.Len(t, ids, 599)
		require.NotContains(t, ids, uint64(2))
		require.Equal(t, 3, count(0))
		time.Sleep(time.Hour)
		ids, _ = settledWith(reader)
		require.Equal(t, []uint64{2}, ids)
	})
}

// Every record is settled although the handler panics over its messages now and then: those that tell it what was done as well.
func TestAHandlerThatPanicsSettlesTheRest(t *testing.T) {
	flushes := 0
	handling(t, HandlerConfig{Parallel: 3, Handle: func(context.Context, *messages.Delivery) error { return nil }, intercept: func(_ role, m any) {
		if _, ok := m.(flushLane); ok {
			if flushes++; flushes%2 == 1 {
				panic("a fault")
			}
		}
	}}, func(handler *actor.PID, reader *probe.Probe) {
		reader.Request(handler, deliveries(100))
		ids, _ := settledWith(reader)
		require.Len(t, ids, 100)
		require.Positive(t, flushes)
	})
}

// Errors are settled on their own, and what is under way when the handler drains is settled, too; what was not begun is not.
func TestADrainingHandlerSettlesWhatWasBegun(t *testing.T) {
	handling(t, HandlerConfig{Parallel: 2, Handle: func(_ context.Context, d *messages.Delivery) error {
		time.Sleep(time.Second)
		if d.GetDeliveryId() == 2 {
			return errors.New("no")
		}
		return nil
	}}, func(handler *actor.PID, reader *probe.Probe) {
		reader.Request(handler, deliveries(10))
		synctest.Wait()
		reader.Request(handler, drain{})
		time.Sleep(time.Minute)
		ids, outcomes := settledWith(reader)
		require.Equal(t, []uint64{1, 2}, ids)
		require.ElementsMatch(t, []messages.Outcome{messages.Outcome_OUTCOME_ACK, messages.Outcome_OUTCOME_RETRY}, outcomes)
	})
}
