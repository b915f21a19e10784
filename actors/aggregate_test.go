package actors

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/internal/kpl"
	"github.com/protokinesis/protokinesis/internal/kpl/kpltest"
	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// putAggregate stores so many user records in one record and returns its sequence number.
func (w *world) putAggregate(name string, n int) string {
	w.t.Helper()
	_, sequence, err := w.service.Put(testStream, "a", kpltest.Aggregate(w.t, users(name, n)...))
	require.NoError(w.t, err)
	return sequence
}

// putAt stores a record under an explicit hash key and returns its sequence number.
func (w *world) putAt(hashKey string, data []byte) string {
	w.t.Helper()
	out, err := admin(w).PutRecord(context.Background(), &kinesis.PutRecordInput{
		StreamName: aws.String(testStream), PartitionKey: aws.String("a"), ExplicitHashKey: aws.String(hashKey), Data: data,
	})
	require.NoError(w.t, err)
	return aws.ToString(out.SequenceNumber)
}

// crash ends the broker as a dying process does, without checkpoint or release, and connects another on the same store.
func (w *world) crash() {
	w.t.Helper()
	w.system.Root.Stop(w.broker)
	w.again()
}

// shutdown ends the broker in order, without waiting for what is in flight, and connects another on the same store.
func (w *world) shutdown() {
	w.t.Helper()
	w.me.Request(w.broker, &messages.Shutdown{Timeout: durationOf(0)})
	probe.Fish(w.me, func(*messages.Closed) bool { return true })
	w.again()
}

func (w *world) again() {
	w.t.Helper()
	synctest.Wait()
	for _, more := w.sub.TryReceive(); more; _, more = w.sub.TryReceive() { // of the broker before
	}
	w.system.ProcessRegistry.Remove(w.broker) // its tombstone has the name
	w.broker = w.spawnBroker()
	w.connect()
}

// statusOf is what the subscription says of a shard.
func (w *world) statusOf(o *messages.Subscribed, shard string) *messages.ShardStatus {
	w.t.Helper()
	w.me.Request(o.GetSubscription(), &messages.StatusRequest{})
	status := probe.Fish(w.me, func(*messages.Status) bool { return true })
	for _, s := range status.GetSubscriptions()[0].GetShards() {
		if s.GetShardId() == shard {
			return s
		}
	}
	require.Fail(w.t, "no such shard", shard)
	return nil
}

// C9: a checkpoint within an aggregated record; the next reader opens at its sequence number and skips what was settled.
func TestCheckpointWithinAnAggregatedRecord(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		sequence := w.putAggregate("x", 5)
		w.put("k", "after")
		require.Equal(w.t, []string{"x:0", "x:1", "x:2"}, w.takeAll(3))
		require.Equal(w.t, "x:3", string(w.next(false).GetData()))
		time.Sleep(2 * time.Second)
		require.Equal(w.t, leasestore.AtSequence(sequence, 2), w.lease(shardName(0)).Checkpoint)
		w.crash()
		w.subscribe() // which has to wait for the lease of the dead owner to run out
		require.Equal(w.t, []string{"x:3", "x:4", "after"}, w.takeAll(3))
		kinds := iteratorKinds(w, shardName(0))
		require.Equal(w.t, "AT_SEQUENCE_NUMBER", kinds[len(kinds)-1])
	})
}

// The first of the user records alone looks like a plain record's checkpoint; the others still come.
func TestCheckpointAtTheFirstUserRecord(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.putAggregate("x", 3)
		w.takeAll(1)
		w.next(false)
		w.next(false)
		w.shutdown()
		w.subscribe()
		require.Equal(w.t, []string{"x:1", "x:2"}, w.takeAll(2))
	})
}

// I1: an iterator that expires with half an aggregated record delivered: none of it comes again, and none is missing.
func TestExpiredIteratorWithinAnAggregatedRecord(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon, func(d *messages.StreamDescriptor) { d.WindowRecords = new(int32(2)) })
		w.putAggregate("x", 5)
		require.Equal(w.t, []string{"x:0", "x:1"}, w.takeAll(2))
		w.service.Fault("GetRecords", kinesistest.Match{}, 2, kinesistest.ExpireIterator())
		w.putAggregate("y", 2)
		require.Equal(w.t, []string{"x:2", "x:3", "x:4", "y:0", "y:1"}, w.takeAll(5))
		w.sub.ExpectNone(time.Minute)
	})
}

// A seek may name a user record within an aggregated one.
func TestSeekToAUserRecord(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		o := w.open(horizon)
		sequence := w.putAggregate("x", 4)
		w.takeAll(4)
		to := seqSeek(shardName(0), sequence)
		to.GetSequence().SubSequenceNumber = 2
		w.me.Request(o.GetSubscription(), &messages.Seek{To: to})
		probe.Expect[*messages.Sought](w.me)
		require.Equal(w.t, []string{"x:2", "x:3"}, w.takeAll(2))
	})
}

// A shard whose last record is aggregated ends when the last of its user records is settled, not before, and not by a
// drain either that leaves some of them undelivered.
func TestShardEndsBehindItsLastUserRecord(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		small := func(d *messages.StreamDescriptor) { d.WindowRecords = new(int32(2)) }
		w.putAggregate("x", 3)
		last := w.putAggregate("y", 3)
		split(w, shardName(0))
		w.open(horizon, small)
		w.takeAll(4)
		time.Sleep(3 * time.Second)
		require.False(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
		w.shutdown()
		require.Equal(w.t, leasestore.AtSequence(last, 0), w.lease(shardName(0)).Checkpoint)
		w.subscribe(small)
		require.Equal(w.t, []string{"y:1", "y:2"}, w.takeAll(2))
		time.Sleep(2 * time.Second)
		require.True(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
	})
}

// What is read ahead is bounded also when each record holds many: the rest of a page waits unopened, and no other page is read.
func TestAggregatedRecordsAreReadAheadWithinBounds(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		for i := range 40 {
			w.putAggregate(fmt.Sprintf("p%d", i), 50)
		}
		o := w.open(horizon, func(d *messages.StreamDescriptor) { d.WindowRecords = new(int32(20)) })
		time.Sleep(time.Minute)
		before := w.service.CallCount("GetRecords")
		time.Sleep(time.Minute)
		require.Equal(w.t, before, w.service.CallCount("GetRecords"), "a stalled subscriber stalls the reading")
		status := w.statusOf(o, shardName(0))
		require.EqualValues(w.t, 20, status.GetInFlight())
		require.Less(w.t, status.GetBuffered(), int64(20+50+40))
		for i := range 40 {
			for j := range 50 {
				require.Equal(w.t, fmt.Sprintf("p%d:%d", i, j), string(w.next(true).GetData()))
			}
		}
	})
}

// K1: with the policy error the shard stops before the stray, the others go on, and a seek leads past it.
func TestShardStopsBeforeAStray(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		o := w.open(horizon, func(d *messages.StreamDescriptor) { d.StrayRecords = messages.StrayRecords_STRAY_RECORDS_ERROR })
		const last = "340282366920938463463374607431768211455"
		mixed := users("x", 4)
		mixed[2].ExplicitHashKey = last
		data := kpltest.Aggregate(w.t, mixed...)
		low := w.putAt("0", data)
		w.putAt("0", []byte("behind"))
		w.putAt(last, []byte("other shard"))
		got := map[string]bool{}
		var told *messages.SubscriptionError
		for range 4 {
			switch m := probe.Expect[any](w.sub).(type) {
			case *messages.Delivery:
				got[string(m.GetData())] = true
				w.sub.Reply(m.Ack())
			case *messages.SubscriptionError:
				told = m
			}
		}
		require.Equal(w.t, map[string]bool{"x:0": true, "x:1": true, "other shard": true}, got)
		require.Equal(w.t, messages.ErrorKind_ERROR_KIND_READ, told.GetError().GetKind())
		require.Contains(w.t, told.GetError().GetText(), leasestore.AtSequence(low, 2).String())
		require.False(w.t, told.GetFatal())
		time.Sleep(time.Minute)
		require.Equal(w.t, leasestore.AtSequence(low, 1), w.lease(shardName(0)).Checkpoint)
		require.EqualValues(w.t, 1, w.statusOf(o, shardName(0)).GetStray())
		to := seqSeek(shardName(0), low)
		to.GetSequence().SubSequenceNumber = 3
		w.me.Request(o.GetSubscription(), &messages.Seek{To: to})
		probe.Expect[*messages.Sought](w.me)
		require.Equal(w.t, []string{"x:3", "behind"}, w.takeAll(2))
	})
}

// K1: dropped strays are passed over, and counted.
func TestStraysAreDropped(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		o := w.open(horizon, func(d *messages.StreamDescriptor) { d.StrayRecords = messages.StrayRecords_STRAY_RECORDS_DROP })
		stray := kpl.UserRecord{PartitionKey: "s", ExplicitHashKey: "340282366920938463463374607431768211455", Data: []byte("stray")}
		w.putAt("0", kpltest.Aggregate(w.t, stray, stray))
		w.putAt("0", kpltest.Aggregate(w.t, append(users("x", 1), stray)...))
		last := w.putAt("0", []byte("last"))
		require.Equal(w.t, []string{"x:0", "last"}, w.takeAll(2))
		time.Sleep(2 * time.Second)
		require.Equal(w.t, leasestore.AtSequence(last, 0), w.lease(shardName(0)).Checkpoint)
		require.EqualValues(w.t, 3, w.statusOf(o, shardName(0)).GetStray())
	})
}

// Per-key order is that of the user records' own keys, not of the one key they travel under.
func TestPerKeyOrderOfUserRecords(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon, func(d *messages.StreamDescriptor) { d.PerKeyOrder = true })
		one := func(key, data string) kpl.UserRecord { return kpl.UserRecord{PartitionKey: key, Data: []byte(data)} }
		_, _, err := w.service.Put(testStream, "a", kpltest.Aggregate(w.t, one("k", "k1"), one("l", "l1"), one("k", "k2")))
		require.NoError(w.t, err)
		first, second := w.next(false), w.next(false)
		require.Equal(w.t, "k1 l1", strings.Join([]string{string(first.GetData()), string(second.GetData())}, " "))
		w.sub.ExpectNone(time.Second)
		w.sub.Send(readersOf(w)[shardName(0)], first.Ack())
		require.Equal(w.t, "k2", string(w.next(true).GetData()))
	})
}
