package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/smithy-go/middleware"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/actors"
	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

// demoNode is one node of a demo with several: a broker in an actor system of its own, and a consumer as that of consume. Whatever of it
// matters to anyone goes through its plug.
type demoNode struct {
	name        string
	fleet       *fleet
	plug        plug
	consumption *consumption

	iterators sync.Map // shard iterator → shard

	mu      sync.Mutex
	handled map[string][]leasestore.Checkpoint // by shard: records, since its checkpoint or before
}

// newDemoNode connects and subscribes.
func (f *fleet) newDemoNode(ctx context.Context, name string) (*demoNode, error) {
	n := &demoNode{name: name, fleet: f, handled: make(map[string][]leasestore.Checkpoint)}
	log := slog.New(slog.NewTextHandler(pluggedWriter{&n.plug, f.app.stderr}, &slog.HandlerOptions{Level: logLevel(f.app.LogLevel)}))
	log = log.With(slog.String("node", name))
	cfg := f.server.Config()
	cfg.Logger = actors.SDKLogger(log)
	cfg.HTTPClient = pluggedHTTP{&n.plug, cfg.HTTPClient}
	cfg.APIOptions = append(cfg.APIOptions, n.watch)
	system, err := connect(ctx, log, cfg, hostPort{}, f.app.wire(),
		protokinesis.WithOwnerID(name),
		protokinesis.WithLeaseStore(&pluggedStore{&n.plug, f.store, f.board}),
		protokinesis.WithLimits(protokinesis.Limits{ReadsPerSecond: -1}),
		protokinesis.WithTimings(f.timings()))
	if err != nil {
		return nil, err
	}
	// It starts at the tip, which is pinned before anything is published: a position would be the whole stream's, and send the others back.
	n.consumption, err = consume(ctx, system, protokinesis.Stream(demoStream, protokinesis.Batches(printBatch)), consumerConfig{
		handle: n.handle, parallel: 1, jobSize: printBatch, log: log,
	})
	if err != nil {
		_ = system.close(ctx, demoShutdown)
		return nil, err
	}
	return n, nil
}

func (n *demoNode) handle(ctx context.Context, records []*messages.Delivery, _ int) error {
	alive := n.plug.through(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, r := range records {
			n.fleet.ledger.isDelivered(r.GetPartitionKey(), r.GetData())
			n.fleet.ledger.isAcked()
			n.handled[r.GetShardId()] = append(n.handled[r.GetShardId()], leasestore.AtSequence(r.GetSequenceNumber(), r.GetSubSequenceNumber()))
		}
	})
	if !alive {
		<-ctx.Done() // what a process was at when it was killed does not return
		return errPulled
	}
	return nil
}

// leave ends the node in order.
func (n *demoNode) leave(ctx context.Context) error {
	if err := n.consumption.close(ctx, demoShutdown); err != nil {
		return fmt.Errorf("%s: %w", n.name, err)
	}
	return nil
}

// kill ends the node as a process that is killed. It returns the leases it had, and how many records it had handled that they do not tell of:
// those come again.
func (n *demoNode) kill() (had []leasestore.Lease, unsaved int) {
	n.plug.pull()
	had = n.fleet.board.owned()[n.name]
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, lease := range had {
		for _, record := range n.handled[lease.Shard] {
			if record.Compare(lease.Checkpoint) > 0 {
				unsaved++
			}
		}
	}
	return had, unsaved
}

// bury frees what the process still has of a node that was killed.
func (n *demoNode) bury(ctx context.Context) {
	system := n.consumption.node
	_ = system.actors.Root.StopFuture(system.PID()).Wait() // by force: it gives nothing back
	n.consumption.cancel()
	_ = n.consumption.close(ctx, demoShutdown) // that its subscription is gone
}

// watch tells the board which shards the node reads.
func (n *demoNode) watch(stack *middleware.Stack) error {
	return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("demo", func(
		ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler,
	) (middleware.InitializeOutput, middleware.Metadata, error) {
		out, metadata, err := next.HandleInitialize(ctx, in)
		if err == nil {
			n.plug.through(func() { n.saw(in.Parameters, out.Result) })
		}
		return out, metadata, err
	}), middleware.Before)
}

func (n *demoNode) saw(in, out any) {
	switch in := in.(type) {
	case *kinesis.GetShardIteratorInput:
		if out, ok := out.(*kinesis.GetShardIteratorOutput); ok {
			n.iterators.Store(aws.ToString(out.ShardIterator), aws.ToString(in.ShardId))
		}
	case *kinesis.GetRecordsInput:
		shard, known := n.iterators.LoadAndDelete(aws.ToString(in.ShardIterator))
		out, ok := out.(*kinesis.GetRecordsOutput)
		if !known || !ok {
			return
		}
		if out.NextShardIterator != nil {
			n.iterators.Store(aws.ToString(out.NextShardIterator), shard)
		}
		n.fleet.board.readBy(shard.(string), n.name) //nolint:forcetypeassert // what is stored above
	}
}

// names are the nodes' names.
func names(nodes []*demoNode) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.name
	}
	return out
}
