package wire

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/test/emulators"
	"github.com/protokinesis/protokinesis/test/kinesistest"
)

var update = flag.Bool("update", false, "keep the answers of the services in testdata/bodies, for the other tests and for fuzzing")

// services are Kinesis as others and we ourselves imitate it.
var services = map[string]func(testing.TB) string{
	"kinesistest":   func(tb testing.TB) string { tb.Helper(); return kinesistest.Start(tb).URL() },
	"kinesis-local": emulators.KinesisLocal,
	"kinesalite":    emulators.Kinesalite,
}

// tap is an HTTP client that remembers what passes.
type tap struct {
	http.Client

	mu      sync.Mutex
	answers []tapped
}

type tapped struct {
	op, asked, answered string
	status              int
	body                []byte
}

func newTap(tb testing.TB) *tap {
	tb.Helper()
	transport := &http.Transport{}
	tb.Cleanup(transport.CloseIdleConnections)
	return &tap{Client: http.Client{Transport: transport, Timeout: time.Minute}}
}

// Do implements kinesis.HTTPClient. The body is one that has no WriteTo, for the sake of the SDK's.
func (c *tap) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		guarded := *r
		guarded.Body = struct{ io.ReadCloser }{r.Body}
		r = &guarded
	}
	resp, err := c.Client.Do(r) //nolint:gosec // to a service of the test
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers = append(c.answers, tapped{op, r.Header.Get("Content-Type"), resp.Header.Get("Content-Type"), resp.StatusCode, body})
	return resp, err
}

// seen is what has passed since the last look.
func (c *tap) seen() []tapped {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.answers
	c.answers = nil
	return all
}

// clientOf is a client of a service that speaks by this package; by the SDK if o is nil.
func clientOf(url string, http kinesis.HTTPClient, o *Options) *kinesis.Client {
	return kinesis.New(kinesis.Options{
		Region: "us-east-1", BaseEndpoint: &url, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient: http, Retryer: aws.NopRetryer{},
	}, func(c *kinesis.Options) {
		if o != nil {
			Install(c, *o)
		}
	})
}

var streams atomic.Int64

func newStream(t *testing.T, client *kinesis.Client) *string {
	t.Helper()
	name := fmt.Sprintf("wire-%d-%d", os.Getpid(), streams.Add(1))
	_, err := client.CreateStream(t.Context(), &kinesis.CreateStreamInput{StreamName: &name, ShardCount: aws.Int32(1)})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		out, err := client.DescribeStreamSummary(t.Context(), &kinesis.DescribeStreamSummaryInput{StreamName: &name})
		return err == nil && out.StreamDescriptionSummary.StreamStatus == types.StreamStatusActive
	}, time.Minute, 50*time.Millisecond)
	return &name
}

func iterator(t *testing.T, client *kinesis.Client, stream *string) *string {
	t.Helper()
	out, err := client.GetShardIterator(t.Context(), &kinesis.GetShardIteratorInput{
		StreamName: stream, ShardId: aws.String("shardId-000000000000"), ShardIteratorType: types.ShardIteratorTypeTrimHorizon,
	})
	require.NoError(t, err)
	return out.ShardIterator
}

// entries are records of all sorts.
func entries() []types.PutRecordsRequestEntry {
	var all []types.PutRecordsRequestEntry
	for i, key := range []string{"k", "ключ 𝄞", `a "quoted" \ key`, strings.Repeat("long", 64), "<&>", "new\nline"} {
		data := bytes.Repeat([]byte{byte(i), 0, 0xff, '"'}, []int{0, 1, 100, 3000, 70, 7}[i])
		if i == 0 {
			data = []byte("x")
		}
		all = append(all, types.PutRecordsRequestEntry{Data: data, PartitionKey: &key})
	}
	all = append(all, types.PutRecordsRequestEntry{Data: bytes.Repeat([]byte("long"), 5_000), PartitionKey: aws.String("k")})
	all = append(all, types.PutRecordsRequestEntry{Data: []byte("placed"), PartitionKey: aws.String("k"), ExplicitHashKey: aws.String("12345")})
	return all
}

// What is put and read in either format is what was put, and what the SDK's client reads.
func TestRecordsComeBackFromEveryService(t *testing.T) {
	for service, start := range services {
		t.Run(service, func(t *testing.T) {
			url := start(t)
			theirTap := newTap(t)
			sdk := clientOf(url, theirTap, nil)
			for _, o := range []Options{{}, {CBOR: true, Logger: slog.New(failing{t})}} {
				t.Run(fmt.Sprintf("CBOR %t", o.CBOR), func(t *testing.T) {
					http := newTap(t)
					ours := clientOf(url, http, &o)
					stream := newStream(t, sdk)
					writer := ours
					if o.CBOR && service == "kinesalite" { // it stores data that came in CBOR so that nobody can read it
						writer = sdk
					}
					put, err := writer.PutRecords(t.Context(), &kinesis.PutRecordsInput{StreamName: stream, Records: entries()})
					require.NoError(t, err)
					require.Zero(t, *put.FailedRecordCount)

					at := iterator(t, sdk, stream)
					want, err := sdk.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: at, Limit: aws.Int32(100)})
					require.NoError(t, err)
					theirTap.seen()
					got, err := ours.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: at, Limit: aws.Int32(100)})
					require.NoError(t, err)
					assert.Equal(t, want.Records, got.Records)
					require.Len(t, got.Records, len(entries()))
					for i, r := range got.Records {
						assert.Equal(t, entries()[i].Data, r.Data)
						assert.Equal(t, entries()[i].PartitionKey, r.PartitionKey)
						assert.Equal(t, put.Records[i].SequenceNumber, r.SequenceNumber)
						assert.WithinDuration(t, time.Now(), *r.ApproximateArrivalTimestamp, time.Minute)
					}
					assert.NotNil(t, got.MillisBehindLatest)
					empty, err := ours.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: got.NextShardIterator})
					require.NoError(t, err)
					assert.Empty(t, empty.Records)
					if service != "kinesalite" {
						split(t, sdk, stream)
						last := readToEnd(t, ours, empty.NextShardIterator)
						assert.Len(t, last.ChildShards, 2)
						assert.Equal(t, []string{"shardId-000000000000"}, last.ChildShards[0].ParentShards)
						assert.NotNil(t, last.ChildShards[1].HashKeyRange.EndingHashKey)
					}
					for _, a := range http.seen() {
						format := jsonType
						if o.CBOR {
							format = cborType
						}
						if service != "kinesalite" { // whose long answers in CBOR are cut off: they are asked for again in JSON
							assert.Equal(t, format, a.asked)
						}
						assert.Equal(t, a.asked, a.answered)
						keep(t, service, a)
					}
				})
			}
		})
	}
}

// failing fails a test that logs.
type failing struct{ t *testing.T }

func (h failing) Enabled(context.Context, slog.Level) bool { return true }
func (h failing) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h failing) WithGroup(string) slog.Handler            { return h }
func (h failing) Handle(_ context.Context, record slog.Record) error {
	record.Attrs(func(a slog.Attr) bool {
		h.t.Error(record.Message, a)
		return true
	})
	return nil
}

func split(t *testing.T, client *kinesis.Client, stream *string) {
	t.Helper()
	_, err := client.SplitShard(t.Context(), &kinesis.SplitShardInput{
		StreamName: stream, ShardToSplit: aws.String("shardId-000000000000"), NewStartingHashKey: aws.String("170141183460469231731687303715884105728"),
	})
	require.NoError(t, err)
}

func readToEnd(t *testing.T, client *kinesis.Client, at *string) *kinesis.GetRecordsOutput {
	t.Helper()
	var last *kinesis.GetRecordsOutput
	require.Eventually(t, func() bool {
		out, err := client.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: at})
		if assert.NoError(t, err) {
			at, last = out.NextShardIterator, out
		}
		return err != nil || at == nil
	}, time.Minute, 50*time.Millisecond)
	return last
}

// keep writes an answer to testdata, with -update.
func keep(t *testing.T, service string, a tapped) {
	t.Helper()
	if !*update {
		return
	}
	format := "json"
	if a.answered == cborType {
		format = "cbor"
	}
	folder := filepath.Join("testdata", "bodies")
	require.NoError(t, os.MkdirAll(folder, 0o750))
	for n := 1; ; n++ {
		name := filepath.Join(folder, fmt.Sprintf("%s-%s-%d.%s", service, a.op, n, format))
		file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if os.IsExist(err) {
			continue
		}
		require.NoError(t, err)
		_, err = file.Write(a.body)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		return
	}
}

// An error is of the same type, and says the same, in both formats; the SDK's retryer thinks the same of it.
func TestErrorsAreTheSameInBothFormats(t *testing.T) {
	s := kinesistest.Start(t)
	sdk := clientOf(s.URL(), newTap(t), nil)
	binary := newTap(t)
	clients := []*kinesis.Client{sdk, clientOf(s.URL(), newTap(t), &Options{}), clientOf(s.URL(), binary, &Options{CBOR: true, Logger: slog.New(failing{t})})}
	stream := newStream(t, sdk)
	at := iterator(t, sdk, stream)
	for _, client := range clients { // what CBOR is, is known from the first answer on
		_, err := client.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: at})
		require.NoError(t, err)
	}
	binary.seen()
	for _, code := range []string{
		"ProvisionedThroughputExceededException", "ExpiredIteratorException", "KMSThrottlingException", "InternalFailure", "ServiceUnavailable",
		"AccessDeniedException", "LimitExceededException", "ResourceNotFoundException", "SerializationException", "UnknownOperationException", "Unheard",
	} {
		t.Run(code, func(t *testing.T) {
			s.Fault("GetRecords", kinesistest.Match{}, len(clients), kinesistest.Error(code, `it is "so"`))
			s.Fault("PutRecords", kinesistest.Match{}, len(clients), kinesistest.Error(code, `it is "so"`))
			var reads, writes []error
			for _, client := range clients {
				_, err := client.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: at})
				reads = append(reads, err)
				_, err = client.PutRecords(t.Context(), &kinesis.PutRecordsInput{StreamName: stream, Records: entries()})
				writes = append(writes, err)
			}
			requireAlike(t, reads)
			requireAlike(t, writes)
		})
	}
	for _, a := range binary.seen() {
		assert.Equal(t, cborType, a.asked)
		assert.Equal(t, cborType, a.answered)
	}
}

var requestID = regexp.MustCompile(`RequestID: [^,]*,`)

// requireAlike requires errors to be alike to whoever looks.
func requireAlike(t *testing.T, all []error) {
	t.Helper()
	retryer := retry.NewStandard()
	var want smithy.APIError
	require.ErrorAs(t, all[0], &want)
	for _, err := range all {
		var got smithy.APIError
		require.ErrorAs(t, err, &got)
		require.Equal(t, want, got) // type and all
		require.Equal(t, requestID.ReplaceAllString(all[0].Error(), ""), requestID.ReplaceAllString(err.Error(), ""))
		require.Equal(t, retryer.IsErrorRetryable(all[0]), retryer.IsErrorRetryable(err))
		var theirs, ours *awshttp.ResponseError
		require.ErrorAs(t, all[0], &theirs)
		require.ErrorAs(t, err, &ours)
		require.Equal(t, theirs.HTTPStatusCode(), ours.HTTPStatusCode())
		require.NotEmpty(t, ours.ServiceRequestID())
	}
}
