package test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/internal/kpl"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// throttleTime is how long a throttle of the benchmarks lasts.
const throttleTime = 30 * time.Second

// throttled is a service that can throttle, and a publisher of it.
func throttled(b *testing.B, shards int) (*kinesistest.Server, *protokinesis.System, *actor.ActorSystem) {
	b.Helper()
	srv := kinesistest.Start(b, kinesistest.WithCallLog(0))
	if err := srv.CreateStream(benchStream, shards); err != nil {
		b.Fatal(err)
	}
	system := probe.NewSystem(b)
	sys := protokinesis.New(system, protokinesis.WithEndpoint(srv.URL()), protokinesis.WithTestCredentials())
	if err := sys.Connect(context.Background()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = sys.Shutdown(context.Background()) })
	return srv, sys, system
}

// keysPerShard are so many partition keys of each shard.
func keysPerShard(srv *kinesistest.Server, each int) (ids []string, keys map[string][]string) {
	keys = make(map[string][]string)
	var ranges []kpl.Range
	for _, s := range srv.Shards(benchStream) {
		ids, ranges = append(ids, s.ID), append(ranges, kpl.ParseRange(s.StartHash, s.EndHash))
	}
	for i, left := 0, each*len(ids); left > 0; i++ {
		key := fmt.Sprint("key-", i)
		hash := kpl.UserRecord{PartitionKey: key}.Hash()
		at := slices.IndexFunc(ranges, func(r kpl.Range) bool { return !r.Excludes(hash) })
		if len(keys[ids[at]]) < each {
			keys[ids[at]] = append(keys[ids[at]], key)
			left--
		}
	}
	return ids, keys
}

// BenchmarkOneShardThrottled: one shard of eight takes nothing for 30 s, and its senders do not stop. The rate of each of the others is compared with
// that of the 30 s before and after ("x-without": the worst).
func BenchmarkOneShardThrottled(b *testing.B) {
	const senders = 32
	srv, sys, _ := throttled(b, 8)
	ids, keys := keysPerShard(srv, senders)
	p := sys.Publisher()
	data := make([]byte, benchSize)
	round := func() map[string]*atomic.Int64 {
		ctx, cancel := context.WithTimeout(context.Background(), throttleTime)
		defer cancel()
		counts := make(map[string]*atomic.Int64)
		var all sync.WaitGroup
		for _, id := range ids {
			count := new(atomic.Int64)
			counts[id] = count
			for _, key := range keys[id] {
				all.Go(func() {
					for ctx.Err() == nil {
						sent := p.PublishAsync(ctx, protokinesis.Record{Stream: benchStream, PartitionKey: key, Data: data})
						if id == ids[0] {
							time.Sleep(10 * time.Millisecond) // and goes on
						} else if _, err := sent.Wait(ctx); err == nil {
							count.Add(1)
						}
					}
				})
			}
		}
		all.Wait()
		return counts
	}
	var worst []float64
	for range b.N {
		before := round()
		srv.Fault("PutRecords", kinesistest.Match{Shard: ids[0]}, -1, kinesistest.PartialEvery("ProvisionedThroughputExceededException", 1))
		during := round()
		srv.ClearFaults()
		after := round() // a machine that others use is not always as fast
		least := 1e9
		for _, id := range ids[1:] {
			least = min(least, 2*float64(during[id].Load())/float64(before[id].Load()+after[id].Load()))
		}
		worst = append(worst, least)
	}
	b.ReportMetric(median(worst), "x-without")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkAllThrottled: nothing is taken for 30 s, and senders do not stop, neither Go code nor actors. Heap is what is alive beyond what was before;
// the bound of a stream's unanswered records, 64 MiB by default, is part of it.
func BenchmarkAllThrottled(b *testing.B) {
	srv, sys, system := throttled(b, 4)
	p := sys.Publisher()
	const size = 16 << 10
	alive := func() float64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) / (1 << 20)
	}
	publish := func(ctx context.Context) {
		var all sync.WaitGroup
		for s := range 16 {
			all.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					r := protokinesis.Record{Stream: benchStream, PartitionKey: fmt.Sprint(s, "-", i%100), Data: make([]byte, size)}
					_ = p.PublishAsync(ctx, r)
				}
			})
		}
		refused := system.Root.Spawn(actor.PropsFromFunc(func(actor.Context) {}))
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				m := &messages.Publish{Stream: benchStream, PartitionKey: new(fmt.Sprint(i % 100)), Data: make([]byte, size)}
				system.Root.RequestWithCustomSender(sys.PID(), m, refused)
				time.Sleep(time.Millisecond)
			}
		})
		all.Wait()
	}
	if _, err := p.Publish(context.Background(), protokinesis.Record{Stream: benchStream, PartitionKey: "warm", Data: []byte("x")}); err != nil {
		b.Fatal(err)
	}
	var heaps []float64
	for range b.N {
		before, most := alive(), 0.0
		srv.Fault("PutRecords", kinesistest.Match{}, -1, kinesistest.Partial("ProvisionedThroughputExceededException"))
		ctx, cancel := context.WithTimeout(context.Background(), throttleTime)
		var all sync.WaitGroup
		all.Go(func() { publish(ctx) })
		for ctx.Err() == nil {
			time.Sleep(500 * time.Millisecond)
			most = max(most, alive())
		}
		cancel()
		all.Wait()
		time.Sleep(throttleTime) // all is reported
		srv.ClearFaults()
		heaps = append(heaps, most-before)
	}
	b.ReportMetric(median(heaps), "MiB-heap")
	b.ReportMetric(0, "ns/op")
}
