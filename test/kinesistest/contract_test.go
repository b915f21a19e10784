package kinesistest_test

import (
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// contract is what every Kinesis service has to do, checked through the SDK.
var contract = []struct {
	name  string
	check func(t *testing.T, tg *target)
}{
	{"stream lifecycle", checkLifecycle},
	{"missing stream", checkMissingStream},
	{"stream name", checkStreamName},
	{"stream ARN", checkARN},
	{"on demand", checkOnDemand},
	{"shard ranges", checkRanges},
	{"put and get", checkPutAndGet},
	{"put records", checkPutRecords},
	{"explicit hash key", checkExplicitHash},
	{"refused puts", checkRefusedPuts},
	{"refused sizes", checkRefusedSizes},
	{"sequence for ordering", checkOrdering},
	{"iterator types", checkIteratorTypes},
	{"at timestamp", checkAtTimestamp},
	{"future timestamp", checkFutureTimestamp},
	{"foreign sequence", checkForeignSequence},
	{"malformed sequence", checkMalformedSequence},
	{"garbage iterator", checkGarbageIterator},
	{"get limit", checkGetLimit},
	{"millis behind latest", checkMillisBehind},
	{"split", checkSplit},
	{"merge", checkMerge},
	{"update shard count", checkUpdateShardCount},
	{"list shards paging", checkListShardsPaging},
	{"shard filters", checkShardFilters},
	{"at trim horizon filter", checkTrimHorizonFilter},
	{"describe stream paging", checkDescribePaging},
	{"retention", checkRetention},
	{"consumers", checkConsumers},
	{"subscribe", checkSubscribe},
	{"page of 10 MiB", checkBigPage},
	{"authentication", checkAuthentication},
	{"unknown operation", checkUnknownOperation},
	{"CBOR", checkCBOR},
}

// differences says where kinesis-local 0.6.2 is known to differ from Kinesis; such a case holds only
// the embedded service to the part in question.
var differences = map[string]string{
	"refused puts":           "accepts 501 records in one PutRecords",
	"refused sizes":          "does not count the partition key, fails only the entry and has no limit for the request",
	"foreign sequence":       "accepts the sequence number of another shard while the shard is empty",
	"CBOR":                   "sends blobs as base64 text and timestamps without a tag",
	"unknown operation":      "answers AccessDeniedException",
	"malformed sequence":     "answers ResourceNotFoundException, or an iterator",
	"explicit hash key":      "answers 500 to hash keys it cannot parse",
	"garbage iterator":       "answers 500",
	"millis behind latest":   "counts to the newest record instead of to now",
	"at trim horizon filter": "AT_TRIM_HORIZON lists all shards",
	"subscribe":              "sends no initial-response, without which the SDK gives up",
	"page of 10 MiB":         "takes a second for every MiB put",
}

func checkLifecycle(t *testing.T, tg *target) {
	t.Helper()
	ctx := t.Context()
	name := tg.stream(t, 2)
	summary := tg.active(t, name)
	assert.Equal(t, name, *summary.StreamName)
	assert.Contains(t, *summary.StreamARN, ":stream/"+name)
	assert.EqualValues(t, 2, *summary.OpenShardCount)
	assert.EqualValues(t, 24, *summary.RetentionPeriodHours)
	assert.Equal(t, types.StreamModeProvisioned, summary.StreamModeDetails.StreamMode)
	assert.WithinDuration(t, time.Now(), *summary.StreamCreationTimestamp, time.Minute)

	_, err := tg.client.CreateStream(ctx, &kinesis.CreateStreamInput{StreamName: &name, ShardCount: aws.Int32(1)})
	requireCode(t, err, "ResourceInUseException")

	list, err := tg.client.ListStreams(ctx, &kinesis.ListStreamsInput{})
	require.NoError(t, err)
	assert.Contains(t, list.StreamNames, name)

	_, err = tg.client.DeleteStream(ctx, &kinesis.DeleteStreamInput{StreamName: &name})
	require.NoError(t, err)
	eventually(t, func() bool {
		_, err := tg.client.DescribeStreamSummary(ctx, &kinesis.DescribeStreamSummaryInput{StreamName: &name})
		return codeOf(err) == "ResourceNotFoundException"
	})
}

func checkMissingStream(t *testing.T, tg *target) {
	t.Helper()
	ctx := t.Context()
	name := aws.String("no-such-stream")
	_, err := tg.client.PutRecord(ctx, &kinesis.PutRecordInput{StreamName: name, PartitionKey: aws.String("k"), Data: []byte("d")})
	requireCode(t, err, "ResourceNotFoundException")
	_, err = tg.client.PutRecords(ctx, &kinesis.PutRecordsInput{
		StreamName: name, Records: []types.PutRecordsRequestEntry{{PartitionKey: aws.String("k"), Data: []byte("d")}},
	})
	requireCode(t, err, "ResourceNotFoundException")
	_, err = tg.client.ListShards(ctx, &kinesis.ListShardsInput{StreamName: name})
	requireCode(t, err, "ResourceNotFoundException")
	_, err = tg.client.GetShardIterator(ctx, &kinesis.GetShardIteratorInput{
		StreamName: name, ShardId: aws.String("shardId-000000000000"), ShardIteratorType: types.ShardIteratorTypeLatest,
	})
	requireCode(t, err, "ResourceNotFoundException")

	real := tg.stream(t, 1)
	_, err = tg.client.GetShardIterator(ctx, &kinesis.GetShardIteratorInput{
		StreamName: &real, ShardId: aws.String("shardId-000000000099"), ShardIteratorType: types.ShardIteratorTypeLatest,
	})
	requireCode(t, err, "ResourceNotFoundException")
}

func checkStreamName(t *testing.T, tg *target) {
	t.Helper()
	for _, name := range []string{"a:b", strings.Repeat("x", 129), "a b"} {
		_, err := tg.client.CreateStream(t.Context(), &kinesis.CreateStreamInput{StreamName: &name, ShardCount: aws.Int32(1)})
		requireCode(t, err, "ValidationException", "InvalidArgumentException")
	}
}

func checkARN(t *testing.T, tg *target) {
	t.Helper()
	ctx := t.Context()
	name := tg.stream(t, 1)
	arn := tg.active(t, name).StreamARN
	put, err := tg.client.PutRecord(ctx, &kinesis.PutRecordInput{StreamARN: arn, PartitionKey: aws.String("k"), Data: []byte("by ARN")})
	require.NoError(t, err)
	shards, err := tg.client.ListShards(ctx, &kinesis.ListShardsInput{StreamARN: arn})
	require.NoError(t, err)
	require.Len(t, shards.Shards, 1)
	iterator := tg.iterate(t, &kinesis.GetShardIteratorInput{
		StreamARN: arn, ShardId: put.ShardId, ShardIteratorType: types.ShardIteratorTypeTrimHorizon,
	})
	out, err := tg.client.GetRecords(ctx, &kinesis.GetRecordsInput{StreamARN: arn, ShardIterator: iterator})
	require.NoError(t, err)
	require.Len(t, out.Records, 1)
	assert.Equal(t, "by ARN", string(out.Records[0].Data))
}

func checkOnDemand(t *testing.T, tg *target) {
	t.Helper()
	name := tg.create(t, &kinesis.CreateStreamInput{StreamModeDetails: &types.StreamModeDetails{StreamMode: types.StreamModeOnDemand}})
	summary := tg.active(t, name)
	assert.Equal(t, types.StreamModeOnDemand, summary.StreamModeDetails.StreamMode)
	assert.EqualValues(t, 4, *summary.OpenShardCount)
}

func checkRanges(t *testing.T, tg *target) {
	t.Helper()
	next := new(big.Int)
	for i, sh := range tg.shards(t, tg.stream(t, 3)) {
		assert.Equal(t, fmt.Sprintf("shardId-%012d", i), *sh.ShardId)
		assert.Zero(t, decimal(t, sh.HashKeyRange.StartingHashKey).Cmp(next))
		next.Add(decimal(t, sh.HashKeyRange.EndingHashKey), big.NewInt(1))
		assert.Len(t, *sh.SequenceNumberRange.StartingSequenceNumber, 56)
		assert.Nil(t, sh.SequenceNumberRange.EndingSequenceNumber)
	}
	assert.Zero(t, new(big.Int).Lsh(big.NewInt(1), 128).Cmp(next))
}

func checkListShardsPaging(t *testing.T, tg *target) {
	t.Helper()
	ctx := t.Context()
	name := tg.stream(t, 5)
	in := &kinesis.ListShardsInput{StreamName: &name, MaxResults: aws.Int32(2)}
	var pages []string
	var token *string
	for {
		out, err := tg.client.ListShards(ctx, in)
		require.NoError(t, err)
		pages = append(pages, shardNames(out.Shards))
		if out.NextToken == nil {
			break
		}
		token = out.NextToken
		in = &kinesis.ListShardsInput{NextToken: token, MaxResults: aws.Int32(2)}
	}
	assert.Equal(t, []string{"0 1", "2 3", "4"}, pages)
	_, err := tg.client.ListShards(ctx, &kinesis.ListShardsInput{StreamName: &name, NextToken: token})
	requireCode(t, err, "InvalidArgumentException")
	out, err := tg.client.ListShards(ctx, &kinesis.ListShardsInput{
		StreamName: &name, ExclusiveStartShardId: aws.String("shardId-000000000002"),
	})
	require.NoError(t, err)
	assert.Equal(t, "3 4", shardNames(out.Shards))
}

func checkDescribePaging(t *testing.T, tg *target) {
	t.Helper()
	name := tg.stream(t, 3)
	first, err := tg.client.DescribeStream(t.Context(), &kinesis.DescribeStreamInput{StreamName: &name, Limit: aws.Int32(2)})
	require.NoError(t, err)
	assert.Equal(t, "0 1", shardNames(first.StreamDescription.Shards))
	assert.True(t, *first.StreamDescription.HasMoreShards)
	second, err := tg.client.DescribeStream(t.Context(), &kinesis.DescribeStreamInput{
		StreamName: &name, ExclusiveStartShardId: aws.String("shardId-000000000001"),
	})
	require.NoError(t, err)
	assert.Equal(t, "2", shardNames(second.StreamDescription.Shards))
	assert.False(t, *second.StreamDescription.HasMoreShards)
}

func checkRetention(t *testing.T, tg *target) {
	t.Helper()
	ctx := t.Context()
	name := tg.stream(t, 1)
	hours := func(want int32) {
		eventually(t, func() bool { return *tg.active(t, name).RetentionPeriodHours == want })
	}
	_, err := tg.client.IncreaseStreamRetentionPeriod(ctx, &kinesis.IncreaseStreamRetentionPeriodInput{
		StreamName: &name, RetentionPeriodHours: aws.Int32(48),
	})
	require.NoError(t, err)
	hours(48)
	_, err = tg.client.IncreaseStreamRetentionPeriod(ctx, &kinesis.IncreaseStreamRetentionPeriodInput{
		StreamName: &name, RetentionPeriodHours: aws.Int32(24),
	})
	requireCode(t, err, "InvalidArgumentException")
	_, err = tg.client.DecreaseStreamRetentionPeriod(ctx, &kinesis.DecreaseStreamRetentionPeriodInput{
		StreamName: &name, RetentionPeriodHours: aws.Int32(24),
	})
	require.NoError(t, err)
	hours(24)
}

func checkConsumers(t *testing.T, tg *target) {
	t.Helper()
	ctx := t.Context()
	name := tg.stream(t, 1)
	arn := tg.active(t, name).StreamARN
	out, err := tg.client.RegisterStreamConsumer(ctx, &kinesis.RegisterStreamConsumerInput{StreamARN: arn, ConsumerName: aws.String("fan")})
	require.NoError(t, err)
	assert.Contains(t, *out.Consumer.ConsumerARN, *arn+"/consumer/fan:")
	_, err = tg.client.RegisterStreamConsumer(ctx, &kinesis.RegisterStreamConsumerInput{StreamARN: arn, ConsumerName: aws.String("fan")})
	requireCode(t, err, "ResourceInUseException")
	eventually(t, func() bool {
		d, err := tg.client.DescribeStreamConsumer(ctx, &kinesis.DescribeStreamConsumerInput{StreamARN: arn, ConsumerName: aws.String("fan")})
		return err == nil && d.ConsumerDescription.ConsumerStatus == types.ConsumerStatusActive
	})
	list, err := tg.client.ListStreamConsumers(ctx, &kinesis.ListStreamConsumersInput{StreamARN: arn})
	require.NoError(t, err)
	require.Len(t, list.Consumers, 1)
	assert.Equal(t, "fan", *list.Consumers[0].ConsumerName)
	_, err = tg.client.DeregisterStreamConsumer(ctx, &kinesis.DeregisterStreamConsumerInput{ConsumerARN: out.Consumer.ConsumerARN})
	require.NoError(t, err)
	eventually(t, func() bool {
		_, err := tg.client.DescribeStreamConsumer(ctx, &kinesis.DescribeStreamConsumerInput{ConsumerARN: out.Consumer.ConsumerARN})
		return codeOf(err) == "ResourceNotFoundException"
	})
}

func checkAuthentication(t *testing.T, tg *target) {
	t.Helper()
	status, _, body := tg.post(t, "ListStreams", "application/x-amz-json-1.1", []byte("{}"))
	assert.Equal(t, 400, status)
	assert.Contains(t, string(body), "MissingAuthenticationTokenException")
}

func checkUnknownOperation(t *testing.T, tg *target) {
	t.Helper()
	status, _, body := tg.post(t, "NoSuchThing", "application/x-amz-json-1.1", []byte("{}"), "Authorization", signed)
	assert.Equal(t, 400, status)
	if tg.conforms(t) {
		assert.Contains(t, string(body), "UnknownOperationException")
	}
}

func checkSubscribe(t *testing.T, tg *target) {
	t.Helper()
	if !tg.conforms(t) {
		return
	}
	ctx := t.Context()
	name := tg.stream(t, 1)
	tg.put(t, name, "k", "pushed")
	consumer, err := tg.client.RegisterStreamConsumer(ctx, &kinesis.RegisterStreamConsumerInput{
		StreamARN: tg.active(t, name).StreamARN, ConsumerName: aws.String("fan"),
	})
	require.NoError(t, err)
	out, err := tg.client.SubscribeToShard(ctx, &kinesis.SubscribeToShardInput{
		ConsumerARN: consumer.Consumer.ConsumerARN, ShardId: tg.shards(t, name)[0].ShardId, StartingPosition: horizonPosition,
	})
	require.NoError(t, err)
	data, _ := records(t, out.GetStream(), 1)
	assert.Equal(t, []string{"pushed"}, data)
	require.NoError(t, out.GetStream().Close())
}
