package test

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// The benchmarks run a loop on the bare SDK client and the library in turn against the same embedded service, and report the
// library's rate as a ratio of the loop's ("x-bare": above 1 is faster), its processor time likewise ("x-bare-cpu": below 1 is less) and its allocations per
// record beyond the loop's ("allocs-over"): these machines are noisy, and only figures of one run can be compared. Their figures stand beside them:
//
//	bench_consume_test.go   reading, with the service in another process
//	bench_peers_test.go     other consumers
//	bench_scale_test.go     many shards
//	bench_publish_test.go   publishing
//	bench_throttle_test.go  publishing to throttled shards
//
// StalledSubscriber, of 4 shards, holds 7 MB: 4 × 1,000 records of 512 bytes delivered, as many read ahead.

const (
	benchStream  = "bench"
	benchSize    = 512
	benchRecords = 100_000
)

// filled is a service with so many records, spread over its shards.
func filled(b *testing.B, shards, records int) *kinesistest.Server {
	b.Helper()
	srv := kinesistest.Start(b, kinesistest.WithCallLog(0))
	if err := srv.Service.CreateStream(benchStream, shards); err != nil {
		b.Fatal(err)
	}
	data := make([]byte, benchSize)
	for i := range records {
		if _, _, err := srv.Service.Put(benchStream, "key-"+strconv.Itoa(i%1000), data); err != nil {
			b.Fatal(err)
		}
	}
	return srv
}

// measured is what one run took.
type measured struct {
	seconds float64
	allocs  float64
	cpu     float64
}

func measure(f func()) measured {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, start := cpuSeconds(), time.Now()
	f()
	m := measured{seconds: time.Since(start).Seconds(), cpu: cpuSeconds() - cpu}
	runtime.ReadMemStats(&after)
	m.allocs = float64(after.Mallocs - before.Mallocs)
	return m
}

// compare runs both in turn and reports the median ratio.
func compare(b *testing.B, records int, bare, ours func() measured) {
	b.Helper()
	bare()
	ours() // warm connections and code
	var ratios, cpu, allocs, rates []float64
	for range b.N {
		for range 3 {
			m, o := bare(), ours()
			ratios = append(ratios, m.seconds/o.seconds)
			cpu = append(cpu, o.cpu/m.cpu)
			allocs = append(allocs, (o.allocs-m.allocs)/float64(records))
			rates = append(rates, float64(records)/o.seconds)
		}
	}
	b.ReportMetric(median(ratios), "x-bare")
	b.ReportMetric(median(cpu), "x-bare-cpu")
	b.ReportMetric(median(allocs), "allocs-over")
	b.ReportMetric(median(rates), "records/s")
	b.ReportMetric(0, "ns/op")
}

const (
	publishSenders = 1000
	publishEach    = 50
)

// BenchmarkPublishActors: four actors publish 1,000 keys, each with up to 1,000 records unanswered, against a loop of PutRecords(500).
func BenchmarkPublishActors(b *testing.B) {
	benchPublish(b, func(sys *protokinesis.System, system *actor.ActorSystem, data []byte) {
		var wg sync.WaitGroup
		for s := range 4 {
			wg.Add(1)
			system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor {
				return &sender{b: b, broker: sys.PID(), data: data, from: s * publishSenders / 4, left: publishSenders * publishEach / 4, done: wg.Done}
			}))
		}
		wg.Wait()
	})
}

// sender publishes so many records, a thousand at a time.
type sender struct {
	b          *testing.B
	broker     *actor.PID
	data       []byte
	from       int
	left, open int
	sent       int
	done       func()
	options    *messages.PublishOptions
}

// Receive implements actor.Actor.
func (s *sender) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		for range 1000 {
			s.send(c)
		}
	case *messages.Published:
		s.open--
		s.send(c)
		if s.open == 0 {
			s.done()
			c.Stop(c.Self())
		}
	case *messages.Error:
		s.b.Error(m)
	}
}

func (s *sender) send(c actor.Context) {
	if s.left == 0 {
		return
	}
	s.left--
	s.open++
	s.sent++
	c.Request(s.broker, &messages.Publish{
		Stream: benchStream, PartitionKey: &benchKeys[s.from+s.sent%(publishSenders/4)], Data: s.data, Options: s.options,
	})
}

var benchKeys = func() []string {
	keys := make([]string, publishSenders)
	for i := range keys {
		keys[i] = "key-" + strconv.Itoa(i)
	}
	return keys
}()

// BenchmarkPublishGoroutines: 1,000 goroutines publish a key each and wait for each record. Every record costs a goroutine's way to sleep and
// back, which the loop does not pay.
func BenchmarkPublishGoroutines(b *testing.B) {
	benchPublish(b, func(sys *protokinesis.System, _ *actor.ActorSystem, data []byte) {
		var wg sync.WaitGroup
		for s := range publishSenders {
			wg.Go(func() {
				for range publishEach {
					r := protokinesis.Record{Stream: benchStream, PartitionKey: benchKeys[s], Data: data}
					if _, err := sys.Publisher().Publish(context.Background(), r); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	})
}

func benchPublish(b *testing.B, publish func(*protokinesis.System, *actor.ActorSystem, []byte)) {
	b.Helper()
	srv := kinesistest.Start(b, kinesistest.WithCallLog(0))
	client := bareClient(srv)
	data := make([]byte, benchSize)
	fresh := func() {
		_, _ = client.DeleteStream(context.Background(), &kinesis.DeleteStreamInput{StreamName: aws.String(benchStream)})
		if err := srv.CreateStream(benchStream, 4); err != nil {
			b.Fatal(err)
		}
	}
	compare(b, publishSenders*publishEach, func() measured {
		fresh()
		return measure(func() { barePuts(b, client, data, publishSenders*publishEach) })
	}, func() measured {
		fresh()
		system := probe.NewSystem(b)
		sys := protokinesis.New(system, protokinesis.WithEndpoint(srv.URL()), protokinesis.WithTestCredentials())
		if err := sys.Connect(context.Background()); err != nil {
			b.Fatal(err)
		}
		m := measure(func() { publish(sys, system, data) })
		if err := sys.Shutdown(context.Background()); err != nil {
			b.Fatal(err)
		}
		return m
	})
}

// barePuts stores so many records, 500 in each request, one request after another.
func barePuts(b *testing.B, client *kinesis.Client, data []byte, n int) {
	b.Helper()
	for sent := 0; sent < n; sent += 500 {
		entries := make([]types.PutRecordsRequestEntry, 500)
		for i := range entries {
			entries[i] = types.PutRecordsRequestEntry{Data: data, PartitionKey: aws.String(benchKeys[(sent+i)%publishSenders])}
		}
		if _, err := client.PutRecords(context.Background(), &kinesis.PutRecordsInput{StreamName: aws.String(benchStream), Records: entries}); err != nil {
			b.Fatal(err)
		}
	}
}
