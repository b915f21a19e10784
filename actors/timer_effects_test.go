package actors

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/test/probe"
)

type timerName uint8

const (
	timerA timerName = iota
	timerB
)

// ticker is the smallest actor with effects and timers. It tells its test what reaches it, and does what it is sent.
type ticker struct {
	pool   *pool
	to     *actor.PID
	fx     *effects
	timers *timers[timerName]
}

// What a ticker tells its test.
type (
	tickerStarted struct {
		fx     *effects
		timers *timers[timerName]
	}
	tickerResult struct{ result any }
	tickerStale  struct{ message any }
	tickerFired  struct{ name timerName }
)

// do runs in the actor.
type do func(a *ticker)

func (a *ticker) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		a.fx, a.timers = newEffects(c, a.pool), newTimers[timerName](c)
		c.Send(a.to, tickerStarted{a.fx, a.timers})
	case *actor.Stopping, *actor.Restarting:
		a.fx.stop()
		a.timers.stop()
	case effectDone:
		if result, ok := a.fx.result(m); ok {
			c.Send(a.to, tickerResult{result})
		} else {
			c.Send(a.to, tickerStale{m})
		}
	case timerFired[timerName]:
		if a.timers.fired(m) {
			c.Send(a.to, tickerFired{m.name})
		} else {
			c.Send(a.to, tickerStale{m})
		}
	case do:
		m(a)
	}
}

type tickerTest struct {
	*testing.T
	system  *actor.ActorSystem
	p       *probe.Probe
	pid     *actor.PID
	spawned chan *actor.PID
	started tickerStarted
	panics  []any
	pool    *pool
}

// HandleFailure restarts the ticker at once.
func (tt *tickerTest) HandleFailure(_ *actor.ActorSystem, supervisor actor.Supervisor, child *actor.PID,
	_ *actor.RestartStatistics, reason, _ any,
) {
	tt.panics = append(tt.panics, reason)
	supervisor.RestartChildren(child)
}

// Receive spawns the ticker as a child, so that the test supervises it.
func (tt *tickerTest) Receive(c actor.Context) {
	if _, ok := c.Message().(*actor.Started); ok {
		tt.spawned <- c.Spawn(actor.PropsFromProducer(func() actor.Actor { return &ticker{to: tt.p.PID(), pool: tt.pool} }))
	}
}

// inTicker runs a test with a ticker in a bubble; the ticker is stopped at its end.
func inTicker(t *testing.T, test func(tt *tickerTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		tt := &tickerTest{T: t, system: probe.NewSystem(t), spawned: make(chan *actor.PID, 1), pool: newPool()}
		defer tt.pool.close()
		tt.p = probe.New(t, tt.system)
		parent := tt.system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return tt }, actor.WithSupervisor(tt)))
		tt.pid, tt.started = <-tt.spawned, probe.Expect[tickerStarted](tt.p)
		test(tt)
		tt.system.Root.Stop(parent)
		synctest.Wait()
	})
}

func (tt *tickerTest) do(f func(a *ticker)) { tt.p.Send(tt.pid, do(f)) }

// restart makes the ticker panic. before runs in the actor just before, with its mailbox closed: what it lets happen
// waits in the mailbox for the next incarnation.
func (tt *tickerTest) restart(before func(a *ticker)) {
	tt.do(func(a *ticker) {
		before(a)
		panic("restart")
	})
	old := tt.started
	tt.started = probe.Expect[tickerStarted](tt.p)
	require.NotEqual(tt, old.fx.incarnation, tt.started.fx.incarnation)
}

func TestEffectComesBack(t *testing.T) {
	inTicker(t, func(tt *tickerTest) {
		tt.do(func(a *ticker) {
			a.fx.run(time.Minute, func(ctx context.Context) any {
				deadline, _ := ctx.Deadline()
				return time.Until(deadline)
			})
		})
		require.Equal(tt, tickerResult{time.Minute}, probe.Expect[tickerResult](tt.p), "every effect has a deadline")
	})
}

func TestEffectEndsAtItsDeadline(t *testing.T) {
	inTicker(t, func(tt *tickerTest) {
		start := time.Now()
		tt.do(func(a *ticker) {
			a.fx.run(5*time.Second, func(ctx context.Context) any {
				<-ctx.Done()
				return ctx.Err()
			})
		})
		require.Equal(tt, tickerResult{context.DeadlineExceeded}, probe.Expect[tickerResult](tt.p, time.Minute))
		require.Equal(tt, 5*time.Second, time.Since(start))
	})
}

func TestEffectIsAbandoned(t *testing.T) {
	inTicker(t, func(tt *tickerTest) {
		tt.do(func(a *ticker) {
			abandon := a.fx.run(time.Hour, func(ctx context.Context) any { return pause(ctx, time.Hour) })
			a.fx.run(time.Hour, func(ctx context.Context) any { return pause(ctx, time.Second) })
			abandon()
		})
		require.Equal(tt, tickerResult{context.Canceled}, probe.Expect[tickerResult](tt.p), "what the call makes of it comes at once")
		require.Equal(tt, tickerResult{nil}, probe.Expect[tickerResult](tt.p), "another call goes on")
		tt.p.ExpectNone(2 * time.Hour)
	})
}

func TestPanicInAnEffectIsOneOfItsActor(t *testing.T) {
	inTicker(t, func(tt *tickerTest) {
		tt.do(func(a *ticker) { a.fx.run(time.Minute, func(context.Context) any { panic("broken client") }) })
		tt.started = probe.Expect[tickerStarted](tt.p)
		require.Len(tt, tt.panics, 1, "its supervisor hears of it")
		require.Contains(tt, tt.panics[0], "broken client")
		require.Contains(tt, tt.panics[0], "timer_effects_test.go", "with the stack of the call")
		tt.do(func(a *ticker) { a.fx.run(time.Minute, func(context.Context) any { return 1 }) })
		require.Equal(tt, tickerResult{1}, probe.Expect[tickerResult](tt.p))
		tt.p.ExpectNone(time.Hour)
	})
}

// A result that was on its way when the actor was restarted reaches the next incarnation, which drops it.
func TestEffectOfAnEarlierIncarnationIsStale(t *testing.T) {
	inTicker(t, func(tt *tickerTest) {
		tt.restart(func(a *ticker) {
			a.fx.run(time.Minute, func(context.Context) any { return "late" })
			a.fx.run(time.Minute, func(context.Context) any { panic("late") })
			time.Sleep(time.Second) // in the bubble: both effects finish first
		})
		for range 2 {
			probe.Expect[tickerStale](tt.p)
		}
		tt.p.ExpectNone(time.Hour)
		require.Len(tt, tt.panics, 1, "a stale panic is dropped too")
	})
}

// A call that ends after its incarnation sends nothing.
func TestEffectEndsWithItsIncarnation(t *testing.T) {
	inTicker(t, func(tt *tickerTest) {
		ended := make(chan error, 1)
		tt.restart(func(a *ticker) {
			a.fx.run(time.Hour, func(ctx context.Context) any {
				ended <- pause(ctx, 30*time.Minute)
				return "late"
			})
		})
		require.ErrorIs(tt, <-ended, context.Canceled, "its context ended")
		tt.p.ExpectNone(2 * time.Hour)
	})
}

func TestNoEffectAfterStop(t *testing.T) {
	inTicker(t, func(tt *tickerTest) {
		letters := 0
		tt.system.EventStream.Subscribe(func(event any) {
			if letter, ok := event.(*actor.DeadLetterEvent); ok && letter.PID.Equal(tt.pid) {
				letters++
			}
		})
		tt.do(func(a *ticker) {
			// One call heeds its context, one does not.
			a.fx.run(time.Hour, func(ctx context.Context) any { return pause(ctx, 10*time.Minute) })
			a.fx.run(time.Hour, func(context.Context) any {
				time.Sleep(10 * time.Minute) // in the bubble
				return nil
			})
			a.timers.set(timerA, time.Minute)
			a.timers.set(timerB, 0)
		})
		require.Equal(tt, timerB, probe.Expect[tickerFired](tt.p).name)
		tt.p.Watch(tt.pid)
		tt.system.Root.Stop(tt.pid)
		tt.p.ExpectTerminated(tt.pid)
		tt.p.ExpectNone(3 * time.Hour)
		require.Zero(tt, letters, "nothing is sent to an actor that has stopped")
	})
}

func TestTimerFiresOnce(t *testing.T) {
	inTicker(t, func(tt *tickerTest) {
		start := time.Now()
		tt.do(func(a *ticker) {
			a.timers.set(timerA, 3*time.Second)
			a.timers.set(timerB, time.Second)
		})
		require.Equal(tt, timerB, probe.Expect[tickerFired](tt.p).name)
		require.Equal(tt, time.Second, time.Since(start))
		require.Equal(tt, timerA, probe.Expect[tickerFired](tt.p, 5*time.Second).name)
		require.Equal(tt, 3*time.Second, time.Since(start))
		tt.p.ExpectNone(time.Hour)
	})
}

func TestTimerIsArmedUntilHandled(t *testing.T) {
	inTicker(t, func(tt *tickerTest) {
		armed := make(chan bool, 1)
		ask := func() bool {
			tt.do(func(a *ticker) { armed <- a.timers.armed(timerA) })
			return <-armed
		}
		require.False(tt, ask())
		tt.do(func(a *ticker) { a.timers.set(timerA, time.Second) })
		require.True(tt, ask())
		probe.Expect[tickerFired](tt.p)
		require.False(tt, ask())
		tt.do(func(a *ticker) {
			a.timers.set(timerA, time.Second)
			a.timers.cancel(timerA)
			a.timers.cancel(timerB) // was never set
		})
		require.False(tt, ask())
		tt.p.ExpectNone(time.Hour)
	})
}

func TestSettingATimerReplacesIt(t *testing.T) {
	inTicker(t, func(tt *tickerTest) {
		start := time.Now()
		tt.do(func(a *ticker) {
			a.timers.set(timerA, time.Second)
			a.timers.set(timerA, 10*time.Second)
		})
		probe.Expect[tickerFired](tt.p, time.Minute)
		require.Equal(tt, 10*time.Second, time.Since(start))
		tt.p.ExpectNone(time.Hour)
	})
}

// A timer that has fired and waits in the mailbox while it is cancelled or replaced is dropped.
func TestFiredTimerThatWasCancelledIsStale(t *testing.T) {
	inTicker(t, func(tt *tickerTest) {
		tt.do(func(a *ticker) {
			a.timers.set(timerA, time.Second)
			a.timers.set(timerB, time.Second)
			time.Sleep(2 * time.Second) // in the bubble: both fire meanwhile
			a.timers.cancel(timerA)
			a.timers.set(timerB, 3*time.Second)
		})
		probe.Expect[tickerStale](tt.p, time.Minute)
		probe.Expect[tickerStale](tt.p)
		require.Equal(tt, timerB, probe.Expect[tickerFired](tt.p, time.Minute).name, "the one set last counts")
		tt.p.ExpectNone(time.Hour)
	})
}

func TestTimerOfAnEarlierIncarnationIsStale(t *testing.T) {
	inTicker(t, func(tt *tickerTest) {
		tt.restart(func(a *ticker) {
			a.timers.set(timerA, time.Second)
			a.timers.set(timerB, time.Hour)
			time.Sleep(2 * time.Second) // in the bubble: A fires meanwhile
		})
		tt.do(func(a *ticker) { a.timers.set(timerA, time.Minute) })
		stale, _ := probe.Expect[tickerStale](tt.p).message.(timerFired[timerName])
		require.Equal(tt, timerA, stale.name)
		probe.Expect[tickerFired](tt.p, 2*time.Minute)
		tt.p.ExpectNone(3 * time.Hour) // B was stopped with its incarnation
	})
}

// An actor that panics in Started before it has effects and timers is stopped all the same.
func TestNoEffectsAndTimers(t *testing.T) {
	var fx *effects
	var ts *timers[timerName]
	fx.stop()
	ts.stop()
	require.False(t, ts.fired(timerFired[timerName]{}))
	_, ok := fx.result(effectDone{})
	require.False(t, ok)
}

func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		require.NoError(t, pause(t.Context(), time.Minute))
		require.Equal(t, time.Minute, time.Since(start))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, pause(ctx, time.Minute), context.DeadlineExceeded)
		require.Equal(t, time.Minute+time.Second, time.Since(start))
	})
}

func TestGenerationsAreUnique(t *testing.T) {
	const each = 1000
	seen := make(chan uint64, 4*each)
	done := make(chan struct{})
	for range 4 {
		go func() {
			for range each {
				seen <- nextGeneration()
			}
			done <- struct{}{}
		}()
	}
	for range 4 {
		<-done
	}
	close(seen)
	unique := make(map[uint64]bool)
	for n := range seen {
		require.NotZero(t, n)
		unique[n] = true
	}
	require.Len(t, unique, 4*each)
}

func TestBackoff(t *testing.T) {
	for failures, want := range []time.Duration{100, 100, 200, 400, 800, 1000, 1000} {
		require.Equal(t, want*time.Millisecond, backoff(100*time.Millisecond, time.Second, failures), "%d failures", failures)
	}
	require.Equal(t, time.Second, backoff(100*time.Millisecond, time.Second, 1_000_000), "no overflow")
	require.Equal(t, time.Second, backoff(time.Hour, time.Second, 1))
	require.Zero(t, backoff(0, time.Second, 50))
}
