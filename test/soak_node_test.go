package test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/smithy-go/middleware"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
	"github.com/protokinesis/protokinesis/test/soak"
)

// Timings of the soak's nodes: what takes seconds and minutes in service takes a tenth of it, so that a run sees much of it.
var soakTimings = protokinesis.Timings{
	LeaseTTL: soakTTL, RenewEvery: 400 * time.Millisecond, GatherTime: 400 * time.Millisecond, ListEvery: 500 * time.Millisecond, PollInterval: 50 * time.Millisecond,
	CheckpointInterval: 100 * time.Millisecond, CallTimeout: 2 * time.Second, OpenTimeout: 20 * time.Second, ShutdownTimeout: 10 * time.Second,
}

const soakTTL = soak.LeaseTTL * time.Millisecond

// soakNode is the broker of a process.
type soakNode struct {
	child  *soakChild
	store  soakRemote
	web    *http.Transport
	places sync.Map // shard iterator → shard

	mu  sync.Mutex // one up or down at a time
	sys *protokinesis.System
	sub *protokinesis.Subscription
}

// soakOwner is what the owner id of a process begins with, before another dash; see soak.NodeOf.
func soakOwner(node string, process int) string { return fmt.Sprint(node, "-", process) }

// up connects and subscribes, for as long as it takes.
func (n *soakNode) up() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sys = protokinesis.New(probe.NewSystem(noTB{}), wire(embedded),
		protokinesis.WithAWSConfig(aws.Config{
			Region: "us-east-1", BaseEndpoint: aws.String(n.child.job.Endpoint), HTTPClient: &http.Client{Transport: n.web},
			Credentials: credentials.NewStaticCredentialsProvider("node-"+n.child.job.Node, "test", ""),
			APIOptions:  []func(*middleware.Stack) error{n.watch},
		}),
		protokinesis.WithLeaseStore(n.store), protokinesis.WithOwnerID(soakOwner(n.child.job.Node, n.child.job.Process)), protokinesis.WithLogger(n.child.logger()),
		protokinesis.WithTimings(soakTimings), protokinesis.WithLimits(protokinesis.Limits{ReadsPerSecond: -1}))
	ctx := n.child.ctx
	if err := n.sys.Connect(ctx); err != nil {
		n.child.log.add(soak.Event{What: soak.Note, Text: "connect: " + err.Error()})
		return
	}
	for ctx.Err() == nil {
		sub, err := n.sys.Subscribe(ctx, protokinesis.Stream(n.child.job.Stream, protokinesis.RetryBackoff(20*time.Millisecond), protokinesis.Window(200)),
			protokinesis.Handler{Func: n.handle, OnError: n.onError})
		if err == nil {
			n.sub = sub
			n.child.log.add(soak.Event{What: soak.Up})
			return
		}
		n.child.log.add(soak.Event{What: soak.Note, Text: "subscribe: " + err.Error()})
		n.child.pause(100 * time.Millisecond)
	}
}

func (n *soakNode) onError(err error, fatal bool) {
	n.child.log.add(soak.Event{What: soak.Note, Text: fmt.Sprintf("subscription (fatal %v): %v", fatal, err)})
}

// down ends the node in order.
func (n *soakNode) down() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.sys == nil {
		return // it is not up yet
	}
	begun := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), soak.ShutdownLimit*time.Millisecond)
	defer cancel()
	e := soak.Event{What: soak.Down}
	if err := n.sys.Shutdown(ctx); err != nil {
		e.Text = err.Error()
	}
	e.Millis = time.Since(begun).Milliseconds()
	n.child.log.add(e)
}

// subscription is the one that is open, if one is.
func (n *soakNode) subscription() *protokinesis.Subscription {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sub
}

// watch sees the node's calls of the service between the library and the wire: which records were asked for, and when.
func (n *soakNode) watch(stack *middleware.Stack) error {
	return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("soak", func(
		ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler,
	) (middleware.InitializeOutput, middleware.Metadata, error) {
		begun := n.child.log.count()
		out, metadata, err := next.HandleInitialize(ctx, in)
		switch result := out.Result.(type) {
		case *kinesis.GetShardIteratorOutput:
			if in, ok := in.Parameters.(*kinesis.GetShardIteratorInput); ok && result != nil && err == nil {
				n.places.Store(aws.ToString(result.ShardIterator), aws.ToString(in.ShardId))
			}
		case *kinesis.GetRecordsOutput:
			if in, ok := in.Parameters.(*kinesis.GetRecordsInput); ok && result != nil && err == nil {
				n.onPage(begun, aws.ToString(in.ShardIterator), result)
			}
		}
		return out, metadata, err
	}), middleware.Before)
}

func (n *soakNode) onPage(begun int, iterator string, page *kinesis.GetRecordsOutput) {
	place, known := n.places.LoadAndDelete(iterator)
	if !known {
		n.child.log.add(soak.Event{What: soak.Note, Text: "a page of an unknown iterator"})
		return
	}
	shard, _ := place.(string)
	if next := aws.ToString(page.NextShardIterator); next != "" {
		n.places.Store(next, shard)
	}
	if len(page.Records) == 0 {
		return
	}
	n.child.log.add(soak.Event{
		What: soak.Fetched, Shard: shard, Begun: begun,
		Sequence: aws.ToString(page.Records[0].SequenceNumber), Last: aws.ToString(page.Records[len(page.Records)-1].SequenceNumber),
	})
}

var errSoakHandler = errors.New("the handler fails as it is told to")

// handle is the subscriber: what it does with a record depends on the seed, the record and the attempt alone.
func (n *soakNode) handle(ctx context.Context, d *protokinesis.Delivery) error {
	e := soak.Event{What: soak.Delivered, Shard: d.Shard(), Sequence: d.SequenceNumber(), Attempt: d.Attempt()}
	n.child.log.add(e)
	slow, fail, panics := n.child.mood(string(d.Data()), d.Attempt())
	if slow > 0 {
		select {
		case <-ctx.Done():
			fail = true
		case <-time.After(slow):
		}
	}
	if fail {
		e.What = soak.Failed
		n.child.log.add(e)
		if panics {
			panic("the handler panics as it is told to")
		}
		return errSoakHandler
	}
	e.What = soak.Done
	n.child.log.add(e)
	n.child.remember(d.Shard(), d.SequenceNumber())
	return nil
}

// mood is how a handler takes a record.
func (c *soakChild) mood(record string, attempt int) (slow time.Duration, fail, panics bool) {
	if c.calm.Load() {
		return 0, false, false
	}
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %s %d", c.job.Seed, record, attempt)
	sum := h.Sum64()
	sum ^= sum >> 29
	switch pick := sum * 0xbf58476d1ce4e5b9 >> 40 % 1000; {
	case pick < 20:
		slow = time.Duration(300+sum%900) * time.Millisecond
	case pick < 70:
		slow = time.Duration(1+sum%30) * time.Millisecond
	case pick < 95:
		fail = true
	case pick < 105:
		fail, panics = true, true
	}
	return slow, fail, panics
}

// seek moves the stream, or one shard, as a command says. A stream-wide seek is asked for until it is answered by success.
func (n *soakNode) seek(c soakCommand) {
	for try := uint64(0); n.child.ctx.Err() == nil; try++ {
		sub, e := n.subscription(), soak.Event{What: soak.Seek, ID: c.ID, Text: c.Mode}
		var to *messages.Position
		switch c.Mode {
		case seekHorizon:
			to = protokinesis.TrimHorizon()
		case seekTip:
			to = protokinesis.Latest()
		case seekTime:
			to, e.Millis = protokinesis.AtTimestamp(time.UnixMilli(c.Millis)), c.Millis
		case seekRecord:
			at, ok := n.child.recall(c.Pick + try)
			if !ok || try == 3 {
				n.child.log.add(soak.Event{What: soak.Sought, ID: c.ID, Text: seekGivenUp})
				return
			}
			to, e.Shard, e.Sequence = protokinesis.AtSequence(at.shard, at.sequence), at.shard, at.sequence
		}
		if sub == nil {
			n.child.pause(50 * time.Millisecond)
			continue
		}
		n.child.log.add(e)
		err := sub.Seek(n.child.ctx, to)
		e.What, e.Text = soak.Sought, ""
		if err != nil {
			e.Text = err.Error()
		}
		n.child.log.add(e)
		if err == nil {
			return
		}
		n.child.pause(100 * time.Millisecond)
	}
}
