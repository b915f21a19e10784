package test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/protokinesis/protokinesis"
)

// receive takes from a channel, but does not wait for ever.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		require.FailNow(t, "nothing came")
		panic("unreachable")
	}
}

// TestHandlersInParallel: the records of different keys are handled at the same time, up to the bound, those of one key one by one.
func TestHandlersInParallel(t *testing.T) {
	t.Parallel()
	const parallel = 5
	s := embeddedService(t)
	n, stream, got, records := s.connect(t), s.newStream(t, 1), newRecorder(), load{keys: 2 * parallel, each: 2}
	var (
		running, most atomic.Int64
		busy          sync.Map // keys
		arrived       = make(chan struct{}, records.count())
		open          = make(chan struct{})
	)
	_, err := n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.Handler{
		Parallel: parallel,
		Func: func(ctx context.Context, d *protokinesis.Delivery) error {
			_, twice := busy.LoadOrStore(d.PartitionKey(), true)
			assert.False(t, twice, "%s is handled already", d.PartitionKey())
			most.Store(max(most.Load(), running.Add(1)))
			arrived <- struct{}{}
			<-open
			running.Add(-1)
			busy.Delete(d.PartitionKey())
			return got.handle(ctx, d)
		},
	})
	require.NoError(t, err)
	records.publish(t, n, stream)
	for range parallel { // they wait for one another: all run at once
		receive(t, arrived)
	}
	assert.Equal(t, int64(parallel), running.Load())
	close(open)
	assert.Equal(t, records.payloads(), byKey(got.wait(t, records.count())))
	assert.Equal(t, int64(parallel), most.Load())
}

// TestHandlerFailures: C3: what a handler returns decides over its record, and over no other.
func TestHandlerFailures(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	n, stream, got := s.connect(t), s.newStream(t, 1), newRecorder()
	const pause = 50 * time.Millisecond
	var failed time.Time
	_, err := n.Subscribe(t.Context(), protokinesis.Stream(stream, protokinesis.RetryBackoff(time.Millisecond)),
		protokinesis.HandlerFunc(func(ctx context.Context, d *protokinesis.Delivery) error {
			switch data := string(d.Data()); {
			case data == "panic" && d.Attempt() < 3:
				panic("at the handler")
			case data == "retry" && d.Attempt() < 3:
				return errors.New("not now")
			case data == "later" && d.Attempt() == 1:
				failed = time.Now()
				return protokinesis.RetryAfter(errors.New("busy"), pause)
			case data == "later":
				assert.GreaterOrEqual(t, time.Since(failed), pause)
			case data == "drop":
				return protokinesis.Drop(errors.New("useless"))
			}
			return got.handle(ctx, d)
		}))
	require.NoError(t, err)
	for _, data := range []string{"panic", "retry", "later", "drop", "good"} {
		_, err := n.Publisher().Publish(t.Context(), protokinesis.Record{Stream: stream, PartitionKey: data, Data: []byte(data)})
		require.NoError(t, err)
	}
	attempts := make(map[string]int)
	for _, d := range got.wait(t, 4) {
		attempts[string(d.Data())] = d.Attempt()
	}
	assert.Equal(t, map[string]int{"panic": 3, "retry": 3, "later": 2, "good": 1}, attempts)
	status, err := n.Status(t.Context())
	require.NoError(t, err)
	assert.Equal(t, int64(0), status.GetSubscriptions()[0].GetShards()[0].GetBuffered(), "the dropped one is settled too")
}

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	n, stream, dead := s.connect(t), s.newStream(t, 1), s.newStream(t, 1)
	letters := newRecorder()
	_, err := n.Subscribe(t.Context(), protokinesis.Stream(dead), protokinesis.HandlerFunc(letters.handle))
	require.NoError(t, err)
	var calls atomic.Int64
	sub, err := n.Subscribe(t.Context(), protokinesis.Stream(stream,
		protokinesis.MaxAttempts(3, dead), protokinesis.RetryBackoff(time.Millisecond)),
		protokinesis.HandlerFunc(func(context.Context, *protokinesis.Delivery) error {
			calls.Add(1)
			return errors.New("never")
		}))
	require.NoError(t, err)
	receipt, err := n.Publisher().Publish(t.Context(), protokinesis.Record{
		Stream: stream, PartitionKey: "key", Data: []byte("data"), Headers: map[string]string{"trace": "7"},
	})
	require.NoError(t, err)

	letter := letters.wait(t, 1)[0]
	assert.Equal(t, "data", string(letter.Data()))
	assert.Equal(t, "key", letter.PartitionKey())
	assert.Equal(t, map[string]string{
		"trace": "7", "pk-origin-stream": stream, "pk-origin-shard": receipt.Shard,
		"pk-origin-sequence": receipt.SequenceNumber, "pk-attempts": "3",
	}, letter.Headers())
	require.NoError(t, sub.Unsubscribe(t.Context()))
	assert.Equal(t, int64(3), calls.Load())
}

// TestNoHandlerAfterShutdown: D1: when Shutdown has returned, no handler runs, whatever was on its way.
func TestNoHandlerAfterShutdown(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	n, stream, records := s.connect(t), s.newStream(t, 2), load{keys: 20, each: 5}
	var running, calls atomic.Int64
	begun := make(chan struct{}, records.count())
	sub, err := n.Subscribe(t.Context(), protokinesis.Stream(stream),
		protokinesis.HandlerFunc(func(context.Context, *protokinesis.Delivery) error {
			running.Add(1)
			defer running.Add(-1)
			calls.Add(1)
			begun <- struct{}{}
			return nil
		}))
	require.NoError(t, err)
	var publishing sync.WaitGroup
	publishing.Go(func() {
		for key, data := range records.payloads() {
			for _, d := range data {
				_, err := n.Publisher().Publish(t.Context(), protokinesis.Record{Stream: stream, PartitionKey: key, Data: []byte(d)})
				assert.True(t, err == nil || errors.Is(err, protokinesis.ErrNotConnected), "%v", err)
			}
		}
	})
	receive(t, begun)
	n.shutdown(t)
	after := calls.Load()
	assert.Zero(t, running.Load())
	receive(t, sub.Done())
	assert.NoError(t, sub.Err())
	publishing.Wait()
	assert.Equal(t, after, calls.Load())
}

// TestShutdownWithHangingHandler: D3: it returns in time, says what is not done, and tells the handler.
func TestShutdownWithHangingHandler(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	n, stream := s.connect(t), s.newStream(t, 1)
	begun, told, open := make(chan struct{}), make(chan error, 1), make(chan struct{})
	_, err := n.Subscribe(t.Context(), protokinesis.Stream(stream),
		protokinesis.HandlerFunc(func(ctx context.Context, _ *protokinesis.Delivery) error {
			close(begun)
			<-ctx.Done()
			told <- ctx.Err()
			<-open // it does not care
			return nil
		}))
	require.NoError(t, err)
	publishTo(t, n, stream, "0")
	receive(t, begun)

	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	start := time.Now()
	err = n.Shutdown(ctx)
	assert.Less(t, time.Since(start), 3*time.Second)
	require.ErrorIs(t, err, protokinesis.ErrTimeout)
	assert.Contains(t, err.Error(), stream)
	assert.Contains(t, err.Error(), "shardId-000000000000")
	assert.ErrorIs(t, receive(t, told), context.Canceled)
	close(open)
}

// TestStreamDeleted: the subscription ends by itself and says why; so does the context of its handlers.
func TestStreamDeleted(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	n, stream := s.connect(t), s.newStream(t, 1)
	begun, told, failures := make(chan struct{}), make(chan error, 1), make(chan error, 10)
	sub, err := n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.Handler{
		Func: func(ctx context.Context, _ *protokinesis.Delivery) error {
			close(begun)
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Second):
			}
			told <- ctx.Err()
			return nil
		},
		OnError: func(err error, fatal bool) {
			if fatal {
				failures <- err
			}
		},
	})
	require.NoError(t, err)
	publishTo(t, n, stream, "0")
	receive(t, begun)
	assert.NoError(t, sub.Err())
	_, err = s.client.DeleteStream(t.Context(), &kinesis.DeleteStreamInput{StreamName: &stream})
	require.NoError(t, err)

	receive(t, sub.Done())
	requireError(t, sub.Err(), protokinesis.ErrStream, stream, "", "")
	assert.Equal(t, sub.Err(), receive(t, failures))
	assert.Error(t, receive(t, told), "the handler's context ends when the subscription does")
	assert.NoError(t, sub.Unsubscribe(t.Context()), "it has ended already")
}

// TestUnsubscribeWithHangingHandler: like Shutdown it says what is not done.
func TestUnsubscribeWithHangingHandler(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	n, stream := s.connect(t), s.newStream(t, 1)
	begun := make(chan struct{})
	sub, err := n.Subscribe(t.Context(), protokinesis.Stream(stream),
		protokinesis.HandlerFunc(func(ctx context.Context, _ *protokinesis.Delivery) error {
			close(begun)
			<-ctx.Done()
			return ctx.Err()
		}))
	require.NoError(t, err)
	publishTo(t, n, stream, "0")
	receive(t, begun)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err = sub.Unsubscribe(ctx)
	require.ErrorIs(t, err, protokinesis.ErrTimeout, "a record is not settled")
	assert.Contains(t, err.Error(), stream)
}

// TestDescriptionIsNotChanged: a description may be used again, for another kind of subscriber too.
func TestDescriptionIsNotChanged(t *testing.T) {
	t.Parallel()
	s := embeddedService(t)
	n := s.connect(t)
	description := protokinesis.Stream(s.newStream(t, 1))
	before := proto.CloneOf(description)
	_, err := n.Subscribe(t.Context(), description, protokinesis.HandlerFunc(newRecorder().handle))
	require.NoError(t, err)
	assert.True(t, proto.Equal(before, description), "%v became %v", before, description)
}
