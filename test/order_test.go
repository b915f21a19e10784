package test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis"
)

// TestOrderWhenHandlersFail: whatever fails and is tried again, the records of a key are handled in their order.
func TestOrderWhenHandlersFail(t *testing.T) {
	t.Parallel()
	for name, open := range services {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			n, stream, got, records := s.connect(t), s.newStream(t, 2), newRecorder(), load{keys: 6, each: 5}
			var (
				mu       sync.Mutex
				random   = rand.New(rand.NewPCG(1, 2))
				failures int
			)
			fails := func() bool {
				mu.Lock()
				defer mu.Unlock()
				if random.IntN(3) > 0 {
					return false
				}
				failures++
				return true
			}
			_, err := n.Subscribe(t.Context(), protokinesis.Stream(stream, protokinesis.RetryBackoff(time.Millisecond)),
				protokinesis.HandlerFunc(func(ctx context.Context, d *protokinesis.Delivery) error {
					if fails() {
						return errors.New("not now")
					}
					return got.handle(ctx, d)
				}))
			require.NoError(t, err)
			records.publish(t, n, stream)

			got.wait(t, records.count())
			n.shutdown(t)
			assert.Equal(t, records.payloads(), byKey(got.all()))
			assert.Positive(t, failures)
		})
	}
}

// TestReshard: the stream is split and merged while records are published and consumed. Children come after
// their parents, so each key keeps its order, and nothing is lost.
func TestReshard(t *testing.T) {
	t.Parallel()
	for name, open := range services {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			n, stream, got, records := s.connect(t), s.newStream(t, 2), newRecorder(), load{keys: 6, each: 8}
			_, err := n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.HandlerFunc(got.handle))
			require.NoError(t, err)

			all := load{keys: records.keys}
			during := func(reshard func()) {
				var publishing sync.WaitGroup
				publishing.Go(func() { records.publish(t, n, stream) })
				reshard()
				publishing.Wait()
				all, records = all.and(records), records.then()
			}
			during(func() { s.split(t, stream, s.shards(t, stream)[0]) })
			during(func() { s.merge(t, stream, s.shards(t, stream)[2], s.shards(t, stream)[3]) })
			during(func() {})

			got.wait(t, all.count())
			n.shutdown(t)
			assert.Equal(t, all.payloads(), byKey(got.all()))
			read := make(map[string]bool)
			for _, d := range got.all() {
				read[d.Shard()] = true
			}
			assert.Contains(t, read, *s.shards(t, stream)[4].ShardId, "the merged shard is read")
		})
	}
}
