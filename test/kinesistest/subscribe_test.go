package kinesistest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/schemas"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go/transport/http/protocol/awsjson"
	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/test/kinesistest"
)

// register makes a consumer of the fixture's stream.
func (f *fixture) register(t *testing.T, name string) *string {
	t.Helper()
	out, err := f.client.RegisterStreamConsumer(t.Context(), &kinesis.RegisterStreamConsumerInput{
		StreamARN: f.active(t, streamName).StreamARN, ConsumerName: &name,
	})
	require.NoError(t, err)
	return out.Consumer.ConsumerARN
}

var horizonPosition = &types.StartingPosition{Type: types.ShardIteratorTypeTrimHorizon}

func (f *fixture) trySubscribe(ctx context.Context, consumer *string, shard string, at *types.StartingPosition) (*kinesis.SubscribeToShardEventStream, error) {
	out, err := f.client.SubscribeToShard(ctx, &kinesis.SubscribeToShardInput{
		ConsumerARN: consumer, ShardId: &shard, StartingPosition: at,
	}, func(o *kinesis.Options) {
		// The protocol of a client keeps the state of its event stream decoder, which all open
		// streams would share and race for; so each gets its own.
		o.Protocol = awsjson.New11(schemas.Kinesis_20131202)
	})
	if err != nil {
		return nil, err
	}
	return out.GetStream(), nil
}

func (f *fixture) subscribe(t *testing.T, consumer *string, at *types.StartingPosition) *kinesis.SubscribeToShardEventStream {
	t.Helper()
	stream, err := f.trySubscribe(t.Context(), consumer, shard0, at)
	require.NoError(t, err)
	t.Cleanup(func() { _ = stream.Close() })
	return stream
}

// event returns the next event; ok is false at the end of the stream.
func event(t *testing.T, stream *kinesis.SubscribeToShardEventStream) (types.SubscribeToShardEvent, bool) {
	t.Helper()
	select {
	case e, ok := <-stream.Events():
		if !ok {
			return types.SubscribeToShardEvent{}, false
		}
		member, isEvent := e.(*types.SubscribeToShardEventStreamMemberSubscribeToShardEvent)
		require.True(t, isEvent, "%T", e)
		return member.Value, true
	case <-time.After(10 * time.Second):
		require.FailNow(t, "no event in 10 s")
		return types.SubscribeToShardEvent{}, false
	}
}

// records reads events until n records have come.
func records(t *testing.T, stream *kinesis.SubscribeToShardEventStream, n int) (data []string, last types.SubscribeToShardEvent) {
	t.Helper()
	for began := time.Now(); len(data) < n; {
		require.Less(t, time.Since(began), 20*time.Second, "%d of %d records", len(data), n)
		var ok bool
		last, ok = event(t, stream)
		require.True(t, ok, "the stream ended: %v", stream.Err())
		for _, r := range last.Records {
			data = append(data, string(r.Data))
		}
	}
	return data, last
}

// ended reads events until the stream ends.
func ended(t *testing.T, stream *kinesis.SubscribeToShardEventStream) error {
	t.Helper()
	for {
		if _, ok := event(t, stream); !ok {
			return stream.Err()
		}
	}
}

func TestSubscribe(t *testing.T) {
	f := newFixture(t, 1)
	consumer := f.register(t, "fan")
	f.load(t, "0", "1")
	stream := f.subscribe(t, consumer, horizonPosition)
	data, last := records(t, stream, 2)
	assert.Equal(t, []string{"0", "1"}, data)
	assert.Zero(t, *last.MillisBehindLatest)
	assert.Equal(t, *last.Records[1].SequenceNumber, *last.ContinuationSequenceNumber)
	f.load(t, "2")
	data, _ = records(t, stream, 1)
	assert.Equal(t, []string{"2"}, data)
	calls := f.Calls()
	call := calls[len(calls)-1]
	assert.Equal(t, "SubscribeToShard", call.Op)
	assert.Equal(t, *consumer, call.Consumer)
	assert.Equal(t, "TRIM_HORIZON", call.IteratorType)
	assert.Equal(t, shard0, call.Shard)
}

func TestSubscribeSendsEmptyEvents(t *testing.T) {
	f := newFixture(t, 1, frozenClock())
	stream := f.subscribe(t, f.register(t, "fan"), &types.StartingPosition{Type: types.ShardIteratorTypeLatest})
	first, ok := event(t, stream)
	require.True(t, ok)
	assert.Empty(t, first.Records)
	assert.Equal(t, *f.shards(t, streamName)[0].SequenceNumberRange.StartingSequenceNumber, *first.ContinuationSequenceNumber)
	f.Clock().Advance(time.Second)
	second, ok := event(t, stream)
	require.True(t, ok)
	assert.Empty(t, second.Records)

	require.NoError(t, stream.Close())
	f.load(t, "0", "1")
	f.Clock().Advance(5 * time.Second)
	resumed := f.subscribe(t, aws.String(f.consumerARN(t)), &types.StartingPosition{
		Type: types.ShardIteratorTypeAfterSequenceNumber, SequenceNumber: second.ContinuationSequenceNumber,
	})
	data, _ := records(t, resumed, 2)
	assert.Equal(t, []string{"0", "1"}, data)
}

func (f *fixture) consumerARN(t *testing.T) string {
	t.Helper()
	out, err := f.client.ListStreamConsumers(t.Context(), &kinesis.ListStreamConsumersInput{StreamARN: f.active(t, streamName).StreamARN})
	require.NoError(t, err)
	require.Len(t, out.Consumers, 1)
	return *out.Consumers[0].ConsumerARN
}

func TestSubscribeToShardEnd(t *testing.T) {
	f := newFixture(t, 1)
	f.load(t, "0")
	stream := f.subscribe(t, f.register(t, "fan"), horizonPosition)
	_, last := records(t, stream, 1)
	require.NotNil(t, last.ContinuationSequenceNumber)
	f.split(t, streamName, f.shards(t, streamName)[0])
	for last.ContinuationSequenceNumber != nil {
		var ok bool
		last, ok = event(t, stream)
		require.True(t, ok)
	}
	require.Len(t, last.ChildShards, 2)
	assert.Equal(t, []string{shard0}, last.ChildShards[0].ParentShards)
	require.NoError(t, ended(t, stream))
}

func TestSubscribeEndsAfterFiveMinutes(t *testing.T) {
	f := newFixture(t, 1, frozenClock())
	stream := f.subscribe(t, f.register(t, "fan"), horizonPosition)
	_, ok := event(t, stream)
	require.True(t, ok)
	f.Clock().Advance(5 * time.Minute)
	require.NoError(t, ended(t, stream))
}

func TestSubscribeTakesOver(t *testing.T) {
	f := newFixture(t, 2, frozenClock())
	consumer := f.register(t, "fan")
	first := f.subscribe(t, consumer, horizonPosition)
	_, ok := event(t, first)
	require.True(t, ok)
	f.Clock().Advance(4999 * time.Millisecond)
	_, err := f.trySubscribe(t.Context(), consumer, shard0, horizonPosition)
	requireCode(t, err, "ResourceInUseException")
	other, err := f.trySubscribe(t.Context(), consumer, shard1, horizonPosition)
	require.NoError(t, err, "another shard")
	require.NoError(t, other.Close())
	f.Clock().Advance(time.Millisecond)
	second := f.subscribe(t, consumer, horizonPosition)
	require.NoError(t, ended(t, first))
	_, err = f.client.PutRecord(t.Context(), &kinesis.PutRecordInput{
		StreamName: aws.String(streamName), PartitionKey: aws.String("k"), ExplicitHashKey: aws.String("0"), Data: []byte("0"),
	})
	require.NoError(t, err)
	records(t, second, 1)
}

func TestSubscribeRefusals(t *testing.T) {
	f := newFixture(t, 1, frozenClock(), kinesistest.WithStreamDelay(time.Second))
	f.Clock().Advance(time.Second)
	consumer := f.register(t, "fan")
	_, err := f.trySubscribe(t.Context(), consumer, shard0, horizonPosition)
	requireCode(t, err, "ResourceInUseException")
	f.Clock().Advance(time.Second)
	_, err = f.trySubscribe(t.Context(), consumer, "shardId-000000000007", horizonPosition)
	requireCode(t, err, "ResourceNotFoundException")
	_, err = f.trySubscribe(t.Context(), aws.String(*consumer+"0"), shard0, horizonPosition)
	requireCode(t, err, "ResourceNotFoundException")
	_, err = f.trySubscribe(t.Context(), consumer, shard0, &types.StartingPosition{
		Type: types.ShardIteratorTypeAtSequenceNumber, SequenceNumber: aws.String("123"),
	})
	requireCode(t, err, "InvalidArgumentException")
}

func TestSubscriptionEndsWithItsConsumerAndStream(t *testing.T) {
	f := newFixture(t, 1)
	consumer := f.register(t, "fan")
	stream := f.subscribe(t, consumer, horizonPosition)
	_, err := f.client.DeregisterStreamConsumer(t.Context(), &kinesis.DeregisterStreamConsumerInput{ConsumerARN: consumer})
	require.NoError(t, err)
	requireCode(t, ended(t, stream), "ResourceNotFoundException")

	stream = f.subscribe(t, f.register(t, "again"), horizonPosition)
	_, err = f.client.DeleteStream(t.Context(), &kinesis.DeleteStreamInput{StreamName: aws.String(streamName)})
	requireCode(t, err, "ResourceInUseException")
	_, err = f.client.DeleteStream(t.Context(), &kinesis.DeleteStreamInput{
		StreamName: aws.String(streamName), EnforceConsumerDeletion: aws.Bool(true),
	})
	require.NoError(t, err)
	requireCode(t, ended(t, stream), "ResourceNotFoundException")
}

func TestSubscriptionEndsWithServer(t *testing.T) {
	f := newFixture(t, 1)
	stream := f.subscribe(t, f.register(t, "fan"), horizonPosition)
	_, ok := event(t, stream)
	require.True(t, ok)
	require.NoError(t, f.Close())
	_ = ended(t, stream) // cleanly or not; what counts is that it ends
}

func TestSubscriptionFaults(t *testing.T) {
	for name, c := range map[string]struct {
		effect kinesistest.Effect
		code   string // "" = any error will do
	}{
		"exception":      {effect: kinesistest.Error("InternalFailureException", "scripted"), code: "InternalFailureException"},
		"reset":          {effect: kinesistest.Reset()},
		"reset mid body": {effect: kinesistest.ResetMidBody()},
		"garbage":        {effect: kinesistest.Body(200, bytes.Repeat([]byte("x"), 64))},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 1)
			consumer := f.register(t, "fan")
			fault := f.Fault("SubscribeToShardEvent", kinesistest.Match{Shard: shard0}, 1, c.effect)
			stream := f.subscribe(t, consumer, horizonPosition)
			err := ended(t, stream)
			require.Error(t, err)
			if c.code != "" {
				requireCode(t, err, c.code)
			}
			assert.Equal(t, 1, fault.Count())
		})
	}
}

func TestSilentSubscription(t *testing.T) {
	f := newFixture(t, 1)
	consumer := f.register(t, "fan")
	fault := f.Fault("SubscribeToShardEvent", kinesistest.Match{}, -1, kinesistest.Hang())
	stream := f.subscribe(t, consumer, horizonPosition)
	eventually(t, func() bool { return fault.Count() == 1 })
	select {
	case e := <-stream.Events():
		t.Fatalf("unexpected event %v", e)
	default:
	}
	require.NoError(t, stream.Close())
}

func TestSubscribeLimit(t *testing.T) {
	f := newFixture(t, 1, frozenClock(), kinesistest.WithLimits())
	for range 5 {
		f.Clock().Advance(time.Second)
		f.load(t, string(make([]byte, 1<<20-1)))
	}
	stream := f.subscribe(t, f.register(t, "fan"), horizonPosition)
	records(t, stream, 2)
	f.Clock().Advance(time.Second)
	records(t, stream, 2)
}

func TestManyRecordsBySubscription(t *testing.T) {
	f := newFixture(t, 1)
	consumer := f.register(t, "fan")
	const n = 5000
	var want []string
	for i := range n {
		want = append(want, fmt.Sprintf("%0512d", i))
	}
	f.load(t, want...)
	got, _ := records(t, f.subscribe(t, consumer, horizonPosition), n)
	assert.Equal(t, want, got)
}

func TestSubscribeCBOR(t *testing.T) {
	f := newFixture(t, 1)
	consumer := f.register(t, "fan")
	f.load(t, "0")
	f.split(t, streamName, f.shards(t, streamName)[0])
	body, err := cbor.Marshal(map[string]any{
		"ConsumerARN": consumer, "ShardId": shard0, "StartingPosition": map[string]any{"Type": "TRIM_HORIZON"},
	})
	require.NoError(t, err)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.URL(), bytes.NewReader(body))
	require.NoError(t, err)
	r.Header.Set("X-Amz-Target", "Kinesis_20131202.SubscribeToShard")
	r.Header.Set("Content-Type", cborType)
	r.Header.Set("Authorization", signed)
	resp, err := f.config.HTTPClient.Do(r)
	require.NoError(t, err)
	defer func() { assert.NoError(t, resp.Body.Close()) }()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	in, dec := bytes.NewReader(answer), eventstream.NewDecoder()
	first, err := dec.Decode(in, nil)
	require.NoError(t, err)
	assert.Equal(t, "initial-response", first.Headers.Get(":event-type").String())
	second, err := dec.Decode(in, nil)
	require.NoError(t, err)
	var e struct {
		Records     []struct{ Data []byte }
		ChildShards []struct{ ShardId string }
	}
	require.NoError(t, cbor.Unmarshal(second.Payload, &e))
	require.Len(t, e.Records, 1)
	assert.Equal(t, "0", string(e.Records[0].Data))
	assert.Len(t, e.ChildShards, 2)
	assert.Zero(t, in.Len())
}

func TestConsumerPaging(t *testing.T) {
	f := newFixture(t, 1)
	for i := range 20 {
		f.register(t, fmt.Sprintf("c%02d", i))
	}
	arn := f.active(t, streamName).StreamARN
	_, err := f.client.RegisterStreamConsumer(t.Context(), &kinesis.RegisterStreamConsumerInput{StreamARN: arn, ConsumerName: aws.String("c20")})
	requireCode(t, err, "LimitExceededException")
	first, err := f.client.ListStreamConsumers(t.Context(), &kinesis.ListStreamConsumersInput{StreamARN: arn, MaxResults: aws.Int32(15)})
	require.NoError(t, err)
	require.Len(t, first.Consumers, 15)
	second, err := f.client.ListStreamConsumers(t.Context(), &kinesis.ListStreamConsumersInput{StreamARN: arn, NextToken: first.NextToken})
	require.NoError(t, err)
	require.Len(t, second.Consumers, 5)
	assert.Equal(t, "c19", *second.Consumers[4].ConsumerName)
}
