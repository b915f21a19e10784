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
