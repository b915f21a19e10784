package actors

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// hungPuts lets every PutRecords hang.
func hungPuts(w *world) *kinesistest.Fault {
	return w.service.Fault("PutRecords", kinesistest.Match{}, -1, kinesistest.Hang())
}

// publishTo sends a record as an actor, and waits until its publisher has seen it: there is no order between publishers.
func (w *world) publishTo(stream string, size int, options *messages.PublishOptions) {
	w.me.Request(w.broker, &messages.Publish{Stream: stream, Data: make([]byte, size-randomKeySize), Options: options})
	synctest.Wait()
}

func (w *world) requireOverloaded() {
	w.t.Helper()
	e := probe.Expect[*messages.Error](w.me)
	require.Equal(w.t, messages.ErrorKind_ERROR_KIND_OVERLOADED, e.GetKind(), "%v", e)
}

// P7: what a stream's publishers hold is bounded, whatever their options, and so is what those of all streams hold. Beyond, actors are answered
// Overloaded at once.
func TestBoundsOfWhatIsPublished(t *testing.T) {
	bounded := func(c *Config) {
		c.Limits.PendingRecords, c.Limits.PendingBytes, c.Limits.PublishBytes = 10, 1000, 1500
	}
	relaxed := &messages.PublishOptions{Ordering: messages.PublishOrdering_PUBLISH_ORDERING_RELAXED}
	for name, test := range map[string]func(w *world){
		"records": func(w *world) {
			for i := range 10 {
				w.publishTo(testStream, 20, []*messages.PublishOptions{nil, relaxed}[i%2])
			}
			w.me.ExpectNone(time.Second)
			w.publishTo(testStream, 20, nil)
			w.requireOverloaded()
			w.publishTo("another", 20, nil)
			w.me.ExpectNone(time.Second)
		},
		"bytes": func(w *world) {
			w.publishTo(testStream, 500, nil)
			w.publishTo(testStream, 400, relaxed)
			w.publishTo(testStream, 101, nil)
			w.requireOverloaded()
			w.publishTo(testStream, 100, nil)
			w.publishTo("another", 500, nil)
			w.me.ExpectNone(time.Second)
			w.publishTo("another", 20, nil)
			w.requireOverloaded()
		},
		"one record beyond all bounds": func(w *world) {
			w.publishTo(testStream, 5000, nil)
			w.me.ExpectNone(time.Second)
			w.publishTo(testStream, 20, nil)
			w.requireOverloaded()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(w *world) {
				require.NoError(w.t, w.service.CreateStream("another", 1))
				hung := hungPuts(w)
				w.connect()
				test(w)
				hung.Clear()
				w.me.Request(w.broker, &messages.Shutdown{Timeout: durationOf(time.Minute)})
				probe.Fish(w.me, func(*messages.Closed) bool { return true })
			}, bounded)
		})
	}
}

// A Go caller waits for room, in turn, until its context ends.
func TestGoCallersWaitForRoom(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		hung := hungPuts(w)
		w.connect()
		o := w.outletOf(nil)
		item := func(i int) Item { return Item{Key: fmt.Sprint(i), Data: []byte("x")} }
		for i := range 10 {
			_, err := o.PublishAsync(context.Background(), item(i))
			require.NoError(w.t, err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		begun := time.Now()
		_, err := o.Publish(ctx, item(10))
		require.ErrorIs(w.t, err, ErrOverloaded)
		require.ErrorIs(w.t, err, context.DeadlineExceeded)
		require.Equal(w.t, time.Second, time.Since(begun))

		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				_, err := o.Publish(context.Background(), item(100+i))
				if err != nil {
					w.t.Errorf("waits until there is room: %v", err)
				}
			})
		}
		time.Sleep(time.Second)
		w.publishTo(testStream, 20, nil)
		w.requireOverloaded() // and does not overtake
		hung.Clear()
		all.Wait()
		held, size := o.quota.held()
		require.Zero(w.t, held)
		require.Zero(w.t, size)
		require.Zero(w.t, o.quota.all.used.Load())
	}, func(c *Config) { c.Limits.PendingRecords, c.Timings.PublishDeadline = 10, 5*time.Minute })
}

// P8: Shutdown sends what it can within its time, and answers everything: also what is on its way, as unknown, and those that wait for room.
func TestShutdownAnswersEveryPublish(t *testing.T) {
	for name, hangs := range map[string]bool{"the service works": false, "the service hangs": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(w *world) {
				hung := hungPuts(w)
				w.connect()
				o := w.outletOf(&messages.PublishOptions{Linger: durationOf(10 * time.Second)})
				var all sync.WaitGroup
				var mu sync.Mutex
				counts := make(map[string]int)
				count := func(err error) {
					mu.Lock()
					defer mu.Unlock()
					e := asError(err)
					switch {
					case err == nil:
						counts["stored"]++
					case e != nil && e.Kind == messages.ErrorKind_ERROR_KIND_NOT_CONNECTED:
						counts["not connected"]++
					case e != nil && e.OutcomeUnknown:
						counts["unknown"]++
					default:
						counts["not stored"]++
					}
				}
				for i := range 60 {
					all.Go(func() {
						_, err := o.Publish(context.Background(), Item{Key: fmt.Sprint(i % 5), Data: []byte("x")})
						count(err)
					})
				}
				time.Sleep(time.Second)
				if !hangs {
					hung.Clear()
				}
				begun := time.Now()
				w.me.Request(w.broker, &messages.Shutdown{Timeout: durationOf(5 * time.Second)})
				probe.Expect[*messages.Closed](w.me)
				took := time.Since(begun)
				all.Wait()
				if hangs {
					require.Equal(w.t, map[string]int{"unknown": 5, "not stored": 45, "not connected": 10}, counts)
					require.InDelta(w.t, 5, took.Seconds(), 0.5)
				} else {
					require.Equal(w.t, map[string]int{"stored": 50, "not connected": 10}, counts)
					require.Less(w.t, took, time.Second, "what lingers goes at once")
				}
				_, err := o.Publish(context.Background(), Item{Data: []byte("x")})
				require.ErrorIs(w.t, err, ErrNotConnected)
				_, err = o.PublishBatch(context.Background(), []Item{{Data: []byte("x")}})
				require.ErrorIs(w.t, err, ErrNotConnected)
				held, _ := o.quota.held()
				require.Zero(w.t, held)
			}, func(c *Config) { c.Limits.PendingRecords = 50 })
		})
	}
}

// A record waits for others as long as it is made to, but not once they fill a request.
func TestLinger(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.connect()
		o := w.outletOf(&messages.PublishOptions{Linger: durationOf(time.Second)})
		publish := func(n int) {
			var all sync.WaitGroup
			for range n {
				all.Go(func() {
					_, err := o.Publish(context.Background(), Item{Data: []byte("x")})
					if err != nil {
						w.t.Error(err)
					}
				})
				time.Sleep(time.Millisecond)
			}
			all.Wait()
		}
		begun := time.Now()
		publish(100)
		require.Equal(w.t, time.Second, time.Since(begun))
		require.Equal(w.t, 1, w.service.CallCount("PutRecords"))
		begun = time.Now()
		publish(500)
		require.Less(w.t, time.Since(begun), 510*time.Millisecond)
		require.Equal(w.t, 2, w.service.CallCount("PutRecords"))
	})
}

// A publisher that panics answers those that wait, and its room is free again.
func TestAPublisherThatPanicsAnswersGoCallers(t *testing.T) {
	calm := true
	var mu sync.Mutex
	inBubble(t, 1, func(w *world) {
		hung := hungPuts(w)
		w.connect()
		o := w.outletOf(nil)
		waits, err := o.PublishAsync(context.Background(), Item{Key: "k", Data: []byte("1")})
		require.NoError(w.t, err)
		synctest.Wait()
		mu.Lock()
		calm = false
		mu.Unlock()
		_, err = o.Publish(context.Background(), Item{Key: "k", Data: []byte("2")})
		require.ErrorIs(w.t, err, ErrPublish)
		_, err = o.PublishBatch(context.Background(), []Item{{Data: []byte("3")}, {Data: []byte("4")}})
		require.ErrorIs(w.t, err, ErrPublish)
		<-waits.Done()
		require.True(w.t, waits.Outcome().Err.OutcomeUnknown)
		mu.Lock()
		calm = true
		mu.Unlock()
		hung.Clear()
		_, err = o.Publish(context.Background(), Item{Key: "k", Data: []byte("5")})
		require.NoError(w.t, err)
		held, size := o.quota.held()
		require.Zero(w.t, held)
		require.Zero(w.t, size)
	}, func(c *Config) {
		c.intercept = func(_ role, message any) {
			mu.Lock()
			defer mu.Unlock()
			switch message.(type) {
			case *Ticket, *batchTicket:
				if !calm {
					panic("the test wants it")
				}
			}
		}
	})
}
