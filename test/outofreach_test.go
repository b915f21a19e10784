package test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/leasestore/file"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

func newPublish(n *node, stream string) error {
	_, err := n.Publisher().Publish(context.Background(), protokinesis.Record{Stream: stream, Data: []byte("data")})
	return err
}

func newSubscribe(t *testing.T, n *node, stream string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := n.Subscribe(ctx, protokinesis.Stream(stream), protokinesis.HandlerFunc(newRecorder().handle))
	assert.NoError(t, ctx.Err(), "it took too long")
	return err
}

// TestNotConnected: a handle can be taken at any time; what it does outside of service is refused.
func TestNotConnected(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	n, stream := s.configured(t), s.newStream(t, 1)
	s.server.ClearCalls()
	requireError(t, newPublish(n, stream), protokinesis.ErrNotConnected, "", "", "")
	requireError(t, newSubscribe(t, n, stream), protokinesis.ErrNotConnected, "", "", "")
	require.NoError(t, n.Connect(t.Context()))
	require.NoError(t, n.Connect(t.Context()), "again")
	assert.Empty(t, s.server.Calls(), "connecting asks nothing of the service")

	publisher := n.Publisher()
	sub, err := n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.HandlerFunc(newRecorder().handle))
	require.NoError(t, err)
	n.shutdown(t)
	n.shutdown(t)
	s.server.ClearCalls()
	_, err = publisher.Publish(t.Context(), protokinesis.Record{Stream: stream, Data: []byte("data")})
	assert.ErrorIs(t, err, protokinesis.ErrNotConnected)
	assert.ErrorIs(t, newPublish(n, stream), protokinesis.ErrNotConnected)
	assert.ErrorIs(t, newSubscribe(t, n, stream), protokinesis.ErrNotConnected)
	assert.ErrorIs(t, n.Connect(t.Context()), protokinesis.ErrNotConnected)
	assert.ErrorIs(t, sub.Seek(t.Context(), protokinesis.TrimHorizon()), protokinesis.ErrNotConnected)
	assert.NoError(t, sub.Unsubscribe(t.Context()), "it has ended")
	_, err = sub.Status(t.Context())
	assert.ErrorIs(t, err, protokinesis.ErrNotConnected)
	status, err := n.Status(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "BROKER_STATE_CLOSED", status.GetState().String())
	for _, call := range s.server.Calls() {
		// A read that was under way at the end is given up; the service may see it a moment later all the same.
		assert.Equal(t, "GetRecords", call.Op, "nothing was asked of the service")
	}
}

func TestMissingStream(t *testing.T) {
	t.Parallel()
	for name, open := range services {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			n := s.connect(t)
			err := newSubscribe(t, n, "missing")
			requireError(t, err, protokinesis.ErrStream, "missing", "", "")
			var missing *types.ResourceNotFoundException
			assert.ErrorAs(t, err, &missing, "the SDK's error is in it")
			requireError(t, newPublish(n, "missing"), protokinesis.ErrPublish, "missing", "", "")
		})
	}
}

func TestBadCredentials(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	stream := s.newStream(t, 1)
	s.config.Credentials = credentials.NewStaticCredentialsProvider("AKIDBAD1", "secret", "")
	n := s.connect(t) // which asks nothing
	for _, err := range []error{newSubscribe(t, n, stream), newPublish(n, stream)} {
		requireError(t, err, protokinesis.ErrConfig, stream, "", "")
		var api smithy.APIError
		require.ErrorAs(t, err, &api)
		assert.Equal(t, "UnrecognizedClientException", api.ErrorCode())
		assert.Contains(t, err.Error(), "credentials")
	}
}

// refusing is an address on which nobody listens.
func refusing(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

func TestRefusedConnection(t *testing.T) {
	t.Parallel()
	address := refusing(t)
	for name, option := range map[string]protokinesis.Option{
		"region":          protokinesis.WithRegion("us-east-1"),
		"no known region": protokinesis.WithRegion("xx-nowhere-1"),
		"the default":     protokinesis.WithOwnerID("me"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			actors := probe.NewSystem(t)
			n := &node{actors: actors, System: protokinesis.New(actors, option, wire(embedded),
				protokinesis.WithEndpoint("http://"+address), protokinesis.WithTestCredentials())}
			t.Cleanup(n.end)
			require.NoError(t, n.Connect(t.Context()))
			for _, err := range []error{newSubscribe(t, n, "orders"), newPublish(n, "orders")} {
				requireError(t, err, protokinesis.ErrConfig, "orders", "", "")
				assert.Contains(t, err.Error(), address)
				assert.Contains(t, err.Error(), "endpoint")
			}
		})
	}
}

// S8: what is missing to reach the service is one clear error of Connect, before any call.
func TestNoRegion(t *testing.T) {
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	actors := probe.NewSystem(t)
	n := &node{actors: actors, System: protokinesis.New(actors)}
	t.Cleanup(n.end)
	for range 2 { // it may be tried again
		err := n.Connect(t.Context())
		requireError(t, err, protokinesis.ErrConfig, "", "", "")
		assert.Contains(t, err.Error(), "region")
	}
	assert.ErrorIs(t, newPublish(n, "orders"), protokinesis.ErrNotConnected)
}

// TestSilentService: a service that does not answer is given up in time, and the error says so.
func TestSilentService(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	stream := s.newStream(t, 1)
	timings := s.timings()
	timings.CallTimeout, timings.OpenTimeout, timings.PublishDeadline = 100*time.Millisecond, 200*time.Millisecond, 200*time.Millisecond
	n := s.connect(t, protokinesis.WithTimings(timings))
	s.server.Fault("DescribeStreamSummary", kinesistest.Match{}, -1, kinesistest.Hang())
	s.server.Fault("PutRecords", kinesistest.Match{}, -1, kinesistest.Hang())

	err := newSubscribe(t, n, stream)
	requireError(t, err, protokinesis.ErrTimeout, stream, "", "")
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	err = newPublish(n, stream)
	requireError(t, err, protokinesis.ErrPublish, stream, "", "")
	var e *protokinesis.Error
	require.ErrorAs(t, err, &e)
	assert.True(t, e.OutcomeUnknown)

	// The caller's own deadline.
	slow := s.connect(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = slow.Subscribe(ctx, protokinesis.Stream(stream), protokinesis.HandlerFunc(newRecorder().handle))
	requireError(t, err, protokinesis.ErrTimeout, stream, "", "")
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	s.server.ClearFaults()
}

func TestLeaseFileTrouble(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	stream, path := s.newStream(t, 1), filepath.Join(t.TempDir(), "leases.db")
	store, err := file.Open(path)
	require.NoError(t, err)
	_, err = file.Open(path, file.WithLockTimeout(0))
	require.ErrorIs(t, err, file.ErrLocked)
	assert.Contains(t, err.Error(), path)

	require.NoError(t, store.Close())
	n := s.connect(t, protokinesis.WithLeaseStore(store))
	err = newSubscribe(t, n, stream)
	requireError(t, err, protokinesis.ErrLease, stream, "", "")
	assert.ErrorIs(t, err, leasestore.ErrClosed)

	require.NoError(t, os.WriteFile(path, []byte("not a lease file, but a letter of several words"), 0o600))
	_, err = file.Open(path)
	require.ErrorIs(t, err, file.ErrCorrupt)
	assert.Contains(t, err.Error(), path)
}
