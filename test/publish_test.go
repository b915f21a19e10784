package test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/internal/kpl"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// publisherKinds are the options that publishers differ by.
var publisherKinds = map[string][]protokinesis.PublisherOption{
	"strict":     nil,
	"relaxed":    {protokinesis.RelaxedOrder()},
	"lingering":  {protokinesis.Linger(20 * time.Millisecond)},
	"aggregated": {protokinesis.Aggregate()},
	"all":        {protokinesis.Aggregate(), protokinesis.RelaxedOrder(), protokinesis.Linger(20 * time.Millisecond)},
}

const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// However records are published, they are read as they were given, with their headers, in the order of their keys, at the place their receipts tell.
func TestPublishedRecordsAreRead(t *testing.T) {
	t.Parallel()
	for name, open := range services {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			for kind, options := range publisherKinds {
				t.Run(kind, func(t *testing.T) {
					n, stream, got := s.connect(t), s.newStream(t, 2), newRecorder()
					_, err := n.Subscribe(t.Context(), protokinesis.Stream(stream, protokinesis.StartAt(protokinesis.TrimHorizon())), protokinesis.HandlerFunc(got.handle))
					require.NoError(t, err)
					const keys, each = 5, 12
					records := make([]protokinesis.Record, 0, keys*each)
					for i := range keys * each {
						records = append(records, protokinesis.Record{
							Stream: stream, PartitionKey: fmt.Sprint("key-", i%keys), Data: fmt.Appendf(nil, "%d", i),
							Headers: map[string]string{"traceparent": traceparent},
						})
					}
					results, err := n.Publisher(options...).PublishBatch(t.Context(), records)
					require.NoError(t, err)
					places := make(map[string]protokinesis.Receipt)
					for i, r := range results {
						require.NoError(t, r.Err)
						places[fmt.Sprint(i)] = r.Receipt
					}
					last := make(map[string]int)
					for _, d := range got.wait(t, keys*each) {
						var i int
						_, err := fmt.Sscan(string(d.Data()), &i)
						require.NoError(t, err)
						assert.Equal(t, fmt.Sprint("key-", i%keys), d.PartitionKey())
						assert.Equal(t, map[string]string{"traceparent": traceparent}, d.Headers())
						at := protokinesis.Receipt{Shard: d.Shard(), SequenceNumber: d.SequenceNumber(), SubSequenceNumber: d.SubSequenceNumber()}
						want := places[fmt.Sprint(i)]
						assert.Equal(t, want, at)
						if kind != "relaxed" && kind != "all" {
							assert.GreaterOrEqual(t, i, last[d.PartitionKey()])
							last[d.PartitionKey()] = i
						}
					}
					n.shutdown(t)
				})
			}
		})
	}
}

// A publisher is the same for the same options, and aggregated records are few.
func TestAggregatedRecordsAreFew(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	n, stream := s.connect(t), s.newStream(t, 4)
	p := n.Publisher(protokinesis.Aggregate())
	require.Same(t, p, n.Publisher(protokinesis.Aggregate()))
	require.NotSame(t, p, n.Publisher())
	plain := n.Publisher()
	require.Same(t, plain, n.Publisher())
	var pending []*protokinesis.Pending
	for i := range 2000 {
		pending = append(pending, p.PublishAsync(t.Context(), protokinesis.Record{Stream: stream, PartitionKey: fmt.Sprint(i % 300), Data: make([]byte, 50)}))
	}
	for _, r := range pending {
		<-r.Done()
		_, err := r.Wait(t.Context())
		require.NoError(t, err)
	}
	users := 0
	stored := s.server.Records(stream)
	for _, r := range stored {
		if a, ok := kpl.Split(r.Data); ok {
			users += len(a.Users)
		} else {
			users++
		}
	}
	assert.Equal(t, 2000, users)
	assert.Less(t, len(stored), 1000)
	status, err := n.Status(t.Context())
	require.NoError(t, err)
	require.Len(t, status.GetPublishers(), 1)
	assert.True(t, status.GetPublishers()[0].GetOptions().GetAggregate())
}

// A batch may have records of several streams; what is wrong with one stream is an error of the whole.
func TestBatchOfSeveralStreams(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	n := s.connect(t)
	a, b := s.newStream(t, 1), s.newStream(t, 1)
	records := []protokinesis.Record{
		{Stream: a, Data: []byte("1")}, {Stream: b, Data: []byte("2")}, {Stream: a, Data: make([]byte, 2<<20)}, {Stream: a, Data: []byte("3")},
	}
	results, err := n.Publisher().PublishBatch(t.Context(), records)
	require.NoError(t, err)
	assert.NotEmpty(t, results[0].SequenceNumber)
	assert.NotEmpty(t, results[1].SequenceNumber)
	require.ErrorIs(t, results[2].Err, protokinesis.ErrInvalid)
	assert.NotEmpty(t, results[3].SequenceNumber)
	assert.Len(t, s.server.Records(a), 2)
	assert.Len(t, s.server.Records(b), 1)

	results, err = n.Publisher().PublishBatch(t.Context(), nil)
	require.NoError(t, err)
	assert.Empty(t, results)
	_, err = n.Publisher().PublishBatch(t.Context(), append(records, protokinesis.Record{Stream: "no such/name"}))
	require.ErrorIs(t, err, protokinesis.ErrInvalid)
	n.shutdown(t)
	_, err = n.Publisher().PublishBatch(t.Context(), records)
	require.ErrorIs(t, err, protokinesis.ErrNotConnected)
	late := n.Publisher().PublishAsync(t.Context(), records[0])
	<-late.Done()
	_, err = late.Wait(t.Context())
	require.ErrorIs(t, err, protokinesis.ErrNotConnected)
}

// The end of Wait's context ends the wait, not the record.
func TestWaitForARecord(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	n, stream := s.connect(t), s.newStream(t, 1)
	r := n.Publisher(protokinesis.Linger(200*time.Millisecond)).PublishAsync(t.Context(), protokinesis.Record{Stream: stream, Data: []byte("x")})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := r.Wait(ctx)
	require.ErrorIs(t, err, protokinesis.ErrTimeout)
	receipt, err := r.Wait(t.Context())
	require.NoError(t, err)
	again, err := r.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, receipt, again)
	_, err = r.Wait(ctx)
	require.NoError(t, err, "it is known")
}

// 501 publish at once; and records of 10 MiB go to a stream that allows them.
func TestPublishersAtOnceAndLargeRecords(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	n, stream := s.connect(t, protokinesis.WithLimits(protokinesis.Limits{MaxRecordSize: 10 << 20})), s.newStream(t, 2)
	var all sync.WaitGroup
	for i := range 501 {
		all.Go(func() {
			_, err := n.Publisher().Publish(t.Context(), protokinesis.Record{Stream: stream, PartitionKey: fmt.Sprint(i), Data: []byte("x")})
			assert.NoError(t, err)
		})
	}
	all.Wait()
	assert.Len(t, s.server.Records(stream), 501)

	_, err := s.client.CreateStream(t.Context(), &kinesis.CreateStreamInput{
		StreamName: aws.String("large"), ShardCount: aws.Int32(1), MaxRecordSizeInKiB: aws.Int32(10 << 10),
	})
	require.NoError(t, err)
	results, err := n.Publisher().PublishBatch(t.Context(), []protokinesis.Record{
		{Stream: "large", PartitionKey: "key", Data: make([]byte, 10<<20-len("key"))},
		{Stream: "large", PartitionKey: "other", Data: []byte("x")},
		{Stream: "large", PartitionKey: "key", Data: make([]byte, 10<<20-len("key"))},
	})
	require.NoError(t, err)
	for _, r := range results {
		assert.NoError(t, r.Err)
	}
	assert.Len(t, s.server.Records("large"), 3)
}

// A batch from an actor is answered as a whole.
func TestBatchFromAnActor(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	n, stream := s.connect(t), s.newStream(t, 2)
	p := newProbe(t, n)
	m := &messages.PublishBatch{Stream: stream, Correlation: 9}
	for i := range 1200 {
		m.Records = append(m.Records, &messages.PublishRecord{PartitionKey: new(fmt.Sprint(i)), Data: []byte("x")})
	}
	p.Request(n.PID(), m)
	answer := probe.Expect[*messages.PublishedBatch](p)
	assert.EqualValues(t, 9, answer.GetCorrelation())
	for _, r := range answer.GetResults() {
		assert.NotEmpty(t, r.GetPublished().GetSequenceNumber())
	}
	assert.Len(t, s.server.Records(stream), 1200)
}
