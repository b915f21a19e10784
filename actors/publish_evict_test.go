package actors

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Only what came before it was known that its shard is throttled is given back to its senders. The others of that shard wait outside, and what they wait
// for is no reason to give more back.
func TestOnlyWhatCameBeforeTheThrottleIsGivenBack(t *testing.T) {
	throttle := &throttledShard{shards: shardsOf(0, 4)}
	throttle.on.Store(true)
	inBubble(t, 4, func(w *world) {
		w.connect()
		o := w.outletOf(nil)
		keys := keysOfShards(4, 50)
		ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
		defer cancel()
		var senders, all sync.WaitGroup
		var overloaded, stored, others atomic.Int64
		for _, key := range keys[0] {
			senders.Go(func() {
				var tickets []*Ticket
				for i := range 40 { // does not wait for outcomes
					time.Sleep(time.Millisecond)
					ticket, err := o.PublishAsync(context.Background(), Item{Key: key, Data: fmt.Append(nil, i)})
					if err != nil {
						w.t.Error(err)
						return
					}
					tickets = append(tickets, ticket)
				}
				for _, ticket := range tickets {
					<-ticket.Done()
					switch err := ticket.Outcome().Err; {
					case err == nil:
						stored.Add(1)
					case err.Is(ErrOverloaded):
						overloaded.Add(1)
					default:
						w.t.Error(err)
					}
				}
			})
		}
		for shard := 1; shard < 4; shard++ {
			for _, key := range keys[shard][:12] {
				all.Go(func() {
					for ctx.Err() == nil {
						if _, err := o.Publish(ctx, Item{Key: key, Data: []byte("x")}); err == nil {
							others.Add(1)
						}
					}
				})
			}
		}
		time.Sleep(30 * time.Second)
		require.Greater(w.t, others.Load(), int64(30*36*10), "the others go on")
		throttle.on.Store(false)
		senders.Wait()
		all.Wait()
		t.Logf("%d stored, %d given back, %d others", stored.Load(), overloaded.Load(), others.Load())
		require.EqualValues(w.t, 2000, stored.Load()+overloaded.Load())
		require.LessOrEqual(w.t, overloaded.Load(), int64(300), "there was no more room at first than for these")
		time.Sleep(time.Second)
		requireEmptyQuota(w, o)
	}, putsThrough(throttle.put), func(c *Config) { c.Limits.PendingRecords, c.Timings.PublishDeadline = 400, 5*time.Minute })
}
