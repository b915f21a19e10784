package test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/actors"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// consumeStreams are what BenchmarkConsume reads.
var (
	eightShards  = apartStream{"eight", 8, 25_000, benchSize}
	smallRecords = apartStream{"small", 8, 25_000, 100}
	largeRecords = apartStream{"large", 8, 250, 50 << 10}
	oneShard     = apartStream{"one", 1, 100_000, benchSize}
)

// BenchmarkConsume reads streams of the embedded service in another process with a loop on the bare SDK client, a goroutine for each shard, and with the library,
// in turn. "x-bare" is the library's rate over the loop's, "x-bare-cpu" its processor time over the loop's, "allocs/record" are the library's, all of
// this process alone. Checkpoints are in memory, read pacing is off. Medians of 5 on two cores, November 2026, go 1.26.8:
//
//	go test ./test -run '^$' -bench 'Consume|WireFormats' -benchtime 1x -count 5
//
//	                                              records/s   x-bare   x-bare-cpu   allocs/record
//	Batches, 8 × 25,000 of 512 bytes              617,000     2.8      0.31         0.41
//	Singly, a message for each record             475,000     2.3      0.44         1.4
//	Handler, a HandlerFunc, 16 keys at a time     364,000     2.0      0.47         2.2
//	SmallBatches, 8 × 25,000 of 100 bytes         637,000     2.0      0.43         0.41
//	LargeBatches, 8 × 250 of 50 KiB                 8,800     2.2      0.35         5.9
//	OneShardBatches, 100,000 of 512 bytes         305,000     2.9      0.31         0.39
func BenchmarkConsume(b *testing.B) {
	url := serveApart(b)
	for _, s := range []apartStream{eightShards, smallRecords, largeRecords, oneShard} {
		fillApart(b, url, s)
	}
	for _, c := range []struct {
		name string
		s    apartStream
		how  consumes
	}{
		{"Batches", eightShards, consumes{to: countingActor, options: inBatchesOf500}},
		{"Singly", eightShards, consumes{to: countingActor}},
		{"Handler", eightShards, consumes{to: countingHandler}},
		{"SmallBatches", smallRecords, consumes{to: countingActor, options: inBatchesOf500}},
		{"LargeBatches", largeRecords, consumes{to: countingActor, options: inBatchesOf500}},
		{"OneShardBatches", oneShard, consumes{to: countingActor, options: inBatchesOf500}},
	} {
		b.Run(c.name, func(b *testing.B) { c.how.run(b, url, c.s) })
	}
}

// BenchmarkWireFormats reads a stream in CBOR and in JSON in turn, both with the library. Medians of 5: CBOR is 1.03 to 1.13 times as fast (single runs up to
// 1.38), in 0.777 of the bytes. It is not faster by as much as it is shorter, because here nobody waits for the bytes: they go through memory. What CBOR saves of
// the work is base64, which AVX2 decodes in 0.2 µs a record, and a third of the reading of members. Of the client's time of either, making records and
// their memory takes 18 %, finding their parts 10 %, base64 2 %, the actors 16 %, collecting garbage 13 %, system calls 9 %.
func BenchmarkWireFormats(b *testing.B) {
	url := serveApart(b)
	fillApart(b, url, eightShards)
	how := consumes{to: countingActor, options: inBatchesOf500}
	var ratios, bytes []float64
	how.ours(b, url, eightShards, protokinesis.JSON)
	for range b.N {
		for range 3 {
			json, inJSON := how.ours(b, url, eightShards, protokinesis.JSON)
			cbor, inCBOR := how.ours(b, url, eightShards, protokinesis.CBOR)
			ratios = append(ratios, json.seconds/cbor.seconds)
			bytes = append(bytes, float64(inCBOR)/float64(inJSON))
		}
	}
	b.ReportMetric(median(ratios), "x-json")
	b.ReportMetric(median(bytes), "x-json-bytes")
	b.ReportMetric(0, "ns/op")
}

var inBatchesOf500 = []protokinesis.StreamOption{protokinesis.Batches(500)}

// consumes is how the library reads.
type consumes struct {
	// to makes a subscriber that acks everything, and says when it has had so many records.
	to      func(system *actor.ActorSystem, want int) (protokinesis.Subscriber, <-chan struct{})
	options []protokinesis.StreamOption
}

func (c consumes) run(b *testing.B, url string, s apartStream) {
	b.Helper()
	client := bareApart(url)
	var allocs []float64
	compare(b, s.records(),
		func() measured { return measure(func() { bareApartLoops(b, client, s) }) },
		func() measured {
			m, _ := c.ours(b, url, s, protokinesis.JSON)
			allocs = append(allocs, m.allocs/float64(s.records()))
			return m
		})
	b.ReportMetric(median(allocs), "allocs/record")
}

// ours reads the stream once. bytes is what came over the network.
func (c consumes) ours(b *testing.B, url string, s apartStream, format protokinesis.WireFormat) (m measured, bytes int64) {
	b.Helper()
	ctx := context.Background()
	system := probe.NewSystem(b)
	var read atomic.Int64
	cfg := apartConfig(url, &read)
	sys := protokinesis.New(system, protokinesis.WithAWSConfig(cfg), protokinesis.WithWireFormat(format),
		protokinesis.WithLimits(protokinesis.Limits{ReadsPerSecond: -1}))
	require.NoError(b, sys.Connect(ctx))
	to, done := c.to(system, s.records())
	m = measure(func() {
		d := protokinesis.Stream(s.name, append(c.options, protokinesis.StartAt(protokinesis.TrimHorizon()))...)
		_, err := sys.Subscribe(ctx, d, to)
		require.NoError(b, err)
		<-done
	})
	require.NoError(b, sys.Shutdown(ctx))
	return m, read.Load()
}

func countingActor(system *actor.ActorSystem, want int) (protokinesis.Subscriber, <-chan struct{}) {
	pid, done := acker(system, want)
	return protokinesis.Actor(pid), done
}

func countingHandler(_ *actor.ActorSystem, want int) (protokinesis.Subscriber, <-chan struct{}) {
	var got atomic.Int64
	done := make(chan struct{})
	return protokinesis.Handler{Parallel: 16, Func: func(context.Context, *protokinesis.Delivery) error {
		if got.Add(1) == int64(want) {
			close(done)
		}
		return nil
	}}, done
}

// acker acks everything and says when it has seen so many records.
func acker(system *actor.ActorSystem, want int) (*actor.PID, <-chan struct{}) {
	done := make(chan struct{})
	got := 0
	count := func(n int) {
		before := got
		got += n
		if before < want && got >= want {
			close(done)
		}
	}
	return system.Root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
		switch m := c.Message().(type) {
		case *messages.DeliveryBatch:
			c.Respond(m.Ack())
			count(len(m.GetDeliveries()))
		case *messages.Delivery:
			c.Respond(m.Ack())
			count(1)
		}
	})), done
}

// apartConfig is how both reach the service: by the SDK's HTTP client with as many idle connections as shards need. read counts the bytes that come.
func apartConfig(url string, read *atomic.Int64) aws.Config {
	return aws.Config{
		Region: "us-east-1", BaseEndpoint: &url, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient: awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
			t.MaxIdleConnsPerHost, t.MaxIdleConns = 256, 0
			t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, address)
				return countedConn{conn, read}, err
			}
		}),
	}
}

type countedConn struct {
	net.Conn
	read *atomic.Int64
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// bareApart is the SDK's client as it is, but for the guard without which it loses some answers of a fast service.
func bareApart(url string) *kinesis.Client {
	return kinesis.New(actors.NewClients(apartConfig(url, new(atomic.Int64))).Data.(*kinesis.Client).Options())
}

// bareApartLoops reads a stream as plain code on the SDK would, all shards at the same time.
func bareApartLoops(b *testing.B, client *kinesis.Client, s apartStream) {
	b.Helper()
	var all sync.WaitGroup
	for shard := range s.shards {
		all.Go(func() {
			id := fmt.Sprintf("shardId-%012d", shard)
			if err := bareApartLoop(client, s, id); err != nil {
				b.Error(err)
			}
		})
	}
	all.Wait()
}

func bareApartLoop(client *kinesis.Client, s apartStream, shard string) error {
	ctx := context.Background()
	it, err := client.GetShardIterator(ctx, &kinesis.GetShardIteratorInput{
		StreamName: aws.String(s.name), ShardId: aws.String(shard), ShardIteratorType: types.ShardIteratorTypeTrimHorizon,
	})
	if err != nil {
		return err
	}
	next := it.ShardIterator
	for got := 0; got < s.each; {
		out, err := client.GetRecords(ctx, &kinesis.GetRecordsInput{ShardIterator: next, Limit: aws.Int32(1000)})
		if err != nil {
			return err
		}
		got += len(out.Records)
		next = out.NextShardIterator
	}
	return nil
}
