package actors

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
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

// Who lets records linger wants large aggregated ones: they wait their time, unless they fill a request.
func TestRecordsToBeAggregatedLinger(t *testing.T) {
	var requests atomic.Int64
	inBubble(t, 4, func(w *world) {
		w.connect()
		o := w.outletOf(&messages.PublishOptions{Aggregate: true, Linger: durationOf(time.Second)})
		publishMany(w, o, 0, 1) // it knows the shards
		requests.Store(0)
		var tickets []*Ticket
		for i := range 400 { // 200 KiB, in less than half a second
			ticket, err := o.PublishAsync(context.Background(), Item{Key: fmt.Sprint("key-", i), Data: make([]byte, 512)})
			require.NoError(w.t, err)
			tickets = append(tickets, ticket)
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		require.Zero(w.t, requests.Load())
		for _, ticket := range tickets {
			<-ticket.Done()
			require.Nil(w.t, ticket.Outcome().Err)
		}
		require.LessOrEqual(w.t, requests.Load(), int64(4))
	}, putsThrough(func(_ context.Context, in *kinesis.PutRecordsInput, real putCall) (*kinesis.PutRecordsOutput, error) {
		requests.Add(1)
		return real(in)
	}))
}
