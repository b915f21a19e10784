package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/actors"
	"github.com/protokinesis/protokinesis/test/kinesistest"
)

type demoCmd struct {
	Records int      `default:"10000" placeholder:"N" help:"Records to publish (${default})."`
	Shards  int      `default:"4" placeholder:"N" help:"Shards to begin with (${default})."`
	Keys    int      `default:"100" placeholder:"N" help:"Partition keys (${default})."`
	Rate    *float64 `placeholder:"N" help:"Records to publish per second; 0 for as many as possible. Default: so many that it takes four seconds."`
	Nodes   int      `default:"1" placeholder:"N" help:"Nodes that share the stream: brokers over one lease store (${default}). With several, one leaves half way and another joins."`
	Kill    bool     `help:"With --nodes: stop one without warning half way instead, as a process that is killed."`
	Chaos   bool     `help:"Let the service fail in all the ways it can meanwhile, and kill the consumer, which is a process of its own then."`
	Seed    *uint64  `placeholder:"N" help:"The seed of the payloads and of --chaos, to repeat a run. Default: another every time."`
	JSON    bool     `name:"json" help:"Print nothing but the result, as a JSON object."`
}

const (
	demoStream     = "demo"
	demoTime       = 4 * time.Second
	demoPublishers = 64
	demoShutdown   = 30 * time.Second
	// demoStalled is how long nothing may come before what is missing is called lost.
	demoStalled = 20 * time.Second
	demoPoll    = 100 * time.Millisecond
)

// Help is shown below the flags.
func (demoCmd) Help() string {
	return `One shard is split and two are merged on the way.

With --nodes it is told who reads which shards, whenever that changes. One node, that with the most shards, leaves in order when half of the records are published, and another joins then; or, with --kill, one ends as a process that is killed: what it had handled since its last checkpoint (handled_since_checkpoint) comes again then. The result tells how often a shard moved to another node (moves), by how many shards the nodes differ at the end (balanced), and how long it took until the last shard of the node that left was read again (handover_seconds, failover_seconds).

With --chaos calls are throttled, fail, break off, or find their iterators expired, and the consumer is killed twice; what it had handled since its last checkpoint comes again then.

The exit code is 1 if a record was lost, changed, or came out of the order of its key.`
}

// Validate is called by kong before anything is done.
func (d *demoCmd) Validate() error {
	if err := firstError(
		atLeast("--records", &d.Records, 1), atLeast("--shards", &d.Shards, 1), atLeast("--keys", &d.Keys, 1), atLeast("--rate", d.Rate, 0),
		atLeast("--nodes", &d.Nodes, 1),
	); err != nil {
		return err
	}
	switch {
	case d.Kill && d.Nodes < 2:
		return errors.New("--kill: somebody must be left to go on: give --nodes 2 or more")
	case d.Chaos && d.Nodes > 1:
		return errors.New("--chaos and --nodes can't be used together: the consumer of --chaos is one process")
	}
	return nil
}

// demo is a demo that runs.
type demo struct {
	*demoCmd
	app    *app
	server *kinesistest.Server
	node   *node
	ledger *ledger
	seed   uint64
	chaos  *chaos // with --chaos
	fleet  *fleet // with --nodes
	begun  time.Time

	splits, merges int // of the resharding goroutine, and after it
}

// Run implements the command.
func (d *demoCmd) Run(a *app) error {
	if a.Endpoint != "" || a.Region != "" {
		return usagef("--endpoint and --region are not for demo: it brings its own service")
	}
	server, err := kinesistest.Listen(a.ctx, "127.0.0.1:0", kinesistest.WithCallLog(0))
	if err != nil {
		return err
	}
	defer func() { _ = server.Close() }()
	if err := server.CreateStream(demoStream, d.Shards); err != nil {
		return usagef("--shards: %v", err)
	}
	seed := rand.Uint64() //nolint:gosec // of test data
	if d.Seed != nil {
		seed = *d.Seed
	}
	run := &demo{demoCmd: d, app: a, server: server, seed: seed, ledger: newLedger(seed, d.Keys)}
	return run.run()
}

func (d *demo) run() error {
	view := d.newView()
	defer view.end()
	var err error
	log := view.logger(d.app)
	cfg := d.server.Config()
	cfg.Logger = actors.SDKLogger(log)
	d.node, err = connect(d.app.ctx, log, cfg, hostPort{}, d.app.wire(),
		protokinesis.WithOwnerID("demo"),
		protokinesis.WithLimits(protokinesis.Limits{ReadsPerSecond: -1}),
		protokinesis.WithTimings(protokinesis.Timings{
			PollInterval: demoPoll, CheckpointInterval: 2 * demoPoll, ListEvery: time.Second,
		}))
	if err != nil {
		return d.app.unlessInterrupted(err)
	}
	d.begun = time.Now()
	switch {
	case d.Chaos:
		err = d.workInChaos(view)
	case d.Nodes > 1:
		err = d.workOnNodes(view)
	default:
		if err = d.consume(); err == nil {
			err = d.work(view)
		}
	}
	took := time.Since(d.begun)
	if closeErr := d.node.close(d.app.ctx, demoShutdown); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return d.finish(took)
}

// consume reads the stream in this process.
func (d *demo) consume() error {
	_, err := d.node.Subscribe(d.app.ctx, protokinesis.Stream(demoStream, protokinesis.StartAt(protokinesis.TrimHorizon())),
		protokinesis.HandlerFunc(func(_ context.Context, r *protokinesis.Delivery) error {
			d.ledger.isDelivered(r.PartitionKey(), r.Data())
			d.ledger.isAcked()
			return nil
		}))
	return err
}

// workInChaos reads the stream in another process, which is killed now and then, while the service fails.
func (d *demo) workInChaos(view *view) error {
	consumer, err := newConsumerProcess(d)
	if err != nil {
		return err
	}
	defer consumer.groups.dieTogether(d.app.ctx)()
	if err := consumer.start(d.app.ctx); err != nil {
		return errors.Join(err, consumer.close())
	}
	d.chaos = newChaos(d, d.seed)
	ctx, stop := context.WithCancel(d.app.ctx)
	var group sync.WaitGroup
	group.Go(func() { d.chaos.disturb(ctx) })
	var killing sync.WaitGroup
	var killErr error
	killing.Go(func() { killErr = d.chaos.killing(ctx, consumer) })
	err = d.work(view, func() error {
		killing.Wait()
		stop()
		group.Wait()
		return killErr
	})
	stop()
	killing.Wait()
	group.Wait()
	return errors.Join(err, consumer.close())
}

// work publishes and reshards, and waits until everything has come. calm, if given, is called when everything is published.
func (d *demo) work(view *view, calm ...func() error) error {
	view.begin()
	defer view.end()
	reshard := make(chan error, 1)
	resharding, cancel := context.WithCancel(d.app.ctx)
	defer cancel()
	go func() { reshard <- d.reshard(resharding) }()
	publishErr := d.publish()
	if publishErr != nil || d.app.ctx.Err() != nil {
		cancel() // the marks are not reached any more
	}
	reshardErr := <-reshard
	if d.app.ctx.Err() != nil {
		reshardErr = nil
	}
	if err := errors.Join(publishErr, reshardErr); err != nil {
		return err
	}
	for _, f := range calm {
		if err := f(); err != nil && d.app.ctx.Err() == nil {
			return err
		}
	}
	d.await()
	return nil
}

// publish stores all records: each worker has keys of its own, so that the records of one key are stored in order.
func (d *demo) publish() error {
	workers := min(d.Keys, demoPublishers)
	failed := make([]error, workers)
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() { failed[w] = d.publishSome(w, workers) })
	}
	group.Wait()
	return errors.Join(failed...)
}

func (d *demo) publishSome(worker, workers int) error {
	publisher := d.node.Publisher()
	numbers := make([]int, d.Keys)
	for i := range d.Records {
		key := i % d.Keys
		if key%workers != worker {
			continue
		}
		if !d.pace(i) {
			return nil
		}
		numbers[key]++
		// A record on its way is not given up at a signal: its outcome would be unknown.
		_, err := publisher.Publish(context.WithoutCancel(d.app.ctx), protokinesis.Record{
			Stream: demoStream, PartitionKey: keyName(key), Data: d.ledger.payload(key, numbers[key]),
		})
		if err != nil {
			return err
		}
		d.ledger.isPublished(key)
	}
	return nil
}

// pace waits until the i-th record is due; false when the demo was interrupted.
func (d *demo) pace(i int) bool {
	perSecond := float64(d.Records) / demoTime.Seconds()
	if d.Rate != nil {
		perSecond = *d.Rate
	}
	if perSecond <= 0 {
		return d.app.ctx.Err() == nil
	}
	due := d.begun.Add(time.Duration(float64(i) / perSecond * float64(time.Second)))
	return sleep(d.app.ctx, time.Until(due))
}

// await waits until every record published has come, or nothing comes any more.
func (d *demo) await() {
	stalled := time.NewTimer(demoStalled)
	defer stalled.Stop()
	for {
		t, changed := d.ledger.now()
		if t.lost == 0 && t.acked == t.delivered {
			return
		}
		select {
		case <-changed:
			stalled.Reset(demoStalled)
		case <-stalled.C:
			return
		}
	}
}

// published waits until so many records are published.
func (d *demo) published(ctx context.Context, n int) error {
	for {
		t, changed := d.ledger.now()
		if t.published >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
