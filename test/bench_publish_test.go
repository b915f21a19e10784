package test

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/actors"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// What publishing takes. Medians of 5 on two cores, November 2026, go 1.26.8:
//
//	go test ./test -run '^$' -bench 'Publish|Aggregated|Throttled' -benchtime 1x -count 5
//
//	                                    x-bare   x-bare-cpu
//	PublishBatches, strict order        1.23     0.77
//	PublishMessages                     1.04     0.89
//	AggregatedBatches, 512 bytes        1.15     0.83
//	AggregatedSmallBatches, 64 bytes    1.44     0.66
//	PublishLatency, p50                 1.17
//	OneShardThrottled, of 8, for 30 s   the worst of the others keeps 1.03 of its rate (3 runs; 0.98 and 0.93 on a busy machine)
//	AllThrottled for 30 s               84 MiB of heap, of which 64 are the bound (3 runs, 74 to 92)
//	30 % throttled, 5 % failing         1.56 entries sent for each record (TestFewEntriesAreSentInVain)
//
// Aggregation is not five times as fast as the loop here, where the service has no limits and the machine's time is the bound. Of 512 bytes it saves
// 100 or so of a request; the others are encoded, hashed twice (the signature's SHA-256, the format's MD5), sent, received, decoded and stored as
// before. Of 9 µs of both processes' time for a record, base64 took 2.6, system calls 1.1, SHA-256 and MD5 0.85 each, copying 0.6. Where the
// service's 1,000 records per second of a shard are the bound it is as many times as fast as records fit into a MiB: twice for 512 bytes, ten times for 100.

// publishFunc publishes all records of a benchmark.
type publishFunc func(b *testing.B, system *actor.ActorSystem, sys *protokinesis.System, p *protokinesis.Publisher, data []byte)

// publishes is a benchmark of publishing: the library with options against a loop of PutRecords(500) with as many requests under way.
type publishes struct {
	options []protokinesis.PublisherOption
	// publish stores all records.
	publish publishFunc
	each    int // records of a key
	size    int // of a record; 0: benchSize
	limits  protokinesis.Limits
}

func (p publishes) run(b *testing.B) {
	b.Helper()
	srv := kinesistest.Start(b, kinesistest.WithCallLog(0))
	client := bareClient(srv)
	data := make([]byte, cmp.Or(p.size, benchSize))
	fresh := func() {
		_, _ = client.DeleteStream(context.Background(), &kinesis.DeleteStreamInput{StreamName: aws.String(benchStream)})
		if err := srv.CreateStream(benchStream, 4); err != nil {
			b.Fatal(err)
		}
	}
	flights := 4
	if p.limits.PublishRequests > 0 {
		flights = p.limits.PublishRequests
	}
	n := publishSenders * p.each
	compare(b, n, func() measured {
		fresh()
		return measure(func() { barePutsInParallel(b, client, data, n, flights) })
	}, func() measured {
		fresh()
		system := probe.NewSystem(b)
		sys := protokinesis.New(system, protokinesis.WithEndpoint(srv.URL()), protokinesis.WithTestCredentials(), protokinesis.WithLimits(p.limits))
		if err := sys.Connect(context.Background()); err != nil {
			b.Fatal(err)
		}
		m := measure(func() { p.publish(b, system, sys, sys.Publisher(p.options...), data) })
		if err := sys.Shutdown(context.Background()); err != nil {
			b.Fatal(err)
		}
		return m
	})
}

// bareClient is the SDK's client as it is, but for the guard without which it loses some answers of a fast service.
func bareClient(srv *kinesistest.Server) *kinesis.Client {
	return kinesis.New(actors.NewClients(srv.Config()).Data.(*kinesis.Client).Options())
}

// barePutsInParallel stores so many records, 500 in each request, so many requests at a time.
func barePutsInParallel(b *testing.B, client *kinesis.Client, data []byte, n, flights int) {
	b.Helper()
	var next atomic.Int64
	var all sync.WaitGroup
	for range flights {
		all.Go(func() {
			for {
				sent := int(next.Add(500)) - 500
				if sent >= n {
					return
				}
				entries := make([]types.PutRecordsRequestEntry, 500)
				for i := range entries {
					entries[i] = types.PutRecordsRequestEntry{Data: data, PartitionKey: aws.String(benchKeys[(sent+i)%publishSenders])}
				}
				_, err := client.PutRecords(context.Background(), &kinesis.PutRecordsInput{StreamName: aws.String(benchStream), Records: entries})
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// inBatches publishes batches of a record of each of 250 keys, with so many batches of the same keys under way.
func inBatches(each, underWay int) publishFunc {
	return func(b *testing.B, _ *actor.ActorSystem, _ *protokinesis.System, p *protokinesis.Publisher, data []byte) {
		b.Helper()
		const part = publishSenders / 4
		var all sync.WaitGroup
		for s := range 4 * underWay {
			all.Go(func() {
				records := make([]protokinesis.Record, part)
				for i := range records {
					records[i] = protokinesis.Record{Stream: benchStream, PartitionKey: benchKeys[(s%4)*part+i], Data: data}
				}
				for range each / underWay {
					results, err := p.PublishBatch(context.Background(), records)
					if err != nil || slices.ContainsFunc(results, func(r protokinesis.Result) bool { return r.Err != nil }) {
						b.Error("not published", err)
						return
					}
				}
			})
		}
		all.Wait()
	}
}

// asynchronously publishes from four goroutines that do not wait for their records but at the end.
func asynchronously(each int) publishFunc {
	return func(b *testing.B, _ *actor.ActorSystem, _ *protokinesis.System, p *protokinesis.Publisher, data []byte) {
		b.Helper()
		const part = publishSenders / 4
		var all sync.WaitGroup
		for s := range 4 {
			all.Go(func() {
				pending := make([]*protokinesis.Pending, 0, part*each)
				for i := range part * each {
					r := protokinesis.Record{Stream: benchStream, PartitionKey: benchKeys[s*part+i%part], Data: data}
					pending = append(pending, p.PublishAsync(context.Background(), r))
				}
				for _, r := range pending {
					if _, err := r.Wait(context.Background()); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
	}
}

// byActors publishes from four actors, each with up to 1,000 records unanswered.
func byActors(each int, options *messages.PublishOptions) publishFunc {
	return func(b *testing.B, system *actor.ActorSystem, sys *protokinesis.System, _ *protokinesis.Publisher, data []byte) {
		b.Helper()
		var wg sync.WaitGroup
		for s := range 4 {
			wg.Add(1)
			system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor {
				return &sender{
					b: b, broker: sys.PID(), data: data, from: s * publishSenders / 4, left: publishSenders * each / 4, done: wg.Done, options: options,
				}
			}))
		}
		wg.Wait()
	}
}

// BenchmarkPublishBatches: Go code publishes batches.
func BenchmarkPublishBatches(b *testing.B) { publishes{publish: inBatches(50, 2), each: 50}.run(b) }

// BenchmarkPublishAsync: Go code publishes records and does not wait.
func BenchmarkPublishAsync(b *testing.B) { publishes{publish: asynchronously(50), each: 50}.run(b) }

// BenchmarkPublishMessages: actors publish records.
func BenchmarkPublishMessages(b *testing.B) { publishes{publish: byActors(50, nil), each: 50}.run(b) }

// BenchmarkAggregatedBatches: Go code publishes batches that are aggregated. Many are under way, as the order of a key forbids to send its next
// record before the one before it is stored, but not to send many together.
func BenchmarkAggregatedBatches(b *testing.B) {
	publishes{publish: inBatches(200, 8), each: 200, options: []protokinesis.PublisherOption{protokinesis.Aggregate()}}.run(b)
}

// BenchmarkAggregatedSmallBatches: the same with records of 64 bytes.
func BenchmarkAggregatedSmallBatches(b *testing.B) {
	publishes{publish: inBatches(200, 8), each: 200, size: 64, options: []protokinesis.PublisherOption{protokinesis.Aggregate()}}.run(b)
}

// BenchmarkAggregatedAsync: records of 512 bytes that are not waited for.
func BenchmarkAggregatedAsync(b *testing.B) {
	publishes{publish: asynchronously(200), each: 200, options: []protokinesis.PublisherOption{protokinesis.Aggregate()}}.run(b)
}

// BenchmarkAggregatedMessages: the same, from actors.
func BenchmarkAggregatedMessages(b *testing.B) {
	publishes{publish: byActors(200, &messages.PublishOptions{Aggregate: true}), each: 200}.run(b)
}

// BenchmarkPublishLatency: one record at a time, against PutRecord.
func BenchmarkPublishLatency(b *testing.B) {
	srv := kinesistest.Start(b, kinesistest.WithCallLog(0))
	if err := srv.CreateStream(benchStream, 4); err != nil {
		b.Fatal(err)
	}
	client := bareClient(srv)
	sys := protokinesis.New(probe.NewSystem(b), protokinesis.WithEndpoint(srv.URL()), protokinesis.WithTestCredentials())
	if err := sys.Connect(context.Background()); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = sys.Shutdown(context.Background()) }()
	data := make([]byte, benchSize)
	const n = 2000
	p50 := func(call func(key string) error) float64 {
		took := make([]time.Duration, 0, n)
		for i := range n {
			begun := time.Now()
			if err := call(benchKeys[i%publishSenders]); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(begun))
		}
		slices.Sort(took)
		return took[n/2].Seconds()
	}
	bare := func() float64 {
		return p50(func(key string) error {
			_, err := client.PutRecord(context.Background(), &kinesis.PutRecordInput{StreamName: aws.String(benchStream), PartitionKey: &key, Data: data})
			return err
		})
	}
	ours := func() float64 {
		return p50(func(key string) error {
			_, err := sys.Publisher().Publish(context.Background(), protokinesis.Record{Stream: benchStream, PartitionKey: key, Data: data})
			return err
		})
	}
	bare()
	ours()
	var ratios, micros []float64
	for range b.N {
		for range 3 {
			x, y := bare(), ours()
			ratios, micros = append(ratios, y/x), append(micros, 1e6*y)
		}
	}
	b.ReportMetric(median(ratios), "x-bare-p50")
	b.ReportMetric(median(micros), "µs-p50")
	b.ReportMetric(0, "ns/op")
}
