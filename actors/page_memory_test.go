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
	"unsafe"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// ownPages gives each page's texts and data a piece of memory each, as a decoder does, and counts those that are still in use.
type ownPages struct {
	Kinesis
	inUse *atomic.Int64
}

func (o ownPages) GetRecords(ctx context.Context, in *kinesis.GetRecordsInput, options ...func(*kinesis.Options)) (*kinesis.GetRecordsOutput, error) {
	out, err := o.Kinesis.GetRecords(ctx, in, options...)
	if err != nil || len(out.Records) == 0 {
		return out, err
	}
	var texts strings.Builder
	texts.Grow(64 << 10) // more than what is small enough to be allocated together with other things
	at := make([][2]int, 0, 2*len(out.Records))
	for i := range out.Records {
		for _, text := range []*string{out.Records[i].SequenceNumber, out.Records[i].PartitionKey} {
			from := texts.Len()
			texts.WriteString(*text)
			at = append(at, [2]int{from, texts.Len()})
		}
	}
	all := texts.String()
	for i := range out.Records {
		sequence, key := all[at[2*i][0]:at[2*i][1]], all[at[2*i+1][0]:at[2*i+1][1]]
		out.Records[i].SequenceNumber, out.Records[i].PartitionKey = &sequence, &key
	}
	data := make([]byte, 0, 64<<10+arenaBytes(out.Records))
	for i := range out.Records {
		data = append(data, out.Records[i].Data...)
		out.Records[i].Data = data[len(data)-len(out.Records[i].Data) : len(data) : len(data)]
	}
	o.inUse.Add(2)
	runtime.AddCleanup(&data[:1][0], func(n *atomic.Int64) { n.Add(-1) }, o.inUse)
	runtime.AddCleanup(unsafe.StringData(all), func(n *atomic.Int64) { n.Add(-1) }, o.inUse) //nolint:gosec // only its address is used
	return out, nil
}

// A shard that has nothing to read keeps nothing of the pages that it has read: neither its place nor its checkpoint does.
func TestAnIdleShardKeepsNoPage(t *testing.T) {
	for name, change := range map[string]func(d *messages.StreamDescriptor){
		"checkpointed": func(*messages.StreamDescriptor) {},
		"not yet":      func(d *messages.StreamDescriptor) { d.CheckpointInterval = durationOf(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			var inUse atomic.Int64
			inBubble(t, 4, func(w *world) {
				for i := range 400 {
					w.put(fmt.Sprint("key-", i), fmt.Sprint(i))
				}
				w.acked()
				w.open(horizon, change)
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Positive(w.t, inUse.Load(), "pages came")
				w.system.Root.Send(w.sub.PID(), "a mailbox keeps the last message")
				w.received()
				for range 20 {
					runtime.GC()
					time.Sleep(time.Second)
				}
				require.Zero(w.t, inUse.Load(), "pages are kept")
			}, func(c *Config) {
				c.Clients = &Clients{Control: c.Clients.Control, Data: ownPages{c.Clients.Data, &inUse}}
			})
		})
	}
}

// recordKeeper acks every record and keeps something of it.
type recordKeeper struct{ keep func(*messages.Delivery) any }

func (k *recordKeeper) spawn(w *world) (*actor.PID, func() int) {
	var kept []any
	pid := w.system.Root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
		if d, ok := c.Message().(*messages.Delivery); ok {
			c.Respond(d.Ack())
			kept = append(kept, k.keep(d))
		}
	}))
	return pid, func() int { return len(kept) }
}

// Who keeps a record of each page for an hour keeps the pages, unless what is kept is a clone.
func TestAClonedRecordKeepsNoPage(t *testing.T) {
	const pages = 200 // of an hour: one in 18 seconds
	for name, keep := range map[string]struct {
		keep  func(*messages.Delivery) any
		pages int64 // that stay, of each page its texts and its data counted for themselves
	}{
		"a clone":             {func(d *messages.Delivery) any { return d.Clone() }, 0},
		"the record":          {func(d *messages.Delivery) any { return d }, 2 * pages},
		"the data":            {func(d *messages.Delivery) any { return d.GetData() }, pages},
		"the sequence number": {func(d *messages.Delivery) any { return d.GetSequenceNumber() }, pages},
	} {
		t.Run(name, func(t *testing.T) {
			var inUse atomic.Int64
			inBubble(t, 1, func(w *world) {
				k := recordKeeper{keep.keep}
				pid, kept := k.spawn(w)
				w.connect()
				d := &messages.StreamDescriptor{Name: testStream}
				horizon(d)
				w.me.Request(w.broker, &messages.Subscribe{Stream: d, Subscriber: pid})
				probe.Fish(w.me, func(*messages.Subscribed) bool { return true })
				for i := range pages {
					w.put("key", fmt.Sprint(i))
					time.Sleep(18 * time.Second)
				}
				w.system.Root.Send(pid, "a mailbox keeps the last message")
				synctest.Wait()
				require.Equal(w.t, pages, kept(), "each in a page of its own")
				for range 20 {
					runtime.GC()
					time.Sleep(time.Second)
				}
				require.Equal(w.t, keep.pages, inUse.Load(), "pages are kept")
				require.Equal(w.t, pages, kept())
			}, func(c *Config) {
				c.Clients = &Clients{Control: c.Clients.Control, Data: ownPages{c.Clients.Data, &inUse}}
			})
		})
	}
}

// A window's bound is one of memory: a record that is not settled counts for all of its page.
func TestAWindowCountsWholePages(t *testing.T) {
	const perPage, size = 50, 1000
	for name, late := range map[string]func(i int) bool{
		"one record of each page": func(i int) bool { return i%perPage == 0 },
		"none":                    func(int) bool { return false },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(w *world) {
				got, open := 0, 0
				pid := w.system.Root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
					if d, ok := c.Message().(*messages.Delivery); ok {
						if late(got) {
							open++
						} else {
							c.Respond(d.Ack())
						}
						got++
					}
				}))
				w.connect()
				d := &messages.StreamDescriptor{Name: testStream, WindowRecords: new(int32(10_000)), WindowBytes: new(int64(4 * perPage * size))}
				horizon(d)
				w.me.Request(w.broker, &messages.Subscribe{Stream: d, Subscriber: pid})
				probe.Fish(w.me, func(*messages.Subscribed) bool { return true })
				for range 40 {
					for range perPage {
						w.put("key", strings.Repeat("x", size))
					}
					time.Sleep(3 * time.Second)
				}
				synctest.Wait()
				if !late(0) {
					require.Equal(w.t, 40*perPage, got)
					return
				}
				require.GreaterOrEqual(w.t, open, 4, "the window is of four pages")
				require.LessOrEqual(w.t, open, 5, "the pages that %d records keep are more than the window", open)
			})
		})
	}
}
