package actors

import (
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// listingWithout is an answer to ListShards that lacks some shards, as when a page got lost.
func listingWithout(w *world, missing ...string) kinesistest.Effect {
	w.t.Helper()
	type m = map[string]any
	shards := []m{}
	for _, s := range w.service.Shards(testStream) {
		if slices.Contains(missing, s.ID) {
			continue
		}
		sequences := m{"StartingSequenceNumber": s.StartSequence}
		if s.EndSequence != "" {
			sequences["EndingSequenceNumber"] = s.EndSequence
		}
		shard := m{
			"ShardId": s.ID, "HashKeyRange": m{"StartingHashKey": s.StartHash, "EndingHashKey": s.EndHash}, "SequenceNumberRange": sequences,
		}
		if s.Parent != "" {
			shard["ParentShardId"] = s.Parent
		}
		if s.AdjacentParent != "" {
			shard["AdjacentParentShardId"] = s.AdjacentParent
		}
		shards = append(shards, shard)
	}
	body, err := json.Marshal(m{"Shards": shards})
	require.NoError(w.t, err)
	return kinesistest.Body(200, body)
}

// subscriptionErrors are those that have arrived by now; other messages are dropped.
func subscriptionErrors(w *world) (errs []*messages.SubscriptionError) {
	synctest.Wait()
	for {
		m, ok := w.sub.TryReceive()
		if !ok {
			return errs
		}
		if e, isError := m.Message.(*messages.SubscriptionError); isError {
			errs = append(errs, e)
		}
	}
}

// R20: a page of the first listing got lost. The stream is listed again at once, not 10 s later, and the shard is read from where the
// subscription opened.
func TestALostPageIsListedAgainSoon(t *testing.T) {
	inBubble(t, 4, func(w *world) {
		w.connect()
		w.service.Fault("ListShards", kinesistest.Match{}, 1, listingWithout(w, shardName(2)))
		opened := w.subscribe()
		require.Len(w.t, opened.GetShards(), 3)
		keys := []string{"k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7"}
		for _, key := range keys {
			w.put(key, key)
		}
		w.sub.SetTimeout(5 * time.Second)
		require.ElementsMatch(w.t, keys, w.takeAll(len(keys)))
		require.Equal(w.t, 2, w.service.CallCount("ListShards"))
		time.Sleep(time.Minute)
		require.Empty(w.t, subscriptionErrors(w))
		require.Equal(w.t, []string{"AT_TIMESTAMP"}, iteratorKinds(w, shardName(2)))
	})
}

// R20: a shard that stays missing is told once, after three listings more; nothing is listed more often for it from then on.
func TestAHoleThatStaysIsToldOnce(t *testing.T) {
	inBubble(t, 4, func(w *world) {
		w.connect()
		fault := w.service.Fault("ListShards", kinesistest.Match{}, 1000, listingWithout(w, shardName(1)))
		w.subscribe()
		time.Sleep(2400 * time.Millisecond) // three pauses of 810 ms or more
		require.Empty(w.t, subscriptionErrors(w), "not before it was listed three times more")
		time.Sleep(600 * time.Millisecond)
		require.Equal(w.t, 4, w.service.CallCount("ListShards"))
		errs := subscriptionErrors(w)
		require.Len(w.t, errs, 1)
		require.False(w.t, errs[0].GetFatal())
		require.Equal(w.t, messages.ErrorKind_ERROR_KIND_READ, errs[0].GetError().GetKind())
		missing := w.service.Shards(testStream)[1]
		require.Contains(w.t, errs[0].GetError().GetText(), missing.StartHash+" to "+missing.EndHash)
		time.Sleep(5 * time.Minute)
		require.Empty(w.t, subscriptionErrors(w))
		require.InDelta(w.t, 34, w.service.CallCount("ListShards"), 5, "every 10 s again")

		fault.Clear()
		time.Sleep(time.Minute)
		require.Equal(w.t, []string{"AT_TIMESTAMP"}, iteratorKinds(w, shardName(1)))
		w.service.Fault("ListShards", kinesistest.Match{}, 10, listingWithout(w, shardName(1)))
		time.Sleep(2 * time.Minute)
		require.Empty(w.t, subscriptionErrors(w), "a shard that is read here is not missing")
	})
}

// R20: while the stream is being resharded, a hole is no alarm.
func TestAHoleWhileUpdatingIsNotTold(t *testing.T) {
	inBubble(t, 4, func(w *world) {
		w.connect()
		w.service.Fault("ListShards", kinesistest.Match{}, 1000, listingWithout(w, shardName(1)))
		w.subscribe()
		real, err := admin(w).DescribeStreamSummary(w.t.Context(), &kinesis.DescribeStreamSummaryInput{StreamName: aws.String(testStream)})
		require.NoError(w.t, err)
		created := real.StreamDescriptionSummary.StreamCreationTimestamp.Unix()
		summary := map[string]any{"StreamDescriptionSummary": map[string]any{
			"StreamName": testStream, "StreamARN": "arn:aws:kinesis:us-east-1:000000000000:stream/" + testStream, "StreamStatus": "UPDATING",
			"RetentionPeriodHours": 24, "OpenShardCount": 4, "StreamCreationTimestamp": created, "EnhancedMonitoring": []any{},
		}}
		body, err := json.Marshal(summary)
		require.NoError(w.t, err)
		updating := w.service.Fault("DescribeStreamSummary", kinesistest.Match{}, 1000, kinesistest.Body(200, body))
		time.Sleep(5 * time.Minute)
		require.Empty(w.t, subscriptionErrors(w))
		updating.Clear()
		time.Sleep(15 * time.Second)
		require.Len(w.t, subscriptionErrors(w), 1)
	})
}

// R6: after a pause longer than the retention the parent is gone with records unread. Its children are read, and the subscriber is told
// once which shard, and how far it was read.
func TestATrimmedParentIsToldAndItsChildrenAreRead(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "read")
		read := w.next(true)
		w.me.Request(w.broker, &messages.Shutdown{})
		probe.Expect[*messages.Closed](w.me)
		w.put("k", "lost")
		split(w, shardName(0))
		w.put("k", "child")
		require.True(w.t, w.service.DropShard(testStream, shardName(0)))
		w.cfg.Name = "second"
		w.broker = w.spawnBroker()
		w.open()
		told := probe.Expect[*messages.SubscriptionError](w.sub) // before the child is read
		require.False(w.t, told.GetFatal())
		require.Equal(w.t, messages.ErrorKind_ERROR_KIND_READ, told.GetError().GetKind())
		require.Equal(w.t, shardName(0), told.GetError().GetShardId())
		require.Contains(w.t, told.GetError().GetText(), read.GetSequenceNumber())
		require.Equal(w.t, "child", string(w.next(true).GetData()))
		time.Sleep(5 * time.Minute)
		require.Empty(w.t, subscriptionErrors(w))
	})
}

// quickListings counts the listings that came within a second of the one before.
func quickListings(w *world) (n int) {
	var last time.Time
	for _, call := range w.service.Calls() {
		if call.Op == "ListShards" {
			if call.Time.Sub(last) <= time.Second {
				n++
			}
			last = call.Time
		}
	}
	return n
}

// R4, R20: a page that got lost does not let children start before a parent that another node still reads.
func TestALostPageDoesNotFreeChildrenOfAParentReadElsewhere(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		w.next(false)
		held, err := w.store.Store.Acquire(w.t.Context(), w.lease(shardName(0)), "other")
		require.NoError(w.t, err)
		renewFor := func(d time.Duration) {
			for range d / (2 * time.Second) {
				time.Sleep(2 * time.Second)
				held, err = w.store.Store.Renew(w.t.Context(), held)
				require.NoError(w.t, err)
			}
		}
		split(w, shardName(0))
		renewFor(14 * time.Second)
		before := quickListings(w)
		for n := 1; n <= 2; n++ {
			w.service.Fault("ListShards", kinesistest.Match{}, 1, listingWithout(w, shardName(0)))
			renewFor(30 * time.Second)
			require.Empty(w.t, iteratorKinds(w, shardName(1)))
			require.Equal(w.t, before+n, quickListings(w), "listed again within a second")
		}
		require.Equal(w.t, "other", w.lease(shardName(0)).Owner)
	})
}

// R8, R20: The first listing of a node that starts lacks a closed shard: its children are not read before it.
func TestOneListingThatLackedAParentKeepsTheOrder(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.acked()
		w.put("k", "0")
		split(w, shardName(0))
		time.Sleep(30 * time.Second) // 0 is finished, 1 is being read
		w.shutdown()
		key := keyFor(w, shardName(1), false)
		w.put(key, "1")
		split(w, shardName(1))
		w.put(key, "2")
		w.service.Fault("ListShards", kinesistest.Match{}, 1, listingWithout(w, shardName(1)))
		w.subscribe()
		time.Sleep(2 * time.Minute)
		got, _ := w.received()
		require.Equal(w.t, []string{"1", "2"}, got)
	})
}

// R8, R20: A second node whose first listing lacks a shard sees its lease, unfinished and renewed: the children wait.
func TestAParentWithALiveLeaseIsWaitedForThoughAListingLacksIt(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "0")
		w.takeAll(1)
		split(w, shardName(0))
		key := keyFor(w, shardName(1), false)
		w.put(key, "1")
		require.Equal(w.t, "1", string(w.next(false).GetData())) // in flight at the first node
		split(w, shardName(1))
		w.put(key, "2")
		time.Sleep(3 * time.Second) // the first node has listed
		other, sub := second(w)
		w.service.Fault("ListShards", kinesistest.Match{}, 1, listingWithout(w, shardName(1)))
		subscribeAt(w, other, sub)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		early := false
		for e, more := sub.TryReceive(); more; e, more = sub.TryReceive() {
			d, delivered := e.Message.(*messages.Delivery)
			early = early || delivered && d.GetShardId() != shardName(1) // which may be its share
		}
		shutDown(w, other)
		require.False(w.t, early, "shard 3 was read while a record of shard 1 was in flight")
	})
}

// R6, R20: hash keys that stay without a shard do not hold up the children of a parent that was trimmed away.
func TestAHoleThatStaysDoesNotHoldUpTheChildrenOfALostShard(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		w.open(horizon)
		w.put(keyFor(w, shardName(0), false), "read")
		w.takeAll(1)
		w.shutdown()
		key := keyFor(w, shardName(0), false)
		split(w, shardName(0))
		w.put(key, "child")
		require.True(w.t, w.service.DropShard(testStream, shardName(0)))
		w.service.Fault("ListShards", kinesistest.Match{}, 1<<30, listingWithout(w, shardName(1)))
		w.subscribe()
		time.Sleep(30 * time.Second)
		got, _ := w.received()
		require.Equal(w.t, []string{"child"}, got)
	})
}
