package test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

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
