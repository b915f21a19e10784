package actors

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// A subscriber that always has a record in hand keeps no large pages of those that it has settled, though records are sent in envelopes that share memory.
func TestARecordInHandKeepsNoOtherPages(t *testing.T) {
	var inUse atomic.Int64
	inBubble(t, 1, func(w *world) {
		got := 0
		var settle func()
		pid := w.system.Root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
			d, ok := c.Message().(*messages.Delivery)
			if !ok {
				return
			}
			if settle != nil {
				settle()
			}
			root, reader, ack := c.ActorSystem().Root, c.Sender(), d.Ack()
			settle = func() { root.Send(reader, ack) }
			got++
		}))
		w.connect()
		d := &messages.StreamDescriptor{Name: testStream}
		horizon(d)
		w.me.Request(w.broker, &messages.Subscribe{Stream: d, Subscriber: pid})
		probe.Fish(w.me, func(*messages.Subscribed) bool { return true })
		for i := range 39 {
			w.put("key", fmt.Sprint(i, strings.Repeat("x", 100_000)))
			time.Sleep(2 * time.Second)
		}
		synctest.Wait()
		require.Equal(w.t, 39, got, "each in a page of its own")
		w.system.Root.Send(pid, "a mailbox keeps the last message")
		for range 20 {
			runtime.GC()
			time.Sleep(time.Second)
		}
		require.LessOrEqual(w.t, inUse.Load(), int64(2*2), "texts and data of the page in hand, and of the one before")
	}, func(c *Config) {
		c.Clients = &Clients{Control: c.Clients.Control, Data: ownPages{c.Clients.Data, &inUse}}
	})
}

// A record that takes long to be handled keeps none of those that came with it.
func TestARecordInAHandlerKeepsNoOthers(t *testing.T) {
	for name, err := range map[string]error{"acked": nil, "failed": errOutage} {
		t.Run(name, func(t *testing.T) {
			handling(t, HandlerConfig{Parallel: 2, Handle: func(_ context.Context, d *messages.Delivery) error {
				if d.GetDeliveryId() == 1 {
					time.Sleep(time.Minute)
				}
				return err
			}}, func(handler *actor.PID, reader *probe.Probe) {
				var inUse atomic.Int64
				func() {
					batch := deliveries(100)
					for _, d := range batch.Deliveries {
						d.Data = make([]byte, 1000)
						inUse.Add(1)
						runtime.AddCleanup(&d.Data[0], func(n *atomic.Int64) { n.Add(-1) }, &inUse)
					}
					reader.Request(handler, batch)
				}()
				synctest.Wait()
				reader.Request(handler, "a mailbox keeps the last message")
				for range 20 {
					runtime.GC()
					time.Sleep(time.Second)
				}
				assert.LessOrEqual(t, inUse.Load(), int64(1), "the one that is being handled")
			})
		})
	}
}
