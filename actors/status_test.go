package actors

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// A request for the status waits its own time for those who are slow to answer, whenever others asked before it.
func TestStatusIsNotCutShortByAnEarlierOne(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open()
		for range 5 {
			w.me.Request(w.broker, &messages.StatusRequest{})
			shards := probe.Expect[*messages.Status](w.me).GetSubscriptions()[0].GetShards()
			require.Len(w.t, shards, 1)
			require.Equal(w.t, stateReading, shards[0].GetState(), "the reader's own word")
			time.Sleep(350 * time.Millisecond)
		}
	}, func(c *Config) {
		c.intercept = func(_ role, message any) {
			if _, ok := message.(statusQuery); ok {
				time.Sleep(300 * time.Millisecond)
			}
		}
	})
}
