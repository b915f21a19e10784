package main

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/messages"
)

// publishFlags say how records are published.
type publishFlags struct {
	Aggregate bool          `help:"Put many records into one, in the format of the Kinesis Producer Library. Readers have to take them apart, as consume does."`
	Ordering  string        `default:"strict" enum:"strict,relaxed" placeholder:"strict|relaxed" help:"Whether records of one partition key are stored in their order, or as they come (${default})."`
	Linger    time.Duration `placeholder:"DURATION" help:"How long a record may wait for others to be sent with it. Default: not at all."`
}

func (f *publishFlags) check() error { return notNegative("--linger", f.Linger) }

// options are those of the Go API.
func (f *publishFlags) options() []protokinesis.PublisherOption {
	var options []protokinesis.PublisherOption
	if f.Aggregate {
		options = append(options, protokinesis.Aggregate())
	}
	if f.Ordering == orderingRelaxed {
		options = append(options, protokinesis.RelaxedOrder())
	}
	if f.Linger > 0 {
		options = append(options, protokinesis.Linger(f.Linger))
	}
	return options
}

// message is the same for actors; nil for none.
func (f *publishFlags) message() *messages.PublishOptions {
	o := &messages.PublishOptions{Aggregate: f.Aggregate}
	if f.Ordering == orderingRelaxed {
		o.Ordering = messages.PublishOrdering_PUBLISH_ORDERING_RELAXED
	}
	if f.Linger > 0 {
		o.Linger = durationpb.New(f.Linger)
	}
	return o
}
