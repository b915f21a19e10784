package kinesistest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/test/kinesistest"
)

// format is a wire format as the benchmarks use it.
type format struct {
	name, contentType string
	marshal           func(any) ([]byte, error)
	unmarshal         func([]byte, any) error
}

var formats = []format{
	{"json", "application/x-amz-json-1.1", json.Marshal, json.Unmarshal},
	{"cbor", "application/x-amz-cbor-1.1", cbor.Marshal, cbor.Unmarshal},
}

// sink is a response writer that keeps the body if told to and counts it otherwise.
type sink struct {
	header http.Header
	status int
	n      int
	keep   *bytes.Buffer
}

func (s *sink) Header() http.Header    { return s.header }
func (s *sink) WriteHeader(status int) { s.status = status }

func (s *sink) Write(b []byte) (int, error) {
	s.n += len(b)
	if s.keep != nil {
		s.keep.Write(b)
	}
	return len(b), nil
}

// direct calls the handler without a connection, so that only the service's own work is measured.
type direct struct {
	svc http.Handler
	f   format
	r   *http.Request
	w   sink
}

func newDirect(tb testing.TB, svc http.Handler, f format, op string) *direct {
	tb.Helper()
	r, err := http.NewRequestWithContext(tb.Context(), http.MethodPost, "http://localhost/", http.NoBody)
	require.NoError(tb, err)
	r.Header.Set("Content-Type", f.contentType)
	r.Header.Set("X-Amz-Target", "Kinesis_20131202."+op)
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIDTEST")
	return &direct{svc: svc, f: f, r: r, w: sink{header: http.Header{}}}
}

func (d *direct) call(body []byte) int {
	d.r.Body, d.r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	d.w.status, d.w.n = 0, 0
	d.svc.ServeHTTP(&d.w, d.r)
	return d.w.status
}

// ask makes a call and reads the answer into out.
func (d *direct) ask(tb testing.TB, in, out any) {
	tb.Helper()
	body, err := d.f.marshal(in)
	require.NoError(tb, err)
	d.w.keep = &bytes.Buffer{}
	defer func() { d.w.keep = nil }()
	require.Equal(tb, http.StatusOK, d.call(body))
	require.NoError(tb, d.f.unmarshal(d.w.keep.Bytes(), out))
}

// benchEntry is an entry of PutRecords in either format.
type benchEntry struct {
	Data         []byte
	PartitionKey string
}

type benchPut struct {
	StreamName string
	Records    []benchEntry
}

func benchPutBody(tb testing.TB, f format, n int) []byte {
	tb.Helper()
	in := benchPut{StreamName: streamName}
	for i := range n {
		in.Records = append(in.Records, benchEntry{bytes.Repeat([]byte{byte(i)}, benchRecord), fmt.Sprint("key-", i)})
	}
	body, err := f.marshal(in)
	require.NoError(tb, err)
	return body
}

// BenchmarkServe is the work of the service alone, per record, in both formats: pages of 1000 records
// of 512 bytes read again and again, and 500 such records put per call, whichever format wrote them.
func BenchmarkServe(b *testing.B) {
	for _, f := range formats {
		b.Run("get/"+f.name, func(b *testing.B) {
			svc := kinesistest.New(kinesistest.WithCallLog(0))
			require.NoError(b, svc.CreateStream(streamName, 1))
			require.Equal(b, http.StatusOK, newDirect(b, svc, formats[0], "PutRecords").call(benchPutBody(b, formats[0], benchPage/2)))
			require.Equal(b, http.StatusOK, newDirect(b, svc, formats[1], "PutRecords").call(benchPutBody(b, formats[1], benchPage/2)))
			var it struct{ ShardIterator string }
			newDirect(b, svc, f, "GetShardIterator").ask(b, map[string]any{
				"StreamName": streamName, "ShardId": shard0, "ShardIteratorType": "TRIM_HORIZON",
			}, &it)
			d := newDirect(b, svc, f, "GetRecords")
			body, err := f.marshal(it)
			require.NoError(b, err)
			b.ReportAllocs()
			for b.Loop() {
				if d.call(body) != http.StatusOK || d.w.n < benchPage*benchRecord {
					b.Fatal(d.w.status, d.w.n)
				}
			}
			perRecord(b, benchPage)
			b.ReportMetric(float64(d.w.n)/benchPage, "bytes/record")
		})
		b.Run("put/"+f.name, func(b *testing.B) {
			svc := kinesistest.New(kinesistest.WithCallLog(0))
			require.NoError(b, svc.CreateStream(streamName, 1))
			d := newDirect(b, svc, f, "PutRecords")
			body := benchPutBody(b, f, 500)
			b.ReportAllocs()
			for b.Loop() {
				if d.call(body) != http.StatusOK {
					b.Fatal(d.w.status)
				}
				svc.Trim(streamName, shard0, 500)
			}
			perRecord(b, 500)
		})
	}
}

func perRecord(b *testing.B, records int) {
	b.Helper()
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(records), "ns/record")
}

// BenchmarkHTTP is a page of 1000 records of 512 bytes over a connection to a client that only takes the bytes.
func BenchmarkHTTP(b *testing.B) {
	for _, f := range formats {
		b.Run(f.name, func(b *testing.B) {
			s, _ := benchServer(b)
			for i := range benchPage {
				_, _, err := s.Put(streamName, fmt.Sprint("key-", i), make([]byte, benchRecord))
				require.NoError(b, err)
			}
			var it struct{ ShardIterator string }
			newDirect(b, s, f, "GetShardIterator").ask(b, map[string]any{
				"StreamName": streamName, "ShardId": shard0, "ShardIteratorType": "TRIM_HORIZON",
			}, &it)
			body, err := f.marshal(it)
			require.NoError(b, err)
			d := newDirect(b, s, f, "GetRecords")
			client := s.Config().HTTPClient
			for b.Loop() {
				r := d.r.Clone(b.Context())
				r.URL.Host = s.URL()[len("http://"):]
				r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
				resp, err := client.Do(r)
				if err != nil {
					b.Fatal(err)
				}
				n, err := io.Copy(io.Discard, resp.Body)
				if err != nil || n < benchPage*benchRecord {
					b.Fatal(n, err)
				}
				if err := resp.Body.Close(); err != nil {
					b.Fatal(err)
				}
			}
			perRecord(b, benchPage)
		})
	}
}
