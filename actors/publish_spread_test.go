package actors

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/require"
)

// What is ready to be aggregated is spread over the requests that are free: in one of them it would keep all of its keys waiting. What
// is little goes with one.
func TestMuchToAggregateIsSpreadOverRequests(t *testing.T) {
	for name, c := range map[string]struct{ records, requests int }{"much": {1000, 4}, "little": {100, 1}} {
		t.Run(name, func(t *testing.T) {
			var underWay, most atomic.Int64
			inBubble(t, 4, func(w *world) {
				w.connect()
				o := w.outletOf(aggregating)
				publishMany(w, o, 0, 1) // it knows the shards
				most.Store(0)
				items := make([]Item, c.records)
				for i := range items {
					items[i] = Item{Key: fmt.Sprint("key-", i), Data: make([]byte, 512)}
				}
				results, err := o.PublishBatch(context.Background(), items)
				require.NoError(w.t, err)
				for _, r := range results {
					require.Nil(w.t, r.Err)
				}
				require.EqualValues(w.t, c.requests, most.Load())
			}, putsThrough(func(_ context.Context, in *kinesis.PutRecordsInput, real putCall) (*kinesis.PutRecordsOutput, error) {
				if n := underWay.Add(1); n > most.Load() {
					most.Store(n)
				}
				defer underWay.Add(-1)
				time.Sleep(50 * time.Millisecond)
				return real(in)
			}))
		})
	}
}
