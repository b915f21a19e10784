package test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// requireError checks a failure's kind, and that it names the stream, shard and field it is about.
func requireError(t *testing.T, err, kind error, stream, shard, field string) {
	t.Helper()
	require.ErrorIs(t, err, kind)
	var e *protokinesis.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, []string{stream, shard, field}, []string{e.Stream, e.Shard, e.Field}, "stream, shard, field of: %v", err)
	for _, part := range []string{stream, shard, field} {
		assert.Contains(t, err.Error(), part)
	}
}

func requireErrorMessage(t *testing.T, p *probe.Probe, correlation uint64, kind messages.ErrorKind, stream, field string) {
	t.Helper()
	e := probe.Expect[*messages.Error](p)
	assert.Equal(t, kind, e.GetKind(), "%v", e)
	assert.Equal(t, correlation, e.GetCorrelation())
	assert.Equal(t, []string{stream, field}, []string{e.GetStream(), e.GetField()})
	assert.NotEmpty(t, e.GetText())
}

// changed is a description of "orders" with a change.
func changed(change func(d *messages.StreamDescriptor)) *messages.StreamDescriptor {
	d := protokinesis.Stream("orders")
	change(d)
	return d
}

func TestRefusedSubscriptions(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	n := s.connect(t)
	p := newProbe(t, n)
	for name, c := range map[string]struct {
		stream *messages.StreamDescriptor
		field  string
	}{
		"no name":         {protokinesis.Stream(""), "stream.name"},
		"space in name":   {protokinesis.Stream("my orders"), "stream.name"},
		"long name":       {protokinesis.Stream(strings.Repeat("x", 129)), "stream.name"},
		"ARN cut short":   {protokinesis.Stream("arn:aws:kinesis"), "stream.name"},
		"ARN of a queue":  {protokinesis.Stream("arn:aws:sqs:us-east-1:000000000000:orders"), "stream.name"},
		"ARN of nothing":  {protokinesis.Stream("arn:aws:kinesis:us-east-1:000000000000:stream/"), "stream.name"},
		"create 0 shards": {protokinesis.Stream("orders", protokinesis.CreateIfMissing(0)), "create_if_missing"},
		"batches of 0":    {protokinesis.Stream("orders", protokinesis.Batches(0)), "batch_size"},
		"batches of 10001": {
			protokinesis.Stream("orders", protokinesis.Batches(10_001)), "batch_size",
		},
		"window of 0":       {protokinesis.Stream("orders", protokinesis.Window(0)), "window_records"},
		"window of 0 bytes": {protokinesis.Stream("orders", protokinesis.WindowBytes(0)), "window_bytes"},
		"negative backoff":  {protokinesis.Stream("orders", protokinesis.RetryBackoff(-time.Second)), "retry_backoff"},
		"negative poll interval": {
			changed(func(d *messages.StreamDescriptor) { d.PollInterval = durationpb.New(-1) }), "poll_interval",
		},
		"negative checkpoint interval": {
			changed(func(d *messages.StreamDescriptor) { d.CheckpointInterval = durationpb.New(-1) }), "checkpoint_interval",
		},
		"negative attempts":       {protokinesis.Stream("orders", protokinesis.MaxAttempts(-1, "")), "max_attempts"},
		"dead letters come back":  {protokinesis.Stream("orders", protokinesis.MaxAttempts(1, "orders")), "dead_letter"},
		"dead letters to nowhere": {protokinesis.Stream("orders", protokinesis.MaxAttempts(1, "a b")), "dead_letter"},
		"dead letters never":      {protokinesis.Stream("orders", protokinesis.MaxAttempts(0, "dead")), "dead_letter"},
		"no position":             {protokinesis.Stream("orders", protokinesis.StartAt(&messages.Position{})), "start_at"},
		"before 1970":             {protokinesis.Stream("orders", protokinesis.StartAt(protokinesis.AtTimestamp(time.Time{}))), "start_at.timestamp"},
		"fan-out for nobody":      {changed(func(d *messages.StreamDescriptor) { d.EnhancedFanOut = true }), "consumer_name"},
	} {
		t.Run(name, func(t *testing.T) {
			p.Request(n.PID(), &messages.Subscribe{Stream: proto.CloneOf(c.stream), Correlation: 5})
			stream := c.stream.GetName()
			if c.field == "dead_letter" && strings.Contains(c.stream.GetDeadLetter(), " ") {
				stream = c.stream.GetDeadLetter()
			}
			requireErrorMessage(t, p, 5, messages.ErrorKind_ERROR_KIND_INVALID, stream, c.field)
			_, err := n.Subscribe(t.Context(), c.stream, protokinesis.HandlerFunc(newRecorder().handle))
			requireError(t, err, protokinesis.ErrInvalid, stream, "", c.field)
		})
	}
	assert.Empty(t, s.server.Calls(), "nothing was asked of the service")
}

func TestRefusedRecords(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	n := s.connect(t)
	p := newProbe(t, n)
	good := protokinesis.Record{Stream: "orders", PartitionKey: "key"}
	for name, c := range map[string]struct {
		change func(r *protokinesis.Record)
		field  string
	}{
		"no stream":       {func(r *protokinesis.Record) { r.Stream = "" }, "stream"},
		"malformed ARN":   {func(r *protokinesis.Record) { r.Stream = "arn:x" }, "stream"},
		"too large":       {func(r *protokinesis.Record) { r.Data = make([]byte, 1<<20) }, "data"}, // with its key
		"long key":        {func(r *protokinesis.Record) { r.PartitionKey = strings.Repeat("ü", 257) }, "partition_key"},
		"key in no UTF-8": {func(r *protokinesis.Record) { r.PartitionKey = "\xff" }, "partition_key"},
		"hash key":        {func(r *protokinesis.Record) { r.ExplicitHashKey = "-1" }, "explicit_hash_key"},
		"hash key 2^128": {
			func(r *protokinesis.Record) { r.ExplicitHashKey = "340282366920938463463374607431768211456" }, "explicit_hash_key",
		},
		"header's name":  {func(r *protokinesis.Record) { r.Headers = map[string]string{"a:b": ""} }, "headers"},
		"header's value": {func(r *protokinesis.Record) { r.Headers = map[string]string{"a": "1\nb: 2"} }, "headers"},
		"nameless":       {func(r *protokinesis.Record) { r.Headers = map[string]string{"": "1"} }, "headers"},
	} {
		t.Run(name, func(t *testing.T) {
			r := good
			c.change(&r)
			_, err := n.Publisher().Publish(t.Context(), r)
			requireError(t, err, protokinesis.ErrInvalid, r.Stream, "", c.field)
		})
	}
	empty := ""
	p.Request(n.PID(), &messages.Publish{Stream: "orders", PartitionKey: &empty, Correlation: 6})
	requireErrorMessage(t, p, 6, messages.ErrorKind_ERROR_KIND_INVALID, "orders", "partition_key")
	assert.Empty(t, s.server.Calls(), "nothing was asked of the service")

	// What is just possible is stored.
	require.NoError(t, s.server.CreateStream("orders", 1))
	for _, r := range []protokinesis.Record{
		{Stream: "orders", PartitionKey: "key", Data: make([]byte, 1<<20-len("key"))},
		{Stream: "orders", PartitionKey: strings.Repeat("ü", 256), Data: []byte("data")},
	} {
		_, err := n.Publisher().Publish(t.Context(), r)
		assert.NoError(t, err)
	}
}

func TestRefusedSeeks(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	n, stream, got := s.connect(t), s.newStream(t, 2), newRecorder()
	sub, err := n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.HandlerFunc(got.handle))
	require.NoError(t, err)
	low, high := sub.Shards()[0], sub.Shards()[1]
	elsewhere := publishTo(t, n, stream, "340282366920938463463374607431768211455")
	require.Equal(t, high, elsewhere.Shard)
	got.wait(t, 1)

	for name, c := range map[string]struct {
		to           *messages.Position
		shard, field string
	}{
		"no position":          {nil, "", "to"},
		"no shard":             {protokinesis.AtSequence("", "1"), "", "to.sequence.shard_id"},
		"shard not read here":  {protokinesis.AtSequence("shardId-000000000009", "1"), "shardId-000000000009", "to.sequence.shard_id"},
		"malformed sequence":   {protokinesis.AtSequence(low, "LATEST"), low, "to.sequence.sequence_number"},
		"sequence of another":  {protokinesis.AtSequence(low, elsewhere.SequenceNumber), low, "to.sequence.sequence_number"},
		"sequence of no shard": {protokinesis.AtSequence(low, "7"), low, "to.sequence.sequence_number"},
		"before 1970":          {protokinesis.AtTimestamp(time.UnixMilli(-1)), "", "to.timestamp"},
	} {
		t.Run(name, func(t *testing.T) {
			requireError(t, sub.Seek(t.Context(), c.to), protokinesis.ErrInvalid, stream, c.shard, c.field)
		})
	}

	p := newProbe(t, n)
	p.Request(n.PID(), &messages.Seek{Stream: "others", To: protokinesis.Latest(), Correlation: 3})
	requireErrorMessage(t, p, 3, messages.ErrorKind_ERROR_KIND_NOT_CONNECTED, "others", "")

	// Nothing has moved.
	publishTo(t, n, stream, "0")
	publishTo(t, n, stream, "340282366920938463463374607431768211455")
	assert.Len(t, got.wait(t, 3), 3)
}

// TestStreamSubscribedTwice: a broker reads a stream once, however it is called.
func TestStreamSubscribedTwice(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	n, name := s.connect(t), s.newStream(t, 1)
	p := newProbe(t, n)
	arn := subscribe(t, p, n, protokinesis.Stream(name)).GetStreamArn()
	for _, spelling := range []string{name, arn} {
		_, err := n.Subscribe(t.Context(), protokinesis.Stream(spelling), protokinesis.HandlerFunc(newRecorder().handle))
		requireError(t, err, protokinesis.ErrInvalid, spelling, "", "stream.name")
	}
	other := s.connect(t)
	_, err := other.Subscribe(t.Context(), protokinesis.Stream(arn), protokinesis.HandlerFunc(newRecorder().handle))
	require.NoError(t, err, "another broker, with leases of its own")
	_, err = other.Subscribe(t.Context(), protokinesis.Stream(name), protokinesis.HandlerFunc(newRecorder().handle))
	requireError(t, err, protokinesis.ErrInvalid, name, "", "stream.name")
}

func TestImpossibleTimings(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	for field, timings := range map[string]protokinesis.Timings{
		"PollInterval": {PollInterval: -1},
		"CallTimeout":  {CallTimeout: -time.Second},
		"RenewEvery":   {LeaseTTL: time.Second, RenewEvery: time.Second},
	} {
		n := s.configured(t, protokinesis.WithTimings(timings))
		requireError(t, n.Connect(t.Context()), protokinesis.ErrInvalid, "", "", field)
	}
	n := s.configured(t, protokinesis.WithLimits(protokinesis.Limits{MaxRecordSize: -1}))
	requireError(t, n.Connect(t.Context()), protokinesis.ErrInvalid, "", "", "Limits")
	assert.Empty(t, s.server.Calls())
}

// TestBrokenEnvelopes: what does not read as headers exactly is data, as whoever wrote it may know nothing of headers.
func TestBrokenEnvelopes(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	n, stream, got := s.connect(t), s.newStream(t, 1), newRecorder()
	_, err := n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.HandlerFunc(got.handle))
	require.NoError(t, err)
	broken := []string{
		"RSK1", "RSK1\x00\x00", "RSK1\x00\x00\x00\x00", "RSK1\x00\x00\x00\x00data", // no length, or 0
		"RSK1\x00\x00\x00\x06a: 1\n", "RSK1\xff\xff\xff\xffa: 1\n", // longer than the record
		"RSK1\x00\x00\x00\x04a: 1\ndata",               // shorter than the line
		"RSK1\x00\x00\x00\x04a:1\ndata",                // no space
		"RSK1\x00\x00\x00\x04: 1\ndata",                // no name
		"RSK1\x00\x00\x00\x0aa: 1\na: 2\ndata",         // a name twice
		"RSK2\x00\x00\x00\x05a: 1\ndata",               // another magic
		"rsk1\x00\x00\x00\x05a: 1\ndata",               // same
		"\x00RSK1\x00\x00\x00\x05a: 1\ndata",           // not at the beginning
		"RSK1\x00\x00\x00\x06a: 1\n\ndata with a line", // an empty line
	}
	for _, data := range broken {
		_, _, err := s.server.Put(stream, "key", []byte(data))
		require.NoError(t, err)
	}
	_, _, err = s.server.Put(stream, "key", []byte("RSK1\x00\x00\x00\x05a: 1\ndata"))
	require.NoError(t, err)

	all := got.wait(t, len(broken)+1)
	assert.Equal(t, broken, payloads(all[:len(broken)]))
	for _, d := range all[:len(broken)] {
		assert.Empty(t, d.Headers())
	}
	assert.Equal(t, "data", string(all[len(broken)].Data()), "and the one that is right")
	assert.Equal(t, map[string]string{"a": "1"}, all[len(broken)].Headers())
}

// TestEmptyPayload: a record may have no data, and does no harm to those that are published with it.
func TestEmptyPayload(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	timings := s.timings()
	timings.PublishDeadline = 200 * time.Millisecond
	n, stream, got := s.connect(t, protokinesis.WithTimings(timings)), s.newStream(t, 1), newRecorder()
	_, err := n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.HandlerFunc(got.handle))
	require.NoError(t, err)
	var publishing sync.WaitGroup
	for _, data := range [][]byte{nil, {}, []byte("data")} {
		publishing.Go(func() {
			_, err := n.Publisher().Publish(t.Context(), protokinesis.Record{Stream: stream, Data: data})
			assert.NoError(t, err)
		})
	}
	publishing.Wait()
	if !t.Failed() {
		assert.ElementsMatch(t, []string{"", "", "data"}, payloads(got.wait(t, 3)))
	}
}
