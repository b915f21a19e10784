package actors

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/require"
)

// hasty is a service that answers before net/http knows that it has sent all of a request, and the client to it: they are held up where it takes
// luck to see it otherwise.
type hasty struct {
	reading chan struct{} // the SDK reads the answer, so it has closed the request's body
	copied  chan struct{} // net/http has done with that body
}

// Do implements kinesis.HTTPClient.
func (h *hasty) Do(r *http.Request) (*http.Response, error) {
	h.reading, h.copied = make(chan struct{}), make(chan struct{})
	r = r.Clone(r.Context())
	r.Body = watch(r.Body, h.copied)
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		return &heldUp{Conn: conn, body: r.ContentLength, until: h.reading}, err
	}}
	answer, err := (&http.Client{Transport: transport}).Do(r)
	if err == nil {
		answer.Body = &firstRead{ReadCloser: answer.Body, tell: h.reading}
	}
	return answer, err
}

// ServeHTTP begins its answer when it has the request, and ends it when net/http has done with the request.
func (h *hasty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	<-h.copied
	_, _ = io.WriteString(w, `{"FailedRecordCount":0,"Records":[{"ShardId":"shardId-000000000000","SequenceNumber":"1"}]}`)
	_, _ = io.WriteString(w, strings.Repeat(" ", 8<<20)) // more than can have arrived when a connection is closed
}

// heldUp is a connection whose last write of a request returns when its answer is being read.
type heldUp struct {
	net.Conn
	body  int64 // bytes of the request's body still to be written
	until chan struct{}
	text  []byte // up to the end of the header
	head  bool   // it has been written
}

func (c *heldUp) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	body := p[:n]
	if !c.head {
		c.text = append(c.text, body...)
		_, body, c.head = bytes.Cut(c.text, []byte("\r\n\r\n"))
	}
	if c.head {
		if c.body -= int64(len(body)); c.body == 0 {
			<-c.until
		}
	}
	return n, err
}

// firstRead tells of the first read.
type firstRead struct {
	io.ReadCloser
	once sync.Once
	tell chan struct{}
}

func (f *firstRead) Read(p []byte) (int, error) {
	f.once.Do(func() { close(f.tell) })
	return f.ReadCloser.Read(p)
}

// watched is a request's body that tells when it is closed.
type watched struct {
	io.ReadCloser
	once *sync.Once
	tell chan struct{}
}

func (w watched) Close() error {
	err := w.ReadCloser.Close()
	w.once.Do(func() { close(w.tell) })
	return err
}

// writable is one that can write itself, as the SDK's can.
type writable struct {
	watched
	io.WriterTo
}

func watch(body io.ReadCloser, tell chan struct{}) io.ReadCloser {
	w := watched{body, new(sync.Once), tell}
	if to, ok := body.(io.WriterTo); ok {
		return writable{w, to}
	}
	return w
}

// A service that is faster than net/http costs no call: see bodyGuard.
func TestAHastyAnswerIsNotLost(t *testing.T) {
	h := &hasty{}
	server := httptest.NewServer(h)
	defer server.Close()
	clients := NewClients(aws.Config{
		Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""), BaseEndpoint: aws.String(server.URL), HTTPClient: h,
	})
	for range 3 {
		out, err := clients.Data.PutRecords(t.Context(), &kinesis.PutRecordsInput{
			StreamName: aws.String(testStream), Records: []types.PutRecordsRequestEntry{{PartitionKey: aws.String("k"), Data: make([]byte, 100<<10)}},
		})
		require.NoError(t, err)
		require.Len(t, out.Records, 1)
	}
}
