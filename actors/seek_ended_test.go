package actors

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// A seek of a shard that reaches its reader too late, as this has ended, is refused: nothing was stored. Had it been answered by Sought, nothing would
// come again.
func TestASeekOfAShardWhoseReaderHasEndedIsRefused(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.put("k", "0")
		coordinator := w.open(horizon).GetSubscription()
		first := w.next(true)
		w.system.Root.Send(coordinator, peersChanged{}) // it is busy from now on
		synctest.Wait()
		w.me.Request(coordinator, &messages.Seek{To: seqSeek(shardName(0), first.GetSequenceNumber())})
		_, err := w.store.Acquire(t.Context(), w.lease(shardName(0)), "somebody else") // its reader will find out
		require.NoError(w.t, err)
		e := probe.Expect[*messages.Error](w.me)
		require.Equal(w.t, "seek again", e.GetAdvice())
		require.Equal(w.t, shardName(0), e.GetShardId())
	}, func(c *Config) {
		c.intercept = func(_ role, message any) {
			if _, ok := message.(peersChanged); ok {
				time.Sleep(time.Minute)
			}
		}
	})
}
