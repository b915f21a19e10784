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

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
)

// ownPages gives each page's texts a piece of memory of their own, as a decoder does, and counts those that are still in use.
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
	o.inUse.Add(1)
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
