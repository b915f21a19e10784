package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/messages"
)

type benchConsumeCmd struct {
	benchFlags
	compareFlags
	Aggregate    bool           `help:"Publish aggregated records to be consumed."`
	Deliver      string         `default:"batches" enum:"batches,singly,handler" placeholder:"HOW" help:"How records are delivered: batches of 500 or singly to an actor, or to a handler of which 16 run at a time per shard (${default})."`
	PollInterval *time.Duration `placeholder:"DURATION" help:"Pause between reads of a shard that is read to its tip. Default: 1s."`
	Live         int            `default:"200" placeholder:"N" help:"Records that are published one after the other at the end, a hundred in a second, to measure the latency; 0 for none, as with --compare (${default})."`
}

const (
	benchBatch = 500
	// benchFill is how many records one request of filling a stream takes.
	benchFill   = 5000
	deliverEach = "singly"
	deliverFunc = "handler"
	liveEvery   = 10 * time.Millisecond
	// tipEvery is the pause between two looks at whether a stream has been read to its tip.
	tipEvery = 200 * time.Millisecond
)

// Help is shown below the flags.
func (benchConsumeCmd) Help() string {
	return `The stream that is made is filled first. A stream that is named is only read: from its oldest record, until --records have come or its tip is reached. Checkpoints are kept in memory. A record's latency is from publishing it to its delivery.

` + benchHelp
}

// Validate is called by kong before anything is done.
func (b *benchConsumeCmd) Validate() error {
	if b.Stream != "" && b.Aggregate {
		return errors.New("--stream and --aggregate can't be used together: a stream that is named is only read")
	}
	return firstError(b.check(), positive("--poll-interval", b.PollInterval), atLeast("--live", &b.Live, 0))
}

// Run implements the command.
func (b *benchConsumeCmd) Run(a *app) (err error) {
	t, err := b.target(a)
	if err != nil {
		return err
	}
	defer func() { err = firstError(err, t.close()) }()
	if b.Stream == "" {
		if _, err := b.with(a, t, func(n *node) (*benchResult, error) { return nil, b.fill(a.ctx, n.System, t.stream) }); err != nil {
			return err
		}
	}
	r, err := b.pairs(
		func() (*benchResult, error) { return bareConsume(a.ctx, t.cfg, t.stream, b.Records) },
		func() (*benchResult, error) {
			return b.with(a, t, func(n *node) (*benchResult, error) { return b.measure(a.ctx, n, t.stream) })
		},
	)
	if err != nil {
		return err
	}
	return r.print(a.stdout, b.JSON)
}

// with does something with a node of its own: it knows of no checkpoints.
func (b *benchConsumeCmd) with(a *app, t *benchTarget, do func(n *node) (*benchResult, error)) (*benchResult, error) {
	limits := protokinesis.Limits{}
	if t.free {
		limits.ReadsPerSecond = -1
	}
	n, err := a.connect(t.cfg, hostPort{}, protokinesis.WithLimits(limits))
	if err != nil {
		return nil, err
	}
	r, err := do(n)
	return r, firstError(err, n.close(a.ctx, benchShutdown(a.ctx)))
}

func (b *benchConsumeCmd) measure(ctx context.Context, n *node, stream streamName) (*benchResult, error) {
	counter := &benchCounter{want: b.Records, enough: make(chan struct{})}
	watch := startWatch()
	sub, err := n.Subscribe(ctx, b.descriptor(stream), b.subscriber(n, counter))
	if err != nil {
		return nil, err
	}
	if err := b.await(ctx, sub, counter); err != nil {
		return nil, err
	}
	r := &benchResult{Command: "consume", Stream: string(stream), RecordSize: b.RecordSize}
	records, bytes := counter.soFar()
	watch.stop(r, records, bytes)
	if records > 0 {
		r.RecordSize = int(bytes / int64(records))
	}
	if b.Stream == "" && b.Live > 0 && !b.compares() {
		took, err := b.live(ctx, n.System, sub, stream, counter)
		if err != nil {
			return nil, err
		}
		r.latencies(took)
	}
	return r, nil
}

// fill publishes what is to be consumed, as fast as it can.
func (b *benchConsumeCmd) fill(ctx context.Context, sys *protokinesis.System, stream streamName) error {
	options := []protokinesis.PublisherOption{protokinesis.RelaxedOrder()}
	if b.Aggregate {
		options = append(options, protokinesis.Aggregate())
	}
	p := sys.Publisher(options...)
	data := make([]byte, b.RecordSize)
	for sent := 0; sent < b.Records; {
		records := make([]protokinesis.Record, min(benchFill, b.Records-sent))
		for i := range records {
			records[i] = protokinesis.Record{Stream: string(stream), PartitionKey: benchKey((sent + i) % b.Keys), Data: data}
		}
		results, err := p.PublishBatch(ctx, records)
		if err != nil {
			return err
		}
		for _, result := range results {
			if result.Err != nil {
				return fmt.Errorf("the stream can't be filled: %w", result.Err)
			}
		}
		sent += len(records)
	}
	return nil
}

func (b *benchConsumeCmd) descriptor(stream streamName) *messages.StreamDescriptor {
	options := []protokinesis.StreamOption{protokinesis.StartAt(protokinesis.TrimHorizon())}
	if b.Deliver != deliverEach {
		options = append(options, protokinesis.Batches(benchBatch))
	}
	d := protokinesis.Stream(string(stream), options...)
	if b.PollInterval != nil {
		d.PollInterval = durationpb.New(*b.PollInterval)
	}
	return d
}

// subscriber acks everything and counts.
func (b *benchConsumeCmd) subscriber(n *node, counter *benchCounter) protokinesis.Subscriber {
	if b.Deliver == deliverFunc {
		return protokinesis.HandlerFunc(func(_ context.Context, d *protokinesis.Delivery) error {
			counter.add(d.Data())
			return nil
		})
	}
	return protokinesis.Actor(n.actors.Root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
		switch m := c.Message().(type) {
		case *messages.DeliveryBatch:
			c.Respond(m.Ack())
			data := make([][]byte, len(m.GetDeliveries()))
			for i, d := range m.GetDeliveries() {
				data[i] = d.GetData()
			}
			counter.add(data...)
		case *messages.Delivery:
			c.Respond(m.Ack())
			counter.add(m.GetData())
		}
	})))
}

// await waits until enough has come, or, in a stream that is only read, there is no more.
func (b *benchConsumeCmd) await(ctx context.Context, sub *protokinesis.Subscription, counter *benchCounter) error {
	look := time.NewTicker(tipEvery)
	defer look.Stop()
	for {
		select {
		case <-counter.enough:
			return nil
		case <-sub.Done():
			return sub.Err()
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
			if b.Stream == "" {
				continue // all of it will come
			}
			if atTip, err := isAtTip(ctx, sub); err != nil || atTip {
				return err
			}
		}
	}
}

// isAtTip reports whether everything there is has been read and settled.
func isAtTip(ctx context.Context, sub *protokinesis.Subscription) (bool, error) {
	status, err := sub.Status(ctx)
	if err != nil {
		return false, err
	}
	for _, s := range status.GetShards() {
		if s.GetState() != messages.ShardState_SHARD_STATE_FINISHED && (s.GetMillisBehindLatest() != 0 || s.GetInFlight() > 0 || s.GetBuffered() > 0) {
			return false, nil
		}
	}
	return len(status.GetShards()) > 0, nil
}

// live publishes records one after the other and waits for their delivery.
func (b *benchConsumeCmd) live(ctx context.Context, sys *protokinesis.System, sub *protokinesis.Subscription, stream streamName, counter *benchCounter) ([]time.Duration, error) {
	counter.goLive(b.Live)
	p := sys.Publisher()
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	var sent []*protokinesis.Pending
	for i := range b.Live {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		data := binary.BigEndian.AppendUint64(make([]byte, 0, max(b.RecordSize, 8)), uint64(time.Now().UnixNano()))
		r := protokinesis.Record{Stream: string(stream), PartitionKey: benchKey(i % b.Keys), Data: data[:max(b.RecordSize, 8)]}
		sent = append(sent, p.PublishAsync(ctx, r))
	}
	for _, pending := range sent {
		if _, err := pending.Wait(ctx); err != nil {
			return nil, err
		}
	}
	select {
	case <-counter.allLive:
		return counter.took, nil
	case <-sub.Done():
		return nil, sub.Err()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// benchCounter counts what is delivered.
type benchCounter struct {
	want   int
	enough chan struct{}

	mu      sync.Mutex
	records int
	bytes   int64
	live    int // 0: not yet
	took    []time.Duration
	allLive chan struct{}
}

func (c *benchCounter) add(data ...[]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live > 0 {
		c.addLive(data)
		return
	}
	before := c.records
	c.records += len(data)
	for _, d := range data {
		c.bytes += int64(len(d))
	}
	if before < c.want && c.records >= c.want {
		close(c.enough)
	}
}

// addLive takes the time of records that say when they were published.
func (c *benchCounter) addLive(data [][]byte) {
	now := time.Now()
	for _, d := range data {
		c.took = append(c.took, now.Sub(time.Unix(0, int64(binary.BigEndian.Uint64(d))))) //nolint:gosec // it was one
	}
	if len(c.took) >= c.live && len(c.took)-len(data) < c.live {
		close(c.allLive)
	}
}

func (c *benchCounter) soFar() (int, int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.records, c.bytes
}

// goLive says that what comes from now on are so many live records.
func (c *benchCounter) goLive(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live, c.allLive = n, make(chan struct{})
}
