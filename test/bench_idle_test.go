package test

import (
	"context"
	"fmt"
	"runtime"
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

const (
	idleShards = 1000
	idleFor    = 10 * time.Second
)

// BenchmarkIdleShards: 1,000 idle shards on one node, each polled once a second. "heap-MB" is what the library, its connections and the
// service in the same process hold; "x-bare-cpu" is processor time over that of the bare client making the same polls, both with the service's.
func BenchmarkIdleShards(b *testing.B) {
	srv := kinesistest.Start(b, kinesistest.WithCallLog(0))
	if err := srv.Service.CreateStream(benchStream, idleShards); err != nil {
		b.Fatal(err)
	}
	for range b.N {
		cpu, heap, goroutines := idleOurs(b, srv)
		bare := idleBare(b, srv)
		b.ReportMetric(cpu/bare, "x-bare-cpu")
		b.ReportMetric(cpu/idleFor.Seconds(), "cores")
		b.ReportMetric(heap, "heap-MB")
		b.ReportMetric(goroutines, "goroutines/shard")
		b.ReportMetric(0, "ns/op")
	}
}

// idleBare polls every shard once a second from a goroutine each and returns the processor time.
func idleBare(b *testing.B, srv *kinesistest.Server) float64 {
	b.Helper()
	client := bareClient(srv)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for i := range idleShards {
		it, err := client.GetShardIterator(ctx, &kinesis.GetShardIteratorInput{
			StreamName: aws.String(benchStream), ShardId: aws.String(fmt.Sprintf("shardId-%012d", i)), ShardIteratorType: types.ShardIteratorTypeLatest,
		})
		if err != nil {
			b.Fatal(err)
		}
		wg.Go(func() {
			next := it.ShardIterator
			time.Sleep(time.Duration(i) * time.Second / idleShards) // spread over the second, as the library's are
			for {
				out, err := client.GetRecords(ctx, &kinesis.GetRecordsInput{ShardIterator: next, Limit: aws.Int32(1000)})
				if err != nil {
					return
				}
				next = out.NextShardIterator
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
					return
				}
			}
		})
	}
	time.Sleep(2 * time.Second) // a steady state is what is measured
	before := cpuSeconds()
	time.Sleep(idleFor)
	used := cpuSeconds() - before
	cancel()
	wg.Wait()
	return used
}

func idleOurs(b *testing.B, srv *kinesistest.Server) (cpu, heapMB, goroutines float64) {
	b.Helper()
	ctx := context.Background()
	system := probe.NewSystem(b)
	sys := protokinesis.New(system, protokinesis.WithEndpoint(srv.URL()), protokinesis.WithTestCredentials())
	if err := sys.Connect(ctx); err != nil {
		b.Fatal(err)
	}
	pid, _ := acker(system, 1)
	if _, err := sys.Subscribe(ctx, protokinesis.Stream(benchStream), protokinesis.Actor(pid)); err != nil {
		b.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	before := cpuSeconds()
	time.Sleep(idleFor)
	cpu = cpuSeconds() - before
	heapMB = heapInUse()
	goroutines = float64(runtime.NumGoroutine()) / idleShards
	if err := sys.Shutdown(ctx); err != nil {
		b.Fatal(err)
	}
	return cpu, heapMB, goroutines
}

func heapInUse() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// BenchmarkStalledSubscriber: a subscriber that settles nothing, with 200,000 records waiting in 4 shards. "window-MB" is what is held
// beyond the service's own records: at most 4 windows.
func BenchmarkStalledSubscriber(b *testing.B) {
	srv := filled(b, 4, 200_000)
	for range b.N {
		before := heapInUse()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		system := probe.NewSystem(b)
		sys := protokinesis.New(system, protokinesis.WithAWSConfig(srv.Config()), protokinesis.WithLimits(protokinesis.Limits{ReadsPerSecond: -1}))
		if err := sys.Connect(ctx); err != nil {
			b.Fatal(err)
		}
		full := make(chan struct{})
		got := 0
		pid := system.Root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
			if _, ok := c.Message().(*messages.Delivery); ok {
				if got++; got == 4*1000 {
					close(full)
				}
			}
		}))
		if _, err := sys.Subscribe(ctx, protokinesis.Stream(benchStream, protokinesis.StartAt(protokinesis.TrimHorizon())), protokinesis.Actor(pid)); err != nil {
			b.Fatal(err)
		}
		<-full
		time.Sleep(3 * time.Second) // time to overrun
		b.ReportMetric(heapInUse()-before, "window-MB")
		b.ReportMetric(float64(got), "delivered")
		cancel()
		short, stop := context.WithTimeout(context.Background(), time.Second)
		_ = sys.Shutdown(short) // with 4,000 unsettled
		stop()
	}
	b.ReportMetric(0, "ns/op")
}
