package actors

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

func timestamp(at time.Time) *messages.Position {
	return &messages.Position{At: &messages.Position_Timestamp{Timestamp: &messages.Timestamp{UnixMillis: at.UnixMilli()}}}
}

// number is a number of a request as it was sent.
func number(v any) float64 {
	n, _ := v.(json.Number)
	f, _ := n.Float64()
	return f
}

// plant stores a checkpoint for the shard, as an earlier run of the application would have.
func plant(w *world, c leasestore.Checkpoint) {
	w.t.Helper()
	free := w.lease(shardName(0))
	held, err := w.store.Store.Acquire(w.t.Context(), free, "earlier")
	require.NoError(w.t, err)
	held, err = w.store.Store.Checkpoint(w.t.Context(), held, c)
	require.NoError(w.t, err)
	_, err = w.store.Store.Release(w.t.Context(), held)
	require.NoError(w.t, err)
}

// stopped ends the subscription in order.
func stopped(w *world, opened *messages.Subscribed) {
	w.t.Helper()
	w.me.Request(opened.GetSubscription(), &messages.Unsubscribe{})
	probe.Fish(w.me, func(*messages.Unsubscribed) bool { return true })
}

// I4: a stored checkpoint that the service refuses is told once, with shard and checkpoint, and tried slowly. Nothing is skipped:
// not to the tip, not to the horizon, until someone seeks.
func TestACheckpointThatIsNotOfTheShard(t *testing.T) {
	for _, code := range []string{"", "ResourceNotFoundException"} { // the latter from kinesis-local
		inBubble(t, 1, func(w *world) {
			require.NoError(w.t, w.service.CreateStream("other", 1))
			w.acked()
			opened := w.open(horizon)
			w.put("k", "a")
			time.Sleep(5 * time.Second)
			_, foreign, err := w.service.Put("other", "k", nil)
			require.NoError(w.t, err)
			foreign = "9" + foreign[1:]
			stopped(w, opened)
			plant(w, leasestore.AtSequence(foreign, 0))
			w.put("k", "b")
			if code != "" {
				w.service.Fault("GetShardIterator", kinesistest.Match{}, 61, kinesistest.Error(code, "no such sequence number"))
			}
			w.received()
			opened = w.subscribe()
			w.service.ClearCalls()
			time.Sleep(10 * time.Minute)
			got, told := w.received()
			require.Empty(w.t, got)
			require.Len(w.t, told, 1+1, "of the first pass, and that it lasts")
			for _, e := range told {
				require.False(w.t, e.GetFatal())
				require.Equal(w.t, messages.ErrorKind_ERROR_KIND_READ, e.GetError().GetKind())
				require.Equal(w.t, shardName(0), e.GetError().GetShardId())
				require.Contains(w.t, e.GetError().GetText(), foreign)
			}
			for _, c := range w.service.Calls() {
				if c.Op == "GetShardIterator" {
					require.Equal(w.t, "AT_SEQUENCE_NUMBER "+foreign, c.IteratorType+" "+c.SequenceNumber)
				}
			}
			require.Less(w.t, len(iteratorKinds(w, shardName(0))), 80, "tried slowly")
			require.Equal(w.t, foreign, w.lease(shardName(0)).Checkpoint.String())
			w.service.ClearFaults()
			w.me.Request(opened.GetSubscription(), &messages.Seek{To: toHorizon()})
			probe.Fish(w.me, func(*messages.Sought) bool { return true })
			time.Sleep(3 * time.Second)
			got, _ = w.received()
			require.Equal(w.t, []string{"a", "b"}, got)
			requirePace(w)
		}, paced)
	}
}

// I4: a closed shard with such a checkpoint is not taken for one that was read to its end.
func TestAClosedShardWhoseCheckpointIsRefusedIsNotFinished(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.acked()
		opened := w.open(horizon)
		w.put("k", "a")
		time.Sleep(2 * time.Second)
		stopped(w, opened)
		w.put("k", "b")
		split(w, shardName(0))
		w.put("k", "c")
		f := w.service.Fault("GetShardIterator", kinesistest.Match{Shard: shardName(0)}, -1, kinesistest.Error("ResourceNotFoundException", "no"))
		w.received()
		w.subscribe()
		time.Sleep(5 * time.Minute)
		got, told := w.received()
		require.Empty(w.t, got)
		require.NotEmpty(w.t, told)
		require.False(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
		f.Clear()
		time.Sleep(time.Minute)
		got, _ = w.received()
		require.Equal(w.t, []string{"b", "c"}, got)
	})
}

// I4: a checkpoint whose record has passed the retention is no error: what is left is read.
func TestACheckpointWhoseRecordWasTrimmed(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.acked()
		opened := w.open(horizon)
		w.put("k", "a")
		time.Sleep(2 * time.Second)
		stopped(w, opened)
		for _, data := range []string{"b", "c", "d"} {
			w.put("k", data)
		}
		w.service.Trim(testStream, shardName(0), 2)
		w.received()
		w.subscribe()
		time.Sleep(2 * time.Second)
		got, told := w.received()
		require.Equal(w.t, []string{"c", "d"}, got)
		require.Empty(w.t, told)
	})
}

// I5: from an instant that is yet to come on: an earlier one is asked for, and what arrives before it is left out.
func TestAnInstantOfTheFuture(t *testing.T) {
	for name, open := range map[string]func(w *world, at *messages.Position){
		"start at": func(w *world, at *messages.Position) { w.open(func(d *messages.StreamDescriptor) { d.StartAt = at }) },
		"seek": func(w *world, at *messages.Position) {
			w.me.Request(w.open().GetSubscription(), &messages.Seek{To: at})
			probe.Fish(w.me, func(*messages.Sought) bool { return true })
		},
	} {
		for _, ahead := range []time.Duration{time.Millisecond, 300 * time.Millisecond, 5 * time.Second, time.Hour} {
			t.Run(name+"/"+ahead.String(), func(t *testing.T) {
				inBubble(t, 1, func(w *world) {
					w.acked()
					w.put("k", "old")
					time.Sleep(10 * time.Millisecond)
					at := time.Now().Add(ahead)
					open(w, timestamp(at))
					time.Sleep(time.Until(at) - time.Millisecond)
					w.put("k", "too early")
					time.Sleep(time.Millisecond)
					w.put("k", "a")
					time.Sleep(5 * time.Second)
					w.put("k", "b")
					time.Sleep(5 * time.Second)
					got, told := w.received()
					require.Equal(w.t, []string{"a", "b"}, got)
					require.Empty(w.t, told)
					requirePace(w)
				}, paced)
			})
		}
	}
}

// I5: the tip, when LATEST has failed, is an instant. If the service's clock is behind ours it refuses that, and nothing of what comes after the
// opening is lost.
func TestATipThatTheServiceTakesForTheFuture(t *testing.T) {
	for _, skew := range []time.Duration{300 * time.Millisecond, 3 * time.Second, time.Hour} {
		inBubble(t, 1, func(w *world) {
			w.onWire(func(c *wireCall) bool {
				stamp := time.UnixMilli(int64(number(c.in["Timestamp"]) * 1000))
				switch {
				case c.op == "GetShardIterator" && stamp.After(time.Now().Add(-skew)):
					return c.say(400, "InvalidArgumentException", `{"message":"The timestampInMillis parameter cannot be greater than the currentTimestampInMillis."}`)
				case c.op == "GetRecords":
					return c.edit(func(out map[string]any) {
						records, _ := out["Records"].([]any)
						for _, r := range records {
							fields, _ := r.(map[string]any)
							fields["ApproximateArrivalTimestamp"] = number(fields["ApproximateArrivalTimestamp"]) - skew.Seconds()
						}
					})
				}
				return false
			})
			w.acked()
			w.connect()
			w.service.Fault("GetShardIterator", kinesistest.Match{}, 1, kinesistest.Error("InternalFailure", "no"))
			w.subscribe()
			w.put("k", "a")
			time.Sleep(10 * time.Second)
			w.put("k", "b")
			time.Sleep(10 * time.Second)
			got, _ := w.received()
			require.Equal(w.t, []string{"a", "b"}, got)
			kinds := iteratorKinds(w, shardName(0))
			require.Equal(w.t, "LATEST", kinds[0])
			require.NotContains(w.t, kinds[1:], "LATEST")
		}, paced)
	}
}

// I8: a service that answers AT_TIMESTAMP with all that it has: what arrived before is left out, up to the first record that did not.
func TestATimestampThatBringsEverything(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.onWire(func(c *wireCall) bool {
			return c.op == "GetShardIterator" && c.pass(func(in map[string]any) {
				if in["ShardIteratorType"] == "AT_TIMESTAMP" {
					in["ShardIteratorType"] = "TRIM_HORIZON"
					delete(in, "Timestamp")
				}
			})
		})
		w.acked()
		for _, data := range []string{"a", "b", "c", "d"} {
			w.put("k", data)
			time.Sleep(time.Second)
		}
		third := w.service.Records(testStream)[2]
		w.connect()
		w.service.Fault("GetRecords", kinesistest.Match{}, 2, kinesistest.ExpireIterator())
		w.subscribe(func(d *messages.StreamDescriptor) { d.StartAt = timestamp(third.Arrival) })
		w.put("k", "e")
		time.Sleep(time.Minute)
		got, _ := w.received()
		require.Equal(w.t, []string{"c", "d", "e"}, got)
	})
}
