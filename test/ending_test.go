package test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/leasestore"
)

// TestEndInTheMiddleOfEverything: D2, D12: publishers, handlers, status requests and several Shutdowns at once. Each call comes back, with its result
// or ErrNotConnected; what was stored is handled by this node or, from the same leases, by the next one.
func TestEndInTheMiddleOfEverything(t *testing.T) {
	t.Parallel()
	for name, open := range services {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			store, stream, got := leasestore.NewMemory(), s.newStream(t, 2), newRecorder()
			n := s.connect(t, protokinesis.WithLeaseStore(store))
			_, err := n.Subscribe(t.Context(), protokinesis.Stream(stream, protokinesis.StartAt(protokinesis.TrimHorizon())),
				protokinesis.HandlerFunc(got.handle))
			require.NoError(t, err)

			var (
				all    sync.WaitGroup
				mu     sync.Mutex
				stored = make(map[string]bool)
				many   = make(chan struct{})
				once   = sync.OnceFunc(func() { close(many) })
			)
			for p := range 20 {
				all.Go(func() {
					for i := range 50 {
						data := fmt.Sprintf("%d %d", p, i)
						_, err := n.Publisher().Publish(t.Context(), protokinesis.Record{Stream: stream, PartitionKey: fmt.Sprint(p), Data: []byte(data)})
						switch {
						case err == nil:
							mu.Lock()
							stored[data] = true
							if len(stored) == 200 {
								once()
							}
							mu.Unlock()
						case errors.Is(err, protokinesis.ErrNotConnected):
							return
						default:
							assert.ErrorIs(t, err, protokinesis.ErrPublish)
						}
						_, err = n.Status(t.Context())
						assert.True(t, err == nil || errors.Is(err, protokinesis.ErrNotConnected), "%v", err)
					}
				})
			}
			receive(t, many)
			for range 4 {
				all.Go(func() { assert.NoError(t, n.Shutdown(t.Context())) })
			}
			all.Wait()
			handled := len(got.all())
			assert.NoError(t, n.Shutdown(t.Context()), "again")

			next := s.connect(t, protokinesis.WithLeaseStore(store))
			_, err = next.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.HandlerFunc(got.handle))
			require.NoError(t, err)
			seen := func() (missing int) {
				here := make(map[string]bool)
				for _, data := range payloads(got.all()) {
					here[data] = true
				}
				for data := range stored {
					if !here[data] {
						missing++
					}
				}
				return missing
			}
			require.Eventually(t, func() bool { return seen() == 0 }, patience, 10*time.Millisecond, "some that were stored are missing")
			assert.GreaterOrEqual(t, len(got.all()), handled)
		})
	}
}
