package kinesistest_test

import (
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/test/kinesistest"
)

const (
	benchRecord = 512
	benchPage   = 1000
)

func benchServer(b *testing.B) (*kinesistest.Server, *kinesis.Client) {
	b.Helper()
	s := kinesistest.Start(b, kinesistest.WithCallLog(0))
	require.NoError(b, s.CreateStream(streamName, 1))
	return s, s.Client()
}

// BenchmarkGetRecords is the plain SDK loop over pages of 1000 records of 512 bytes.
func BenchmarkGetRecords(b *testing.B) {
	s, client := benchServer(b)
	data := make([]byte, benchRecord)
	for i := range benchPage {
		_, _, err := s.Put(streamName, fmt.Sprint("key-", i), data)
		require.NoError(b, err)
	}
	it, err := client.GetShardIterator(b.Context(), &kinesis.GetShardIteratorInput{
		StreamName: aws.String(streamName), ShardId: aws.String(shard0), ShardIteratorType: types.ShardIteratorTypeTrimHorizon,
	})
	require.NoError(b, err)
	b.SetBytes(benchPage * benchRecord)
	for b.Loop() {
		out, err := client.GetRecords(b.Context(), &kinesis.GetRecordsInput{ShardIterator: it.ShardIterator})
		if err != nil || len(out.Records) != benchPage {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*benchPage/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkPutRecords is the SDK putting 500 records of 512 bytes per call.
func BenchmarkPutRecords(b *testing.B) {
	s, client := benchServer(b)
	in := &kinesis.PutRecordsInput{StreamName: aws.String(streamName)}
	for i := range 500 {
		in.Records = append(in.Records, types.PutRecordsRequestEntry{
			PartitionKey: aws.String(fmt.Sprint("key-", i)), Data: make([]byte, benchRecord),
		})
	}
	b.SetBytes(500 * benchRecord)
	for b.Loop() {
		if _, err := client.PutRecords(b.Context(), in); err != nil {
			b.Fatal(err)
		}
		s.Trim(streamName, shard0, 500)
	}
	b.ReportMetric(float64(b.N)*500/b.Elapsed().Seconds(), "records/s")
}
