package kinesistest_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/test/kinesistest"
)

func TestHealth(t *testing.T) {
	f := newFixture(t, 0, frozenClock())
	status, header := statusOf(t, f, "/healthz")
	assert.Equal(t, 200, status)
	assert.Equal(t, "Sun, 01 Nov 2026 12:00:00 GMT", header.Get("Date"))
	f.Clock().Advance(time.Hour)
	_, header = statusOf(t, f, "/healthz")
	assert.Equal(t, "Sun, 01 Nov 2026 13:00:00 GMT", header.Get("Date"), "the service's clock")
	status, _ = statusOf(t, f, "/")
	assert.Equal(t, 400, status)
}

func TestHandlerWithoutServer(t *testing.T) {
	s := kinesistest.New()
	require.NoError(t, s.CreateStream(streamName, 1))
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(`{"StreamName":"orders"}`))
	r.Header.Set("X-Amz-Target", "Kinesis_20131202.ListShards")
	r.Header.Set("Authorization", signed)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	assert.Equal(t, 200, w.Code)
	assert.Contains(t, w.Body.String(), shard0)
	assert.NotEmpty(t, w.Header().Get("X-Amzn-Requestid"))
}

func TestBadRequests(t *testing.T) {
	f := newFixture(t, 1)
	post := func(op, body string, headers ...string) string {
		status, header, answer := f.post(t, op, "application/x-amz-json-1.1", []byte(body), headers...)
		assert.Equal(t, 400, status)
		assert.Contains(t, string(answer), header.Get("X-Amzn-Errortype"))
		return header.Get("X-Amzn-Errortype")
	}
	assert.Equal(t, "UnrecognizedClientException", post("ListStreams", "{}", "Authorization", strings.Replace(signed, "AKIDTEST", "AKIDBAD1", 1)))
	assert.Equal(t, "UnknownOperationException", post("", "{}", "Authorization", signed))
	for _, op := range []string{"ListShards", "GetRecords", "PutRecord", "PutRecords"} {
		for _, body := range []string{"{", `{"StreamName":`, "[1]", `{"StreamName":5}`, `{"Records":{}}`, `{"Data":"%%%%"}`, `{"Limit":"x"}`} {
			code := post(op, body, "Authorization", signed)
			assert.Contains(t, []string{"SerializationException", "InvalidArgumentException", "ValidationException"}, code)
		}
	}
	for _, record := range []string{`{"PartitionKey":"k"}`, `{"Data":"AA=="}`, `{"Data":"AA==","PartitionKey":null}`, `{"Data":"AB==","PartitionKey":"k"}`} {
		code := post("PutRecords", `{"StreamName":"orders","Records":[`+record+`]}`, "Authorization", signed)
		assert.Contains(t, []string{"SerializationException", "ValidationException"}, code)
	}
}

// Other SDKs escape the slash in base64 and send members the service does not know.
func TestUnusualJSON(t *testing.T) {
	f := newFixture(t, 1)
	body := ` { "Unknown" : [ { "a" : [ 1 , true , null , "\"" ] } ] , "StreamName" : "ord\u0065rs" , "Records" : [
		{ "Data" : "\/\/8=" , "PartitionKey" : "\u00e9\n" , "ExplicitHashKey" : null } , { "Data" : "" , "PartitionKey" : "k" } ] } `
	status, _, answer := f.post(t, "PutRecords", "application/x-amz-json-1.1", []byte(body), "Authorization", signed)
	require.Equal(t, 200, status, string(answer))
	records, _ := f.drain(t, streamName, aws.String(shard0))
	require.Len(t, records, 2)
	assert.Equal(t, []byte{0xff, 0xff}, records[0].Data)
	assert.Equal(t, "é\n", *records[0].PartitionKey)
	assert.Empty(t, records[1].Data)
}

func TestIteratorExpiry(t *testing.T) {
	f := newFixture(t, 1, frozenClock())
	it := f.start(t)
	f.Clock().Advance(5 * time.Minute)
	next := f.get(t, it).NextShardIterator
	f.Clock().Advance(time.Millisecond)
	_, err := f.page(t.Context(), it)
	requireCode(t, err, "ExpiredIteratorException")
	f.get(t, next)
}

func TestTokenExpiry(t *testing.T) {
	f := newFixture(t, 3, frozenClock(), kinesistest.WithListShardsPage(2))
	first, err := f.client.ListShards(t.Context(), &kinesis.ListShardsInput{
		StreamName: aws.String(streamName), ShardFilter: &types.ShardFilter{Type: types.ShardFilterTypeAtLatest},
	})
	require.NoError(t, err)
	require.Len(t, first.Shards, 2)
	next := &kinesis.ListShardsInput{NextToken: first.NextToken}
	f.Clock().Advance(300 * time.Second)
	second, err := f.client.ListShards(t.Context(), next)
	require.NoError(t, err)
	assert.Equal(t, "2", shardNames(second.Shards))
	f.Clock().Advance(time.Second)
	_, err = f.client.ListShards(t.Context(), next)
	requireCode(t, err, "ExpiredNextTokenException")
	_, err = f.client.ListShards(t.Context(), &kinesis.ListShardsInput{NextToken: aws.String("garbage")})
	requireCode(t, err, "InvalidArgumentException")
}

func TestStreamDelay(t *testing.T) {
	f := newFixture(t, 1, frozenClock(), kinesistest.WithStreamDelay(10*time.Second))
	status := func() types.StreamStatus {
		out, err := f.client.DescribeStreamSummary(t.Context(), &kinesis.DescribeStreamSummaryInput{StreamName: aws.String(streamName)})
		if codeOf(err) == "ResourceNotFoundException" {
			return "GONE"
		}
		require.NoError(t, err)
		return out.StreamDescriptionSummary.StreamStatus
	}
	assert.Equal(t, types.StreamStatusCreating, status())
	_, _, err := f.Put(streamName, "k", nil)
	require.ErrorContains(t, err, "ResourceInUseException")
	f.Clock().Advance(10 * time.Second)
	assert.Equal(t, types.StreamStatusActive, status())

	split := &kinesis.SplitShardInput{
		StreamName: aws.String(streamName), ShardToSplit: aws.String(shard0), NewStartingHashKey: aws.String("1000"),
	}
	_, err = f.client.SplitShard(t.Context(), split)
	require.NoError(t, err)
	assert.Equal(t, types.StreamStatusUpdating, status())
	f.put(t, streamName, "k", "while UPDATING")
	_, err = f.client.SplitShard(t.Context(), split)
	requireCode(t, err, "ResourceInUseException")
	assert.Len(t, f.Shards(streamName), 1)
	f.Clock().Advance(10 * time.Second)
	assert.Equal(t, types.StreamStatusActive, status())
	assert.Len(t, f.Shards(streamName), 3)

	_, err = f.client.DeleteStream(t.Context(), &kinesis.DeleteStreamInput{StreamName: aws.String(streamName)})
	require.NoError(t, err)
	assert.Equal(t, types.StreamStatusDeleting, status())
	require.ErrorContains(t, f.CreateStream(streamName, 1), "ResourceInUseException")
	f.Clock().Advance(10 * time.Second)
	assert.Equal(t, types.StreamStatus("GONE"), status())
	require.NoError(t, f.CreateStream(streamName, 1))
}

func TestRetention(t *testing.T) {
	f := newFixture(t, 1, frozenClock())
	f.load(t, "0")
	f.Clock().Advance(time.Hour)
	f.load(t, "1")
	f.split(t, streamName, f.shards(t, streamName)[0])
	f.load(t, "2")
	assert.Equal(t, "0", f.filtered(t, streamName, types.ShardFilter{Type: types.ShardFilterTypeAtTrimHorizon}))
	f.Clock().Advance(23*time.Hour + time.Second)
	records, _ := f.drain(t, streamName, aws.String(shard0))
	require.Len(t, records, 1)
	assert.Equal(t, "1", string(records[0].Data))
	it := f.start(t)
	f.Clock().Advance(time.Hour)
	assert.Len(t, f.shards(t, streamName), 2, "the parent is past retention")
	assert.Equal(t, "1 2", f.filtered(t, streamName, types.ShardFilter{Type: types.ShardFilterTypeAtTrimHorizon}))
	_, err := f.page(t.Context(), it)
	requireCode(t, err, "ResourceNotFoundException")
	assert.Empty(t, f.Records(streamName))
}

func TestTimestampFilters(t *testing.T) {
	f := newFixture(t, 1, frozenClock())
	f.Clock().Advance(time.Hour)
	before := f.Clock().Now()
	f.Clock().Advance(time.Minute)
	f.split(t, streamName, f.shards(t, streamName)[0])
	f.Clock().Advance(time.Minute)
	after := f.Clock().Now()
	assert.Equal(t, "0", f.filtered(t, streamName, types.ShardFilter{Type: types.ShardFilterTypeAtTimestamp, Timestamp: &before}))
	assert.Equal(t, "1 2", f.filtered(t, streamName, types.ShardFilter{Type: types.ShardFilterTypeAtTimestamp, Timestamp: &after}))
	assert.Equal(t, "0 1 2", f.filtered(t, streamName, types.ShardFilter{Type: types.ShardFilterTypeFromTimestamp, Timestamp: &before}))
	assert.Equal(t, "1 2", f.filtered(t, streamName, types.ShardFilter{Type: types.ShardFilterTypeFromTimestamp, Timestamp: &after}))
}

func TestTrimAndDrop(t *testing.T) {
	f := newFixture(t, 1)
	f.load(t, "0", "1", "2")
	it := f.start(t)
	first := f.Records(streamName)[0].SequenceNumber
	assert.Equal(t, 2, f.Trim(streamName, shard0, 2))
	page := f.get(t, it)
	require.Len(t, page.Records, 1)
	assert.Equal(t, "2", string(page.Records[0].Data))
	page = f.get(t, f.iterate(t, &kinesis.GetShardIteratorInput{
		StreamName: aws.String(streamName), ShardId: aws.String(shard0),
		ShardIteratorType: types.ShardIteratorTypeAfterSequenceNumber, StartingSequenceNumber: &first,
	}))
	require.Len(t, page.Records, 1, "a trimmed sequence number reads from the horizon")
	assert.Equal(t, 1, f.Trim(streamName, shard0, 5))
	assert.Zero(t, f.Trim(streamName, "shardId-000000000009", 5))
	f.load(t, "3")
	page = f.get(t, it)
	require.Len(t, page.Records, 1)

	assert.False(t, f.DropShard(streamName, shard0), "open")
	f.split(t, streamName, f.shards(t, streamName)[0])
	assert.True(t, f.DropShard(streamName, shard0))
	assert.Len(t, f.Shards(streamName), 2)
	_, err := f.page(t.Context(), it)
	requireCode(t, err, "ResourceNotFoundException")
}

func TestMillisBehindLatest(t *testing.T) {
	f := newFixture(t, 1, frozenClock())
	f.load(t, "0")
	f.Clock().Advance(time.Second)
	f.load(t, "1")
	f.Clock().Advance(time.Second)
	out, err := f.client.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: f.start(t), Limit: aws.Int32(1)})
	require.NoError(t, err)
	assert.EqualValues(t, 1000, *out.MillisBehindLatest, "the unread record is a second old")
	assert.Zero(t, *f.get(t, out.NextShardIterator).MillisBehindLatest)
}

func TestAtTimestampIsExact(t *testing.T) {
	f := newFixture(t, 1, frozenClock())
	start := f.Clock().Now()
	for _, data := range []string{"0", "1", "2"} {
		f.load(t, data)
		f.Clock().Advance(time.Millisecond)
	}
	for i, want := range []int{3, 2, 1, 0} {
		page := f.get(t, f.iterate(t, &kinesis.GetShardIteratorInput{
			StreamName: aws.String(streamName), ShardId: aws.String(shard0),
			ShardIteratorType: types.ShardIteratorTypeAtTimestamp, Timestamp: aws.Time(start.Add(time.Duration(i) * time.Millisecond)),
		}))
		assert.Len(t, page.Records, want)
	}
}

func TestDryRun(t *testing.T) {
	f := newFixture(t, 1)
	_, err := f.client.PutRecord(t.Context(), &kinesis.PutRecordInput{
		StreamName: aws.String(streamName), PartitionKey: aws.String("k"), Data: []byte("x"), DryRun: aws.Bool(true),
	})
	requireCode(t, err, "DryRunOperationException")
	_, err = f.client.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: f.start(t), DryRun: aws.Bool(true)})
	requireCode(t, err, "DryRunOperationException")
	assert.Empty(t, f.Records(streamName))
}

func TestShardLimit(t *testing.T) {
	f := newFixture(t, 2, kinesistest.WithShardLimit(3))
	require.ErrorContains(t, f.CreateStream("more", 2), "LimitExceededException")
	require.NoError(t, f.CreateStream("more", 1))
	_, err := f.client.SplitShard(t.Context(), &kinesis.SplitShardInput{
		StreamName: aws.String(streamName), ShardToSplit: aws.String(shard0), NewStartingHashKey: aws.String("1000"),
	})
	requireCode(t, err, "LimitExceededException")
}

func TestListStreamsPaging(t *testing.T) {
	f := newFixture(t, 0)
	for _, name := range []string{"c", "a", "b"} {
		require.NoError(t, f.CreateStream(name, 1))
	}
	first, err := f.client.ListStreams(t.Context(), &kinesis.ListStreamsInput{Limit: aws.Int32(2)})
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b"}, first.StreamNames)
	assert.True(t, *first.HasMoreStreams)
	second, err := f.client.ListStreams(t.Context(), &kinesis.ListStreamsInput{NextToken: first.NextToken})
	require.NoError(t, err)
	assert.Equal(t, []string{"c"}, second.StreamNames)
	third, err := f.client.ListStreams(t.Context(), &kinesis.ListStreamsInput{ExclusiveStartStreamName: aws.String("b")})
	require.NoError(t, err)
	assert.Equal(t, []string{"c"}, third.StreamNames)
}

func TestRecreatedStream(t *testing.T) {
	f := newFixture(t, 1)
	f.load(t, "0")
	it := f.start(t)
	_, err := f.client.DeleteStream(t.Context(), &kinesis.DeleteStreamInput{StreamName: aws.String(streamName)})
	require.NoError(t, err)
	require.NoError(t, f.CreateStream(streamName, 1))
	_, err = f.page(t.Context(), it)
	requireCode(t, err, "ResourceNotFoundException")
	assert.Empty(t, f.Records(streamName))
}

func TestCalls(t *testing.T) {
	f := newFixture(t, 1, frozenClock(), kinesistest.WithCallLog(3))
	f.load(t, "0", "1")
	it := f.start(t)
	f.Clock().Advance(time.Second)
	f.get(t, f.get(t, it).NextShardIterator)
	_, err := f.page(t.Context(), aws.String("garbage"))
	require.Error(t, err)
	calls := f.Calls()
	require.Len(t, calls, 3, "the oldest is forgotten")
	assert.Equal(t, "GetRecords", calls[0].Op)
	assert.Equal(t, streamName, calls[0].Stream)
	assert.Equal(t, shard0, calls[0].Shard)
	assert.EqualValues(t, 0, calls[0].Position)
	assert.Equal(t, 2, calls[0].RecordsOut)
	assert.Equal(t, f.Clock().Now(), calls[0].Time)
	assert.EqualValues(t, 2, calls[1].Position)
	assert.Equal(t, "InvalidArgumentException", calls[2].ErrorCode)
	assert.Equal(t, 3, f.CallCount("GetRecords"))
	assert.Equal(t, 1, f.CallCount("GetShardIterator"))
	assert.Equal(t, 4, f.CallCount("*"))

	f.ClearCalls()
	assert.Empty(t, f.Calls())
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	f.iterate(t, &kinesis.GetShardIteratorInput{
		StreamName: aws.String(streamName), ShardId: aws.String(shard0), ShardIteratorType: "AT_TIMESTAMP", Timestamp: &at,
	})
	_, err = f.putKeys(t.Context(), "a", "b")
	require.NoError(t, err)
	calls = f.Calls()
	require.Len(t, calls, 2)
	assert.Equal(t, "AT_TIMESTAMP", calls[0].IteratorType)
	assert.Equal(t, at, calls[0].Timestamp)
	assert.Equal(t, 2, calls[1].RecordsIn)
}

func TestCloseIsClean(t *testing.T) {
	s, err := kinesistest.Listen(t.Context(), "127.0.0.1:0", kinesistest.WithRegion("eu-west-1"), kinesistest.WithAccountID("123456789012"))
	require.NoError(t, err)
	require.NoError(t, s.CreateStream(streamName, 1))
	out, err := s.Client().DescribeStreamSummary(t.Context(), &kinesis.DescribeStreamSummaryInput{StreamName: aws.String(streamName)})
	require.NoError(t, err)
	assert.Equal(t, "arn:aws:kinesis:eu-west-1:123456789012:stream/orders", *out.StreamDescriptionSummary.StreamARN)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	_, err = kinesistest.Listen(context.Background(), "127.0.0.1:99999")
	require.Error(t, err)
}

func TestHelperErrorsHaveCodes(t *testing.T) {
	s := kinesistest.New()
	_, _, err := s.Put("missing", "k", nil)
	assert.Equal(t, "ResourceNotFoundException", codeOf(err))
	_, _, err = s.Put("missing", "", nil)
	assert.Equal(t, "ValidationException", codeOf(err))
}
