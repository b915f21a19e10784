package kinesistest_test

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // what Kinesis uses
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/test/emulators"
	"github.com/protokinesis/protokinesis/test/kinesistest"
)

// target is a Kinesis service the contract is checked against.
type target struct {
	name     string
	endpoint string
	config   aws.Config
	client   *kinesis.Client
	slots    chan struct{} // how many cases may run at once

	reason string // why this case differs here; "" = it does not
	asked  *atomic.Bool
}

// conforms reports whether the target is held to what the differences table excuses others from.
func (tg *target) conforms(t *testing.T) bool {
	t.Helper()
	tg.asked.Store(true)
	if tg.reason != "" {
		t.Logf("%s differs: %s", tg.name, tg.reason)
	}
	return tg.reason == ""
}

func ownTarget(t *testing.T) *target {
	t.Helper()
	s := kinesistest.Start(t)
	cfg := s.Config()
	cfg.RetryMaxAttempts = 1
	return newTarget("kinesistest", s.URL(), cfg, 64)
}

func newTarget(name, endpoint string, cfg aws.Config, slots int) *target {
	return &target{
		name: name, endpoint: endpoint, config: cfg, client: kinesis.NewFromConfig(cfg), slots: make(chan struct{}, slots),
	}
}

// localTarget is kinesis-local, an emulator others wrote.
func localTarget(t *testing.T) *target {
	t.Helper()
	endpoint := emulators.KinesisLocal(t)
	// The client of a server of ours, pointed elsewhere, has the guarded HTTP client and never a proxy.
	cfg := kinesistest.Start(t).Config()
	cfg.BaseEndpoint = &endpoint
	cfg.RetryMaxAttempts = 5 // it drops idle connections
	return newTarget("kinesis-local", endpoint, cfg, 4)
}

func TestContract(t *testing.T) {
	for name, open := range map[string]func(*testing.T) *target{"kinesistest": ownTarget, "kinesis-local": localTarget} {
		t.Run(name, func(t *testing.T) {
			tg := open(t)
			t.Run("cases", func(t *testing.T) { runContract(t, tg) })
		})
	}
}

func runContract(t *testing.T, tg *target) {
	t.Helper()
	known := map[string]bool{}
	for _, c := range contract {
		known[c.name] = true
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tg.slots <- struct{}{}
			defer func() { <-tg.slots }()
			one := *tg
			one.asked = new(atomic.Bool)
			if tg.name == "kinesis-local" {
				one.reason = differences[c.name]
			}
			c.check(t, &one)
			_, listed := differences[c.name]
			assert.Equal(t, listed, one.asked.Load(), "the differences table and the case disagree")
		})
	}
	for name := range differences {
		assert.True(t, known[name], "differences names no case: %s", name)
	}
}

var streamCount atomic.Int64

// stream creates a stream and waits until it is ACTIVE.
func (tg *target) stream(t *testing.T, shards int32) string {
	t.Helper()
	return tg.create(t, &kinesis.CreateStreamInput{ShardCount: &shards})
}

func (tg *target) create(t *testing.T, in *kinesis.CreateStreamInput) string {
	t.Helper()
	name := fmt.Sprintf("contract-%d-%d", os.Getpid(), streamCount.Add(1))
	in.StreamName = &name
	_, err := tg.client.CreateStream(t.Context(), in)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := tg.client.DeleteStream(context.WithoutCancel(t.Context()),
			&kinesis.DeleteStreamInput{StreamName: &name, EnforceConsumerDeletion: aws.Bool(true)})
		if code := codeOf(err); code != "" {
			assert.Contains(t, []string{"ResourceNotFoundException", "ResourceInUseException"}, code)
		}
	})
	tg.active(t, name)
	return name
}

func (tg *target) active(t *testing.T, stream string) *types.StreamDescriptionSummary {
	t.Helper()
	var summary *types.StreamDescriptionSummary
	eventually(t, func() bool {
		out, err := tg.client.DescribeStreamSummary(t.Context(), &kinesis.DescribeStreamSummaryInput{StreamName: &stream})
		if err != nil {
			return false
		}
		summary = out.StreamDescriptionSummary
		return summary.StreamStatus == types.StreamStatusActive
	})
	return summary
}

// eventually checks at once and then every 50 ms; the embedded service passes the first check.
func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	if !ok() {
		require.Eventually(t, ok, 30*time.Second, 50*time.Millisecond)
	}
}

func (tg *target) shards(t *testing.T, stream string) []types.Shard {
	t.Helper()
	out, err := tg.client.ListShards(t.Context(), &kinesis.ListShardsInput{StreamName: &stream})
	require.NoError(t, err)
	return out.Shards
}

func (tg *target) put(t *testing.T, stream, key, data string) *kinesis.PutRecordOutput {
	t.Helper()
	out, err := tg.client.PutRecord(t.Context(), &kinesis.PutRecordInput{
		StreamName: &stream, PartitionKey: &key, Data: []byte(data),
	})
	require.NoError(t, err)
	return out
}

func (tg *target) iterate(t *testing.T, in *kinesis.GetShardIteratorInput) *string {
	t.Helper()
	out, err := tg.client.GetShardIterator(t.Context(), in)
	require.NoError(t, err)
	return out.ShardIterator
}

func (tg *target) horizon(t *testing.T, stream string, shard *string) *string {
	t.Helper()
	return tg.iterate(t, &kinesis.GetShardIteratorInput{
		StreamName: &stream, ShardId: shard, ShardIteratorType: types.ShardIteratorTypeTrimHorizon,
	})
}

func (tg *target) get(t *testing.T, iterator *string) *kinesis.GetRecordsOutput {
	t.Helper()
	out, err := tg.client.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: iterator})
	require.NoError(t, err)
	return out
}

// drain reads a shard from its horizon until two pages in a row are empty or it ends.
func (tg *target) drain(t *testing.T, stream string, shard *string) (records []types.Record, last *kinesis.GetRecordsOutput) {
	t.Helper()
	iterator := tg.horizon(t, stream, shard)
	for empty := 0; iterator != nil && empty < 2; {
		last = tg.get(t, iterator)
		records = append(records, last.Records...)
		iterator = last.NextShardIterator
		if empty++; len(last.Records) > 0 {
			empty = 0
		}
	}
	return records, last
}

// post sends a request by hand; headers are name, value…
func (tg *target) post(t *testing.T, op, contentType string, body []byte, headers ...string) (int, http.Header, []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, tg.endpoint, bytes.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("X-Amz-Target", "Kinesis_20131202."+op)
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("X-Amz-Date", time.Now().UTC().Format("20060102T150405Z"))
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := tg.config.HTTPClient.Do(r)
	require.NoError(t, err)
	defer func() { assert.NoError(t, resp.Body.Close()) }()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, resp.Header, answer
}

const signed = "AWS4-HMAC-SHA256 Credential=AKIDTEST/20261101/us-east-1/kinesis/aws4_request, SignedHeaders=host, Signature=00"

// codeOf returns the error code of an API error, "" for nil.
func codeOf(err error) string {
	if err == nil {
		return ""
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return err.Error()
}

func requireCode(t *testing.T, err error, codes ...string) {
	t.Helper()
	require.Error(t, err)
	require.Contains(t, codes, codeOf(err), "%v", err)
}

func decimal(t *testing.T, text *string) *big.Int {
	t.Helper()
	require.NotNil(t, text)
	n, ok := new(big.Int).SetString(*text, 10)
	require.True(t, ok, *text)
	return n
}

func hashOf(key string) *big.Int {
	sum := md5.Sum([]byte(key)) //nolint:gosec // what Kinesis uses
	return new(big.Int).SetBytes(sum[:])
}

func owns(t *testing.T, sh types.Shard, hash *big.Int) bool {
	t.Helper()
	return decimal(t, sh.HashKeyRange.StartingHashKey).Cmp(hash) <= 0 && hash.Cmp(decimal(t, sh.HashKeyRange.EndingHashKey)) <= 0
}

func shardNames(shards []types.Shard) string {
	names := make([]string, len(shards))
	for i, sh := range shards {
		names[i] = strings.TrimLeft(strings.TrimPrefix(*sh.ShardId, "shardId-"), "0")
		if names[i] == "" {
			names[i] = "0"
		}
	}
	return strings.Join(names, " ")
}
