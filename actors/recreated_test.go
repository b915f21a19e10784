package actors

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// A stream that was deleted and created again.

func resetting(d *messages.StreamDescriptor) {
	d.OnRecreated = messages.OnRecreated_ON_RECREATED_RESET
}

// recreate deletes the stream and, after a while, creates it again with so many shards and a record "new:i" for each i.
func (w *world) recreate(shards int, gone time.Duration, records ...string) {
	w.t.Helper()
	time.Sleep(2 * time.Second) // creation times have whole seconds
	_, err := admin(w).DeleteStream(w.t.Context(), deleteInput())
	require.NoError(w.t, err)
	time.Sleep(gone)
	require.NoError(w.t, w.service.CreateStream(testStream, shards))
	for _, data := range records {
		w.put(data, data)
	}
}

// errorTold is the next SubscriptionError about the stream as such.
func (w *world) errorTold() *messages.SubscriptionError {
	w.t.Helper()
	return probe.Fish(w.sub, func(m *messages.SubscriptionError) bool {
		return m.GetError().GetKind() == messages.ErrorKind_ERROR_KIND_STREAM
	})
}

// S1: An open subscription ends with one clear error, whether the deletion was noticed or not; nothing is checkpointed in the new stream.
func TestRecreatedUnderAnOpenSubscription(t *testing.T) {
	for name, gone := range map[string]time.Duration{"in no time": time.Millisecond, "in a second": time.Second} {
		for _, shards := range []int{1, 2, 4} {
			t.Run(name, func(t *testing.T) {
				inBubble(t, 2, func(w *world) {
					opened := w.open(horizon)
					w.put("k", "old")
					w.takeAll(1)
					w.recreate(shards, gone, "new")
					told := probe.Fish(w.sub, func(m *messages.SubscriptionError) bool { return m.GetFatal() })
					require.Equal(w.t, messages.ErrorKind_ERROR_KIND_STREAM, told.GetError().GetKind())
					require.Contains(w.t, told.GetError().GetText(), "created again")
					require.Contains(w.t, told.GetError().GetAdvice(), "RESET")
					w.me.Watch(opened.GetSubscription())
					w.me.ExpectTerminated(opened.GetSubscription())
					require.Len(w.t, w.streams(), 1)
				})
			})
		}
	}
}

// S1: With the policy reset it starts over at the oldest record by itself, whether the deletion was noticed or not.
func TestResetUnderAnOpenSubscription(t *testing.T) {
	for name, gone := range map[string]time.Duration{"in no time": time.Millisecond, "in 5 s": 5 * time.Second, "in 10 min": 10 * time.Minute} {
		for _, shards := range []int{1, 2, 4} {
			t.Run(name, func(t *testing.T) {
				inBubble(t, 2, func(w *world) {
					opened := w.open(resetting)
					w.put("k", "old")
					late := w.next(false)
					w.recreate(shards, gone, "a", "b", "c", "d")
					told := w.errorTold()
					require.False(w.t, told.GetFatal())
					time.Sleep(2 * time.Minute)
					w.sub.Send(readersOf(w)[shardName(0)], late.Ack())
					require.ElementsMatch(w.t, []string{"a", "b", "c", "d"}, w.lastOf(4))
					time.Sleep(2 * time.Second)
					require.Len(w.t, w.streams(), 2)
					w.me.Request(opened.GetSubscription(), &messages.Seek{To: toHorizon()})
					probe.Fish(w.me, func(*messages.Sought) bool { return true })
					require.ElementsMatch(w.t, []string{"a", "b", "c", "d"}, w.lastOf(4), "the subscription is open as ever")
				})
			})
		}
	}
}

// lastOf acks all that has come and is the last n of it: a reader of before may have met records of the new stream.
func (w *world) lastOf(n int) (data []string) {
	w.t.Helper()
	time.Sleep(time.Minute)
	synctest.Wait()
	for e, more := w.sub.TryReceive(); more; e, more = w.sub.TryReceive() {
		if d, ok := e.Message.(*messages.Delivery); ok {
			data = append(data, string(d.GetData()))
			w.sub.Reply(d.Ack())
		}
	}
	require.GreaterOrEqual(w.t, len(data), n)
	return data[len(data)-n:]
}

// streams are the streams that have rows.
func (w *world) streams() []int64 {
	w.t.Helper()
	states, err := w.store.Streams(w.t.Context())
	require.NoError(w.t, err)
	var created []int64
	for _, s := range states {
		created = append(created, s.Stream.CreatedMillis)
	}
	return created
}

// S1: A stopped consumer finds another stream than the one its checkpoints are of. It does not use them, nor skip to the tip unasked.
func TestRecreatedWhileStopped(t *testing.T) {
	stopped := func(w *world) {
		w.open(horizon)
		w.put("k", "old")
		w.takeAll(1)
		w.shutdown()
		w.recreate(1, time.Second, "a", "b")
	}
	t.Run("fail", func(t *testing.T) {
		inBubble(t, 2, func(w *world) {
			stopped(w)
			for range 2 { // it stays so
				w.me.Request(w.broker, &messages.Subscribe{Stream: &messages.StreamDescriptor{Name: testStream}, Subscriber: w.sub.PID()})
				e := probe.Expect[*messages.Error](w.me)
				require.Equal(w.t, messages.ErrorKind_ERROR_KIND_STREAM, e.GetKind())
				require.Contains(w.t, e.GetText(), "created again")
			}
			require.Len(w.t, w.streams(), 1)
		})
	})
	t.Run("reset", func(t *testing.T) {
		inBubble(t, 2, func(w *world) {
			stopped(w)
			w.subscribe(resetting)
			require.Equal(w.t, []string{"a", "b"}, w.takeAll(2))
			w.shutdown()
			w.put("k", "c")
			w.subscribe() // now it has checkpoints of its own
			require.Equal(w.t, []string{"c"}, w.takeAll(1))
		})
	})
	t.Run("reset of a stream that was resharded meanwhile", func(t *testing.T) {
		inBubble(t, 2, func(w *world) {
			stopped(w)
			split(w, shardName(0))
			w.put("k", "c")
			w.subscribe(resetting)
			require.Equal(w.t, []string{"a", "b", "c"}, w.takeAll(3))
		})
	})
	t.Run("an explicit start", func(t *testing.T) {
		inBubble(t, 2, func(w *world) {
			stopped(w)
			w.subscribe(horizon)
			require.Equal(w.t, []string{"a", "b"}, w.takeAll(2))
		})
	})
}

// S1: While a deleted stream is waited for the service is asked now and then, not in a storm, and a Shutdown ends the waiting.
func TestWaitingForADeletedStream(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		w.open(resetting)
		_, err := admin(w).DeleteStream(w.t.Context(), deleteInput())
		require.NoError(w.t, err)
		require.False(w.t, w.errorTold().GetFatal())
		w.service.ClearCalls()
		time.Sleep(10 * time.Minute)
		require.Less(w.t, len(w.service.Calls()), 600, "at most one call per second")
		for e, more := w.sub.TryReceive(); more; e, more = w.sub.TryReceive() {
			require.NotContains(w.t, e.Message.(*messages.SubscriptionError).GetError().GetText(), "gone", "it is told once")
		}
	})
}

// S1: What fails while it starts over is tried again: the subscription was open and stays so.
func TestStartingOverThroughFaults(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		w.open(resetting)
		w.recreate(2, time.Millisecond, "a")
		w.errorTold()
		w.service.Fault("DescribeStreamSummary", kinesistest.Match{}, 8, kinesistest.Error("InternalFailure", "oops"))
		w.service.Fault("ListShards", kinesistest.Match{}, 8, kinesistest.Error("InternalFailure", "oops"))
		time.Sleep(2 * time.Minute)
		require.Equal(w.t, []string{"a"}, w.lastOf(1))
	})
}

// S1: A listing that merely lost a page is none of another stream: nothing ends and nothing starts over.
func TestALostPageIsNoOtherStream(t *testing.T) {
	inBubble(t, 4, func(w *world) {
		w.open(resetting)
		w.service.Fault("ListShards", kinesistest.Match{}, 2, listingWithout(w, shardName(1)))
		time.Sleep(time.Minute)
		require.Empty(w.t, subscriptionErrors(w))
		for i := range 4 {
			require.Len(w.t, iteratorKinds(w, shardName(i)), 1)
		}
	})
}

// S1: start_at names a record of the new stream: it holds though the stream starts over.
func TestStartAtASequenceOfARecreatedStream(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.acked()
		w.put("k", "old")
		time.Sleep(3 * time.Second)
		w.shutdown()
		w.recreate(1, time.Second, "a")
		_, sequence, err := w.service.Put(testStream, "k", []byte("b"))
		require.NoError(w.t, err)
		w.subscribe(resetting, func(d *messages.StreamDescriptor) {
			d.StartAt = &messages.Position{At: &messages.Position_Sequence{Sequence: &messages.Sequence{ShardId: shardName(0), SequenceNumber: sequence}}}
		})
		time.Sleep(time.Minute)
		got, _ := w.received()
		require.Equal(w.t, []string{"b"}, got)
	})
}

// S1: start_at names a shard that the new stream does not have: that is told, as ever.
func TestStartAtASequenceOfAnUnknownShardOfARecreatedStream(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.acked()
		w.put("k", "old")
		time.Sleep(3 * time.Second)
		w.shutdown()
		w.recreate(1, time.Second, "a")
		d := &messages.StreamDescriptor{Name: testStream, OnRecreated: messages.OnRecreated_ON_RECREATED_RESET}
		d.StartAt = &messages.Position{At: &messages.Position_Sequence{Sequence: &messages.Sequence{ShardId: shardName(7), SequenceNumber: "1"}}}
		w.me.Request(w.broker, &messages.Subscribe{Stream: d, Subscriber: w.sub.PID()})
		var e probe.Envelope
		for ok := false; !ok; e, ok = w.me.TryReceive() {
			time.Sleep(10 * time.Millisecond)
		}
		require.IsType(w.t, &messages.Error{}, e.Message)
	})
}

// S1: A seek that is being stored when the stream turns out to be another must not keep the node from following the seeks of others ever after.
func TestSeeksAreFollowedAfterStartingOver(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		opened := w.open(resetting)
		w.acked()
		time.Sleep(3 * time.Second)
		_, err := admin(w).DeleteStream(w.t.Context(), deleteInput())
		require.NoError(w.t, err)
		require.NoError(w.t, w.service.CreateStream(testStream, 1))
		w.service.Fault("ListShards", kinesistest.Match{}, 1, kinesistest.Delay(8*time.Second)) // the seek's; an ordinary one is faster
		w.me.Request(opened.GetSubscription(), &messages.Seek{To: toHorizon()})
		probe.Fish(w.me, func(*messages.Error) bool { return true })
		w.put("k", "a")
		time.Sleep(time.Minute)
		got, _ := w.received()
		require.Equal(w.t, []string{"a"}, got)

		streams, err := w.store.Streams(w.t.Context())
		require.NoError(w.t, err)
		require.Len(w.t, streams, 2)
		state := streams[1] // another node seeks to the horizon
		state.Seek++
		state.Start, state.Tip = leasestore.TrimHorizon(), false
		_, err = w.store.SaveState(w.t.Context(), state)
		require.NoError(w.t, err)
		time.Sleep(2 * time.Minute)
		got, _ = w.received()
		require.Equal(w.t, []string{"a"}, got, "the seek is followed")
	})
}

// S1: The same stream under another spelling, while the first subscription has not noticed yet that it was created again.
func TestARecreatedStreamIsStillOneStream(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		opened := w.open(resetting)
		w.recreate(1, time.Millisecond)
		w.me.Request(w.broker, &messages.Subscribe{
			Stream: &messages.StreamDescriptor{Name: opened.GetStreamArn(), OnRecreated: messages.OnRecreated_ON_RECREATED_RESET}, Subscriber: w.sub.PID(),
		})
		var e probe.Envelope
		for ok := false; !ok; e, ok = w.me.TryReceive() {
			time.Sleep(10 * time.Millisecond)
		}
		require.IsType(w.t, &messages.Error{}, e.Message)
	})
}

// S1: A seek that comes while the stream can't be opened again is answered, as every request is.
func TestASeekIsAnsweredWhileStartingOverFails(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		opened := w.open(resetting)
		w.recreate(1, time.Millisecond)
		w.errorTold()
		w.service.Fault("DescribeStreamSummary", kinesistest.Match{}, 1<<30, kinesistest.Error("InternalFailure", "oops"))
		w.me.Request(opened.GetSubscription(), &messages.Seek{To: toHorizon()})
		time.Sleep(10 * time.Minute)
		_, answered := w.me.TryReceive()
		require.True(w.t, answered)
	})
}

// S1: Unsubscribe that comes between the end of a subscription and the broker's last word says that it has ended.
func TestUnsubscribeWhileTheEndIsTold(t *testing.T) {
	var w0 *world
	var co *pidOf
	inBubble(t, 1, func(w *world) {
		opened := w.open(horizon)
		w0, co = w, opened.GetSubscription()
		w.recreate(1, time.Millisecond)
		var e probe.Envelope
		for ok := false; !ok; e, ok = w.me.TryReceive() {
			time.Sleep(10 * time.Millisecond)
		}
		if m, failed := e.Message.(*messages.Error); failed {
			require.Equal(w.t, messages.ErrorKind_ERROR_KIND_NOT_CONNECTED, m.GetKind(), m)
		} else {
			require.IsType(w.t, &messages.Unsubscribed{}, e.Message)
		}
	}, func(c *Config) {
		c.intercept = func(r role, m any) {
			if _, ok := m.(subscriptionEnded); ok && r == roleBroker && co != nil {
				w0.me.Request(co, &messages.Unsubscribe{})
			}
		}
	})
}

// S1: A coordinator that is stopped by force between the end of its subscription and the broker's last word tells what ended it.
func TestForcedStopWhileTheEndIsTold(t *testing.T) {
	var w0 *world
	inBubble(t, 1, func(w *world) {
		w0 = w
		w.open(horizon)
		w.recreate(1, time.Millisecond)
		time.Sleep(time.Minute)
		_, told := w.received()
		fatal := false
		for _, m := range told {
			fatal = fatal || m.GetFatal()
		}
		require.True(w.t, fatal)
	}, func(c *Config) {
		c.intercept = func(r role, m any) {
			if _, ok := m.(subscriptionEnded); ok && r == roleBroker {
				w0.system.Root.Stop(w0.broker)
			}
		}
	})
}
