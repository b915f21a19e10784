package actors

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

// Calls of the control plane, made as effects: they may wait.

// streamFound is a stream that can be read.
type streamFound struct {
	arn string
	id  leasestore.StreamID
	// consumerARN is the registered consumer's, with enhanced fan-out.
	consumerARN string
	openedAt    time.Time // by the service's clock, when it tells it
	seenAt      time.Time // by ours
}

// now is the service's clock: an instant stored as a position is compared with arrival times by the service. What it tells has whole
// seconds, rounded down, which is the side on which nothing is lost.
func (f streamFound) now() time.Time { return f.openedAt.Add(time.Since(f.seenAt)) }

const (
	// activePoll is the pause between looks at a stream that is being created.
	activePoll = 500 * time.Millisecond
)

// findStream describes the stream, creating it if asked for, and waits until it is active. ctx bounds all of it.
func findStream(ctx context.Context, client Kinesis, how reading) (streamFound, error) {
	name := how.stream.spelling
	created := false
	for {
		out, err := client.DescribeStreamSummary(ctx, describeInput(how.stream))
		switch {
		case err != nil && classify(err) == failureNotFound && how.createShards > 0 && !created:
			if err := createStream(ctx, client, how); err != nil {
				return streamFound{}, err
			}
			created = true
			continue
		case err != nil && classify(err) == failureNotFound && created:
			// It was just created, and is not seen everywhere yet.
		case err != nil:
			return streamFound{}, streamError(name, "the stream can't be described", err)
		default:
			summary := out.StreamDescriptionSummary
			switch summary.StreamStatus {
			case types.StreamStatusActive, types.StreamStatusUpdating:
				return withConsumer(ctx, client, how, found(out))
			case types.StreamStatusDeleting:
				return streamFound{}, &Error{
					Kind: messages.ErrorKind_ERROR_KIND_STREAM, Stream: name, Text: "the stream is being deleted",
				}
			case types.StreamStatusCreating:
			}
		}
		if err := pause(ctx, activePoll); err != nil {
			return streamFound{}, &Error{
				Kind: messages.ErrorKind_ERROR_KIND_TIMEOUT, Stream: name, Text: "the stream did not become active in time",
				Advice: "subscribe again once it is", Cause: err,
			}
		}
	}
}

// EnsureStream creates a stream, named by name or ARN, that is missing, and waits until it is active. ctx bounds all of it. An error is an *Error.
func EnsureStream(ctx context.Context, client Kinesis, stream string, shards int32) error {
	ref, invalidName := parseStream(stream)
	if invalidName != nil {
		return invalidName
	}
	_, err := findStream(ctx, client, reading{stream: ref, createShards: shards})
	return err
}

// withConsumer finds the consumer that enhanced fan-out reads as. Each consumer has leases and checkpoints of its own.
func withConsumer(ctx context.Context, client Kinesis, how reading, f streamFound) (streamFound, error) {
	if how.consumer == "" {
		return f, nil
	}
	arn, err := findConsumer(ctx, client, how.stream.spelling, f.arn, how.consumer)
	f.consumerARN = arn
	f.id.Name += "/consumer/" + how.consumer
	return f, err
}

func describeInput(ref streamRef) *kinesis.DescribeStreamSummaryInput {
	name, arn := ref.target()
	return &kinesis.DescribeStreamSummaryInput{StreamName: name, StreamARN: arn}
}

func found(out *kinesis.DescribeStreamSummaryOutput) streamFound {
	summary := out.StreamDescriptionSummary
	opened, ok := awsmiddleware.GetServerTime(out.ResultMetadata)
	if !ok || opened.IsZero() {
		opened = time.Now()
	}
	arn := aws.ToString(summary.StreamARN)
	return streamFound{
		arn: arn, id: leasestore.NewStreamID(arn, aws.ToTime(summary.StreamCreationTimestamp)), openedAt: opened, seenAt: time.Now(),
	}
}

// createStream creates the stream; that another did so first is as good.
func createStream(ctx context.Context, client Kinesis, how reading) error {
	_, err := client.CreateStream(ctx, &kinesis.CreateStreamInput{
		StreamName: aws.String(how.stream.name), ShardCount: aws.Int32(how.createShards),
	})
	var exists *types.ResourceInUseException
	if err != nil && !errors.As(err, &exists) {
		return streamError(how.stream.spelling, "the stream is missing and can't be created", err)
	}
	return nil
}

// listShards lists all shards of a stream, every page. A token that expired on the way (300 s) starts the listing anew: part of a
// listing is never taken for all of it.
func listShards(ctx context.Context, client Kinesis, ref streamRef) ([]shard, error) {
	for {
		shards, err := listPages(ctx, client, ref)
		if _, expired := errors.AsType[*types.ExpiredNextTokenException](err); expired {
			continue
		}
		return shards, err
	}
}

// errEmptyListing: a stream has a shard at any time, so that a listing without any says nothing of its shards.
var errEmptyListing = errors.New("the service lists no shards at all")

func listPages(ctx context.Context, client Kinesis, ref streamRef) ([]shard, error) {
	var shards []shard
	name, arn := ref.target()
	in := &kinesis.ListShardsInput{StreamName: name, StreamARN: arn}
	for {
		out, err := client.ListShards(ctx, in)
		if err != nil {
			return nil, err
		}
		for i := range out.Shards {
			s := &out.Shards[i]
			var parents []string
			for _, p := range []*string{s.ParentShardId, s.AdjacentParentShardId} {
				if aws.ToString(p) != "" {
					parents = append(parents, *p)
				}
			}
			shards = append(shards, newShard(s.ShardId, parents, s.HashKeyRange, s.SequenceNumberRange))
		}
		switch {
		case aws.ToString(out.NextToken) != "":
			// A follow-up carries the token: with the stream's name it is refused.
			in = &kinesis.ListShardsInput{NextToken: out.NextToken, StreamARN: arn}
		case len(shards) == 0:
			return nil, errEmptyListing
		default:
			return shards, nil
		}
	}
}

func newShard(id *string, parents []string, keys *types.HashKeyRange, sequences *types.SequenceNumberRange) shard {
	s := shard{id: aws.ToString(id), parents: parents}
	if keys != nil {
		s.startingKey, s.endingKey = aws.ToString(keys.StartingHashKey), aws.ToString(keys.EndingHashKey)
	}
	if sequences != nil {
		s.closed = aws.ToString(sequences.EndingSequenceNumber) != ""
		s.startingSequence = aws.ToString(sequences.StartingSequenceNumber)
	}
	return s
}
