package actors

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// A subscription can't be opened in time, and is asked for again at once. The readers of the first try hold leases under the same owner id still: they
// let go of them before those of the second take them, and of none that the second has taken.
func TestASecondTryToSubscribeComesAfterTheFirstHasLetGo(t *testing.T) {
	var s script
	var store hookStore
	inBubble(t, 1, func(w *world) {
		s.set(func(s *script) { s.open = func() { time.Sleep(20 * time.Second) } })
		slow := true
		store.setHook(func(ctx context.Context, call storeWrite) (context.Context, error) {
			if call.op == "release" && slow {
				slow = false
				time.Sleep(500 * time.Millisecond)
			}
			return ctx, nil
		})
		w.connect()
		w.me.Request(w.broker, subscribeTo(testStream, w.sub))
		e := probe.Fish(w.me, func(*messages.Error) bool { return true })
		require.Equal(w.t, messages.ErrorKind_ERROR_KIND_TIMEOUT, e.GetKind())
		s.set(func(s *script) { s.open = nil })
		w.subscribe()
		w.put("key", "one")
		require.Equal(w.t, "one", string(w.next(true).GetData()))
		time.Sleep(20 * time.Second)
		var ops []string
		for _, call := range store.written() {
			if call.op != "renew" {
				ops = append(ops, call.op)
			}
		}
		require.Equal(w.t, []string{"acquire", "release", "acquire", "checkpoint"}, ops)
	}, hooked(&store), s.install, func(c *Config) { c.Timings.OpenTimeout = 5 * time.Second })
}
