package actors

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// G2: five calls per second and shard, whatever comes between them: in any second, not in those of a clock.
func TestPacerInAnySecond(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 8).Draw(t, "limit")
		p := pacer{limit: limit}
		now := time.Unix(1_700_000_000, 0)
		var calls []time.Time
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			now = now.Add(time.Duration(rapid.OneOf(rapid.Just(0), rapid.IntRange(0, 400)).Draw(t, "idle")) * time.Millisecond)
			wait := p.wait(now)
			require.GreaterOrEqual(t, wait, time.Duration(0))
			require.LessOrEqual(t, wait, time.Second+pacerMargin)
			if recent := callsSince(calls, now.Add(-time.Second-pacerMargin)); recent < limit {
				require.Zero(t, wait, "%d calls in the last second: the next may go at once", recent)
			}
			require.Equal(t, wait, p.wait(now), "asking changes nothing")
			now = now.Add(wait)
			require.Zero(t, p.wait(now), "the wait was long enough")
			p.called(now)
			calls = append(calls, now)
			require.LessOrEqual(t, callsSince(calls, now.Add(-time.Second)), limit, "calls in the second up to %v", now)
		}
		require.LessOrEqual(t, len(p.calls), limit, "no more is remembered than is needed")
	})
}

// callsSince counts the calls after an instant.
func callsSince(calls []time.Time, after time.Time) (n int) {
	for _, c := range calls {
		if c.After(after) {
			n++
		}
	}
	return n
}

// At full speed the limit is used: five at once, then five more a second later.
func TestPacerUsesItsLimit(t *testing.T) {
	p := pacer{limit: 5}
	start := time.Unix(1_700_000_000, 0)
	now := start
	for i := range 50 {
		now = now.Add(p.wait(now))
		require.Equal(t, start.Add(time.Duration(i/5)*(time.Second+pacerMargin)), now, "call %d", i)
		p.called(now)
	}
}

// A pacer is busy as long as nearly as many calls are made as may be.
func TestPacerIsBusy(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	for pause, want := range map[time.Duration]bool{0: true, 200 * time.Millisecond: true, 240 * time.Millisecond: true, 260 * time.Millisecond: false, time.Second: false} {
		p, now := pacer{limit: 5}, start
		for i := range 20 {
			now = now.Add(max(pause, p.wait(now)))
			require.Equal(t, want && i >= 5, p.busy(now), "call %d, %v after the other", i, pause)
			p.called(now)
		}
		require.False(t, p.busy(now.Add(2*time.Second)))
	}
	free := pacer{limit: -1}
	free.called(start)
	require.False(t, free.busy(start))
}

func TestPacerIsHasty(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	p := pacer{limit: 5}
	require.False(t, p.hasty(start), "the first call")
	p.called(start)
	require.True(t, p.hasty(start.Add(199*time.Millisecond)))
	require.False(t, p.hasty(start.Add(200*time.Millisecond)))
	free := pacer{limit: -1}
	free.called(start)
	require.False(t, free.hasty(start))
}

func TestPacerWithoutLimit(t *testing.T) {
	for _, limit := range []int{0, -1} {
		p := pacer{limit: limit}
		now := time.Unix(1_700_000_000, 0)
		for range 100 {
			require.Zero(t, p.wait(now))
			p.called(now)
		}
		require.Empty(t, p.calls)
	}
}

// G2: the pace is a shard's, not a reader's: one that takes over after a panic counts the calls of the one before it.
func TestThePaceHoldsFromReaderToReader(t *testing.T) {
	p := &panicker{}
	inBubble(t, 1, func(w *world) {
		w.acked()
		for i := range 1000 {
			w.put("k", fmt.Sprint(i))
		}
		w.open(horizon, windowOfRecords(10))
		for range 20 {
			p.arm(roleReader, 3)
			time.Sleep(300 * time.Millisecond)
		}
		requirePace(w)
	}, paced, p.install)
}
