package actors

import (
	"context"
	"fmt"
	"math/big"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// admin is the SDK's client for what the library itself does not do.
func admin(w *world) *kinesis.Client { return inProcess(w.service).Control.(*kinesis.Client) }

// split splits a shard in the middle of its range.
func split(w *world, id string) {
	w.t.Helper()
	for _, s := range w.service.Shards(testStream) {
		if s.ID != id {
			continue
		}
		lo, _ := new(big.Int).SetString(s.StartHash, 10)
		hi, _ := new(big.Int).SetString(s.EndHash, 10)
		mid := new(big.Int).Rsh(new(big.Int).Add(lo, hi), 1)
		_, err := admin(w).SplitShard(context.Background(), &kinesis.SplitShardInput{
			StreamName: aws.String(testStream), ShardToSplit: aws.String(id), NewStartingHashKey: aws.String(mid.String()),
		})
		require.NoError(w.t, err)
		return
	}
	w.t.Fatalf("no shard %s", id)
}

func merge(w *world, a, b string) {
	w.t.Helper()
	_, err := admin(w).MergeShards(context.Background(), &kinesis.MergeShardsInput{
		StreamName: aws.String(testStream), ShardToMerge: aws.String(a), AdjacentShardToMerge: aws.String(b),
	})
	require.NoError(w.t, err)
}

func shardName(n int) string { return fmt.Sprintf("shardId-%012d", n) }

// iteratorKinds are the kinds of iterators asked for of a shard, in order.
func iteratorKinds(w *world, shard string) []string {
	var kinds []string
	for _, c := range w.service.Calls() {
		if c.Op == "GetShardIterator" && c.Shard == shard {
			kinds = append(kinds, c.IteratorType)
		}
	}
	return kinds
}

// R1: a child is read from its first record, though the subscription began at the tip.
func TestChildOfATipShardStartsAtTheHorizon(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open()
		w.put("k", "parent")
		split(w, shardName(0))
		w.put("k", "child")
		w.put("k", "child2")
		require.Equal(w.t, []string{"parent", "child", "child2"}, w.takeAll(3))
		synctest.Wait()
		require.Equal(w.t, []string{"LATEST"}, iteratorKinds(w, shardName(0)), "the tip is asked for once")
		for _, id := range []string{shardName(1), shardName(2)} {
			require.Equal(w.t, []string{"TRIM_HORIZON"}, iteratorKinds(w, id))
		}
		require.True(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
	})
}

// R4, R11: children wait until the parent is settled, and then start at once rather than at the next listing.
func TestChildrenWaitForTheParentAndStartAtOnce(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "parent")
		parent := w.next(false)
		split(w, shardName(0))
		w.put("k", "child")
		w.sub.ExpectNone(25 * time.Second)
		require.False(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd(), "not before the last record is settled")
		start := time.Now()
		w.sub.Send(w.sub.Sender(), parent.Ack())
		require.Equal(w.t, []string{"child"}, w.takeAll(1))
		require.Less(w.t, time.Since(start), time.Second)
	})
}

// R8: a merged child waits for both parents.
func TestMergedChildWaitsForBothParents(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		w.open(horizon)
		w.put("k0", "a")
		w.put("k1", "b")
		w.put("k2", "c")
		w.put("k3", "d")
		byShard := map[string]*messages.Delivery{}
		unsettled := map[string][]*messages.Delivery{}
		for range 4 {
			d := w.next(false)
			byShard[d.GetShardId()] = d
			unsettled[d.GetShardId()] = append(unsettled[d.GetShardId()], d)
		}
		require.Len(w.t, byShard, 2, "the keys fall into both shards")
		merge(w, shardName(0), shardName(1))
		w.put("k0", "merged")
		readers := readersOf(w)
		for _, d := range unsettled[shardName(0)] {
			w.sub.Send(readers[shardName(0)], d.Ack())
		}
		w.sub.ExpectNone(15 * time.Second)
		for _, d := range unsettled[shardName(1)] {
			w.sub.Send(readers[shardName(1)], d.Ack())
		}
		require.Equal(w.t, []string{"merged"}, w.takeAll(1))
	})
}

// readersOf are the readers' PIDs by shard.
func readersOf(w *world) map[string]*pidOf {
	w.t.Helper()
	w.me.Request(w.broker, &messages.StatusRequest{})
	status := probe.Fish(w.me, func(*messages.Status) bool { return true })
	out := make(map[string]*pidOf)
	for _, s := range status.GetSubscriptions() {
		for _, row := range s.GetShards() {
			out[row.GetShardId()] = childPID(s.GetSubscription(), row.GetShardId())
		}
	}
	return out
}

// R9: a closed shard without a record ends.
func TestEmptyClosedShardEnds(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		split(w, shardName(0))
		w.put("k", "child")
		w.open(horizon)
		require.Equal(w.t, []string{"child"}, w.takeAll(1))
		require.True(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
	})
}

// R5: a parent that was closed before the subscription is read first, to its end.
func TestClosedParentIsReadFirst(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		for _, data := range []string{"a", "b", "c"} {
			w.put("k", data)
		}
		split(w, shardName(0))
		w.put("k", "d")
		w.open(horizon)
		require.Equal(w.t, []string{"a", "b", "c", "d"}, w.takeAll(4))
	})
}

// R16: an answer without a next iterator on an open shard is not its end.
func TestSpuriousNullIteratorOnAnOpenShard(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		w.takeAll(1)
		w.service.Fault("GetRecords", kinesistest.Match{}, 1, kinesistest.NullIterator())
		w.put("k", "b")
		w.put("k", "c")
		require.Equal(w.t, []string{"b", "c"}, w.takeAll(2))
		require.False(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
	})
}

// R16: nor is it the end of a closed one that holds more: the shard is read again, and ends when that brings nothing.
func TestSpuriousNullIteratorOnAClosedShard(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		all := []string{"a", "b", "c", "d", "e", "f", "g"}
		for _, data := range all[:6] {
			w.put("k", data)
		}
		split(w, shardName(0))
		w.put("k", "g")
		w.service.Fault("GetRecords", kinesistest.Match{Shard: shardName(0)}, -1, kinesistest.NullIterator())
		w.open(horizon, func(d *messages.StreamDescriptor) { d.WindowRecords = new(int32(2)) })
		require.Equal(w.t, all, w.takeAll(len(all)))
		require.True(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
	})
}

// R16: the shard was open when its page came without an iterator, and closed when the listing was asked.
func TestShardClosedAfterASpuriousNullIterator(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		w.takeAll(1)
		w.service.Fault("ListShards", kinesistest.Match{}, -1, kinesistest.Delay(time.Second))
		w.service.Fault("GetRecords", kinesistest.Match{}, 1, kinesistest.NullIterator())
		time.Sleep(1500 * time.Millisecond) // the page has come, the listing not
		w.put("k", "b")
		split(w, shardName(0))
		w.put("k", "c")
		require.Equal(w.t, []string{"b", "c"}, w.takeAll(2))
	})
}

// R5 at the tip: what was closed before is not read.
func TestShardsClosedBeforeTheTipAreOutOfScope(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.put("k", "old")
		split(w, shardName(0))
		w.put("k", "older than the subscription")
		w.open()
		w.put("k", "new")
		require.Equal(w.t, []string{"new"}, w.takeAll(1))
		time.Sleep(time.Minute)
		require.Empty(w.t, iteratorKinds(w, shardName(0)))
	})
}

// A shard whose parents are finished resumes at its checkpoint after a restart of the whole.
func TestResumeAcrossABrokerRestart(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		split(w, shardName(0))
		w.put("k", "b")
		w.takeAll(2)
		w.me.Request(w.broker, &messages.Shutdown{})
		probe.Expect[*messages.Closed](w.me)
		w.put("k", "c")
		w.cfg.Name = "second"
		w.broker = w.spawnBroker()
		w.open()
		require.Equal(w.t, []string{"c"}, w.takeAll(1))
		require.Len(w.t, iteratorKinds(w, shardName(0)), 1, "a finished shard is not read again")
	})
}

// R2: LATEST is asked for once. When that fails, the shard opens at the stored instant, and nothing published since is skipped.
func TestTipIsPinned(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.connect()
		w.service.Fault("GetShardIterator", kinesistest.Match{}, 1, kinesistest.Error("InternalFailure", "no"))
		w.subscribe()
		w.put("k", "a")
		require.Equal(w.t, []string{"a"}, w.takeAll(1))
		require.Equal(w.t, []string{"LATEST", "AT_TIMESTAMP"}, iteratorKinds(w, shardName(0)))
	})
}

// A restart before the first ack resumes where the subscription was opened.
func TestTipSurvivesARestartBeforeTheFirstAck(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.put("k", "old")
		time.Sleep(2 * time.Second)
		w.open()
		time.Sleep(time.Second)
		w.put("k", "a")
		w.next(false)
		w.me.Request(w.broker, &messages.Shutdown{Timeout: durationOf(0)})
		probe.Expect[*messages.Closed](w.me)
		w.put("k", "b")
		w.cfg.Name = "second"
		w.broker = w.spawnBroker()
		w.open()
		require.Equal(w.t, []string{"a", "b"}, w.takeAll(2))
	})
}

func deleteInput() *kinesis.DeleteStreamInput {
	return &kinesis.DeleteStreamInput{StreamName: aws.String(testStream)}
}

// A scan that looked before a shard was finished and answers after it must not have the shard read again.
func TestStaleScanDoesNotReopenAFinishedShard(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		w.takeAll(1)
		w.store.slowList(4 * time.Second)
		for range 3 { // wherever within the scan the end of the shard comes
			time.Sleep(3700 * time.Millisecond)
		}
		split(w, shardName(0))
		w.put("k", "b")
		require.Equal(w.t, []string{"b"}, w.takeAll(1))
		time.Sleep(time.Minute)
		_, more := w.sub.TryReceive()
		require.False(w.t, more, "nothing is delivered twice")
		require.Len(w.t, iteratorKinds(w, shardName(0)), 1)
	})
}

// What a reader acquires may be further than what was seen when it was started: it goes on from what is stored.
func TestReaderGoesOnFromWhatIsStored(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		w.put("k", "b")
		w.takeAll(2)
		w.store.slowList(4 * time.Second)
		time.Sleep(500 * time.Millisecond)
		reader := w.sub.Sender()
		w.system.Root.Stop(reader)         // its last checkpoint is not written
		time.Sleep(300 * time.Millisecond) // the coordinator looks at the leases
		stored := w.lease(shardName(0))    // and after it has looked, the checkpoint arrives
		last := w.service.Records(testStream)[1].SequenceNumber
		_, err := w.store.Store.Checkpoint(w.t.Context(), stored, leasestore.AtSequence(last, 0))
		require.NoError(w.t, err)
		w.put("k", "c")
		require.Equal(w.t, []string{"c"}, w.takeAll(1))
	})
}
