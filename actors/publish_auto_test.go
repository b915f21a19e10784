package actors

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/internal/kpl"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
)

// A stream of which it can't be known for now whether it distributes its records by itself gets no aggregated ones until it is.
func TestNoAggregationBeforeItIsKnownThatTheStreamDistributesRecords(t *testing.T) {
	for name, fault := range map[string]kinesistest.Effect{
		"throttled": kinesistest.Error("LimitExceededException", "later"),
		"fails":     kinesistest.Error("InternalFailure", "later"),
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			inBubble(t, 2, func(w *world) {
				w.onWire(func(c *wireCall) bool { calls.Add(1); return automatic(c) })
				describe := w.service.Fault("DescribeStreamSummary", kinesistest.Match{}, -1, fault)
				w.connect()
				o := w.outletOf(aggregating)
				publishMany(w, o, 0, 50)
				for _, r := range w.service.Records(testStream) {
					require.False(w.t, kpl.MayBeAggregated(r.Data))
				}
				describe.Clear()
				time.Sleep(2 * time.Minute)
				_, _ = o.Publish(context.Background(), Item{Data: []byte("x")})
				time.Sleep(2 * time.Minute)
				_, err := o.Publish(context.Background(), Item{Data: []byte("x")})
				require.Error(w.t, err)
				require.Equal(w.t, messages.ErrorKind_ERROR_KIND_INVALID, asError(err).Kind)
			})
		})
	}
}
