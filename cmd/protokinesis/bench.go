package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

type benchCmd struct {
	Publish benchPublishCmd `cmd:"" help:"Measure publishing."`
	Consume benchConsumeCmd `cmd:"" help:"Measure consuming."`
}

// benchFlags are the flags of all benchmarks.
type benchFlags struct {
	Stream     streamName `placeholder:"NAME" help:"An existing stream. Default: one made for the benchmark, which is deleted at the end."`
	Shards     *int       `placeholder:"N" help:"Shards of the stream that is made. Default: 8."`
	Records    int        `default:"200000" placeholder:"N" help:"Records to publish or to consume (${default})."`
	RecordSize int        `default:"512" placeholder:"BYTES" help:"Bytes of a record's data (${default})."`
	Keys       int        `default:"1000" placeholder:"N" help:"Partition keys (${default})."`
	JSON       bool       `name:"json" help:"Print the result as a JSON object."`
}

const (
	benchShards = 8
	// benchMaxRecord leaves room for the partition key in the service's default bound.
	benchMaxRecord = 1<<20 - 256
	benchHelp      = `Without --stream and --endpoint the service is the embedded one, in a process of its own and without the limits of the real one. With --endpoint a stream is made there and deleted at the end. With --stream the stream is one that exists, also in AWS.

cpu_seconds_per_million and allocs_per_record are those of this process alone.`
)

// check finds what can't work, before anything is done.
func (f *benchFlags) check() error {
	if f.Stream != "" && f.Shards != nil {
		return errors.New("--stream and --shards can't be used together: the stream has the shards that it has")
	}
	if f.RecordSize > benchMaxRecord {
		return fmt.Errorf("--record-size: %d is too large: at most %d", f.RecordSize, benchMaxRecord)
	}
	return firstError(
		atLeast("--shards", f.Shards, 1), atLeast("--records", &f.Records, 1), atLeast("--record-size", &f.RecordSize, 1), atLeast("--keys", &f.Keys, 1),
	)
}

func (f *benchFlags) shards() int {
	if f.Shards == nil {
		return benchShards
	}
	return *f.Shards
}

// benchShutdown is how long what is under way may take at the end: when it was interrupted, nobody needs it.
func benchShutdown(ctx context.Context) time.Duration {
	if ctx.Err() != nil {
		return time.Second
	}
	return demoShutdown
}

// benchKey is the partition key with a number.
func benchKey(n int) string { return fmt.Sprintf("key-%d", n) }
