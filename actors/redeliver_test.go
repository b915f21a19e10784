package actors

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// long is longer than anything here takes.
const long = 10 * time.Minute

func redeliveredAfter(d time.Duration) func(*messages.StreamDescriptor) {
	return func(s *messages.StreamDescriptor) { s.RedeliverAfter = durationOf(d) }
}

// A delivery that does not arrive on another node comes again after 30 s, by default, and again.
func TestLostDeliveriesComeAgain(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		far := newElsewhere(w)
		far.open()
		far.losing(everything)
		w.put("k", "a")
		nothingMore(w, 59*time.Second) // by then it has come, and been lost, twice
		far.losing(nil)
		start := time.Now()
		d := w.next(false)
		require.LessOrEqual(t, time.Since(start), 2*time.Second, "a minute after the first, give or take a poll")
		require.EqualValues(t, 3, d.GetAttempt())
		w.sub.Reply(d.Ack())
		w.checkpointIs(d.GetSequenceNumber())
		nothingMore(w, long)
	})
}

// The time is the subscription's, and so is the form of the deliveries.
func TestLostBatchesComeAgain(t *testing.T) {
	for _, batch := range []int32{1, 3, 4, 100} {
		inBubble(t, 1, func(w *world) {
			far := newElsewhere(w)
			far.losing(everything)
			for i := range 10 {
				w.put("k", fmt.Sprint(i))
			}
			far.open(inBatches(batch), redeliveredAfter(7*time.Second))
			time.Sleep(6900 * time.Millisecond)
			far.losing(nil)
			start, got := time.Now(), []string{}
			for len(got) < 10 {
				b := probe.Expect[*messages.DeliveryBatch](w.sub)
				require.LessOrEqual(t, len(b.GetDeliveries()), int(batch))
				for _, d := range b.GetDeliveries() {
					require.EqualValues(t, 2, d.GetAttempt())
					got = append(got, string(d.GetData()))
				}
				w.sub.Reply(b.Ack())
			}
			assert.Equal(t, []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}, got)
			assert.Less(t, time.Since(start), time.Second, "all of them once the first has been settled")
			nothingMore(w, long)
		})
	}
}

// On this node nothing is lost, so nothing comes again, unless it is asked for.
func TestDeliveriesOnThisNodeComeOnce(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		w.next(false)
		nothingMore(w, long)
	})
	inBubble(t, 1, func(w *world) {
		w.open(horizon, redeliveredAfter(50*time.Second))
		w.put("k", "a")
		d := w.next(false)
		start := time.Now()
		require.Equal(t, d.GetAttempt()+1, w.next(true).GetAttempt())
		require.Equal(t, 50*time.Second, time.Since(start))
	})
	inBubble(t, 1, func(w *world) {
		far := newElsewhere(w)
		far.open(redeliveredAfter(0)) // never
		w.put("k", "a")
		w.next(false)
		nothingMore(w, long)
	})
}

// Whichever of a record's deliveries is settled, it is settled: what was not lost but slow counts, once.
func TestLateSettlementsCount(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		far := newElsewhere(w)
		far.open(func(d *messages.StreamDescriptor) { d.PerKeyOrder = true })
		w.put("k", "a")
		w.put("k", "b")
		first := w.next(false)
		again := w.next(false)
		require.Equal(t, first.GetDeliveryId(), again.GetDeliveryId(), "b waits for a")
		w.sub.Reply(first.Ack())
		b := w.next(false)
		require.Equal(t, "b", string(b.GetData()))
		w.sub.Reply(again.Retry()) // it has been acked
		w.checkpointIs(first.GetSequenceNumber())
		w.sub.Reply(b.Ack())
		w.checkpointIs(b.GetSequenceNumber())
		require.EqualValues(t, 2, w.onlyStatus().GetSettled())
		nothingMore(w, long)
	})
}

// A record that comes again holds back those of its key, and no other.
func TestOrderOfAKeyWhenDeliveriesAreLost(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		far := newElsewhere(w)
		far.open(perKey)
		lost := map[string]int{"a0": 2, "a2": 1, "b1": 3}
		far.losing(func(m any) bool {
			d, ok := m.(*messages.Delivery)
			if !ok || lost[string(d.GetData())] == 0 {
				return false
			}
			lost[string(d.GetData())]--
			return true
		})
		for i := range 4 {
			for _, key := range []string{"a", "b", "c"} {
				w.put(key, fmt.Sprint(key, i))
			}
		}
		w.sub.SetTimeout(10 * time.Minute)
		byKey := make(map[byte][]string)
		for _, data := range w.takeAll(12) {
			byKey[data[0]] = append(byKey[data[0]], data)
		}
		for _, key := range "abc" {
			k := string(key)
			require.Equal(t, []string{k + "0", k + "1", k + "2", k + "3"}, byKey[k[0]])
		}
		nothingMore(w, long)
	})
}

// A subscriber that takes longer for what it was sent than redeliver_after, but for no record by itself, gets nothing twice.
func TestSlowSubscribersGetNothingTwice(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		far := newElsewhere(w)
		for i := range 20 {
			w.put("k", fmt.Sprint(i))
		}
		far.open(func(d *messages.StreamDescriptor) { d.PollInterval = durationOf(time.Hour) }) // no page tells the time meanwhile
		for i := range 20 {
			time.Sleep(20 * time.Second)
			d := w.next(true)
			require.Equal(t, fmt.Sprint(i), string(d.GetData()))
			require.EqualValues(t, 1, d.GetAttempt())
		}
		nothingMore(w, long)
	})
}

// A subscriber that has stopped, but is not gone, is not sent its window again and again.
func TestStalledSubscribersAreSentLittle(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		far := newElsewhere(w)
		far.open()
		start := time.Now()
		for i := range 500 {
			w.put("k", fmt.Sprint(i))
			time.Sleep(200 * time.Millisecond)
		}
		time.Sleep(time.Hour - time.Since(start))
		synctest.Wait()
		first, again := 0, 0
		for e, more := w.sub.TryReceive(); more; e, more = w.sub.TryReceive() {
			if d, ok := e.Message.(*messages.Delivery); ok && d.GetAttempt() == 1 {
				first++
			} else if ok {
				again++
				require.EqualValues(t, 2, d.GetAttempt(), "each once before any comes twice")
			}
		}
		require.Equal(t, 500, first)
		require.InDelta(t, 120, again, 1, "one in 30 s")
	})
}

// What was lost is found though the subscriber goes on with what came after it, and many records that were lost are not many times 30 s.
func TestManyLostDeliveriesComeSoon(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		far := newElsewhere(w)
		far.losing(everything)
		for i := range 300 {
			w.put("k", fmt.Sprint(i))
		}
		far.open()
		time.Sleep(time.Second)
		far.losing(nil)
		seen := make(map[string]int32)
		w.sub.SetAutoPilot(func(e probe.Envelope) any {
			d, ok := e.Message.(*messages.Delivery)
			if !ok {
				return nil
			}
			seen[string(d.GetData())] = d.GetAttempt()
			return d.Ack()
		})
		for i := range 60 { // one a second, which are not lost
			w.put("k", fmt.Sprint(1000+i))
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Second) // some polls, for the last of them
		synctest.Wait()
		require.Len(t, seen, 360)
		for data, attempt := range seen {
			want := int32(1)
			if len(data) < 4 {
				want = 2
			}
			require.Equal(t, want, attempt, data)
		}
		require.Zero(t, w.onlyStatus().GetInFlight())
	})
}

// max_attempts is the subscriber's patience, not the network's: what it has not answered does not count.
func TestLostDeliveriesAreNoAttempts(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		far := newElsewhere(w)
		far.open(func(d *messages.StreamDescriptor) { d.MaxAttempts, d.RetryBackoff = 2, durationOf(time.Second) })
		far.losing(everything)
		w.put("k", "a")
		nothingMore(w, 5*time.Minute)
		far.losing(nil)
		d := w.next(false)
		require.Greater(t, d.GetAttempt(), int32(5))
		attempt := d.GetAttempt()
		start := time.Now()
		w.sub.Reply(d.Retry())
		d = w.next(false)
		require.Equal(t, time.Second, time.Since(start), "the backoff of the first")
		require.Equal(t, attempt+1, d.GetAttempt())
		w.sub.Reply(d.Retry())
		time.Sleep(2 * time.Second) // the second retry was the last of its attempts
		w.checkpointIs(d.GetSequenceNumber())
		nothingMore(w, long)
	})
}

// Nothing comes again while the lease can't be renewed, and all that is missing does afterwards.
func TestNothingComesAgainWithoutTheLease(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		far := newElsewhere(w)
		far.open()
		w.put("k", "a")
		d := w.next(false)
		time.Sleep(15 * time.Second)
		w.store.outage(errOutage, false)
		nothingMore(w, 5*time.Minute)
		w.store.outage(nil, false)
		again := w.next(true)
		require.Equal(t, d.GetDeliveryId(), again.GetDeliveryId())
		w.checkpointIs(d.GetSequenceNumber())
	})
}

// A seek voids what was delivered: none of it comes again.
func TestNothingComesAgainAfterASeek(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		far := newElsewhere(w)
		sub := far.open()
		w.put("k", "a")
		w.next(false)
		time.Sleep(20 * time.Second)
		w.me.Request(sub.GetSubscription(), &messages.Seek{To: &messages.Position{At: &messages.Position_Latest{Latest: &messages.Latest{}}}})
		probe.Fish(w.me, func(*messages.Sought) bool { return true })
		nothingMore(w, long)
	})
}

// A drain lets what is in flight settle, and sends nothing more.
func TestNothingComesAgainWhileDraining(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		far := newElsewhere(w)
		sub := far.open()
		w.put("k", "a")
		d := w.next(false)
		w.me.Request(sub.GetSubscription(), &messages.Unsubscribe{Timeout: durationOf(time.Hour)})
		nothingMore(w, 30*time.Minute)
		w.sub.Reply(d.Ack())
		require.Empty(t, probe.Fish(w.me, func(*messages.Unsubscribed) bool { return true }).GetUnfinished())
		require.Equal(t, d.GetSequenceNumber(), w.lease(shardName(0)).Checkpoint.String())
	})
}

// Ten thousand records cost a handful of timers.
func TestRedeliveryCostsNoTimerPerRecord(t *testing.T) {
	fired := 0
	inBubble(t, 1, func(w *world) {
		far := newElsewhere(w)
		for i := range 10_000 {
			w.put("k", fmt.Sprint(i))
		}
		w.acked()
		far.open()
		time.Sleep(10 * time.Minute)
		require.EqualValues(t, 10_000, w.onlyStatus().GetSettled())
		require.LessOrEqual(t, fired, 3)
	}, func(c *Config) {
		c.intercept = func(r role, message any) {
			if m, ok := message.(timerFired[readerTimer]); ok && r == roleReader && m.name == timerRedeliver {
				fired++
			}
		}
	})
}
