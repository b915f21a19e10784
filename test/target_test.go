package test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/test/emulators"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// target is a Kinesis service that tests run against.
type target struct {
	name   string
	config aws.Config
	client *kinesis.Client
	server *kinesistest.Server // the embedded service; nil for an emulator
	poll   time.Duration       // pause between reads: emulators are slow to answer
}

const (
	embedded     = "embedded"
	kinesalite   = "kinesalite"
	kinesisLocal = "kinesis-local"
)

// services are what a suite runs against, each in a subtest that runs beside the others:
//
//	for name, open := range services {
//		t.Run(name, func(t *testing.T) {
//			s := open(t)
var services = map[string]func(t *testing.T) *target{
	embedded: func(t *testing.T) *target {
		t.Helper()
		t.Parallel()
		return embeddedService(t)
	},
	kinesalite: func(t *testing.T) *target {
		t.Helper()
		t.Parallel()
		return emulator(t, kinesalite, emulators.Kinesalite(t))
	},
	kinesisLocal: func(t *testing.T) *target {
		t.Helper()
		t.Parallel()
		return emulator(t, kinesisLocal, emulators.KinesisLocal(t))
	},
}

func embeddedService(tb testing.TB) *target {
	tb.Helper()
	server := kinesistest.Start(tb)
	return &target{
		name: embedded, config: server.Config(), client: server.Client(), server: server, poll: 20 * time.Millisecond,
	}
}

func emulator(tb testing.TB, name, endpoint string) *target {
	tb.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	tb.Cleanup(transport.CloseIdleConnections)
	config := aws.Config{
		Region: "us-east-1", BaseEndpoint: &endpoint, HTTPClient: &http.Client{Transport: transport},
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}
	return &target{name: name, config: config, client: kinesis.NewFromConfig(config), poll: 200 * time.Millisecond}
}

var streams atomic.Int64

// newName is a stream's name that no other test uses.
func newName() string { return fmt.Sprintf("test-%d", streams.Add(1)) }

// newStream creates a stream.
func (s *target) newStream(t *testing.T, shards int32) string {
	t.Helper()
	name := newName()
	_, err := s.client.CreateStream(t.Context(), &kinesis.CreateStreamInput{StreamName: &name, ShardCount: &shards})
	require.NoError(t, err)
	s.waitActive(t, name)
	return name
}

func (s *target) waitActive(t *testing.T, stream string) {
	t.Helper()
	active := func() bool {
		out, err := s.client.DescribeStreamSummary(t.Context(), &kinesis.DescribeStreamSummaryInput{StreamName: &stream})
		return err == nil && out.StreamDescriptionSummary.StreamStatus == types.StreamStatusActive
	}
	if !active() { // the embedded service is at once
		require.Eventually(t, active, time.Minute, 50*time.Millisecond)
	}
}

// node is a System in an actor system of its own, as a process of a service has.
type node struct {
	*protokinesis.System
	actors *actor.ActorSystem
}

// configured makes a node that is not connected.
func (s *target) configured(t *testing.T, options ...protokinesis.Option) *node {
	t.Helper()
	actors := probe.NewSystem(t)
	n := &node{actors: actors, System: protokinesis.New(actors, append([]protokinesis.Option{
		protokinesis.WithAWSConfig(s.config),
		wire(s.name),
		protokinesis.WithTimings(s.timings()),
		protokinesis.WithLimits(protokinesis.Limits{ReadsPerSecond: -1}),
	}, options...)...)}
	t.Cleanup(n.end)
	return n
}

// timings let a test see in milliseconds what takes seconds in service.
func (s *target) timings() protokinesis.Timings {
	return protokinesis.Timings{
		PollInterval: s.poll, ListEvery: max(100*time.Millisecond, 2*s.poll), CheckpointInterval: 20 * time.Millisecond, ShutdownTimeout: 10 * time.Second,
	}
}

// connect makes a node that is ready.
func (s *target) connect(t *testing.T, options ...protokinesis.Option) *node {
	t.Helper()
	n := s.configured(t, options...)
	require.NoError(t, n.Connect(t.Context()))
	return n
}

// end is for after a test, when it matters no more what is in flight.
func (n *node) end() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = n.Shutdown(ctx)
}

// shutdown ends a node in order. Doing so again is fine.
func (n *node) shutdown(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	assert.NoError(t, n.Shutdown(ctx))
}
