package actors

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// A reader that stops while it waits for a place to read takes none with it.
func TestReadersThatStopLeaveTheirPlaces(t *testing.T) {
	inBubble(t, 4, func(w *world) {
		w.onWire(func(c *wireCall) bool {
			if c.op == "GetRecords" {
				time.Sleep(time.Second)
			}
			return false
		})
		w.connect()
		for i := range 10 {
			sub := w.subscribe(horizon)
			time.Sleep(time.Duration(1500+137*i) * time.Millisecond) // one reads, the others wait
			w.me.Request(sub.GetSubscription(), &messages.Unsubscribe{Timeout: durationOf(0)})
			probe.Fish(w.me, func(*messages.Unsubscribed) bool { return true })
			synctest.Wait()
		}
		w.subscribe(horizon)
		for i := range 20 {
			w.put(fmt.Sprint("key-", i), "x")
		}
		require.Len(w.t, w.takeAll(20), 20)
	}, func(c *Config) { c.Limits.ReadCalls = 1 })
}

// Nor does one that drains, for as long as that takes: what comes to be its turn is another's.
func TestReadersThatDrainLeaveTheirPlaces(t *testing.T) {
	const other = "other"
	inBubble(t, 1, func(w *world) {
		require.NoError(w.t, w.service.CreateStream(other, 1))
		w.onWire(func(c *wireCall) bool {
			if c.op == "GetRecords" {
				time.Sleep(time.Second)
			}
			return false
		})
		reads := func() (last string, others int) {
			for _, c := range w.service.Calls() {
				if c.Op == "GetRecords" {
					last = c.Stream
				}
				if c.Op == "GetRecords" && c.Stream == other {
					others++
				}
			}
			return last, others
		}
		w.put("key", "x")
		sub := w.open(horizon)
		w.me.Request(w.broker, &messages.Subscribe{Stream: &messages.StreamDescriptor{Name: other}, Subscriber: w.sub.PID()})
		probe.Fish(w.me, func(*messages.Subscribed) bool { return true })
		w.next(false)
		for range 100 {
			if last, _ := reads(); last == testStream {
				break // the other's call begins
			}
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(500 * time.Millisecond) // it waits for its next turn
		w.me.Request(sub.GetSubscription(), &messages.Unsubscribe{Timeout: durationOf(30 * time.Second)})
		_, before := reads()
		time.Sleep(20 * time.Second)
		_, after := reads()
		require.Greater(w.t, after-before, 15)
		probe.Fish(w.me, func(*messages.Unsubscribed) bool { return true })
	}, func(c *Config) { c.Limits.ReadCalls, c.Timings.PollInterval = 1, 10*time.Millisecond })
}
