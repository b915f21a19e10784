package test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/internal/kpl"
	"github.com/protokinesis/protokinesis/internal/kpl/kpltest"
	"github.com/protokinesis/protokinesis/leasestore"
)

// putAggregate stores user records with the data name:0, name:1 … in one record.
func (s *target) putAggregate(t *testing.T, stream, name string, n int) {
	t.Helper()
	users := make([]kpl.UserRecord, n)
	for i := range users {
		users[i] = kpl.UserRecord{PartitionKey: "k", Data: fmt.Appendf(nil, "%s:%d", name, i)}
	}
	_, err := s.client.PutRecord(t.Context(), &kinesis.PutRecordInput{
		StreamName: &stream, PartitionKey: aws.String("a"), Data: kpltest.Aggregate(t, users...),
	})
	require.NoError(t, err)
}

// C9: aggregated records come as user records; a consumer that stops within one goes on within it.
func TestConsumerGoesOnWithinAnAggregatedRecord(t *testing.T) {
	for name, open := range services {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			stream, store := s.newStream(t, 1), leasestore.NewMemory()
			s.putAggregate(t, stream, "a", 3)
			s.putAggregate(t, stream, "b", 40)
			s.putAggregate(t, stream, "c", 2)
			first, handled := newRecorder(), atomic.Int32{}
			n := s.connect(t, protokinesis.WithLeaseStore(store))
			_, err := n.Subscribe(t.Context(), protokinesis.Stream(stream, protokinesis.StartAt(protokinesis.TrimHorizon())), protokinesis.HandlerFunc(
				func(ctx context.Context, d *protokinesis.Delivery) error {
					if handled.Add(1) > 10 {
						return errors.New("not now")
					}
					return first.handle(ctx, d)
				}))
			require.NoError(t, err)
			first.wait(t, 10)
			n.shutdown(t)

			rest := newRecorder()
			n = s.connect(t, protokinesis.WithLeaseStore(store))
			_, err = n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.HandlerFunc(rest.handle))
			require.NoError(t, err)
			got := append(first.all(), rest.wait(t, 35)...)
			require.Len(t, got, 45, "none is missing and none comes twice")
			var want []string
			for _, part := range []struct {
				name string
				n    int
			}{{"a", 3}, {"b", 40}, {"c", 2}} {
				for i := range part.n {
					want = append(want, fmt.Sprintf("%s:%d", part.name, i))
				}
			}
			assert.Equal(t, want, payloads(got))
			for i, d := range got[3:43] {
				assert.EqualValues(t, i, d.SubSequenceNumber())
				assert.Equal(t, "k", d.PartitionKey())
			}
		})
	}
}
