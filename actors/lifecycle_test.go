package actors

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

func durationOf(d time.Duration) *durationpb.Duration { return durationpb.New(d) }

func TestConfiguredBrokerAnswersNotConnected(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		for i, request := range []any{
			&messages.Publish{Stream: testStream, Data: []byte("x"), Correlation: 1},
			&messages.Subscribe{Stream: &messages.StreamDescriptor{Name: testStream}, Subscriber: w.sub.PID(), Correlation: 2},
			&messages.Seek{Stream: testStream, Correlation: 3},
			&messages.Unsubscribe{Correlation: 4},
		} {
			w.me.Request(w.broker, request)
			e := probe.Expect[*messages.Error](w.me)
			require.Equal(w.t, messages.ErrorKind_ERROR_KIND_NOT_CONNECTED, e.GetKind())
			require.EqualValues(w.t, i+1, e.GetCorrelation())
		}
		require.Empty(w.t, w.service.Calls(), "no I/O before Connect")
	})
}

func TestConnectJoinsTheFirstAndMakesNoRequest(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		for range 3 {
			w.me.Request(w.broker, &messages.Connect{})
		}
		first := probe.Expect[*messages.Connected](w.me)
		for range 2 {
			require.Equal(w.t, first.GetOwnerId(), probe.Expect[*messages.Connected](w.me).GetOwnerId())
		}
		w.me.Request(w.broker, &messages.Connect{})
		require.Equal(w.t, first.GetOwnerId(), probe.Expect[*messages.Connected](w.me).GetOwnerId())
		require.Empty(w.t, w.service.Calls(), "Connect makes no request of the service")
	})
}

func TestSubscribeDeliverAckCheckpointShutdown(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.put("k", "before")
		opened := w.open()
		require.Equal(w.t, []string{"shardId-000000000000"}, opened.GetShards())
		w.put("k", "a")
		w.put("k", "b")
		require.Equal(w.t, []string{"a", "b"}, w.takeAll(2), "the tip is the moment the subscription opened")
		last := w.service.Records(testStream)[2].SequenceNumber
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		lease := w.lease("shardId-000000000000")
		require.Equal(w.t, last, lease.Checkpoint.String())
		require.NotEmpty(w.t, lease.Owner)

		w.me.Request(w.broker, &messages.Shutdown{})
		require.Empty(w.t, probe.Expect[*messages.Closed](w.me).GetUnfinished())
		require.Empty(w.t, w.lease("shardId-000000000000").Owner, "the lease is released")
		w.me.Request(w.broker, &messages.Publish{Stream: testStream, Data: []byte("x")})
		require.Equal(w.t, messages.ErrorKind_ERROR_KIND_NOT_CONNECTED, probe.Expect[*messages.Error](w.me).GetKind())
		w.me.Request(w.broker, &messages.Shutdown{Correlation: 7})
		require.EqualValues(w.t, 7, probe.Expect[*messages.Closed](w.me).GetCorrelation())
	})
}

func TestPoisonPillIsAnOrderlyShutdown(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		d := w.next(false)
		w.system.Root.Poison(w.broker)
		synctest.Wait()
		w.sub.Reply(d.Ack())
		synctest.Wait()
		for _, id := range []string{"shardId-000000000000", "shardId-000000000001"} {
			require.Empty(w.t, w.lease(id).Owner)
		}
		require.Equal(w.t, d.GetSequenceNumber(), w.lease(d.GetShardId()).Checkpoint.String(), "what settles during the drain is saved")
		w.me.Request(w.broker, &messages.Publish{Stream: testStream, Data: []byte("x")})
		require.Equal(w.t, messages.ErrorKind_ERROR_KIND_NOT_CONNECTED, probe.Expect[*messages.Error](w.me).GetKind())
	})
}

func TestDrainEndsAtItsDeadlineAndSaysWhatIsUnsettled(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		d := w.next(false)
		start := time.Now()
		w.me.Request(w.broker, &messages.Shutdown{Timeout: durationOf(5 * time.Second)})
		closed := probe.Expect[*messages.Closed](w.me)
		require.Equal(w.t, 5*time.Second, time.Since(start).Round(time.Second))
		require.Len(w.t, closed.GetUnfinished(), 1)
		require.Contains(w.t, closed.GetUnfinished()[0], "1 records delivered and not settled")
		require.Equal(w.t, "TRIM_HORIZON", w.lease(d.GetShardId()).Checkpoint.String(), "never beyond an unsettled record")
		require.Empty(w.t, w.lease(d.GetShardId()).Owner)
	})
}

func TestBrokerStoppedByForceStillAnswers(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open()
		early := w.broker
		w.system.Root.Stop(w.broker)
		synctest.Wait()
		for _, pid := range []*actor.PID{early, actor.NewPID(w.system.Address(), early.GetId())} {
			w.me.Request(pid, &messages.Publish{Stream: testStream, Data: []byte("x"), Correlation: 9})
			e := probe.Expect[*messages.Error](w.me)
			require.Equal(w.t, messages.ErrorKind_ERROR_KIND_NOT_CONNECTED, e.GetKind())
			require.EqualValues(w.t, 9, e.GetCorrelation())
		}
	})
}

func TestUnsubscribeReleasesAndMaySubscribeAgain(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		opened := w.open(horizon)
		w.put("k", "a")
		w.takeAll(1)
		w.me.Request(opened.GetSubscription(), &messages.Unsubscribe{Correlation: 5})
		require.EqualValues(w.t, 5, probe.Expect[*messages.Unsubscribed](w.me).GetCorrelation())
		require.Empty(w.t, w.lease("shardId-000000000000").Owner)
		synctest.Wait()
		w.subscribe()
		w.put("k", "b")
		require.Equal(w.t, []string{"b"}, w.takeAll(1), "goes on at the checkpoint")
	})
}

func TestSubscriptionEndsWithItsSubscriber(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		opened := w.open()
		w.me.Watch(opened.GetSubscription())
		w.sub.Stop()
		w.me.ExpectTerminated(opened.GetSubscription())
		require.Empty(w.t, w.lease("shardId-000000000000").Owner)
	})
}

func TestSameStreamTwice(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		opened := w.open()
		for _, name := range []string{testStream, opened.GetStreamArn()} {
			w.me.Request(w.broker, &messages.Subscribe{Stream: &messages.StreamDescriptor{Name: name}, Subscriber: w.sub.PID()})
			e := probe.Expect[*messages.Error](w.me)
			require.Equal(w.t, messages.ErrorKind_ERROR_KIND_INVALID, e.GetKind(), "%v", e)
			require.Equal(w.t, "stream.name", e.GetField())
		}
	})
}

func TestMissingStream(t *testing.T) {
	inBubble(t, 0, func(w *world) {
		w.connect()
		w.me.Request(w.broker, &messages.Subscribe{Stream: &messages.StreamDescriptor{Name: "nowhere"}, Subscriber: w.sub.PID()})
		e := probe.Expect[*messages.Error](w.me)
		require.Equal(w.t, messages.ErrorKind_ERROR_KIND_STREAM, e.GetKind())
		require.Equal(w.t, "ResourceNotFoundException", e.GetAwsCode(), "%v", e)
		require.Equal(w.t, "nowhere", e.GetStream())
		synctest.Wait()
		w.subscribe(func(d *messages.StreamDescriptor) { d.Name, d.CreateIfMissing = "nowhere", new(int32(3)) })
		require.Len(w.t, w.service.Shards("nowhere"), 3)
	})
}
