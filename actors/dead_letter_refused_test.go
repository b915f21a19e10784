package actors

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/internal/kpl"
	"github.com/protokinesis/protokinesis/internal/kpl/kpltest"
	"github.com/protokinesis/protokinesis/messages"
)

// A spent user record whose own key the service would not take, or that is larger than what may be published here, gets to the dead-letter
// stream all the same, or its shard never advances.
func TestDeadLetterThatIsRefused(t *testing.T) {
	for name, data := range map[string]func(t *testing.T) []byte{
		"key too long": func(t *testing.T) []byte {
			t.Helper()
			return kpltest.Aggregate(t, kpl.UserRecord{PartitionKey: strings.Repeat("k", 300), Data: []byte("poison")})
		},
		"too large": func(*testing.T) []byte { return make([]byte, 2000) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(w *world) {
				require.NoError(w.t, w.service.CreateStream(deadStream, 1))
				w.open(horizon, func(d *messages.StreamDescriptor) { d.MaxAttempts, d.DeadLetter = 1, deadStream })
				_, seq, err := w.service.Put(testStream, "a", data(t))
				require.NoError(w.t, err)
				w.sub.Reply(w.next(false).Retry())
				time.Sleep(10 * time.Minute)
				require.Equal(w.t, seq, w.lease(shardName(0)).Checkpoint.String())
			}, func(c *Config) { c.Limits.MaxRecordSize = 1500 })
		})
	}
}

// While the lease is not trusted, nothing is published to the dead-letter stream: another node may have the shard.
func TestNoDeadLetterWithoutTrust(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		require.NoError(w.t, w.service.CreateStream(deadStream, 1))
		w.open(horizon, func(d *messages.StreamDescriptor) { d.MaxAttempts, d.DeadLetter = 1, deadStream })
		w.put("k", "poison")
		d := w.next(false)
		w.store.outage(errOutage, false)
		w.sub.Reply(d.RetryAfter(time.Minute))
		time.Sleep(5 * time.Minute)
		require.Empty(w.t, w.service.Records(deadStream))
	})
}
