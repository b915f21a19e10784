package actors

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// A subscriber whose node is gone can't settle anything: the leases are given back at once, with what was settled before. Should it live after
// all, it is told.
func TestTheEndOfASubscribersNodeEndsItsSubscription(t *testing.T) {
	for _, why := range []actor.TerminatedReason{actor.TerminatedReason_AddressTerminated, actor.TerminatedReason_NotFound} {
		inBubble(t, 1, func(w *world) {
			far := newElsewhere(w)
			sub := far.open()
			w.me.Watch(sub.GetSubscription())
			w.put("k", "a")
			w.put("k", "b")
			a := w.next(true)
			w.next(false) // b, which is not settled
			synctest.Wait()
			start := time.Now()
			far.ends(why)
			w.me.ExpectTerminated(sub.GetSubscription())
			assert.Less(t, time.Since(start), time.Second)
			lease := w.lease(shardName(0))
			assert.Empty(t, lease.Owner)
			assert.Equal(t, a.GetSequenceNumber(), lease.Checkpoint.String())
			told := probe.Fish(w.sub, func(*messages.SubscriptionError) bool { return true })
			assert.True(t, told.GetFatal())
			assert.Contains(t, told.GetError().GetText(), far.address)

			far.watchers = nil
			w.me.Request(w.broker, &messages.Subscribe{Stream: &messages.StreamDescriptor{Name: testStream}, Subscriber: far.subscriber()})
			probe.Fish(w.me, func(*messages.Subscribed) bool { return true })
			require.Equal(t, "b", string(w.next(true).GetData()))
		})
	}
}

// A subscriber that has stopped in order knows why it gets nothing more.
func TestTheEndOfASubscriberElsewhereIsItsOwn(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		far := newElsewhere(w)
		sub := far.open()
		w.me.Watch(sub.GetSubscription())
		far.ends(actor.TerminatedReason_Stopped)
		w.me.ExpectTerminated(sub.GetSubscription())
		w.sub.ExpectNone(time.Minute)
		assert.Empty(t, w.lease(shardName(0)).Owner)
	})
}

// One that is gone before the subscription is open fails it.
func TestASubscriberThatWasNeverThereFailsTheSubscription(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		far := newElsewhere(w)
		w.connect()
		w.service.Fault("DescribeStreamSummary", kinesistest.Match{}, 1, kinesistest.Delay(10*time.Second))
		w.me.Request(w.broker, &messages.Subscribe{Stream: &messages.StreamDescriptor{Name: testStream}, Subscriber: far.subscriber()})
		time.Sleep(time.Second)
		far.ends(actor.TerminatedReason_AddressTerminated)
		m := probe.Fish(w.me, func(*messages.Error) bool { return true })
		assert.Contains(t, m.GetText(), far.address)
	})
}

// The watch is a message as any other: should it be lost, another follows.
func TestTheWatchOfASubscriberElsewhereIsRepeated(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		far := newElsewhere(w)
		far.losing(everything)
		sub := far.open()
		require.Zero(t, far.watched())
		far.losing(nil)
		time.Sleep(12 * time.Second)
		require.Equal(t, 1, far.watched())
		w.me.Watch(sub.GetSubscription())
		far.ends(actor.TerminatedReason_AddressTerminated)
		w.me.ExpectTerminated(sub.GetSubscription())
	})
}
