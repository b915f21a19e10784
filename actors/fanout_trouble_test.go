package actors

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// A consumer that another application holds: Subscribe is answered, and the subscriber told.
func TestConsumerInUseForEver(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.service.Fault("SubscribeToShard", kinesistest.Match{}, -1, kinesistest.Error("ResourceInUseException", "Another active subscription exists"))
		w.connect()
		d := &messages.StreamDescriptor{Name: testStream, EnhancedFanOut: true, ConsumerName: "one"}
		w.me.Request(w.broker, &messages.Subscribe{Stream: d, Subscriber: w.sub.PID()})
		m := probe.Expect[any](w.me)
		require.IsType(w.t, &messages.Subscribed{}, m)
		time.Sleep(10 * time.Minute)
		_, told := w.received()
		require.NotEmpty(w.t, told)
	})
}

// events is the reader of a subscription that holds what it is given.
type events chan types.SubscribeToShardEventStream

func (e events) Events() <-chan types.SubscribeToShardEventStream { return e }
func (e events) Close() error                                     { return nil }
func (e events) Err() error                                       { return nil }

// G8 with enhanced fan-out: a record that can't be placed is refused, as from GetRecords.
func TestEventWithoutSequenceNumber(t *testing.T) {
	ch := make(events, 1)
	ch <- &types.SubscribeToShardEventStreamMemberSubscribeToShardEvent{Value: types.SubscribeToShardEvent{
		ContinuationSequenceNumber: aws.String("1"), MillisBehindLatest: aws.Int64(0),
		Records: []types.Record{{SequenceNumber: aws.String("not a number"), PartitionKey: aws.String("k"), Data: []byte("a")}},
	}}
	p := &push{stream: kinesis.NewSubscribeToShardEventStream(func(s *kinesis.SubscribeToShardEventStream) { s.Reader = ch })}
	require.Error(t, p.nextEvent(context.Background(), 1).err)
}

// Subscriptions that end as soon as they have begun, without an event, for ever: the subscriber is told.
func TestSubscriptionsThatEndAtOnce(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		var frame bytes.Buffer
		str := func(s string) eventstream.Value { return eventstream.StringValue(s) }
		require.NoError(t, eventstream.NewEncoder().Encode(&frame, eventstream.Message{Payload: []byte("{}"), Headers: eventstream.Headers{
			{Name: ":message-type", Value: str("event")},
			{Name: ":event-type", Value: str("initial-response")},
			{Name: ":content-type", Value: str("application/json")},
		}}))
		w.onWire(func(c *wireCall) bool {
			if c.op != "SubscribeToShard" {
				return false
			}
			c.w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
			_, _ = c.w.Write(frame.Bytes())
			return true
		})
		w.open(func(d *messages.StreamDescriptor) { d.EnhancedFanOut, d.ConsumerName = true, "one" })
		time.Sleep(10 * time.Minute)
		_, told := w.received()
		require.NotEmpty(w.t, told)
	})
}
