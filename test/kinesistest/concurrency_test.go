package kinesistest_test

import (
	"bytes"
	"fmt"
	"math/big"
	"net/http"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/test/kinesistest"
)

// Four writers put while the shards split under them and a subscription reads the first shard;
// nothing is lost and every writer's records stay in order within a shard.
func TestConcurrentUse(t *testing.T) {
	const writers, each = 4, 200
	f := newFixture(t, 1)
	stream := f.subscribe(t, f.register(t, "fan"), horizonPosition)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				_, err := f.putKeys(t.Context(), fmt.Sprintf("%d-%d", w, i), fmt.Sprintf("%d-%d'", w, i))
				assert.NoError(t, err)
			}
		})
	}
	wg.Go(func() {
		for range 4 {
			open := openShards(f.Server, streamName)
			sh := open[len(open)-1]
			middle := new(big.Int).Add(number(sh.StartHash), number(sh.EndHash))
			_, err := f.client.SplitShard(t.Context(), &kinesis.SplitShardInput{
				StreamName: aws.String(streamName), ShardToSplit: &sh.ID,
				NewStartingHashKey: aws.String(middle.Rsh(middle, 1).String()),
			})
			assert.NoError(t, err)
		}
	})
	pushed := 0
	for {
		e, ok := event(t, stream)
		if !ok {
			break
		}
		pushed += len(e.Records)
	}
	wg.Wait()
	require.NoError(t, stream.Err())

	total, last := 0, map[string]int{}
	for _, sh := range f.Shards(streamName) {
		total += sh.Records
		if sh.ID == shard0 {
			assert.Equal(t, sh.Records, pushed)
		}
	}
	assert.Equal(t, writers*each*2, total)
	for _, r := range f.Records(streamName) {
		var w, i int
		_, err := fmt.Sscanf(r.PartitionKey, "%d-%d", &w, &i)
		require.NoError(t, err)
		of := fmt.Sprint(r.Shard, "/", w)
		require.GreaterOrEqual(t, i, last[of])
		last[of] = i
	}
}

// While records come in both formats, readers of both formats at once get all that are there, in order
// and unharmed.
func TestReadersOfBothFormatsAtOnce(t *testing.T) {
	const each, perCall = 40, 50
	svc := kinesistest.New()
	require.NoError(t, svc.CreateStream(streamName, 1))
	var writers, readers sync.WaitGroup
	for _, f := range formats {
		put := newDirect(t, svc, f, "PutRecords")
		body := benchPutBody(t, f, perCall)
		writers.Go(func() {
			for range each {
				assert.Equal(t, http.StatusOK, put.call(body))
			}
		})
	}
	for i := range 4 {
		f := formats[i%2]
		start, get := newDirect(t, svc, f, "GetShardIterator"), newDirect(t, svc, f, "GetRecords")
		readers.Go(func() {
			var it struct{ ShardIterator string }
			start.ask(t, map[string]any{"StreamName": streamName, "ShardId": shard0, "ShardIteratorType": "TRIM_HORIZON"}, &it)
			last, read := "", 0
			for read < 2*each*perCall {
				var page struct {
					Records []struct {
						Data                         []byte
						SequenceNumber, PartitionKey string
					}
					NextShardIterator string
				}
				get.ask(t, map[string]any{"ShardIterator": it.ShardIterator, "Limit": 70 + i}, &page)
				for _, r := range page.Records {
					assert.Greater(t, r.SequenceNumber, last)
					last = r.SequenceNumber
					n := 0
					_, err := fmt.Sscanf(r.PartitionKey, "key-%d", &n)
					assert.NoError(t, err)
					assert.Equal(t, bytes.Repeat([]byte{byte(n)}, benchRecord), r.Data)
				}
				read += len(page.Records)
				it.ShardIterator = page.NextShardIterator
			}
			assert.Equal(t, 2*each*perCall, read)
		})
	}
	writers.Wait()
	readers.Wait()
	assert.Len(t, svc.Records(streamName), 2*each*perCall)
}
