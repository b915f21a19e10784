package actors

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
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
			inBubble(t, 2, func(w *world) {
				w.onWire(automatic)
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

// A stream that distributes its records by itself needs no keys. When it does not any more, records that were given none get one.
func TestStreamThatNoLongerDistributesItsRecordsByItself(t *testing.T) {
	var auto, throttles atomic.Bool
	auto.Store(true)
	throttles.Store(true)
	var bare atomic.Int64
	inBubble(t, 2, func(w *world) {
		w.onWire(func(c *wireCall) bool { return auto.Load() && automatic(c) })
		w.connect()
		o := w.outletOf(nil)
		publish := func(n int) {
			for range n {
				_, err := o.Publish(context.Background(), Item{Data: []byte("x")})
				require.NoError(w.t, err)
				time.Sleep(100 * time.Millisecond)
			}
		}
		publish(1) // it is throttled at first, so that the shards are listed
		publish(40)
		require.Positive(w.t, bare.Load(), "it is known that no keys are needed")
		auto.Store(false)
		publish(40)
		require.Len(w.t, w.service.Records(testStream), 81)
	}, putsThrough(func(_ context.Context, in *kinesis.PutRecordsInput, real putCall) (*kinesis.PutRecordsOutput, error) {
		if throttles.CompareAndSwap(true, false) {
			return failSome(in, real, func(int, *types.PutRecordsRequestEntry) string { return codeThrottled })
		}
		for i := range in.Records {
			if in.Records[i].PartitionKey != nil {
				continue
			}
			if !auto.Load() {
				return nil, wholeError(http.StatusBadRequest, "ValidationException")
			}
			bare.Add(1)
			in.Records[i].PartitionKey = new("any")
		}
		out, err := real(in)
		for i := 0; auto.Load() && err == nil && i < len(out.Records); i++ { // wherever the service likes
			out.Records[i].ShardId = new(shardName(i % 2))
		}
		return out, err
	}))
}
