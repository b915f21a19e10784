package actors

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// countTo subscribes an actor that acks each record after a while and says when so many have come. most is how many were out at a time.
func (w *world) countTo(n int, after time.Duration, change ...func(*messages.StreamDescriptor)) (done chan struct{}, most *int) {
	done, most = make(chan struct{}), new(int)
	got, out := 0, 0
	pid := w.system.Root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
		switch m := c.Message().(type) {
		case *messages.Delivery:
			got++
			out++
			*most = max(*most, out)
			self, from, root := c.Self(), c.Sender(), c.ActorSystem().Root
			if after == 0 {
				out--
				c.Respond(m.Ack())
			} else {
				time.AfterFunc(time.Duration(got)*after, func() { root.Send(self, func() { out--; root.Send(from, m.Ack()) }) })
			}
			if got == n {
				close(done)
			}
		case func():
			m()
		}
	}))
	d := &messages.StreamDescriptor{Name: testStream}
	for _, f := range append(change, horizon) {
		f(d)
	}
	w.me.Request(w.broker, &messages.Subscribe{Stream: d, Subscriber: pid})
	probe.Fish(w.me, func(*messages.Subscribed) bool { return true })
	return done, most
}

// limitsOf notes how many records each read asked for.
func (w *world) limitsOf() (limits func() []int) {
	var all []int
	w.onWire(func(c *wireCall) bool {
		if c.op == "GetRecords" {
			limit, err := strconv.Atoi(fmt.Sprint(c.in["Limit"]))
			require.NoError(w.t, err)
			all = append(all, limit)
		}
		return false
	})
	return func() (l []int) {
		w.wired(func() { l = append(l, all...) })
		return l
	}
}

// A shard of small records that is far behind is not held to a window's worth five times a second: pages grow to ten windows. What is out
// at a time stays within the window.
func TestPagesGrowWhereTheCallsAreTheBound(t *testing.T) {
	const records = 60_000
	inBubble(t, 1, func(w *world) {
		for i := range records {
			w.put("k", fmt.Sprint(i))
		}
		limits := w.limitsOf()
		w.connect()
		begun := time.Now()
		done, most := w.countTo(records, 0)
		<-done
		require.Less(w.t, time.Since(begun), 2*time.Second, "a thousand five times a second would take twelve")
		require.LessOrEqual(w.t, *most, 1000)
		require.Equal(w.t, []int{1000, 1000}, limits()[:2], "how fast the subscriber is has to show")
		require.Equal(w.t, 10_000, slices.Max(limits()))
	}, paced)
}

// A subscriber that is slower than the calls allow has no more read for it than its window.
func TestPagesStaySmallForASlowSubscriber(t *testing.T) {
	const records = 300
	inBubble(t, 1, func(w *world) {
		for i := range records {
			w.put("k", fmt.Sprint(i))
		}
		limits := w.limitsOf()
		w.connect()
		done, most := w.countTo(records, 100*time.Millisecond, func(d *messages.StreamDescriptor) { d.WindowRecords = new(int32(10)) })
		<-done
		require.LessOrEqual(w.t, *most, 10)
		for _, limit := range limits() {
			require.LessOrEqual(w.t, limit, 10)
		}
	}, paced)
}
