package actors

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/internal/kpl"
	"github.com/protokinesis/protokinesis/internal/kpl/kpltest"
	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// A seek elsewhere is followed; while its position is being written, a seek to a sequence number is refused by the service. The shard reads on.
func TestSeekRefusedWhileAMoveIsWritten(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.acked()
		opened := w.open(horizon)
		w.put("k", "a")
		time.Sleep(3 * time.Second)
		streams, err := w.store.Streams(context.Background())
		require.NoError(t, err)
		state := streams[0]
		state.Seek++
		state.Start = leasestore.TrimHorizon()
		_, err = w.store.SaveState(context.Background(), state)
		require.NoError(t, err)
		w.store.slow(2 * time.Second)
		for w.store.count("move") < 1 {
			time.Sleep(10 * time.Millisecond)
		}
		w.service.Fault("GetShardIterator", kinesistest.Match{}, 1, kinesistest.Error("InvalidArgumentException", "not of this shard"))
		w.me.Request(opened.GetSubscription(), &messages.Seek{To: seqSeek(shardName(0), w.service.Records(testStream)[0].SequenceNumber)})
		probe.Fish(w.me, func(*messages.Error) bool { return true })
		w.store.slow(0)
		w.put("k", "b")
		time.Sleep(10 * time.Minute)
		got, _ := w.received()
		require.Equal(w.t, []string{"a", "a", "b"}, got)
	})
}

// One shard whose iterator is refused, while the listing that is to say whether it has ended fails, does not fail Subscribe.
func TestOneShardWhoseEndCannotBeConfirmed(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		w.service.Fault("GetShardIterator", kinesistest.Match{Shard: shardName(1)}, -1, kinesistest.Error("ResourceNotFoundException", "no"))
		lists := 0
		w.onWire(func(c *wireCall) bool {
			if c.op != "ListShards" {
				return false
			}
			lists++
			return lists > 1 && c.say(500, "InternalFailure", `{}`)
		})
		w.connect()
		w.me.Request(w.broker, &messages.Subscribe{Stream: &messages.StreamDescriptor{Name: testStream}, Subscriber: w.sub.PID()})
		m := probe.Expect[any](w.me)
		require.IsType(w.t, &messages.Subscribed{}, m)
	})
}

// Another key's record is not held up by one key's that fill an aggregated record before it: there is room in the window.
func TestOtherKeysFlowPastAnAggregatedRecordOfOneKey(t *testing.T) {
	for name, one := range map[string]bool{"one record": true, "plain records": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(w *world) {
				k := func(s string) kpl.UserRecord { return kpl.UserRecord{PartitionKey: "k", Data: []byte(s)} }
				l := kpl.UserRecord{PartitionKey: "l", Data: []byte("l1")}
				if one {
					for _, d := range [][]byte{kpltest.Aggregate(w.t, k("k1"), k("k2"), k("k3"), k("k4")), kpltest.Aggregate(w.t, l)} {
						_, _, err := w.service.Put(testStream, "a", d)
						require.NoError(w.t, err)
					}
				} else {
					for _, s := range []string{"k1", "k2", "k3", "k4"} {
						w.put("k", s)
					}
					w.put("l", "l1")
				}
				w.open(horizon, func(d *messages.StreamDescriptor) { d.PerKeyOrder, d.WindowRecords = true, new(int32(4)) })
				time.Sleep(time.Minute)
				got, _ := w.received()
				require.Equal(w.t, []string{"k1", "l1"}, got)
			}, paced)
		})
	}
}
