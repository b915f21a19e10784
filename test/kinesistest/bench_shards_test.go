package kinesistest_test

import (
	"fmt"
	"net/http"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/test/kinesistest"
)

const manyShards = 10_000

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkManyShards is the work of the service for one call against a stream of 10,000 shards.
func BenchmarkManyShards(b *testing.B) {
	svc := kinesistest.New(kinesistest.WithCallLog(0))
	before := heapInUse()
	require.NoError(b, svc.CreateStream(streamName, manyShards))
	b.Logf("%d bytes per shard", (heapInUse()-before)/manyShards)
	run := func(name, op string, bodies ...[]byte) {
		b.Run(name, func(b *testing.B) {
			d := newDirect(b, svc, formats[0], op)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if d.call(bodies[i%len(bodies)]) != http.StatusOK {
					b.Fatal(d.w.status)
				}
			}
		})
	}
	marshal := func(in any) []byte {
		body, err := formats[0].marshal(in)
		require.NoError(b, err)
		return body
	}
	var starts, polls [][]byte
	ask := newDirect(b, svc, formats[0], "GetShardIterator")
	for i := range manyShards {
		in := map[string]any{"StreamName": streamName, "ShardId": fmt.Sprintf("shardId-%012d", i), "ShardIteratorType": "LATEST"}
		starts = append(starts, marshal(in))
		var it struct{ ShardIterator string }
		ask.ask(b, in, &it)
		polls = append(polls, marshal(it))
	}
	b.Run("CreateStream", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := kinesistest.New().CreateStream("other", manyShards); err != nil {
				b.Fatal(err)
			}
		}
	})
	run("ListShards/first", "ListShards", marshal(map[string]any{"StreamName": streamName}))
	run("ListShards/last", "ListShards", marshal(map[string]any{"StreamName": streamName, "ExclusiveStartShardId": "shardId-000000008999"}))
	run("ListShards/one", "ListShards", marshal(map[string]any{"StreamName": streamName, "ExclusiveStartShardId": "shardId-000000009998"}))
	run("DescribeStreamSummary", "DescribeStreamSummary", marshal(map[string]any{"StreamName": streamName}))
	run("GetShardIterator", "GetShardIterator", starts...)
	run("GetRecords", "GetRecords", polls...)
	b.Run("GetRecords/parallel", func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			d := newDirect(b, svc, formats[0], "GetRecords")
			for i := 0; pb.Next(); i++ {
				if d.call(polls[i%len(polls)]) != http.StatusOK {
					b.Error(d.w.status)
				}
			}
		})
	})
}
