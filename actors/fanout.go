package actors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/schemas"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go/transport/http/protocol/awsjson"

	"github.com/protokinesis/protokinesis/messages"
)

// Enhanced fan-out: a shard is pushed to a registered consumer by SubscribeToShard, with a rate of its own. The reader takes one event at a time, as
// if it were a page: an event that is not taken holds back the service.

const (
	// pushed stands for the iterator of a shard that is pushed.
	pushed = "pushed"
	// pushWatchdog ends a subscription that has been silent for so long: the service sends an event every five seconds or so, also when
	// there is nothing, and a connection can be half open. It runs only while an event is waited for.
	pushWatchdog = 35 * time.Second
	// pushPause is the least time between two subscriptions to one shard: an earlier one is refused with ResourceInUseException.
	pushPause = 5 * time.Second
	// consumerPoll is the pause between looks at a consumer that is being registered.
	consumerPoll = time.Second
)

// push is an open subscription to a shard. It belongs to its reader; Events are taken by one effect at a time.
type push struct {
	stream *kinesis.SubscribeToShardEventStream
	cancel context.CancelFunc
}

// close ends the subscription. It does not wait: closing waits for the connection, which an actor may not, so the end of the context does it.
func (p *push) close() { p.cancel() }

// openPush subscribes to the shard at the reader's position, the way openIterator asks for an iterator.
func (r *reader) openPush() {
	f := &r.fetch
	if wait := time.Until(f.pushedAt.Add(pushPause)); wait > 0 && !f.pushedAt.IsZero() {
		r.timers.set(timerOpen, wait)
		return
	}
	it := f.iteratorInput()
	f.opensAt(it)
	f.opening, f.pushedAt = true, time.Now()
	in := &kinesis.SubscribeToShardInput{
		ConsumerARN: aws.String(r.consumerARN), ShardId: aws.String(r.shard.id), StartingPosition: &types.StartingPosition{
			Type: it.ShardIteratorType, SequenceNumber: it.StartingSequenceNumber, Timestamp: it.Timestamp,
		},
	}
	client, generation := r.clients.Data, r.generation
	life, cancel := context.WithCancel(r.fx.ctx) // of the subscription, which outlives the call
	f.cancel = r.fx.run(r.cfg.Timings.CallTimeout, func(ctx context.Context) any {
		stop := context.AfterFunc(ctx, cancel)
		out, err := client.SubscribeToShard(life, in, ownCodec)
		if !stop() && err == nil {
			_ = out.GetStream().Close()
			err = ctx.Err()
		}
		if err != nil {
			cancel()
			return iteratorOpened{generation: generation, err: err}
		}
		stream := out.GetStream()
		context.AfterFunc(life, func() { _ = stream.Close() }) // should nobody be there to take it
		return iteratorOpened{generation: generation, iterator: pushed, push: &push{stream: stream, cancel: cancel}}
	})
}

// ownCodec gives a subscription a protocol of its own: the SDK's clients (seen in kinesis 1.56.13) share one event stream codec between all
// their subscriptions, which races as soon as two are open.
func ownCodec(o *kinesis.Options) { o.Protocol = awsjson.New11(schemas.Kinesis_20131202) }

// nextEvent takes the next event of a subscription as a page.
func (p *push) nextEvent(ctx context.Context, generation uint64) pageRead {
	select {
	case event, open := <-p.stream.Events():
		if !open {
			return pageRead{generation: generation, err: p.endedBy()}
		}
		e, ok := event.(*types.SubscribeToShardEventStreamMemberSubscribeToShardEvent)
		if !ok {
			return pageRead{generation: generation, err: fmt.Errorf("an event of unknown kind %T", event)}
		}
		m := pageRead{generation: generation, continuation: aws.ToString(e.Value.ContinuationSequenceNumber)}
		m.out = &kinesis.GetRecordsOutput{
			Records: e.Value.Records, MillisBehindLatest: e.Value.MillisBehindLatest, ChildShards: e.Value.ChildShards,
		}
		if m.err = checkRecords(e.Value.Records); m.err != nil {
			return m
		}
		if m.continuation != "" {
			m.out.NextShardIterator = aws.String(pushed)
		}
		return m
	case <-ctx.Done():
		return pageRead{
			generation: generation, err: fmt.Errorf("the subscription to the shard was silent for %v: %w", pushWatchdog, ctx.Err()),
		}
	}
}

// errPushEnded is the ordinary end of a subscription, after five minutes.
var errPushEnded = errors.New("the subscription to the shard ended")

func (p *push) endedBy() error {
	if err := p.stream.Err(); err != nil {
		return err
	}
	return errPushEnded
}

// onPushEnded subscribes again: at once after an ordinary end, after a pause when another subscription is in the way.
func (r *reader) onPushEnded(c actor.Context, err error) bool {
	f := &r.fetch
	switch {
	case errors.Is(err, errPushEnded) && f.pushes > 0:
		f.drop()
		r.openIterator()
	case isInUse(err):
		f.drop()
		r.failed(c, readError(r.how.stream.spelling, r.shard.id, "another subscription of the consumer took its place", err))
		r.timers.set(timerOpen, jitterUp(pushPause))
	default:
		f.drop()
		return false
	}
	return true
}

// drop gives up iterator and subscription, and keeps the place.
func (f *fetcher) drop() {
	f.iterator = ""
	if f.push != nil {
		f.push.close()
		f.push = nil
	}
}

// findConsumer returns the ARN of the stream's registered consumer of that name, registering it if need be, once it is active.
func findConsumer(ctx context.Context, client Kinesis, stream, arn, name string) (string, error) {
	for {
		out, err := client.DescribeStreamConsumer(ctx, &kinesis.DescribeStreamConsumerInput{StreamARN: aws.String(arn), ConsumerName: aws.String(name)})
		switch {
		case err != nil && classify(err) == failureNotFound:
			if _, err := client.RegisterStreamConsumer(ctx, &kinesis.RegisterStreamConsumerInput{
				StreamARN: aws.String(arn), ConsumerName: aws.String(name),
			}); err != nil && !isInUse(err) { // another node may have been faster
				return "", streamError(stream, fmt.Sprintf("the consumer %q can't be registered", name), err)
			}
		case err != nil:
			return "", streamError(stream, fmt.Sprintf("the consumer %q can't be described", name), err)
		case out.ConsumerDescription.ConsumerStatus == types.ConsumerStatusActive:
			return aws.ToString(out.ConsumerDescription.ConsumerARN), nil
		}
		// Registering, or being deregistered under its name by someone: it may be registered again after that.
		if err := pause(ctx, consumerPoll); err != nil {
			return "", &Error{
				Kind: messages.ErrorKind_ERROR_KIND_TIMEOUT, Stream: stream, Cause: err,
				Text: fmt.Sprintf("the consumer %q did not become active in time", name),
			}
		}
	}
}

func isInUse(err error) bool {
	var inUse *types.ResourceInUseException
	return errors.As(err, &inUse)
}
