package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/actors"
	"github.com/protokinesis/protokinesis/messages"
)

// Bounds of what is sent and not answered.
const (
	maxOutstanding      = 4096
	maxOutstandingBytes = 32 << 20
)

// outstandingDeadline is how long a line is tried. All that are outstanding may be of one key, which are stored one after the other, or of one shard.
const outstandingDeadline = 5 * time.Minute

// roomForOutstanding makes the publisher's bounds so wide that it never refuses a line, also if all of them are of one shard that is throttled, which
// may use a quarter: the line would be lost, and the order of its key with it.
func roomForOutstanding() []protokinesis.Option {
	const quarter = 4
	return []protokinesis.Option{
		protokinesis.WithLimits(protokinesis.Limits{PendingRecords: quarter * (maxOutstanding + 1), PendingBytes: quarter * (maxOutstandingBytes + 1)}),
		protokinesis.WithTimings(protokinesis.Timings{PublishDeadline: outstandingDeadline}),
	}
}

// outstanding counts the lines that are sent and not answered. receive is the actor that gets the answers.
type outstanding struct {
	hopeless chan struct{} // closed when no further line can be published

	mu        sync.Mutex
	changed   *sync.Cond
	sizes     map[uint64]int // by line
	bytes     int
	published int
	failures  int
	told      *failures
}

func newOutstanding(told *failures) *outstanding {
	o := &outstanding{hopeless: make(chan struct{}), sizes: make(map[uint64]int), told: told}
	o.changed = sync.NewCond(&o.mu)
	return o
}

// begin waits for room and takes in a line of which so many bytes are stored; false when ctx ended first.
func (o *outstanding) begin(ctx context.Context, number uint64, size int) bool {
	stop := context.AfterFunc(ctx, o.wake)
	defer stop()
	o.mu.Lock()
	defer o.mu.Unlock()
	for ctx.Err() == nil && len(o.sizes) > 0 && (len(o.sizes) >= maxOutstanding || o.bytes+size > maxOutstandingBytes) {
		o.changed.Wait()
	}
	if ctx.Err() != nil {
		return false
	}
	o.sizes[number] = size
	o.bytes += size
	return true
}

// wait waits until everything is answered or ctx ends.
func (o *outstanding) wait(ctx context.Context) {
	stop := context.AfterFunc(ctx, o.wake)
	defer stop()
	o.mu.Lock()
	defer o.mu.Unlock()
	for ctx.Err() == nil && len(o.sizes) > 0 {
		o.changed.Wait()
	}
}

func (o *outstanding) wake() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.changed.Broadcast()
}

// receive takes the answers.
func (o *outstanding) receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *messages.Published:
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.answered(m.GetCorrelation()) {
			o.published++
		}
	case *messages.Error:
		err := actors.FromMessage(m)
		o.mu.Lock()
		defer o.mu.Unlock()
		if !o.answered(m.GetCorrelation()) {
			return
		}
		text := oneLine(err)
		o.fail(m.GetCorrelation(), text)
		if isHopeless(err) {
			select {
			case <-o.hopeless:
			default:
				close(o.hopeless)
				o.told.ending = text
			}
		}
	}
}

// isHopeless reports whether other records will fail in the same way.
func isHopeless(err error) bool {
	var api smithy.APIError
	return errors.Is(err, protokinesis.ErrConfig) || errors.Is(err, protokinesis.ErrNotConnected) ||
		errors.As(err, &api) && api.ErrorCode() == (*types.ResourceNotFoundException)(nil).ErrorCode()
}

func (o *outstanding) answered(number uint64) bool {
	size, ok := o.sizes[number]
	if ok {
		delete(o.sizes, number)
		o.bytes -= size
		o.changed.Broadcast()
	}
	return ok
}

// failed notes a line that was not even sent.
func (o *outstanding) failed(number uint64, text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fail(number, text)
}

func (o *outstanding) fail(number uint64, text string) {
	o.failures++
	o.told.add(number, text)
}

func (o *outstanding) result() publishResult {
	o.mu.Lock()
	defer o.mu.Unlock()
	return publishResult{Published: o.published, Failed: o.failures}
}
