package kinesistest_test

import (
	"bytes"
	"encoding/base64"
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
	"future timestamp":       "refuses a timestamp in the future",
	"foreign sequence":       "accepts the sequence number of another shard while the shard is empty",
	"CBOR":                   "sends blobs as base64 text and timestamps without a tag",
	"unknown operation":      "answers AccessDeniedException",
	"malformed sequence":     "answers ResourceNotFoundException, or an iterator",
	"explicit hash key":      "answers 500 to hash keys it cannot parse",
	"garbage iterator":       "answers 500",
	"millis behind latest":   "counts to the newest record instead of to now",
	"at trim horizon filter": "AT_TRIM_HORIZON lists all shards",
	"page of 10 MiB":         "takes a second for every MiB put",
}

func checkLifecycle(t *testing.T, tg *target) {
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
	for _, name := range []string{"a:b", strings.Repeat("x", 129), "a b"} {
		_, err := tg.client.CreateStream(t.Context(), &kinesis.CreateStreamInput{StreamName: &name, ShardCount: aws.Int32(1)})
		requireCode(t, err, "ValidationException", "InvalidArgumentException")
	}
}

func checkARN(t *testing.T, tg *target) {
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
	name := tg.create(t, &kinesis.CreateStreamInput{StreamModeDetails: &types.StreamModeDetails{StreamMode: types.StreamModeOnDemand}})
	summary := tg.active(t, name)
	assert.Equal(t, types.StreamModeOnDemand, summary.StreamModeDetails.StreamMode)
	assert.EqualValues(t, 4, *summary.OpenShardCount)
}

func checkRanges(t *testing.T, tg *target) {
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

func checkPutAndGet(t *testing.T, tg *target) {
	name := tg.stream(t, 1)
	before := time.Now().Add(-time.Second)
	keys := []string{"a", "ключ", `quote " and \ back`, "tab\t", strings.Repeat("é", 256), "\U0001F600"}
	var sent []string
	for i, key := range keys {
		sent = append(sent, *tg.put(t, name, key, strings.Repeat("x", i)+"\x00\xff").SequenceNumber)
	}
	records, last := tg.drain(t, name, tg.shards(t, name)[0].ShardId)
	require.Len(t, records, len(keys))
	assert.Zero(t, *last.MillisBehindLatest)
	for i, r := range records {
		assert.Equal(t, keys[i], *r.PartitionKey)
		assert.Equal(t, strings.Repeat("x", i)+"\x00\xff", string(r.Data))
		assert.Equal(t, sent[i], *r.SequenceNumber)
		assert.Len(t, *r.SequenceNumber, 56)
		assert.WithinRange(t, *r.ApproximateArrivalTimestamp, before, time.Now().Add(time.Second))
		if i > 0 {
			assert.Positive(t, decimal(t, r.SequenceNumber).Cmp(decimal(t, records[i-1].SequenceNumber)))
			assert.False(t, r.ApproximateArrivalTimestamp.Before(*records[i-1].ApproximateArrivalTimestamp))
		}
	}
}

func checkPutRecords(t *testing.T, tg *target) {
	name := tg.stream(t, 3)
	entries := make([]types.PutRecordsRequestEntry, 60)
	for i := range entries {
		entries[i] = types.PutRecordsRequestEntry{PartitionKey: aws.String(fmt.Sprint("key-", i%20)), Data: fmt.Append(nil, i)}
	}
	out, err := tg.client.PutRecords(t.Context(), &kinesis.PutRecordsInput{StreamName: &name, Records: entries})
	require.NoError(t, err)
	require.Zero(t, *out.FailedRecordCount)
	require.Len(t, out.Records, len(entries))
	for _, sh := range tg.shards(t, name) {
		var want []string
		for i, e := range entries {
			if owns(t, sh, hashOf(*e.PartitionKey)) {
				assert.Equal(t, *sh.ShardId, *out.Records[i].ShardId)
				want = append(want, *out.Records[i].SequenceNumber)
			}
		}
		records, _ := tg.drain(t, name, sh.ShardId)
		var got []string
		for _, r := range records {
			got = append(got, *r.SequenceNumber)
		}
		assert.ElementsMatch(t, want, got)
	}
}

func checkExplicitHash(t *testing.T, tg *target) {
	name := tg.stream(t, 2)
	for i, sh := range tg.shards(t, name) {
		for _, hash := range []*string{sh.HashKeyRange.StartingHashKey, sh.HashKeyRange.EndingHashKey} {
			out, err := tg.client.PutRecord(t.Context(), &kinesis.PutRecordInput{
				StreamName: &name, PartitionKey: aws.String("same"), ExplicitHashKey: hash, Data: fmt.Append(nil, i),
			})
			require.NoError(t, err)
			assert.Equal(t, *sh.ShardId, *out.ShardId)
		}
	}
	for _, hash := range []string{"340282366920938463463374607431768211456", "-1", "12x"} {
		if !tg.conforms(t) {
			break
		}
		_, err := tg.client.PutRecord(t.Context(), &kinesis.PutRecordInput{
			StreamName: &name, PartitionKey: aws.String("same"), ExplicitHashKey: &hash, Data: []byte("d"),
		})
		requireCode(t, err, "InvalidArgumentException", "ValidationException")
	}
}

func checkRefusedPuts(t *testing.T, tg *target) {
	name := tg.stream(t, 1)
	for _, key := range []string{"", strings.Repeat("é", 257)} {
		_, err := tg.client.PutRecord(t.Context(), &kinesis.PutRecordInput{StreamName: &name, PartitionKey: &key, Data: []byte("d")})
		requireCode(t, err, "InvalidArgumentException", "ValidationException")
	}
	if tg.conforms(t) {
		entries := make([]types.PutRecordsRequestEntry, 501)
		for i := range entries {
			entries[i] = types.PutRecordsRequestEntry{PartitionKey: aws.String("k"), Data: []byte("d")}
		}
		_, err := tg.client.PutRecords(t.Context(), &kinesis.PutRecordsInput{StreamName: &name, Records: entries})
		requireCode(t, err, "InvalidArgumentException", "ValidationException")
	}
}

func checkRefusedSizes(t *testing.T, tg *target) {
	ctx := t.Context()
	name := tg.stream(t, 1)
	_, err := tg.client.PutRecord(ctx, &kinesis.PutRecordInput{StreamName: &name, PartitionKey: aws.String("k"), Data: make([]byte, 1<<20+1)})
	requireCode(t, err, "InvalidArgumentException", "ValidationException")
	if !tg.conforms(t) {
		return
	}
	_, err = tg.client.PutRecord(ctx, &kinesis.PutRecordInput{StreamName: &name, PartitionKey: aws.String("k"), Data: make([]byte, 1<<20)})
	requireCode(t, err, "InvalidArgumentException")
	entry := func(n int) types.PutRecordsRequestEntry {
		return types.PutRecordsRequestEntry{PartitionKey: aws.String("k"), Data: make([]byte, n)}
	}
	_, err = tg.client.PutRecords(ctx, &kinesis.PutRecordsInput{
		StreamName: &name, Records: []types.PutRecordsRequestEntry{entry(1), entry(1 << 20)},
	})
	requireCode(t, err, "InvalidArgumentException")
	status, answer := tg.putMany(t, name, 11)
	assert.Equal(t, 400, status)
	assert.Contains(t, answer, "InvalidArgumentException")
	records, _ := tg.drain(t, name, tg.shards(t, name)[0].ShardId)
	assert.Empty(t, records, "a refused request stores nothing")
}

func checkOrdering(t *testing.T, tg *target) {
	name := tg.stream(t, 1)
	first := tg.put(t, name, "k", "1")
	second, err := tg.client.PutRecord(t.Context(), &kinesis.PutRecordInput{
		StreamName: &name, PartitionKey: aws.String("k"), Data: []byte("2"), SequenceNumberForOrdering: first.SequenceNumber,
	})
	require.NoError(t, err)
	assert.Positive(t, decimal(t, second.SequenceNumber).Cmp(decimal(t, first.SequenceNumber)))
}

func checkIteratorTypes(t *testing.T, tg *target) {
	name := tg.stream(t, 1)
	var numbers []*string
	for i := range 4 {
		numbers = append(numbers, tg.put(t, name, "k", fmt.Sprint(i)).SequenceNumber)
	}
	shard := tg.shards(t, name)[0]
	read := func(kind types.ShardIteratorType, from *string) string {
		it := tg.iterate(t, &kinesis.GetShardIteratorInput{
			StreamName: &name, ShardId: shard.ShardId, ShardIteratorType: kind, StartingSequenceNumber: from,
		})
		var all []byte
		for _, r := range tg.get(t, it).Records {
			all = append(all, r.Data...)
		}
		return string(all)
	}
	assert.Equal(t, "0123", read(types.ShardIteratorTypeTrimHorizon, nil))
	assert.Equal(t, "23", read(types.ShardIteratorTypeAtSequenceNumber, numbers[2]))
	assert.Equal(t, "3", read(types.ShardIteratorTypeAfterSequenceNumber, numbers[2]))
	assert.Equal(t, "", read(types.ShardIteratorTypeAfterSequenceNumber, numbers[3]))
	assert.Equal(t, "0123", read(types.ShardIteratorTypeAtSequenceNumber, shard.SequenceNumberRange.StartingSequenceNumber))

	latest := tg.iterate(t, &kinesis.GetShardIteratorInput{
		StreamName: &name, ShardId: shard.ShardId, ShardIteratorType: types.ShardIteratorTypeLatest,
	})
	page := tg.get(t, latest)
	assert.Empty(t, page.Records)
	tg.put(t, name, "k", "new")
	page = tg.get(t, page.NextShardIterator)
	require.Len(t, page.Records, 1)
	assert.Equal(t, "new", string(page.Records[0].Data))

	_, err := tg.client.GetShardIterator(t.Context(), &kinesis.GetShardIteratorInput{
		StreamName: &name, ShardId: shard.ShardId, ShardIteratorType: types.ShardIteratorTypeAtSequenceNumber,
	})
	requireCode(t, err, "InvalidArgumentException", "ValidationException")
}

func checkAtTimestamp(t *testing.T, tg *target) {
	name := tg.stream(t, 1)
	for i := range 3 {
		tg.put(t, name, "k", fmt.Sprint(i))
	}
	shard := tg.shards(t, name)[0].ShardId
	records, _ := tg.drain(t, name, shard)
	require.Len(t, records, 3)
	at := *records[2].ApproximateArrivalTimestamp
	page := tg.get(t, tg.iterate(t, &kinesis.GetShardIteratorInput{
		StreamName: &name, ShardId: shard, ShardIteratorType: types.ShardIteratorTypeAtTimestamp, Timestamp: &at,
	}))
	require.NotEmpty(t, page.Records)
	assert.False(t, page.Records[0].ApproximateArrivalTimestamp.Before(at))
	assert.Equal(t, "2", string(page.Records[len(page.Records)-1].Data))

	page = tg.get(t, tg.iterate(t, &kinesis.GetShardIteratorInput{
		StreamName: &name, ShardId: shard, ShardIteratorType: types.ShardIteratorTypeAtTimestamp, Timestamp: aws.Time(at.Add(-time.Hour)),
	}))
	assert.Len(t, page.Records, 3)
}

func checkFutureTimestamp(t *testing.T, tg *target) {
	name := tg.stream(t, 1)
	tg.put(t, name, "k", "old")
	if !tg.conforms(t) {
		return
	}
	it := tg.iterate(t, &kinesis.GetShardIteratorInput{
		StreamName: &name, ShardId: tg.shards(t, name)[0].ShardId,
		ShardIteratorType: types.ShardIteratorTypeAtTimestamp, Timestamp: aws.Time(time.Now().Add(time.Hour)),
	})
	tg.put(t, name, "k", "new")
	page := tg.get(t, it)
	require.Len(t, page.Records, 1)
	assert.Equal(t, "new", string(page.Records[0].Data))
}

func checkForeignSequence(t *testing.T, tg *target) {
	name := tg.stream(t, 2)
	shards := tg.shards(t, name)
	put, err := tg.client.PutRecord(t.Context(), &kinesis.PutRecordInput{
		StreamName: &name, PartitionKey: aws.String("k"), Data: []byte("d"), ExplicitHashKey: shards[0].HashKeyRange.StartingHashKey,
	})
	require.NoError(t, err)
	if tg.conforms(t) {
		_, err = tg.client.GetShardIterator(t.Context(), &kinesis.GetShardIteratorInput{
			StreamName: &name, ShardId: shards[1].ShardId,
			ShardIteratorType: types.ShardIteratorTypeAfterSequenceNumber, StartingSequenceNumber: put.SequenceNumber,
		})
		requireCode(t, err, "InvalidArgumentException")
		assert.ErrorContains(t, err, "encodes shardId-000000000000")
	}
}

func checkMalformedSequence(t *testing.T, tg *target) {
	name := tg.stream(t, 1)
	shard := tg.shards(t, name)[0].ShardId
	for _, number := range []string{"TRIM_HORIZON", "12345", "-1", strings.Repeat("9", 56), strings.Repeat("1", 130)} {
		_, err := tg.client.GetShardIterator(t.Context(), &kinesis.GetShardIteratorInput{
			StreamName: &name, ShardId: shard,
			ShardIteratorType: types.ShardIteratorTypeAtSequenceNumber, StartingSequenceNumber: &number,
		})
		if tg.conforms(t) {
			requireCode(t, err, "InvalidArgumentException", "ValidationException")
		}
	}
}

func checkGarbageIterator(t *testing.T, tg *target) {
	for _, iterator := range []string{"garbage", "AAAA", strings.Repeat("x", 300)} {
		_, err := tg.client.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: &iterator})
		require.Error(t, err)
		if tg.conforms(t) {
			requireCode(t, err, "InvalidArgumentException")
		}
	}
}

func checkGetLimit(t *testing.T, tg *target) {
	name := tg.stream(t, 1)
	for i := range 5 {
		tg.put(t, name, "k", fmt.Sprint(i))
	}
	iterator := tg.horizon(t, name, tg.shards(t, name)[0].ShardId)
	var sizes []int
	for range 4 {
		out, err := tg.client.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: iterator, Limit: aws.Int32(2)})
		require.NoError(t, err)
		sizes = append(sizes, len(out.Records))
		iterator = out.NextShardIterator
	}
	assert.Equal(t, []int{2, 2, 1, 0}, sizes)
	for _, limit := range []int32{0, 10_001} {
		_, err := tg.client.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: iterator, Limit: &limit})
		requireCode(t, err, "InvalidArgumentException", "ValidationException")
	}
}

func checkMillisBehind(t *testing.T, tg *target) {
	name := tg.stream(t, 1)
	tg.put(t, name, "k", "0")
	tg.put(t, name, "k", "1")
	out, err := tg.client.GetRecords(t.Context(), &kinesis.GetRecordsInput{
		ShardIterator: tg.horizon(t, name, tg.shards(t, name)[0].ShardId), Limit: aws.Int32(1),
	})
	require.NoError(t, err)
	assert.Zero(t, *tg.get(t, out.NextShardIterator).MillisBehindLatest)
	if tg.conforms(t) {
		eventually(t, func() bool { // time passes, and with it the lag of the unread record grows
			out, err := tg.client.GetRecords(t.Context(), &kinesis.GetRecordsInput{
				ShardIterator: tg.horizon(t, name, aws.String("shardId-000000000000")), Limit: aws.Int32(1),
			})
			return assert.NoError(t, err) && *out.MillisBehindLatest > 20
		})
	}
}

func checkListShardsPaging(t *testing.T, tg *target) {
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

// putMany puts n records of nearly 1 MiB. Big requests are written by hand because the SDK takes
// seconds for them under the race detector.
func (tg *target) putMany(t *testing.T, stream string, n int) (int, string) {
	t.Helper()
	record := `{"PartitionKey":"k","Data":"` + base64.StdEncoding.EncodeToString(make([]byte, 1<<20-1)) + `"}`
	records := strings.TrimSuffix(strings.Repeat(record+",", n), ",")
	status, _, answer := tg.post(t, "PutRecords", "application/x-amz-json-1.1",
		[]byte(`{"StreamName":"`+stream+`","Records":[`+records+`]}`), "Authorization", signed)
	return status, string(answer)
}

func checkBigPage(t *testing.T, tg *target) {
	if !tg.conforms(t) {
		return
	}
	name := tg.stream(t, 1)
	for range 2 {
		status, answer := tg.putMany(t, name, 6)
		require.Equal(t, 200, status, answer)
	}
	iterator := tg.horizon(t, name, tg.shards(t, name)[0].ShardId)
	status, _, answer := tg.post(t, "GetRecords", "application/x-amz-json-1.1",
		[]byte(`{"ShardIterator":"`+*iterator+`"}`), "Authorization", signed)
	require.Equal(t, 200, status)
	assert.Equal(t, 10, bytes.Count(answer, []byte(`"SequenceNumber"`)))
}

func checkAuthentication(t *testing.T, tg *target) {
	status, _, body := tg.post(t, "ListStreams", "application/x-amz-json-1.1", []byte("{}"))
	assert.Equal(t, 400, status)
	assert.Contains(t, string(body), "MissingAuthenticationTokenException")
}

func checkUnknownOperation(t *testing.T, tg *target) {
	status, _, body := tg.post(t, "NoSuchThing", "application/x-amz-json-1.1", []byte("{}"), "Authorization", signed)
	assert.Equal(t, 400, status)
	if tg.conforms(t) {
		assert.Contains(t, string(body), "UnknownOperationException")
	}
}
