// Command harlow reads a stream with github.com/harlow/kinesis-consumer.
package main

import (
	"context"
	"flag"
	"log"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/aws/credentials"
	"github.com/aws/aws-sdk-go/aws/session"
	"github.com/aws/aws-sdk-go/service/kinesis"
	consumer "github.com/harlow/kinesis-consumer"
	store "github.com/harlow/kinesis-consumer/store/memory"

	"github.com/protokinesis/protokinesis/test/peers/internal/tally"
)

// checkpointEvery is how many records are checkpointed at once: the function gets records one by one and is not told where a page ends, so
// as many as our own consumer is given at a time.
const checkpointEvery = 500

func main() {
	// Its ticker has a tick waiting whenever a page took longer than this to handle, so it never waits. A shorter one makes no difference.
	interval := flag.Duration("interval", time.Millisecond, "scan interval")
	// The default is the most that the service gives; a thousand, or five, are not faster.
	page := flag.Int64("page", 10_000, "records in a page")
	flags := tally.Parse()

	// The request body of this older SDK needs no guard.
	client := &http.Client{Transport: tally.Transport()}
	sess, err := session.NewSession(aws.NewConfig().WithEndpoint(flags.Endpoint).WithRegion(flags.Region).
		WithCredentials(credentials.NewStaticCredentials(tally.KeyID, tally.Secret, "")).WithHTTPClient(client))
	if err != nil {
		log.Fatal(err)
	}
	options := []consumer.Option{
		consumer.WithClient(kinesis.New(sess)),
		consumer.WithStore(store.New()),
		consumer.WithShardIteratorType(kinesis.ShardIteratorTypeTrimHorizon),
	}
	every := 1 // as it does
	if !flags.Defaults {
		every = checkpointEvery
		options = append(options, consumer.WithScanInterval(*interval), consumer.WithMaxRecords(*page))
	}
	counts := tally.New(flags)
	failed := make(chan error, 1)
	counts.Start()
	c, err := consumer.New(flags.Stream, options...)
	if err != nil {
		log.Fatal(err)
	}
	go func() { failed <- c.Scan(context.Background(), scan(counts, every)) }()
	counts.Finish(failed)
}

// scan counts records and checkpoints every so many of a shard.
func scan(counts *tally.Tally, every int) consumer.ScanFunc {
	return func(r *consumer.Record) error {
		if counts.Shard(r.ShardID).Add(*r.SequenceNumber, r.Data)%every != 0 {
			return consumer.ErrSkipCheckpoint
		}
		return nil
	}
}
