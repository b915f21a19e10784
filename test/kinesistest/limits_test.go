package kinesistest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/test/kinesistest"
)

const throttle = "ProvisionedThroughputExceededException"

func TestReadCallLimit(t *testing.T) {
	f := newFixture(t, 1, frozenClock(), kinesistest.WithLimits())
	it := f.start(t)
	for range 5 {
		f.get(t, it)
	}
	_, err := f.page(t.Context(), it)
	requireCode(t, err, throttle)
	f.Clock().Advance(time.Second)
	f.get(t, it)
}

func TestReadByteLimit(t *testing.T) {
	f := newFixture(t, 1, frozenClock(), kinesistest.WithLimits())
	for range 10 {
		f.load(t, strings.Repeat("x", 1<<20-1))
		f.Clock().Advance(time.Second)
	}
	read := func() (int, []byte) {
		status, _, answer := f.post(t, "GetRecords", "application/x-amz-json-1.1",
			[]byte(`{"ShardIterator":"`+*f.start(t)+`"}`), "Authorization", signed)
		return status, answer
	}
	status, _ := read()
	require.Equal(t, 200, status)
	for range 5 {
		status, answer := read()
		require.Equal(t, 400, status)
		require.Contains(t, string(answer), throttle)
		f.Clock().Advance(time.Second)
	}
	status, _ = read()
	require.Equal(t, 200, status, "10 MiB are paid off in 5 seconds")
}

func TestWriteLimits(t *testing.T) {
	f := newFixture(t, 1, frozenClock(), kinesistest.WithLimits())
	keys := make([]string, 500)
	for i := range keys {
		keys[i] = "k"
	}
	for range 2 {
		out, err := f.putKeys(t.Context(), keys...)
		require.NoError(t, err)
		require.Zero(t, *out.FailedRecordCount)
	}
	out, err := f.putKeys(t.Context(), "a", "b")
	require.NoError(t, err)
	assert.EqualValues(t, 2, *out.FailedRecordCount)
	assert.Equal(t, throttle, *out.Records[0].ErrorCode)
	assert.Contains(t, *out.Records[0].ErrorMessage, shard0)
	_, err = f.client.PutRecord(t.Context(), &kinesis.PutRecordInput{
		StreamName: aws.String(streamName), PartitionKey: aws.String("k"), Data: []byte("x"),
	})
	requireCode(t, err, throttle)
	assert.Len(t, f.Records(streamName), 1000)

	f.Clock().Advance(time.Second)
	f.load(t, strings.Repeat("x", 900<<10))
	_, _, err = f.Put(streamName, "k", make([]byte, 200<<10))
	require.ErrorContains(t, err, throttle)
	f.Clock().Advance(time.Second)
	f.load(t, strings.Repeat("x", 200<<10))
}

func TestCallRates(t *testing.T) {
	f := newFixture(t, 2, frozenClock(), kinesistest.WithLimits())
	iterator := func(shard string) error {
		_, err := f.client.GetShardIterator(t.Context(), &kinesis.GetShardIteratorInput{
			StreamName: aws.String(streamName), ShardId: &shard, ShardIteratorType: "LATEST",
		})
		return err
	}
	for range 5 {
		require.NoError(t, iterator(shard0))
	}
	requireCode(t, iterator(shard0), throttle)
	require.NoError(t, iterator(shard1))

	list := func() error {
		_, err := f.client.ListStreams(t.Context(), &kinesis.ListStreamsInput{})
		return err
	}
	for range 5 {
		require.NoError(t, list())
	}
	requireCode(t, list(), "LimitExceededException")
	f.Clock().Advance(time.Second)
	require.NoError(t, list())
}
