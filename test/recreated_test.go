package test

import (
	"errors"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/leasestore"
)

// recreate deletes a stream and creates it again, so that it can be told from the one before.
func (s *target) recreate(t *testing.T, stream string, shards int32) {
	t.Helper()
	for before := s.created(t, stream); ; {
		_, err := s.client.DeleteStream(t.Context(), &kinesis.DeleteStreamInput{StreamName: &stream})
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			_, err := s.client.CreateStream(t.Context(), &kinesis.CreateStreamInput{StreamName: &stream, ShardCount: &shards})
			if _, deleting := errors.AsType[*types.ResourceInUseException](err); !deleting {
				require.NoError(t, err)
			}
			return err == nil
		}, patience, 20*time.Millisecond)
		s.waitActive(t, stream)
		if !s.created(t, stream).Equal(before) {
			return // some services tell creation times in whole seconds
		}
	}
}

func (s *target) created(t *testing.T, stream string) time.Time {
	t.Helper()
	out, err := s.client.DescribeStreamSummary(t.Context(), &kinesis.DescribeStreamSummaryInput{StreamName: &stream})
	require.NoError(t, err)
	return *out.StreamDescriptionSummary.StreamCreationTimestamp
}

// S1: a stopped consumer does not use the checkpoints of a stream that is no more. It says so, or starts over when told to.
func TestConsumerOfAStreamThatWasCreatedAgain(t *testing.T) {
	for name, open := range services {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			stream, store := s.newStream(t, 1), leasestore.NewMemory()
			old := newRecorder()
			n := s.connect(t, protokinesis.WithLeaseStore(store))
			_, err := n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.HandlerFunc(old.handle))
			require.NoError(t, err)
			load{keys: 2, each: 3}.publish(t, n, stream)
			old.wait(t, 6)
			n.shutdown(t)

			s.recreate(t, stream, 2)
			n = s.connect(t, protokinesis.WithLeaseStore(store))
			anew := load{keys: 4, each: 2, from: 100}
			anew.publish(t, n, stream)
			got := newRecorder()
			_, err = n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.HandlerFunc(got.handle))
			require.ErrorIs(t, err, protokinesis.ErrStream)
			require.ErrorContains(t, err, "created again")
			_, err = n.Subscribe(t.Context(), protokinesis.Stream(stream, protokinesis.OnRecreated(protokinesis.ResetOnRecreated)),
				protokinesis.HandlerFunc(got.handle))
			require.NoError(t, err)
			assert.Equal(t, anew.payloads(), byKey(got.wait(t, anew.count())))
		})
	}
}

// S1: a stream that is created again under an open subscription is noticed within a listing or two.
func TestStreamIsCreatedAgainUnderItsConsumer(t *testing.T) {
	for name, open := range services {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			stream := s.newStream(t, 2)
			n, got := s.connect(t), newRecorder()
			ends, err := n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.HandlerFunc(got.handle))
			require.NoError(t, err)
			other, anew := s.connect(t), newRecorder()
			_, err = other.Subscribe(t.Context(), protokinesis.Stream(stream, protokinesis.OnRecreated(protokinesis.ResetOnRecreated)),
				protokinesis.HandlerFunc(anew.handle))
			require.NoError(t, err)
			load{keys: 2, each: 3}.publish(t, n, stream)
			got.wait(t, 6)
			anew.wait(t, 6)

			s.recreate(t, stream, 1)
			later := load{keys: 4, each: 2, from: 100}
			later.publish(t, n, stream)
			select {
			case <-ends.Done():
				require.ErrorIs(t, ends.Err(), protokinesis.ErrStream)
			case <-time.After(patience):
				require.Fail(t, "the subscription did not end")
			}
			all := anew.wait(t, 6+later.count())
			assert.Subset(t, payloads(all), flat(later.payloads()), "all of the new stream")
		})
	}
}

func flat(byKey map[string][]string) (all []string) {
	for _, some := range byKey {
		all = append(all, some...)
	}
	return all
}
