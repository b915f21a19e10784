package actors

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/internal/kpl"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

var aggregating = &messages.PublishOptions{Aggregate: true}

// publishMany publishes n records of different keys at once and returns what became of them.
func publishMany(w *world, o *Outlet, round, n int) []Outcome {
	w.t.Helper()
	items := make([]Item, n)
	for i := range items {
		items[i] = Item{Key: fmt.Sprint("key-", i), Data: fmt.Appendf(nil, "key-%d#%d", i, round)}
	}
	outcomes, err := o.PublishBatch(context.Background(), items)
	require.NoError(w.t, err)
	for _, outcome := range outcomes {
		require.Nil(w.t, outcome.Err)
	}
	return outcomes
}

// K1, K7: a split makes aggregated records end up in a shard that not all of their records belong to. The shards are listed anew, once, and all of
// these records are stored again where they belong, in their order; no reader finds one of them only where it does not look for it.
func TestAggregatedRecordsOfAWrongShardAreSentAgain(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		w.connect()
		o := w.outletOf(aggregating)
		log := newSentLog()
		note := func(outcomes []Outcome) {
			for i, outcome := range outcomes {
				log.keys[fmt.Sprint("key-", i)] = append(log.keys[fmt.Sprint("key-", i)], outcome)
			}
		}
		note(publishMany(w, o, 0, 200))
		require.Len(w.t, w.service.Records(testStream), 2, "one record of each shard")
		split(w, shardName(0))
		note(publishMany(w, o, 1, 200))
		require.Equal(w.t, 2, w.service.CallCount("ListShards"))
		note(publishMany(w, o, 2, 200))
		merge(w, shardName(2), shardName(3))
		calls := w.service.CallCount("PutRecords")
		note(publishMany(w, o, 3, 200))
		require.LessOrEqual(w.t, w.service.CallCount("PutRecords"), calls+1, "what is stored in a merged shard belongs there")
		log.requireTrue(w, true)

		found := make(map[string]int)
		shards := make(map[string]kpl.Range)
		for _, s := range w.service.Shards(testStream) {
			shards[s.ID] = kpl.ParseRange(s.StartHash, s.EndHash)
		}
		for _, r := range w.service.Records(testStream) {
			a, ok := kpl.Split(r.Data)
			require.True(w.t, ok)
			right := true
			for i := range a.Users {
				right = right && !shards[r.Shard].Excludes(a.Hash(i))
			}
			for _, u := range a.Users {
				if right { // else the KCL drops all of it
					found[string(u.Data)]++
				}
			}
		}
		require.Len(w.t, found, 800, "stored where its readers look for it")
	})
}

// Shards are listed when they are needed, one listing at a time, and less and less often while that brings nothing new.
func TestShardsAreNotListedInAStorm(t *testing.T) {
	lists := &script{}
	var mu sync.Mutex
	listing, most, count := 0, 0, 0
	inBubble(t, 2, func(w *world) {
		old, err := w.cfg.Clients.Control.(scripted).Kinesis.ListShards(context.Background(), listInput())
		require.NoError(w.t, err)
		lists.set(func(s *script) {
			s.list = func(*kinesis.ListShardsInput, func() (*kinesis.ListShardsOutput, error)) (*kinesis.ListShardsOutput, error) {
				mu.Lock()
				listing++
				count++
				most = max(most, listing)
				mu.Unlock()
				time.Sleep(200 * time.Millisecond)
				mu.Lock()
				defer mu.Unlock()
				listing--
				return old, nil
			}
		})
		w.connect()
		o := w.outletOf(aggregating)
		publishMany(w, o, 0, 100)
		split(w, shardName(0)) // which no listing ever shows
		begun := time.Now()
		for round := 1; time.Since(begun) < 2*time.Minute; round++ {
			items := []Item{{Key: "key-1", Data: []byte("x")}, {Key: "key-2", Data: []byte("x")}, {Key: "key-3", Data: []byte("x")}}
			_, err := o.PublishBatch(context.Background(), items)
			require.NoError(w.t, err)
			time.Sleep(100 * time.Millisecond)
		}
		mu.Lock()
		defer mu.Unlock()
		require.Equal(w.t, 1, most)
		require.LessOrEqual(w.t, count, 12)
	}, lists.install)
}

// Records to be aggregated wait for the first listing, but not long.
func TestRecordsDoNotWaitLongForTheShardMap(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		w.service.Fault("ListShards", kinesistest.Match{}, -1, kinesistest.Hang())
		w.connect()
		o := w.outletOf(aggregating)
		begun := time.Now()
		publishMany(w, o, 0, 50)
		require.Equal(w.t, listPatience, time.Since(begun))
		publishMany(w, o, 1, 50)
		require.Equal(w.t, listPatience, time.Since(begun), "once")
		require.Len(w.t, w.service.Records(testStream), 100, "as they are")
	})
}

// automatic makes the stream distribute its records by itself, as its description says.
func automatic(c *wireCall) bool {
	if c.op != "DescribeStreamSummary" {
		return false
	}
	return c.edit(func(out map[string]any) {
		out["StreamDescriptionSummary"].(map[string]any)["RecordDistributionStrategy"] = "AUTO"
	})
}

// A stream that distributes its records by itself can't have aggregated ones: whoever wants that is told, also those that came before it was known.
func TestNoAggregationForAStreamThatDistributesRecordsByItself(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		w.onWire(automatic)
		w.connect()
		for range 3 {
			w.me.Request(w.broker, &messages.Publish{Stream: testStream, Data: []byte("x"), Options: aggregating, Correlation: 3})
		}
		for _, e := range probe.ReceiveN[*messages.Error](w.me, 3) {
			require.Equal(w.t, messages.ErrorKind_ERROR_KIND_INVALID, e.GetKind())
			require.Equal(w.t, "options.aggregate", e.GetField())
			require.NotEmpty(w.t, e.GetAdvice())
			require.EqualValues(w.t, 3, e.GetCorrelation())
		}
		_, err := w.outletOf(aggregating).Publish(context.Background(), Item{Data: []byte("x")})
		require.ErrorIs(w.t, err, ErrInvalid)
		require.Empty(w.t, w.service.Records(testStream))
		_, err = w.outletOf(nil).Publish(context.Background(), Item{Data: []byte("x")})
		require.NoError(w.t, err, "as they are they can be published")
	})
}

// A record that is larger than an aggregated one may be, and one that is alone, go as they are.
func TestRecordsThatGoAsTheyAreBesideAggregatedOnes(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.connect()
		o := w.outletOf(aggregating)
		large := make([]byte, 60<<10)
		_, err := o.Publish(context.Background(), Item{Key: "alone", Data: []byte("x")})
		require.NoError(w.t, err)
		outcomes, err := o.PublishBatch(context.Background(), []Item{
			{Key: "a", Data: []byte("1")},
			{Key: "b", Data: large},
			{Key: "a", Data: []byte("2")},
			{Key: "b", Data: []byte("3")},
			{Key: "c", Data: []byte("4"), HashKey: "77"},
			{Key: "d", Data: make([]byte, 50<<10-20)},
		})
		require.NoError(w.t, err)
		for _, outcome := range outcomes {
			require.Nil(w.t, outcome.Err)
		}
		require.EqualValues(w.t, 1, outcomes[2].SubSequence)
		require.Equal(w.t, outcomes[0].Sequence, outcomes[2].Sequence)
		keys := make(map[string]int)
		for _, r := range w.service.Records(testStream) {
			keys[r.PartitionKey]++
			if a, ok := kpl.Split(r.Data); ok {
				require.Equal(w.t, aggregateKey, r.PartitionKey)
				require.Greater(w.t, len(a.Users), 1)
			}
		}
		require.Equal(w.t, 1, keys["alone"])
		require.Equal(w.t, 2, keys["b"])
		require.Equal(w.t, 1, keys["d"])
	})
}
