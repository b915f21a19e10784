package kinesistest_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/test/kinesistest"
)

const (
	streamName = "orders"
	shard0     = "shardId-000000000000"
	shard1     = "shardId-000000000001"
)

// fixture is a service with a stream, and a client that does not retry.
type fixture struct {
	*kinesistest.Server
	*target
}

func newFixture(t *testing.T, shards int, opts ...kinesistest.Option) *fixture {
	t.Helper()
	s := kinesistest.Start(t, opts...)
	cfg := s.Config()
	cfg.RetryMaxAttempts = 1
	if shards > 0 {
		require.NoError(t, s.CreateStream(streamName, shards))
	}
	return &fixture{Server: s, target: newTarget("kinesistest", s.URL(), cfg, 1)}
}

// frozenClock is a base for the service's clock that only Advance moves.
func frozenClock() kinesistest.Option {
	start := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	return kinesistest.WithClock(func() time.Time { return start })
}

// load puts records with these data to the stream, all with the same key.
func (f *fixture) load(t *testing.T, data ...string) {
	t.Helper()
	for _, d := range data {
		_, _, err := f.Put(streamName, "k", []byte(d))
		require.NoError(t, err)
	}
}

func (f *fixture) page(ctx context.Context, iterator *string) (*kinesis.GetRecordsOutput, error) {
	return f.client.GetRecords(ctx, &kinesis.GetRecordsInput{ShardIterator: iterator})
}

func (f *fixture) start(t *testing.T) *string {
	t.Helper()
	return f.horizon(t, streamName, aws.String(shard0))
}

func (f *fixture) putKeys(ctx context.Context, keys ...string) (*kinesis.PutRecordsOutput, error) {
	in := &kinesis.PutRecordsInput{StreamName: aws.String(streamName)}
	for _, key := range keys {
		in.Records = append(in.Records, types.PutRecordsRequestEntry{PartitionKey: &key, Data: []byte("of " + key)})
	}
	return f.client.PutRecords(ctx, in)
}

// storedKeys returns the keys of the stored records.
func (f *fixture) storedKeys() []string {
	var keys []string
	for _, r := range f.Records(streamName) {
		keys = append(keys, r.PartitionKey)
	}
	return keys
}

func statusOf(t *testing.T, f *fixture, path string) (int, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.URL()+path, nil)
	require.NoError(t, err)
	resp, err := f.config.HTTPClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode, resp.Header
}
