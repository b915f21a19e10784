package kinesistest_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func checkPutAndGet(t *testing.T, tg *target) {
	t.Helper()
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
	t.Helper()
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
	t.Helper()
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
	t.Helper()
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
	t.Helper()
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
	t.Helper()
	name := tg.stream(t, 1)
	first := tg.put(t, name, "k", "1")
	second, err := tg.client.PutRecord(t.Context(), &kinesis.PutRecordInput{
		StreamName: &name, PartitionKey: aws.String("k"), Data: []byte("2"), SequenceNumberForOrdering: first.SequenceNumber,
	})
	require.NoError(t, err)
	assert.Positive(t, decimal(t, second.SequenceNumber).Cmp(decimal(t, first.SequenceNumber)))
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
	t.Helper()
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
