package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/protokinesis/protokinesis/actors"
	"github.com/protokinesis/protokinesis/leasestore"
)

// identify asks for a stream's identity, as leases have it.
func identify(ctx context.Context, client actors.Kinesis, stream streamName) (leasestore.StreamID, error) {
	in := &kinesis.DescribeStreamSummaryInput{}
	in.StreamName, in.StreamARN = target(stream)
	out, err := client.DescribeStreamSummary(ctx, in)
	if err != nil {
		return leasestore.StreamID{}, err
	}
	summary := out.StreamDescriptionSummary
	return leasestore.NewStreamID(aws.ToString(summary.StreamARN), aws.ToTime(summary.StreamCreationTimestamp)), nil
}

// addLags asks how far each shard's checkpoint is behind. What can't be told is left out: without a checkpoint, of a shard that is finished or
// gone, of a stream that was created anew.
func (a *app) addLags(rows []leaseRow) error {
	cfg, closeIdle, err := a.awsConfig()
	if err != nil {
		return err
	}
	defer closeIdle()
	client := actors.NewClients(cfg).Control // which tries again when it is throttled
	for i := range rows {
		if a.ctx.Err() != nil {
			return a.ctx.Err()
		}
		row := &rows[i]
		if row.lease.Checkpoint.IsZero() || row.lease.Checkpoint.IsShardEnd() {
			continue
		}
		millis, err := shardLag(a.ctx, client, row.lease)
		if err != nil {
			a.log.Warn("the lag of a shard is not known", slog.String("stream", row.Stream), slog.String("shard", row.Shard), slog.Any("error", err))
			continue
		}
		row.Lag = &millis
	}
	return nil
}

// shardLag reads the record after a checkpoint: the lag is how long that one has been there. The service's own word says how far the reader is
// behind once it has the record.
func shardLag(ctx context.Context, client actors.Kinesis, lease leasestore.Lease) (millis int64, err error) {
	name, _, _ := strings.Cut(lease.Stream.Name, "/consumer/") // of a subscription with enhanced fan-out
	var stream streamName
	if err := stream.UnmarshalText([]byte(name)); err != nil {
		return 0, err
	}
	in := iteratorAt(lease.Checkpoint)
	in.StreamName, in.StreamARN = target(stream)
	in.ShardId = aws.String(lease.Shard)
	at, err := client.GetShardIterator(ctx, in)
	if err != nil {
		return 0, fmt.Errorf("the checkpoint can't be found: %w", err)
	}
	page, err := client.GetRecords(ctx, &kinesis.GetRecordsInput{ShardIterator: at.ShardIterator, StreamARN: in.StreamARN, Limit: aws.Int32(1)})
	if err != nil {
		return 0, fmt.Errorf("the record after the checkpoint can't be read: %w", err)
	}
	millis = aws.ToInt64(page.MillisBehindLatest)
	if len(page.Records) > 0 {
		now, ok := awsmiddleware.GetServerTime(page.ResultMetadata)
		if !ok {
			now = time.Now()
		}
		millis = max(millis, now.Sub(aws.ToTime(page.Records[0].ApproximateArrivalTimestamp)).Milliseconds())
	}
	return millis, nil
}

// iteratorAt is the request for the record after a checkpoint.
func iteratorAt(c leasestore.Checkpoint) *kinesis.GetShardIteratorInput {
	in := &kinesis.GetShardIteratorInput{ShardIteratorType: types.ShardIteratorTypeTrimHorizon}
	sequence, _ := c.Sequence()
	switch c.Kind() {
	case leasestore.KindSequence:
		in.ShardIteratorType, in.StartingSequenceNumber = types.ShardIteratorTypeAfterSequenceNumber, &sequence
	case leasestore.KindBefore:
		in.ShardIteratorType, in.StartingSequenceNumber = types.ShardIteratorTypeAtSequenceNumber, &sequence
	case leasestore.KindTimestamp:
		in.ShardIteratorType, in.Timestamp = types.ShardIteratorTypeAtTimestamp, aws.Time(c.Time())
	case leasestore.KindNone, leasestore.KindTrimHorizon, leasestore.KindShardEnd:
	}
	return in
}
