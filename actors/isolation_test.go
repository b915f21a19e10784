package actors

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// G7: of fifty shards read by one client one is broken, for good and in various ways. The others are read as if it were not there: at the same instant
// while there is something to read, and within a poll interval at the tip.
func TestOneBrokenShardDoesNotSlowTheOthers(t *testing.T) {
	const shards, each = 50, 20
	for name, fault := range map[string]kinesistest.Effect{
		"500": kinesistest.Error("InternalFailure", "oops"), "hung": kinesistest.Hang(), "expired": kinesistest.ExpireIterator(),
		"throttled": kinesistest.Error("ProvisionedThroughputExceededException", "x"),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, shards, func(w *world) {
				var mu sync.Mutex
				at := make(map[string][]time.Time)
				w.sub.SetAutoPilot(func(e probe.Envelope) any {
					d, ok := e.Message.(*messages.Delivery)
					if !ok {
						return nil
					}
					mu.Lock()
					defer mu.Unlock()
					at[d.GetShardId()] = append(at[d.GetShardId()], time.Now())
					return d.Ack()
				})
				keys := keyOfEach(w, shards)
				putAll := func() {
					for _, key := range keys {
						w.put(key, "x")
					}
				}
				for range each {
					putAll()
				}
				w.connect()
				w.service.Fault("GetRecords", kinesistest.Match{Shard: shardName(0)}, -1, fault)
				w.subscribe(horizon, func(d *messages.StreamDescriptor) { d.WindowRecords = new(int32(2)) })
				opened := time.Now()
				synctest.Wait()
				deliveries := func(since time.Time, n int, within time.Duration) {
					w.t.Helper()
					mu.Lock()
					defer mu.Unlock()
					for i := 1; i < shards; i++ {
						all := at[shardName(i)]
						require.Len(w.t, all, n, shardName(i))
						require.LessOrEqual(w.t, all[n-1].Sub(since), within, shardName(i))
					}
				}
				deliveries(opened, each, 0)
				for round := range 5 {
					time.Sleep(7 * time.Second)
					put := time.Now()
					putAll()
					time.Sleep(1100 * time.Millisecond)
					deliveries(put, each+round+1, 1100*time.Millisecond)
				}
				require.LessOrEqual(w.t, w.store.count("acquire"), shards)
			})
		})
	}
}

// keyOfEach finds a partition key for each shard.
func keyOfEach(w *world, shards int) map[string]string {
	w.t.Helper()
	require.NoError(w.t, w.service.CreateStream("keys", shards))
	keys := make(map[string]string)
	for i := 0; len(keys) < shards; i++ {
		key := fmt.Sprint(i)
		shard, _, err := w.service.Put("keys", key, nil)
		require.NoError(w.t, err)
		keys[shard] = key
	}
	return keys
}
