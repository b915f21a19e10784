package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/require"
)

// BenchmarkGetRecords reads pages without a network: the SDK, this package in JSON, this package in CBOR. Figures are per record.
func BenchmarkGetRecords(b *testing.B) {
	for _, c := range []struct{ records, size int }{{1000, 100}, {1000, 512}, {10000, 512}, {100, 50 << 10}} {
		text, binary := []any{}, []any{}
		for i := range c.records {
			data := make([]byte, c.size)
			for j := range data {
				data[j] = byte(i*7 + j*j) //nolint:gosec // what is left of it
			}
			r := members{"SequenceNumber": fmt.Sprintf("%s%06d", longText[:50], i), "PartitionKey": fmt.Sprintf("key-%d", i%100), "Data": data}
			inText, inBinary := copyOf(r), copyOf(r)
			inText["ApproximateArrivalTimestamp"] = json.Number(fmt.Sprintf("1441215410.%03d", i%1000))
			inBinary["ApproximateArrivalTimestamp"] = cbor.Tag{Number: 1, Content: 1441215410000 + i}
			text, binary = append(text, inText), append(binary, inBinary)
		}
		inJSON, err := json.Marshal(members{"Records": text, "MillisBehindLatest": 0, "NextShardIterator": longText})
		require.NoError(b, err)
		inCBOR := encode(b, members{"Records": binary, "MillisBehindLatest": 0, "NextShardIterator": longText}, cbor.EncOptions{})
		name := fmt.Sprintf("%dx%d", c.records, c.size)
		b.Run(name+"/SDK", func(b *testing.B) { getRecords.measure(b, theirs(), jsonType, inJSON, c.records) })
		b.Run(name+"/JSON", func(b *testing.B) {
			getRecords.measure(b, &protocol{ClientProtocol: theirs()}, jsonType, inJSON, c.records)
		})
		b.Run(name+"/CBOR", func(b *testing.B) {
			getRecords.measure(b, &protocol{ClientProtocol: theirs()}, cborType, inCBOR, c.records)
		})
	}
}

func copyOf(m members) members {
	return maps.Clone(m)
}

// BenchmarkPutRecordsAnswer reads receipts for 500 records.
func BenchmarkPutRecordsAnswer(b *testing.B) {
	var results []any
	for i := range 500 {
		results = append(results, members{"SequenceNumber": fmt.Sprintf("%s%06d", longText[:50], i), "ShardId": "shardId-000000000007"})
	}
	receipt := members{"FailedRecordCount": 0, "Records": results}
	inJSON, err := json.Marshal(receipt)
	require.NoError(b, err)
	inCBOR := encode(b, receipt, cbor.EncOptions{})
	b.Run("SDK", func(b *testing.B) { putRecords.measure(b, theirs(), jsonType, inJSON, 500) })
	b.Run("JSON", func(b *testing.B) { putRecords.measure(b, &protocol{ClientProtocol: theirs()}, jsonType, inJSON, 500) })
	b.Run("CBOR", func(b *testing.B) { putRecords.measure(b, &protocol{ClientProtocol: theirs()}, cborType, inCBOR, 500) })
}

// BenchmarkPutRecordsRequest writes requests of 500 records of 512 bytes.
func BenchmarkPutRecordsRequest(b *testing.B) {
	in := &kinesis.PutRecordsInput{StreamName: aws.String("orders")}
	for i := range 500 {
		in.Records = append(in.Records, types.PutRecordsRequestEntry{Data: make([]byte, 512), PartitionKey: aws.String(fmt.Sprintf("key-%d", i))})
	}
	for name, write := range map[string]func() []byte{
		"SDK": func() []byte {
			_, body := write(b, theirs(), in)
			return body
		},
		"JSON": func() []byte { return putBody(in) },
		"CBOR": func() []byte { return putCBOR(in) },
	} {
		b.Run(name, func(b *testing.B) {
			each(b, 500, func() { write() })
			b.ReportMetric(float64(len(write()))/500, "B/rec")
		})
	}
}

func (o operation) measure(b *testing.B, p smithyhttp.ClientProtocol, contentType string, body []byte, records int) {
	b.Helper()
	each(b, records, func() {
		if _, err := o.read(p, answerOf(http.StatusOK, contentType, body)); err != nil {
			b.Fatal(err)
		}
	})
	b.ReportMetric(float64(len(body))/float64(records), "B/rec")
}

// each runs f again and again, and reports what it costs per record.
func each(b *testing.B, records int, f func()) {
	b.Helper()
	allocs := testing.AllocsPerRun(1, f)
	for b.Loop() {
		f()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*records), "ns/rec")
	b.ReportMetric(allocs/float64(records), "allocs/rec")
	b.ReportMetric(0, "ns/op")
}
