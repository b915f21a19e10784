package actors

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// shutdownWithin ends the broker and returns what was left.
func (w *world) shutdownWithin(timeout time.Duration) []string {
	w.t.Helper()
	w.me.Request(w.broker, &messages.Shutdown{Timeout: durationOf(timeout)})
	return probe.Fish(w.me, func(*messages.Closed) bool { return true }).GetUnfinished()
}

// D1: a page of 100 is queued when the end comes. What was delivered may settle; nothing is delivered from then on, not by a settlement, a
// retry that falls due, or a read that comes back.
func TestNothingIsDeliveredOnceTheEndHasBegun(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		for i := range 100 {
			w.put("k", fmt.Sprint(i))
		}
		w.open(horizon, windowOfRecords(10), func(d *messages.StreamDescriptor) { d.RetryBackoff = durationOf(5 * time.Second) })
		ds := make([]*messages.Delivery, 10)
		for i := range ds {
			ds[i] = w.next(false)
		}
		w.sub.Reply(ds[0].Retry())
		w.next(false) // the eleventh has its place
		w.service.Fault("GetRecords", kinesistest.Match{}, 1, kinesistest.Delay(2*time.Second))
		w.sub.Reply(ds[1].Ack())
		ds = append(ds, w.next(false))
		w.me.Request(w.broker, &messages.Shutdown{Timeout: durationOf(20 * time.Second)})
		synctest.Wait()
		for _, d := range ds[2:9] {
			w.sub.Reply(d.Ack())
		}
		w.sub.ExpectNone(10 * time.Second) // past the retry
		require.Len(w.t, probe.Expect[*messages.Closed](w.me).GetUnfinished(), 1)
		w.sub.ExpectNone(time.Minute)
		require.Equal(w.t, "TRIM_HORIZON", w.lease(shardName(0)).Checkpoint.String())
	})
}

// D1: no handler starts once the handlers have been told to stop, whatever is queued for them; and none runs after the end.
func TestNoHandlerStartsAfterTheEnd(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		var begun, running atomic.Int64
		handler := w.handle(3, func(context.Context, *messages.Delivery) error {
			begun.Add(1)
			running.Add(1)
			defer running.Add(-1)
			time.Sleep(2 * time.Second)
			return nil
		})
		for i := range 100 {
			w.put(fmt.Sprint(i), "x")
		}
		time.Sleep(3 * time.Second)
		w.system.Root.Poison(handler)
		synctest.Wait()
		after := begun.Load()
		require.Less(w.t, after, int64(100))
		time.Sleep(time.Minute)
		require.Equal(w.t, after, begun.Load())
		require.Zero(w.t, running.Load())
		require.Empty(w.t, w.lease(shardName(0)).Owner, "the subscription ended with its subscriber")
	})
}

// D2: Shutdown before Connect, after a Connect that failed, twice, and many at once: each is answered Closed, and nothing panics.
func TestShutdownAtAnyTime(t *testing.T) {
	book := newLogBook()
	many := func(w *world) {
		for n := range 20 {
			w.me.Request(w.broker, &messages.Shutdown{Correlation: uint64(n + 1)})
		}
		seen := make(map[uint64]bool)
		for range 20 {
			seen[probe.Fish(w.me, func(*messages.Closed) bool { return true }).GetCorrelation()] = true
		}
		require.Len(w.t, seen, 20)
	}
	for name, before := range map[string]func(w *world){
		"before Connect": func(*world) {},
		"after Connect":  func(w *world) { w.connect() },
		"with a Connect under way": func(w *world) {
			w.me.Request(w.broker, &messages.Connect{Correlation: 99})
		},
		"with a Subscribe under way": func(w *world) {
			w.connect()
			w.service.Fault("DescribeStreamSummary", kinesistest.Match{}, -1, kinesistest.Hang())
			w.me.Request(w.broker, &messages.Subscribe{Stream: &messages.StreamDescriptor{Name: testStream}, Subscriber: w.sub.PID()})
			synctest.Wait()
		},
		"subscribed": func(w *world) { w.open() },
		"after a Subscribe that failed": func(w *world) {
			w.connect()
			w.me.Request(w.broker, &messages.Subscribe{Stream: &messages.StreamDescriptor{Name: "nowhere"}, Subscriber: w.sub.PID()})
			probe.Expect[*messages.Error](w.me)
		},
		"after Shutdown": func(w *world) {
			w.connect()
			require.Empty(w.t, w.shutdownWithin(time.Second))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(w *world) {
				before(w)
				many(w)
			}, logged(book))
		})
	}
	t.Run("after a Connect that failed", func(t *testing.T) {
		inBubble(t, 1, func(w *world) {
			for range 2 {
				w.me.Request(w.broker, &messages.Connect{})
				require.Equal(w.t, messages.ErrorKind_ERROR_KIND_INVALID, probe.Expect[*messages.Error](w.me).GetKind())
			}
			many(w)
			w.me.Request(w.broker, &messages.Connect{})
			require.Equal(w.t, messages.ErrorKind_ERROR_KIND_NOT_CONNECTED, probe.Expect[*messages.Error](w.me).GetKind())
		}, logged(book), func(c *Config) { c.Timings.LeaseTTL = -1 })
	})
	require.Empty(t, book.all("panic"))
}

// D3: one shard of three can't be opened, by an error or by silence, while the subscription opens or long after. The end comes in time, and
// the others' leases are released.
func TestShutdownWithAShardThatCannotBeOpened(t *testing.T) {
	for name, trouble := range map[string]kinesistest.Effect{
		"denied": kinesistest.Error("AccessDeniedException", "no"), "silent": kinesistest.Hang(), "failing": kinesistest.Error("InternalFailure", "no"),
	} {
		for _, after := range []time.Duration{0, 10 * time.Second, 5 * time.Minute} {
			t.Run(fmt.Sprint(name, " ", after), func(t *testing.T) {
				inBubble(t, 3, func(w *world) {
					w.connect()
					w.service.Fault("GetShardIterator", kinesistest.Match{Shard: shardName(1)}, -1, trouble)
					w.me.Request(w.broker, &messages.Subscribe{Stream: &messages.StreamDescriptor{Name: testStream}, Subscriber: w.sub.PID()})
					time.Sleep(after)
					start := time.Now()
					require.Empty(w.t, w.shutdownWithin(5*time.Second))
					require.Less(w.t, time.Since(start), 5*time.Second)
					for i := range 3 {
						require.Empty(w.t, w.lease(shardName(i)).Owner)
					}
				})
			})
		}
	}
}

// D3: everything hangs, the service and the store. The end comes all the same, at the deadline and a ttl for the last writes, and names the
// shards whose leases could not be released.
func TestShutdownWhenEverythingHangs(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		w.open(horizon)
		w.service.Fault("*", kinesistest.Match{}, -1, kinesistest.Hang())
		w.store.slow(time.Hour)
		time.Sleep(time.Minute)
		start := time.Now()
		unfinished := w.shutdownWithin(5 * time.Second)
		require.LessOrEqual(w.t, time.Since(start), 17*time.Second)
		require.Contains(w.t, fmt.Sprint(unfinished), shardName(0))
		require.Contains(w.t, fmt.Sprint(unfinished), shardName(1))
	})
}

// A handler that hangs: Shutdown with a deadline comes back by then and names stream, shard and how many. What the handler answers afterwards
// meets nobody, and the records come again.
func TestShutdownWithHandlersThatHang(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		stuck := make(chan struct{})
		open := sync.OnceFunc(func() { close(stuck) })
		defer open()
		w.handle(8, func(_ context.Context, d *messages.Delivery) error {
			if string(d.GetData()) == "stuck" {
				<-stuck
			}
			return nil
		})
		counts := make(map[string]int)
		for i := range 12 {
			data := "fine"
			if i%3 == 0 {
				data = "stuck"
			}
			shard, _, err := w.service.Put(testStream, fmt.Sprint(i), []byte(data))
			require.NoError(w.t, err)
			if data == "stuck" {
				counts[shard]++
			}
		}
		require.Len(w.t, counts, 2)
		time.Sleep(5 * time.Second)
		start := time.Now()
		unfinished := w.shutdownWithin(7 * time.Second)
		require.Equal(w.t, 7*time.Second, time.Since(start))
		require.Len(w.t, unfinished, 2)
		for shard, n := range counts {
			require.Contains(w.t, fmt.Sprint(unfinished), fmt.Sprintf("stream %q: %s: %d records delivered and not settled", testStream, shard, n))
			require.Empty(w.t, w.lease(shard).Owner)
		}
		before := w.rows(shardName(0))
		open()
		time.Sleep(time.Minute)
		require.Equal(w.t, before, w.rows(shardName(0)), "too late")
		w.again()
		w.subscribe()
		got := map[string]int{}
		for range 4 {
			d := probe.Fish(w.sub, func(d *messages.Delivery) bool { return string(d.GetData()) == "stuck" })
			got[d.GetShardId()]++
		}
		require.Equal(w.t, counts, got)
	})
}

// A record that is retried during a drain is not delivered any more, keeps nobody waiting, and holds the checkpoint.
func TestRetryDuringADrain(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		w.put("k", "b")
		w.put("k", "c")
		a, b, c := w.next(false), w.next(false), w.next(false)
		w.me.Request(w.broker, &messages.Shutdown{Timeout: durationOf(time.Minute)})
		synctest.Wait()
		w.sub.Reply(a.Ack())
		w.sub.Reply(b.RetryAfter(time.Millisecond))
		w.sub.ExpectNone(10 * time.Second)
		start := time.Now()
		w.sub.Reply(c.Ack())
		probe.Expect[*messages.Closed](w.me)
		require.Less(w.t, time.Since(start), time.Second)
		require.Equal(w.t, a.GetSequenceNumber(), w.lease(shardName(0)).Checkpoint.String())
		w.again()
		w.subscribe()
		require.Equal(w.t, []string{"b", "c"}, w.takeAll(2))
	})
}

// D4: the end comes at any moment around a shard's end: while it is confirmed, written, and its children start.
func TestShutdownAroundAShardsEnd(t *testing.T) {
	book := newLogBook()
	for after := time.Duration(0); after < 2*time.Second; after += 40 * time.Millisecond {
		inBubble(t, 1, func(w *world) {
			w.store.slow(100 * time.Millisecond)
			w.service.Fault("*", kinesistest.Match{}, -1, kinesistest.Delay(100*time.Millisecond))
			w.put("k", "a")
			w.open(horizon)
			split(w, shardName(0))
			w.put("k", "b")
			w.next(true)
			time.Sleep(after)
			w.shutdownWithin(0)
			for i := range 3 {
				if row := w.lease(shardName(i)); !row.Checkpoint.IsShardEnd() {
					require.Empty(w.t, row.Owner, "%s after %v", row.Shard, after)
				}
			}
		}, logged(book))
	}
	require.Empty(t, book.all("panic"))
	require.NotEmpty(t, book.all("shard finished"))
	require.NotEmpty(t, book.all("lease taken", shardName(1)))
}

// D15: 20 shards are in the middle of their windows when the end comes. Each drains, checkpoints what has settled, then releases its lease, and
// only when all have, is the broker closed.
func TestOrderlyDrainOfTwentyReaders(t *testing.T) {
	s, book := &hookStore{}, newLogBook()
	inBubble(t, 20, func(w *world) {
		w.open(horizon)
		var ds []*messages.Delivery
		first := make(map[string]*messages.Delivery)
		for i := range 400 {
			w.put(fmt.Sprint(i), "x")
		}
		readers := readersOf(w)
		for range 400 {
			d := w.next(false)
			if first[d.GetShardId()] == nil {
				first[d.GetShardId()] = d
				continue
			}
			ds = append(ds, d)
		}
		require.Len(w.t, first, 20)
		w.me.Request(w.broker, &messages.Shutdown{})
		time.Sleep(5 * time.Second)
		require.Empty(w.t, ofKind(s.written(), "release"), "each waits for what is in flight")
		last := make(map[string]string)
		for _, d := range ds {
			w.sub.Send(readers[d.GetShardId()], d.Ack())
			last[d.GetShardId()] = d.GetSequenceNumber()
		}
		for _, d := range first {
			_, done := w.me.TryReceive()
			require.False(w.t, done, "closed while a reader still drains")
			require.Empty(w.t, ofKind(ofShard(s.written(), d.GetShardId()), "release"))
			w.sub.Send(readers[d.GetShardId()], d.Ack())
			time.Sleep(10 * time.Millisecond)
			writes := ofShard(s.written(), d.GetShardId())
			require.Equal(w.t, []string{"checkpoint", "release"}, []string{writes[len(writes)-2].op, writes[len(writes)-1].op})
			require.Equal(w.t, last[d.GetShardId()], writes[len(writes)-2].to.String())
		}
		require.Empty(w.t, probe.Expect[*messages.Closed](w.me).GetUnfinished())
		require.Len(w.t, book.all("lease released"), 20)
	}, hooked(s), logged(book))
}

func ofShard(writes []storeWrite, shard string) (found []storeWrite) {
	for _, w := range writes {
		if w.lease.Shard == shard {
			found = append(found, w)
		}
	}
	return found
}

// D12: publishing, settling, seeking, asking for status and ending go on at once, from many sides. Every request is answered.
func TestEverythingAtOnce(t *testing.T) {
	inBubble(t, 4, func(w *world) {
		opened := w.open(horizon)
		w.sub.SetAutoPilot(func(e probe.Envelope) any {
			if d, ok := e.Message.(*messages.Delivery); ok {
				return d.Ack()
			}
			return nil
		})
		ask := NewAsker(w.system)
		var stored, refused atomic.Int64
		var all sync.WaitGroup
		request := func(to *pidOf, message func(n uint64) any) {
			n := NextCorrelation()
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
			defer cancel()
			switch _, err := ask.Ask(ctx, to, message(n), n); {
			case err == nil:
				stored.Add(1)
			case errors.Is(err, context.DeadlineExceeded):
				w.t.Errorf("not answered: %v", err)
			default:
				refused.Add(1)
			}
		}
		for i := range 1000 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond)
				key := fmt.Sprint(i)
				request(w.broker, func(n uint64) any {
					return &messages.Publish{Stream: testStream, PartitionKey: &key, Data: []byte("x"), Correlation: n}
				})
			})
		}
		for i := range 20 {
			all.Go(func() {
				time.Sleep(time.Duration(i*40) * time.Millisecond)
				request(opened.GetSubscription(), func(n uint64) any { return &messages.Seek{To: toHorizon(), Correlation: n} })
				request(w.broker, func(n uint64) any { return &messages.StatusRequest{Correlation: n} })
			})
		}
		for range 5 {
			all.Go(func() {
				time.Sleep(700 * time.Millisecond)
				request(w.broker, func(n uint64) any { return &messages.Shutdown{Correlation: n} })
			})
		}
		all.Wait()
		require.Greater(w.t, stored.Load(), int64(500))
		require.Positive(w.t, refused.Load())
		require.EqualValues(w.t, 1000+40+5, stored.Load()+refused.Load())
	})
}
