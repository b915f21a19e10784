package kinesistest_test

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/test/kinesistest"
)

func TestFaultError(t *testing.T) {
	f := newFixture(t, 1)
	f.load(t, "0")
	it := f.start(t)
	for code, status := range map[string]int{
		"ProvisionedThroughputExceededException": 400, "KMSThrottlingException": 400, "InternalFailure": 500, "ServiceUnavailable": 503,
	} {
		fault := f.Fault("GetRecords", kinesistest.Match{}, 2, kinesistest.Error(code, "scripted"))
		for range 2 {
			_, err := f.page(t.Context(), it)
			requireCode(t, err, code)
			var response interface{ HTTPStatusCode() int }
			require.ErrorAs(t, err, &response)
			assert.Equal(t, status, response.HTTPStatusCode())
		}
		assert.Equal(t, 2, fault.Count())
		assert.Len(t, f.get(t, it).Records, 1, "used up")
	}
	f.Fault("GetRecords", kinesistest.Match{}, 1, kinesistest.ExpireIterator())
	_, err := f.page(t.Context(), it)
	requireCode(t, err, "ExpiredIteratorException")
}

func TestFaultMatch(t *testing.T) {
	f := newFixture(t, 2)
	oops := kinesistest.Error("InternalFailure", "")
	first := f.Fault("*", kinesistest.Match{Shard: shard0}, -1, oops)
	other := f.Fault("", kinesistest.Match{Stream: "other"}, -1, oops)
	key := f.Fault("PutRecord", kinesistest.Match{PartitionKey: "bad"}, -1, oops)

	_, err := f.client.GetShardIterator(t.Context(), &kinesis.GetShardIteratorInput{
		StreamName: aws.String(streamName), ShardId: aws.String(shard0), ShardIteratorType: "LATEST",
	})
	requireCode(t, err, "InternalFailure")
	it := f.horizon(t, streamName, aws.String(shard1))
	f.get(t, it)
	assert.Equal(t, 1, first.Count())
	assert.Zero(t, other.Count())
	first.Clear()

	_, err = f.client.PutRecord(t.Context(), &kinesis.PutRecordInput{
		StreamName: aws.String(streamName), PartitionKey: aws.String("bad"), Data: []byte("x"),
	})
	requireCode(t, err, "InternalFailure")
	f.put(t, streamName, "good", "x")
	assert.Equal(t, 1, key.Count())
	f.ClearFaults()
	f.put(t, streamName, "bad", "x")
	assert.Len(t, f.storedKeys(), 2)
	assert.Zero(t, f.Fault("PutRecord", kinesistest.Match{}, 0, oops).Count(), "for no call at all")
	f.put(t, streamName, "good", "x")
}

func TestFaultPartial(t *testing.T) {
	const code = "ProvisionedThroughputExceededException"
	all := []string{"a", "b", "c", "d", "e"}
	for name, c := range map[string]struct {
		match  kinesistest.Match
		effect kinesistest.Effect
		failed []string
	}{
		"indexes":   {effect: kinesistest.Partial(code, 1, 3), failed: []string{"b", "d"}},
		"every 2nd": {effect: kinesistest.PartialEvery(code, 2), failed: []string{"b", "d"}},
		"all":       {effect: kinesistest.Partial(code), failed: all},
		"by key":    {match: kinesistest.Match{PartitionKey: "c"}, effect: kinesistest.Partial(code), failed: []string{"c"}},
		"by shard":  {match: kinesistest.Match{Shard: shard0}, effect: kinesistest.Partial("InternalFailure"), failed: []string{"a", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 2)
			fault := f.Fault("PutRecords", c.match, 1, c.effect)
			out, err := f.putKeys(t.Context(), all...)
			require.NoError(t, err)
			var failed []string
			for i, r := range out.Records {
				if r.ErrorCode != nil {
					failed = append(failed, all[i])
					assert.NotEmpty(t, *r.ErrorMessage)
					assert.Nil(t, r.SequenceNumber)
				} else {
					assert.NotNil(t, r.SequenceNumber)
				}
			}
			if name == "by shard" { // which keys these are follows from their hashes
				failed, c.failed = nil, nil
				for i, r := range out.Records {
					if r.ErrorCode != nil {
						failed = append(failed, all[i])
					}
					if hashOf(all[i]).BitLen() < 128 {
						c.failed = append(c.failed, all[i])
					}
				}
			}
			assert.Equal(t, c.failed, failed)
			assert.EqualValues(t, len(failed), *out.FailedRecordCount)
			assert.Len(t, f.storedKeys(), len(all)-len(failed), "failed entries are not stored")
			assert.Equal(t, 1, fault.Count())
		})
	}
}

func TestFaultConnection(t *testing.T) {
	for name, c := range map[string]struct {
		effect kinesistest.Effect
		stored int
	}{
		"reset":             {kinesistest.Reset(), 0},
		"reset mid body":    {kinesistest.ResetMidBody(), 1},
		"stored then reset": {kinesistest.StoredThenReset(), 1},
		"garbage":           {kinesistest.Body(200, []byte(`{"half`)), 0},
		"garbage 502":       {kinesistest.Body(502, []byte(`<html>`)), 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, 1)
			f.Fault("PutRecords", kinesistest.Match{}, 1, c.effect)
			_, err := f.putKeys(t.Context(), "a")
			require.Error(t, err)
			assert.Len(t, f.storedKeys(), c.stored)
			calls := f.Calls()
			require.Len(t, calls, 1)
			assert.NotEmpty(t, calls[0].Fault)
			_, err = f.putKeys(t.Context(), "b")
			require.NoError(t, err)
		})
	}
}

func TestFaultHang(t *testing.T) {
	f := newFixture(t, 1)
	it := f.start(t)
	f.Fault("GetRecords", kinesistest.Match{}, -1, kinesistest.Hang())
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	_, err := f.page(ctx, it)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	ended := make(chan error, 1)
	go func() {
		_, err := f.page(context.WithoutCancel(t.Context()), it)
		ended <- err
	}()
	eventually(t, func() bool { return f.CallCount("GetRecords") == 2 })
	require.NoError(t, f.Close())
	require.Error(t, <-ended, "closing the server ends what hangs")
}

func TestFaultDelay(t *testing.T) {
	f := newFixture(t, 1)
	it := f.start(t)
	f.Fault("GetRecords", kinesistest.Match{}, 1, kinesistest.Delay(20*time.Millisecond))
	f.Fault("GetRecords", kinesistest.Match{}, 1, kinesistest.Delay(20*time.Millisecond))
	f.Fault("GetRecords", kinesistest.Match{}, 1, kinesistest.Error("InternalFailure", "after the delays"))
	began := time.Now()
	_, err := f.page(t.Context(), it)
	requireCode(t, err, "InternalFailure")
	assert.GreaterOrEqual(t, time.Since(began), 40*time.Millisecond)
}

func TestFaultPages(t *testing.T) {
	f := newFixture(t, 1)
	f.load(t, "0")
	it := f.start(t)
	f.Fault("GetRecords", kinesistest.Match{}, 1, kinesistest.EmptyPage())
	page := f.get(t, it)
	assert.Empty(t, page.Records)
	assert.Len(t, f.get(t, page.NextShardIterator).Records, 1)

	f.Fault("GetRecords", kinesistest.Match{}, 1, kinesistest.NullIterator())
	page = f.get(t, it)
	assert.Len(t, page.Records, 1)
	assert.Nil(t, page.NextShardIterator)
	assert.Empty(t, page.ChildShards)
}
