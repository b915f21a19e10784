package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/protokinesis/protokinesis"
)

type benchPublishCmd struct {
	benchFlags
	publishFlags
	compareFlags
	Senders     int `default:"4" placeholder:"N" help:"Goroutines that publish, each with its part of the keys (${default})."`
	Outstanding int `default:"4000" placeholder:"N" help:"Records that may be unanswered, of all senders together; 1 measures one at a time (${default})."`
}

// Help is shown below the flags.
func (benchPublishCmd) Help() string {
	return "A record's latency is from publishing it to its receipt.\n\n" + benchHelp
}

// Validate is called by kong before anything is done.
func (b *benchPublishCmd) Validate() error {
	return firstError(b.benchFlags.check(), b.publishFlags.check(), atLeast("--senders", &b.Senders, 1), atLeast("--outstanding", &b.Outstanding, 1))
}

// Run implements the command.
func (b *benchPublishCmd) Run(a *app) (err error) {
	t, err := b.target(a)
	if err != nil {
		return err
	}
	defer func() { err = firstError(err, t.close()) }()
	n, err := a.connect(t.cfg, hostPort{}, protokinesis.WithLimits(protokinesis.Limits{PendingRecords: max(10_000, 2*b.Outstanding)}))
	if err != nil {
		return err
	}
	r, err := b.pairs(
		func() (*benchResult, error) { return barePublish(a.ctx, t.cfg, t.stream, b, bareRequests) },
		func() (*benchResult, error) { return b.measure(a.ctx, n.System, t.stream) },
	)
	if err = firstError(err, n.close(a.ctx, benchShutdown(a.ctx))); err != nil {
		return err
	}
	if err := r.print(a.stdout, b.JSON); err != nil {
		return err
	}
	if r.Failed > 0 {
		return fmt.Errorf("%d of %d records were not published", r.Failed, r.Failed+r.Records)
	}
	return nil
}

// bareRequests is how many requests the plain loop has under way: as many as we may have.
const bareRequests = 4

// benchSamples is about how many records the latency is measured of.
const benchSamples = 10_000

// measure publishes all records.
func (b *benchPublishCmd) measure(ctx context.Context, sys *protokinesis.System, stream streamName) (*benchResult, error) {
	p := sys.Publisher(b.options()...)
	warm := protokinesis.Record{Stream: string(stream), PartitionKey: benchKey(0), Data: make([]byte, b.RecordSize)}
	if _, err := p.Publish(ctx, warm); err != nil { // the connection, and the list of shards
		return nil, err
	}
	senders := min(b.Senders, b.Outstanding, b.Keys, b.Records)
	all := make([]*benchSender, senders)
	watch := startWatch()
	var running sync.WaitGroup
	for i := range all {
		s := &benchSender{
			publisher: p, record: warm, keys: part(b.Keys, senders, i), firstKey: i, everyKey: senders, records: part(b.Records, senders, i),
			outstanding: part(b.Outstanding, senders, i), sampleEvery: max(1, b.Records/benchSamples),
		}
		all[i] = s
		running.Go(func() { s.run(ctx) })
	}
	running.Wait()
	r := &benchResult{Command: "publish", Stream: string(stream), RecordSize: b.RecordSize}
	var took []time.Duration
	published := 0
	for _, s := range all {
		published += s.published
		r.Failed += s.failed
		r.Duplicates += s.duplicates
		took = append(took, s.took...)
	}
	watch.stop(r, published, int64(published)*int64(b.RecordSize))
	r.latencies(took)
	return r, ctx.Err()
}

// part is how many of n things fall to the one with this number among so many.
func part(n, among, number int) int { return (n + among - 1 - number) / among }

// benchSender publishes records one after the other, and waits for the oldest when too many are unanswered.
type benchSender struct {
	publisher                         *protokinesis.Publisher
	record                            protokinesis.Record
	keys, firstKey, everyKey          int
	records, outstanding, sampleEvery int
	published, failed, duplicates     int

	mu      sync.Mutex
	took    []time.Duration
	samples sync.WaitGroup
}

func (s *benchSender) run(ctx context.Context) {
	defer s.samples.Wait()
	names := make([]string, s.keys)
	for i := range names {
		names[i] = benchKey(s.firstKey + i*s.everyKey)
	}
	waiting := make([]*protokinesis.Pending, s.outstanding) // a ring
	for i := range s.records {
		slot := i % s.outstanding
		if i >= s.outstanding {
			s.settle(ctx, waiting[slot])
		}
		if ctx.Err() != nil {
			return
		}
		r := s.record
		r.PartitionKey = names[i%len(names)]
		begun := time.Now()
		pending := s.publisher.PublishAsync(ctx, r)
		waiting[slot] = pending
		if i%s.sampleEvery == 0 {
			s.samples.Go(func() { s.watch(ctx, pending, begun) })
		}
	}
	for i := max(0, s.records-s.outstanding); i < s.records; i++ {
		s.settle(ctx, waiting[i%s.outstanding])
	}
}

func (s *benchSender) watch(ctx context.Context, p *protokinesis.Pending, begun time.Time) {
	select {
	case <-p.Done():
	case <-ctx.Done():
		return
	}
	took := time.Since(begun)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = append(s.took, took)
}

// settle waits for a record.
func (s *benchSender) settle(ctx context.Context, p *protokinesis.Pending) {
	receipt, err := p.Wait(ctx)
	switch {
	case err != nil:
		s.failed++
	default:
		s.published++
		if receipt.PossibleDuplicate {
			s.duplicates++
		}
	}
}
