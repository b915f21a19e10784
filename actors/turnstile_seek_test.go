package actors

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// A seek that comes while readers wait for their turn to take their leases moves them like others. No lease ever claims the seek at a position of before it:
// should the node die just then, nobody would move it any more.
func TestSeekMovesReadersThatWaitForTheirTurn(t *testing.T) {
	const shards, records = 4, 40
	store := &tapStore{}
	store.onCall(func(ctx context.Context, c storeCall, do func(ctx context.Context) error) error {
		if c.op == "acquire" {
			time.Sleep(time.Second)
		}
		return do(ctx)
	})
	inBubble(t, shards, func(w *world) {
		sub := w.open(horizon).GetSubscription()
		for i := range records {
			w.put(fmt.Sprint("key-", i), fmt.Sprint(i))
		}
		w.takeAll(records)
		time.Sleep(10 * time.Second) // all is checkpointed
		before, last := len(store.done()), w.lease(shardName(0)).Seek
		for n := range shards {
			w.system.Root.Send(childPID(sub, shardName(n)), "panic")
		}
		time.Sleep(700 * time.Millisecond) // one takes its lease again, the others wait
		w.me.Request(w.broker, &messages.Seek{Stream: testStream, To: toHorizon()})
		sought := probe.Fish(w.me, func(any) bool { return true })
		require.IsType(w.t, &messages.Sought{}, sought)
		require.Len(w.t, sought.(*messages.Sought).GetShards(), shards) //nolint:forcetypeassert // see above
		w.takeAll(records)
		number := w.lease(shardName(0)).Seek
		require.Greater(w.t, number, last)
		for _, c := range store.done()[before:] {
			if c.after.Seek == number && c.op != "checkpoint" {
				require.Equal(w.t, leasestore.TrimHorizon(), c.after.Checkpoint, "%s of %s", c.op, c.after.Shard)
			}
		}
	}, tapped(store), func(c *Config) {
		c.calls, c.acquisitions = newTurnstile(0), newTurnstile(1)
		c.intercept = func(r role, message any) {
			if message == "panic" && r == roleReader {
				panic("injected")
			}
		}
	})
}
