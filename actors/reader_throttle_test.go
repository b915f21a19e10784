package actors

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
)

// logCount counts what is logged for those who run the service, from info up.
type logCount struct {
	slog.Handler
	mu    sync.Mutex
	lines []string
}

func counting(log *logCount) func(*Config) {
	log.Handler = slog.DiscardHandler
	return func(c *Config) { c.Logger = slog.New(log) }
}

func (l *logCount) Enabled(context.Context, slog.Level) bool { return true }

func (l *logCount) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l *logCount) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Level >= slog.LevelInfo {
		l.lines = append(l.lines, r.Message)
	}
	return nil
}

func (l *logCount) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	l.lines = nil
	return lines
}

// G3: after a page of 10 MiB the service may refuse for five seconds. The iterator is kept, and it is asked again after that long.
func TestThrottleAfterALargePage(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.acked()
		for range 10 {
			w.put("k", string(make([]byte, 1<<20-1)))
		}
		w.connect()
		w.subscribe(horizon)
		w.received()
		f := w.service.Fault("GetRecords", kinesistest.Match{}, 2, kinesistest.Error("ProvisionedThroughputExceededException", "slow down"))
		w.put("k", "after")
		time.Sleep(30 * time.Second)
		got, told := w.received()
		require.Equal(w.t, []string{"after"}, got)
		require.Empty(w.t, told)
		require.Equal(w.t, 2, f.Count())
		var throttled []time.Time
		for _, c := range w.service.Calls() {
			if c.Op == "GetRecords" && (c.ErrorCode != "" || len(throttled) == 2) && len(throttled) < 3 {
				throttled = append(throttled, c.Time)
			}
		}
		first, second := throttled[1].Sub(throttled[0]), throttled[2].Sub(throttled[1])
		require.GreaterOrEqual(w.t, first, 5*time.Second)
		require.LessOrEqual(w.t, first, 6*time.Second, "jitter is a fifth")
		require.GreaterOrEqual(w.t, second, 2*time.Second, "the page is paid for; the next pause is the ordinary one")
		require.Less(w.t, second, 5*time.Second)
		require.Len(w.t, iteratorKinds(w, shardName(0)), 1)
	}, paced)
}

// G3: the service's own accounting: 100 MiB are read in the time that two a second need, throttled now and then, and nothing is lost.
func TestReadingAtTheQuota(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.acked()
		limited := kinesistest.New(kinesistest.WithLimits())
		defer limited.Close()
		require.NoError(w.t, limited.CreateStream(testStream, 1))
		w.service = limited
		var want []string
		for i := range 40 {
			for j := range 10 { // the quota of writes is 1 MiB a second
				want = append(want, fmt.Sprint(i, j)+string(make([]byte, 100<<10-100)))
				w.put("k", want[len(want)-1])
			}
			time.Sleep(time.Second)
		}
		w.open(horizon)
		time.Sleep(2 * time.Minute)
		got, told := w.received()
		require.Len(w.t, got, len(want))
		require.Equal(w.t, want, got)
		require.Empty(w.t, told)
		require.Len(w.t, iteratorKinds(w, shardName(0)), 1)
		requirePace(w)
	}, paced)
}

// G5, G8, D9: a hundred throttles in a row, and an hour of them: the reader lives, waits between one and twelve seconds, tells nobody, writes next to
// nothing in the log, and reads on with the same iterator, once the young one.
func TestThrottlesForLong(t *testing.T) {
	for _, code := range []string{"ProvisionedThroughputExceededException", "LimitExceededException", "KMSThrottlingException"} {
		log := &logCount{}
		inBubble(t, 1, func(w *world) {
			w.acked()
			w.open(horizon)
			time.Sleep(5 * time.Second)
			log.take()
			before := len(readTimes(w))
			f := w.service.Fault("GetRecords", kinesistest.Match{}, -1, kinesistest.Error(code, "slow down"))
			time.Sleep(time.Hour)
			require.Greater(w.t, f.Count(), 300)
			times := readTimes(w)[before:]
			for i := 2; i < len(times); i++ { // the first two may be a poll apart
				require.GreaterOrEqual(w.t, times[i].Sub(times[i-1]), time.Second)
				require.LessOrEqual(w.t, times[i].Sub(times[i-1]), 12*time.Second)
			}
			require.Len(w.t, iteratorKinds(w, shardName(0)), 1)
			f.Clear()
			w.put("k", "a")
			time.Sleep(15 * time.Second)
			got, told := w.received()
			require.Equal(w.t, []string{"a"}, got)
			require.Empty(w.t, told)
			require.LessOrEqual(w.t, len(log.take()), 2)
			require.Equal(w.t, 1, w.store.count("acquire"), "the lease was held all the time")
		}, paced, counting(log))
	}
}

// D9, G6: minutes of each failure: a bounded number of calls and of lines in the log, told once, and nothing lost.
func TestMinutesOfFailures(t *testing.T) {
	for name, effect := range map[string]kinesistest.Effect{
		"500": kinesistest.Error("InternalFailure", "oops"), "503": kinesistest.Error("ServiceUnavailable", "busy"),
		"reset": kinesistest.Reset(), "hung": kinesistest.Hang(), "reset mid body": kinesistest.ResetMidBody(),
		"garbage": kinesistest.Body(200, []byte(`{"Records":[{`)), "not JSON": kinesistest.Body(503, []byte("<html>")),
		"denied": kinesistest.Error("AccessDeniedException", "no"), "unknown": kinesistest.Error("SomethingNewException", "?"),
		"nothing": kinesistest.Body(200, []byte(`{}`)), "throttled": kinesistest.Error("ProvisionedThroughputExceededException", "x"),
		"expired": kinesistest.ExpireIterator(), "not found": kinesistest.Error("ResourceNotFoundException", "no"),
		"bad token": kinesistest.Error("UnrecognizedClientException", "no"),
	} {
		for _, op := range []string{"GetRecords", "GetShardIterator", "*"} {
			t.Run(name+"/"+op, func(t *testing.T) {
				log := &logCount{}
				inBubble(t, 1, func(w *world) {
					if op == "*" && name == "not found" {
						w.t.Skip("the stream is gone: the subscription ends, see TestStreamGoneUnderASubscription")
					}
					w.acked()
					w.open(horizon)
					w.put("k", "a")
					time.Sleep(5 * time.Second)
					log.take()
					f := w.service.Fault(op, kinesistest.Match{}, -1, effect)
					if op == "GetShardIterator" {
						w.service.Fault("GetRecords", kinesistest.Match{}, 1, kinesistest.ExpireIterator())
					}
					time.Sleep(10 * time.Minute)
					require.Greater(w.t, f.Count(), 15)
					require.Less(w.t, f.Count(), 500)
					lines := log.take()
					require.LessOrEqual(w.t, len(lines), 8, "%.1000q", lines)
					f.Clear()
					w.put("k", "b")
					time.Sleep(time.Minute)
					got, told := w.received()
					require.Equal(w.t, []string{"a", "b"}, got)
					requireToldOncePerSubject(w, told)
					require.Equal(w.t, 1, w.store.count("acquire"))
					requirePace(w)
				}, paced, counting(log))
			})
		}
	}
}

// requireToldOncePerSubject: the subscriber hears of a failure of a shard once, and once of one of the listing.
func requireToldOncePerSubject(w *world, told []*messages.SubscriptionError) {
	w.t.Helper()
	seen := make(map[string]int)
	for _, e := range told {
		require.False(w.t, e.GetFatal())
		seen[e.GetError().GetShardId()]++
	}
	for subject, n := range seen {
		require.Equal(w.t, 1, n, "told of %q: %v", subject, told)
	}
}
