package actors

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

func TestIdlePause(t *testing.T) {
	for _, c := range []struct{ quiet, poll, most, want time.Duration }{
		{0, time.Second, 5 * time.Second, time.Second},
		{24 * time.Second, time.Second, 5 * time.Second, time.Second},
		{48 * time.Second, time.Second, 5 * time.Second, 2 * time.Second},
		{2 * time.Minute, time.Second, 5 * time.Second, 5 * time.Second},
		{24 * time.Hour, time.Second, 5 * time.Second, 5 * time.Second},
		{24 * time.Hour, time.Second, 0, time.Second},
		{24 * time.Hour, time.Second, time.Millisecond, time.Second},
		{24 * time.Hour, 10 * time.Second, 5 * time.Second, 10 * time.Second},
	} {
		require.Equal(t, c.want, idlePause(c.quiet, c.poll, c.most), "%+v", c)
	}
}

func idleUpTo(most time.Duration) func(*messages.StreamDescriptor) {
	return func(d *messages.StreamDescriptor) { d.IdlePollInterval = durationOf(most) }
}

// reads is how often the service was asked for records during a time.
func (w *world) reads(during time.Duration) int {
	before := w.service.CallCount("GetRecords")
	time.Sleep(during)
	return w.service.CallCount("GetRecords") - before
}

// A shard that is quiet for minutes is read less and less often, if asked for; one that is not is read as ever.
func TestAQuietShardIsReadLessOften(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon, idleUpTo(5*time.Second))
		first := w.reads(10 * time.Second)
		require.GreaterOrEqual(w.t, first, 9, "it may not be quiet")
		time.Sleep(3 * time.Minute)
		require.InDelta(w.t, 12, w.reads(time.Minute), 2)
	})
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		time.Sleep(3 * time.Minute)
		require.InDelta(w.t, 60, w.reads(time.Minute), 8, "without the option the pause does not grow")
	})
}

// The first record after a quiet time is late by the pause at most, and ends it; so do a seek and a failure.
func TestARecordEndsTheLongPause(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon, idleUpTo(time.Minute))
		time.Sleep(time.Hour)
		require.LessOrEqual(w.t, w.reads(5*time.Minute), 6)
		for range 5 {
			require.Zero(w.t, w.onlyStatus().GetMillisBehindLatest(), "how far it is behind is still known")
			time.Sleep(11 * time.Second)
		}
		w.put("k", "late")
		put := time.Now()
		w.sub.SetTimeout(2 * time.Minute)
		require.Equal(w.t, "late", string(w.next(true).GetData()))
		require.LessOrEqual(w.t, time.Since(put), 66*time.Second)
		require.GreaterOrEqual(w.t, w.reads(10*time.Second), 9)
		w.put("k", "soon")
		put = time.Now()
		require.Equal(w.t, "soon", string(w.next(true).GetData()))
		require.LessOrEqual(w.t, time.Since(put), 1100*time.Millisecond)
	})
}

// A seek does not wait for the end of the pause.
func TestASeekEndsTheLongPause(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		sub := w.open(horizon, idleUpTo(time.Minute))
		w.put("k", "one")
		w.next(true)
		time.Sleep(time.Hour)
		begun := time.Now()
		w.me.Request(sub.GetSubscription(), &messages.Seek{To: &messages.Position{At: &messages.Position_TrimHorizon{TrimHorizon: &messages.TrimHorizon{}}}})
		require.Equal(w.t, "one", string(w.next(true).GetData()))
		require.Less(w.t, time.Since(begun), 5*time.Second)
		probe.Fish(w.me, func(*messages.Sought) bool { return true })
		require.GreaterOrEqual(w.t, w.reads(10*time.Second), 9)
	})
}

// A shard whose reading a full window held up has not been quiet.
func TestAStalledShardIsNotQuiet(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon, idleUpTo(time.Minute), func(d *messages.StreamDescriptor) { d.WindowRecords = new(int32(1)) })
		for _, data := range []string{"one", "two"} {
			w.put("k", data)
		}
		first := w.next(false)
		time.Sleep(time.Hour)
		w.sub.Reply(first.Ack())
		w.next(true)
		time.Sleep(3 * time.Second)
		require.GreaterOrEqual(w.t, w.reads(10*time.Second), 8)
	})
}
