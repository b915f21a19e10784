package actors

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

func windowOfRecords(n int32) func(*messages.StreamDescriptor) {
	return func(d *messages.StreamDescriptor) { d.WindowRecords = &n }
}

// C1: 3, 1 and 2 of 5 are settled in that order, and the process dies: 4 and 5 come again, and nothing else.
func TestCrashAfterSettlementsOutOfOrder(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		var ds []*messages.Delivery
		for i := range 5 {
			w.put("k", fmt.Sprint(i+1))
			ds = append(ds, w.next(false))
		}
		for _, i := range []int{3, 1, 2} {
			w.sub.Reply(ds[i-1].Ack())
		}
		time.Sleep(2 * time.Second)
		w.crash()
		w.subscribe()
		require.Equal(w.t, []string{"4", "5"}, w.takeAll(2))
		w.sub.ExpectNone(time.Minute)
	})
}

// C2: what was read ahead is not what was handled. Five pages are in memory and the first record is not settled; the process dies, and all come again.
func TestCheckpointDoesNotCoverWhatIsQueued(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon, windowOfRecords(50))
		for page := range 5 {
			for i := range 10 {
				w.put("k", fmt.Sprint(page*10+i))
			}
			time.Sleep(2 * time.Second) // a page each
		}
		first := w.next(false)
		for range 49 {
			w.next(true)
		}
		time.Sleep(10 * time.Second)
		require.Equal(w.t, "TRIM_HORIZON", w.lease(shardName(0)).Checkpoint.String())
		w.crash()
		w.subscribe()
		again := w.takeAll(50)
		require.Equal(w.t, string(first.GetData()), again[0])
		require.Equal(w.t, "49", again[49])
	})
}

// C3: an error or a panic at record 3 of 5 skips nothing: while it fails it holds the checkpoint, and when it succeeds all are settled.
func TestAFailingHandlerSkipsNothing(t *testing.T) {
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("no") },
		"panic": func() error { panic("no") },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(w *world) {
				var mu sync.Mutex
				failing, calls := true, make(map[string]int)
				w.handle(2, func(_ context.Context, d *messages.Delivery) error {
					mu.Lock()
					defer mu.Unlock()
					calls[string(d.GetData())]++
					if string(d.GetData()) == "3" && failing {
						return fail()
					}
					return nil
				})
				for i := range 5 {
					w.put(fmt.Sprint(i), fmt.Sprint(i+1))
				}
				time.Sleep(time.Minute)
				records := w.service.Records(testStream)
				require.Equal(w.t, records[1].SequenceNumber, w.lease(shardName(0)).Checkpoint.String())
				mu.Lock()
				require.Greater(w.t, calls["3"], 3, "it is tried again and again")
				failing = false
				mu.Unlock()
				time.Sleep(time.Minute)
				require.Equal(w.t, records[4].SequenceNumber, w.lease(shardName(0)).Checkpoint.String())
				mu.Lock()
				defer mu.Unlock()
				for _, data := range []string{"1", "2", "4", "5"} {
					require.Equal(w.t, 1, calls[data])
				}
			})
		})
	}
}

// handle connects and subscribes a function from the horizon on.
func (w *world) handle(parallel int, f func(context.Context, *messages.Delivery) error) (handler *pidOf) {
	w.t.Helper()
	w.connect()
	stopped := make(chan struct{})
	handler = SpawnHandler(w.system, HandlerConfig{Parallel: parallel, Handle: f, Logger: w.cfg.Logger, Stopped: func() { close(stopped) }})
	w.me.Request(w.broker, &messages.Subscribe{Subscriber: handler, Stream: &messages.StreamDescriptor{
		Name: testStream, StartAt: toHorizon(), PerKeyOrder: true, BatchSize: new(int32(8)),
	}})
	sub := probe.Fish(w.me, func(*messages.Subscribed) bool { return true }).GetSubscription()
	WatchSubscription(w.system, handler, sub)
	w.t.Cleanup(func() { <-stopped }) // with its subscription
	return handler
}

// C4: the store hangs for one shard. The others' rows advance every interval all the same.
func TestAHangingWriteDelaysNoOtherShard(t *testing.T) {
	s := &hookStore{}
	inBubble(t, 5, func(w *world) {
		w.open(horizon)
		until := time.Now().Add(time.Minute)
		s.setHook(func(ctx context.Context, wr storeWrite) (context.Context, error) {
			if wr.lease.Shard != shardName(2) || !time.Now().Before(until) {
				return ctx, nil
			}
			<-ctx.Done()
			return ctx, ctx.Err()
		})
		w.sub.SetAutoPilot(func(e probe.Envelope) any {
			if d, ok := e.Message.(*messages.Delivery); ok {
				return d.Ack()
			}
			return nil
		})
		last := make(map[string]string)
		for i := range 50 {
			for key := range 40 {
				w.put(fmt.Sprint(key), fmt.Sprint(i))
			}
			time.Sleep(2100 * time.Millisecond) // polled within a second, saved within another
			for _, r := range w.service.Records(testStream) {
				last[r.Shard] = r.SequenceNumber
			}
			for _, shard := range []int{0, 1, 3, 4} {
				require.Equal(w.t, last[shardName(shard)], w.lease(shardName(shard)).Checkpoint.String(), "%d", i)
			}
			if time.Now().Before(until) {
				require.Equal(w.t, "TRIM_HORIZON", w.lease(shardName(2)).Checkpoint.String())
			}
		}
		require.Equal(w.t, last[shardName(2)], w.lease(shardName(2)).Checkpoint.String(), "it catches up")
	}, hooked(s))
}

// C5: an empty page between the records and their settlements takes nothing back.
func TestAnEmptyPageMovesNoCheckpoint(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		for i := range 10 {
			w.put("k", fmt.Sprint(i))
		}
		w.open(horizon)
		var ds []*messages.Delivery
		for range 10 {
			ds = append(ds, w.next(false))
		}
		f := w.service.Fault("GetRecords", kinesistest.Match{}, 3, kinesistest.EmptyPage())
		time.Sleep(5 * time.Second)
		require.Equal(w.t, 3, f.Count())
		require.Equal(w.t, "TRIM_HORIZON", w.lease(shardName(0)).Checkpoint.String())
		for _, d := range ds {
			w.sub.Reply(d.Ack())
		}
		time.Sleep(1100 * time.Millisecond)
		require.Equal(w.t, ds[9].GetSequenceNumber(), w.lease(shardName(0)).Checkpoint.String())
	})
}

// C11: 10,000 records settled one by one within a second are saved with at most three writes, the last of them at the end.
func TestTenThousandSettlementsAreThreeWrites(t *testing.T) {
	s := &hookStore{}
	inBubble(t, 1, func(w *world) {
		for i := range 10_000 {
			w.put("k", fmt.Sprint(i))
		}
		w.open(horizon, windowOfRecords(10_000))
		before := len(s.written())
		for i := range 10_000 {
			w.next(true)
			if i%10 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		w.me.Request(w.broker, &messages.Shutdown{})
		require.Empty(w.t, probe.Expect[*messages.Closed](w.me).GetUnfinished())
		checkpoints := ofKind(s.written()[before:], "checkpoint")
		require.LessOrEqual(w.t, len(checkpoints), 3)
		last := w.service.Records(testStream)[9999].SequenceNumber
		require.Equal(w.t, leasestore.AtSequence(last, 0), checkpoints[len(checkpoints)-1].to)
		require.Equal(w.t, last, w.lease(shardName(0)).Checkpoint.String())
	}, hooked(s))
}

func ofKind(writes []storeWrite, op string) (found []storeWrite) {
	for _, w := range writes {
		if w.op == op {
			found = append(found, w)
		}
	}
	return found
}

// C12: a holder that lost its lease and its successor write checkpoints by turns: the old one's are refused, and it says so once.
func TestTwoWritersOfOneRow(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		for i := range 4 {
			w.put("k", fmt.Sprint(i))
		}
		a, b := w.next(true), w.next(false)
		time.Sleep(1500 * time.Millisecond)
		ctx := context.Background()
		second, err := w.store.Store.Acquire(ctx, w.lease(shardName(0)), "second")
		require.NoError(w.t, err)
		second, err = w.store.Store.Checkpoint(ctx, second, leasestore.AtSequence(a.GetSequenceNumber(), 0))
		require.NoError(w.t, err)
		w.sub.Reply(b.Ack())
		time.Sleep(1500 * time.Millisecond)
		require.Equal(w.t, second, w.lease(shardName(0)))
		_, err = w.store.Store.Checkpoint(ctx, second, leasestore.AtSequence(b.GetSequenceNumber(), 0))
		require.NoError(w.t, err, "the second was not fenced by the first")
	})
}
