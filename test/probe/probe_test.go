package probe_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/scheduler"

	"github.com/protokinesis/protokinesis/test/probe"
)

// spawn starts an actor that does what receive says.
func spawn(system *actor.ActorSystem, receive func(actor.Context)) *actor.PID {
	return system.Root.Spawn(actor.PropsFromFunc(receive))
}

func echo(c actor.Context) {
	if s, ok := c.Message().(string); ok && c.Sender() != nil {
		c.Respond("echo " + s)
	}
}

func TestRequestAndReply(t *testing.T) {
	system := probe.NewSystem(t)
	a, b := probe.New(t, system, "a"), probe.New(t, system, "b")
	if a.PID().GetId() != "a" {
		t.Errorf("the probe is called %q", a.PID().GetId())
	}

	a.Request(b.PID(), "ping")
	if got := probe.Expect[string](b); got != "ping" {
		t.Errorf("got %q", got)
	}
	if !b.Sender().Equal(a.PID()) {
		t.Errorf("sender %v", b.Sender())
	}
	b.Reply("pong")
	if got := probe.Expect[string](a); got != "pong" {
		t.Errorf("got %q", got)
	}

	b.Send(a.PID(), 7)
	if got := probe.Expect[int](a); got != 7 {
		t.Errorf("got %d", got)
	}
	if a.Sender() != nil {
		t.Errorf("Send has the sender %v", a.Sender())
	}
}

func TestEnvelope(t *testing.T) {
	system := probe.NewSystem(t)
	p, from := probe.New(t, system), probe.New(t, system)
	message := &actor.MessageEnvelope{Message: "hello", Sender: from.PID()}
	message.SetHeader("trace", "1")
	p.Send(p.PID(), message)
	p.Send(p.PID(), "bare")

	probe.Expect[string](p)
	got := p.Last()
	if got.Message != "hello" || !got.Sender.Equal(from.PID()) || got.Header["trace"] != "1" || got.System {
		t.Errorf("taken: %+v", got)
	}
	probe.Expect[string](p)
	if got := p.Last(); got.Header != nil || got.Sender != nil {
		t.Errorf("taken: %+v", got)
	}
}

func TestExpectInterfaceType(t *testing.T) {
	system := probe.NewSystem(t)
	p := probe.New(t, system)
	p.Send(p.PID(), errors.New("broken"))
	if err := probe.Expect[error](p); err.Error() != "broken" {
		t.Error(err)
	}
}

func TestFishPassesOverOthers(t *testing.T) {
	system := probe.NewSystem(t)
	p := probe.New(t, system)
	for _, m := range []any{1, "a", 2, "b", 3} {
		p.Send(p.PID(), m)
	}
	if got := probe.Fish(p, func(s string) bool { return s == "b" }); got != "b" {
		t.Errorf("fished %q", got)
	}
	if got := probe.Fish[int](p, nil); got != 3 {
		t.Errorf("fished %d", got)
	}
	if e, ok := p.TryReceive(); ok {
		t.Errorf("left over: %v", e)
	}
}

func TestReceiveNCountsConcurrentSenders(t *testing.T) {
	const senders, each = 8, 200
	system := probe.NewSystem(t)
	p := probe.New(t, system)
	var group sync.WaitGroup
	for s := range senders {
		group.Go(func() {
			for i := range each {
				p.Send(p.PID(), [2]int{s, i})
			}
		})
	}
	next := map[int]int{}
	for _, m := range probe.ReceiveN[[2]int](p, senders*each, 10*time.Second) {
		if m[1] != next[m[0]] {
			t.Fatalf("sender %d: message %d came when %d was due", m[0], m[1], next[m[0]])
		}
		next[m[0]]++
	}
	group.Wait()
}

func TestWatch(t *testing.T) {
	system := probe.NewSystem(t)
	p := probe.New(t, system)
	watched, other := spawn(system, echo), spawn(system, echo)
	p.Watch(watched)
	p.Watch(other)
	p.Unwatch(other)
	p.Request(watched, "hi")
	if err := system.Root.PoisonFuture(other).Wait(); err != nil {
		t.Fatal(err)
	}
	if err := system.Root.PoisonFuture(watched).Wait(); err != nil {
		t.Fatal(err)
	}

	if got := p.ExpectTerminated(watched); got.Why != actor.TerminatedReason_Stopped {
		t.Errorf("why: %v", got.Why)
	}
	if got := probe.Expect[string](p); got != "echo hi" { // it was not skipped
		t.Errorf("got %q", got)
	}
	p.ExpectNone(10 * time.Millisecond) // the other one was unwatched
}

func TestWatchingTheDead(t *testing.T) {
	system := probe.NewSystem(t)
	p := probe.New(t, system)
	gone := actor.NewPID(system.Address(), "gone")
	p.Watch(gone)
	if got := p.ExpectTerminated(gone); got.Why != actor.TerminatedReason_NotFound {
		t.Errorf("why: %v", got.Why)
	}
	p.Watch(gone)
	probe.Expect[*actor.Terminated](p) // it can be taken as a message too
	if !p.Last().System {
		t.Error("Terminated is a system message")
	}
}

func TestAutoPilotAnswersAndQueues(t *testing.T) {
	system := probe.NewSystem(t)
	p := probe.New(t, system)
	p.SetAutoPilot(func(e probe.Envelope) any {
		if s, ok := e.Message.(string); ok {
			return strings.ToUpper(s)
		}
		return nil
	})
	reply, err := system.Root.RequestFuture(p.PID(), "hi", time.Second).Result()
	if err != nil || reply != "HI" {
		t.Errorf("reply %v, %v", reply, err)
	}
	p.Send(p.PID(), "no sender, no answer")
	p.SetAutoPilot(nil)
	probe.ReceiveN[string](p, 2)
	if _, err := system.Root.RequestFuture(p.PID(), "hi", 10*time.Millisecond).Result(); !errors.Is(err, actor.ErrTimeout) {
		t.Errorf("answered without a pilot: %v", err)
	}
}

func TestStoppingTheProbe(t *testing.T) {
	ways := map[string]func(system *actor.ActorSystem, p *probe.Probe){
		"by the test": func(_ *actor.ActorSystem, p *probe.Probe) { p.Stop(); p.Stop() },
		"Stop":        func(system *actor.ActorSystem, p *probe.Probe) { system.Root.Stop(p.PID()) },
		"PoisonPill":  func(system *actor.ActorSystem, p *probe.Probe) { system.Root.Poison(p.PID()) },
		"a Stop message": func(system *actor.ActorSystem, p *probe.Probe) {
			ref, _ := system.ProcessRegistry.Get(p.PID())
			ref.SendSystemMessage(p.PID(), &actor.Stop{})
		},
	}
	for name, stop := range ways {
		t.Run(name, func(t *testing.T) {
			system := probe.NewSystem(t)
			p, watcher, unwatcher := probe.New(t, system), probe.New(t, system), probe.New(t, system)
			watcher.Watch(p.PID())
			watcher.Watch(p.PID())
			unwatcher.Watch(p.PID())
			if n := len(p.Watchers()); n != 2 {
				t.Errorf("%d watchers", n)
			}
			unwatcher.Unwatch(p.PID())
			pid := p.PID()
			watcher.Request(pid, "before")

			stop(system, p)

			p.ExpectStopped()
			if !p.Stopped() {
				t.Error("not stopped")
			}
			watcher.ExpectTerminated(pid)
			watcher.ExpectNone(10 * time.Millisecond)
			unwatcher.ExpectNone(10 * time.Millisecond)
			if got := probe.Expect[string](p); got != "before" {
				t.Errorf("got %q", got)
			}
			// The PID that resolved the probe while it lived, and a fresh one.
			for _, target := range []*actor.PID{pid, actor.NewPID(pid.GetAddress(), pid.GetId())} {
				if _, err := system.Root.RequestFuture(target, "after", time.Second).Result(); !errors.Is(err, actor.ErrDeadLetter) {
					t.Errorf("request to the stopped probe: %v", err)
				}
				watcher.Watch(target)
				watcher.ExpectTerminated(target)
			}
			if e, ok := p.TryReceive(); ok {
				t.Errorf("received after it was stopped: %v", e)
			}
		})
	}
}

func TestStopFutureOfProbe(t *testing.T) {
	system := probe.NewSystem(t)
	p := probe.New(t, system)
	if err := system.Root.StopFuture(p.PID()).Wait(); err != nil {
		t.Fatal(err)
	}
}

func TestCleanupUnregisters(t *testing.T) {
	system := probe.NewSystem(t)
	watcher := probe.New(t, system)
	t.Run("inner", func(t *testing.T) {
		watcher.Watch(probe.New(t, system, "inner").PID())
	})
	if _, ok := system.ProcessRegistry.GetLocal("inner"); ok {
		t.Error("still registered")
	}
	watcher.ExpectNone(10 * time.Millisecond) // the end of the test is not a death to react to
	probe.New(t, system, "inner")
}

func TestVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		system := probe.NewSystem(t)
		p := probe.New(t, system)
		cancel := scheduler.NewTimerScheduler(system.Root).SendOnce(90*time.Minute, p.PID(), "tick")
		defer cancel()

		p.ExpectNone(time.Hour)
		if got := probe.Expect[string](p, time.Hour); got != "tick" {
			t.Errorf("got %q", got)
		}
		if d := time.Since(start); d != 90*time.Minute {
			t.Errorf("the tick came after %v", d)
		}

		p.SetTimeout(24 * time.Hour)
		spawn(system, func(c actor.Context) {
			switch c.Message().(type) {
			case *actor.Started:
				c.SetReceiveTimeout(20 * time.Hour)
			case *actor.ReceiveTimeout:
				c.Send(p.PID(), "idle")
				c.SetReceiveTimeout(0)
			}
		})
		probe.Fish[string](p, nil)
		p.Request(spawn(system, echo), "x")
		synctest.Wait()
		if e, ok := p.TryReceive(); !ok || e.Message != "echo x" {
			t.Errorf("there is %v, %v", e, ok)
		}
	})
}

// One dead letter in a system of actor.NewActorSystem makes this fail: "deadlock: main bubble goroutine has exited".
func TestDeadLettersInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system := probe.NewSystem(t)
		gone := actor.NewPID(system.Address(), "gone")
		var letters int
		system.EventStream.Subscribe(func(event any) {
			if _, ok := event.(*actor.DeadLetterEvent); ok {
				letters++
			}
		})
		for range 10 {
			system.Root.Send(gone, "hello")
		}
		if _, err := system.Root.RequestFuture(gone, "hello", time.Minute).Result(); !errors.Is(err, actor.ErrDeadLetter) {
			t.Errorf("the request ended with %v", err)
		}
		if letters != 11 {
			t.Errorf("%d dead letters published", letters)
		}
	})
}

func TestSystemLogsToTest(t *testing.T) {
	t.Setenv(probe.LogVariable, "1")
	output := &lines{}
	inner := &outputTest{recorder: recorder{TB: t}, output: output}
	var system *actor.ActorSystem
	inner.run(func(testing.TB) {
		system = probe.NewSystem(inner)
		system.Root.Send(actor.NewPID(system.Address(), "gone"), "hello")
	})
	if got := output.String(); !strings.Contains(got, "[DeadLetter]") || !strings.Contains(got, "gone") {
		t.Errorf("log: %s", got)
	}
	before := output.String()
	system.Logger().Info("after the end of the test")
	if output.String() != before {
		t.Error("logged after the end of the test")
	}
}

func TestFailures(t *testing.T) {
	type failing struct {
		test func(system *actor.ActorSystem, p *probe.Probe)
		says []string // parts of the failure
	}
	send := func(p *probe.Probe, messages ...any) {
		for _, m := range messages {
			p.Send(p.PID(), m)
		}
	}
	tests := map[string]failing{
		"nothing comes": {
			func(_ *actor.ActorSystem, p *probe.Probe) { probe.Expect[string](p) },
			[]string{"probe under-test: no string within 3s"},
		},
		"nothing comes in the time given": {
			func(_ *actor.ActorSystem, p *probe.Probe) { probe.Expect[*greet](p, time.Minute) },
			[]string{"no *probe_test.greet within 1m0s"},
		},
		"another type": {
			func(_ *actor.ActorSystem, p *probe.Probe) {
				send(p, &greet{"Ada"}, 2, "three")
				_ = probe.Expect[error](p)
			},
			[]string{"should be error, but is *probe_test.greet &{name:Ada}", "still queued are 2 messages:", "int 2", "string three"},
		},
		"no fish": {
			func(_ *actor.ActorSystem, p *probe.Probe) {
				send(p, 1, "two")
				probe.Fish(p, func(i int) bool { return i == 2 })
			},
			[]string{"no fitting int within 3s; passed over 2 messages:", "int 1", "string two"},
		},
		"too many fish to list": {
			func(_ *actor.ActorSystem, p *probe.Probe) {
				for i := range 25 {
					send(p, i)
				}
				probe.Fish[string](p, nil)
			},
			[]string{"int 19", "… and 5 more"},
		},
		"too few": {
			func(_ *actor.ActorSystem, p *probe.Probe) {
				send(p, 1, 2)
				probe.ReceiveN[int](p, 3, time.Minute)
			},
			[]string{"2 of 3 int within 1m0s"},
		},
		"a stranger among n": {
			func(_ *actor.ActorSystem, p *probe.Probe) {
				send(p, 1, "x", 3)
				probe.ReceiveN[int](p, 3)
			},
			[]string{"message 2 of 3 should be int, but is string x"},
		},
		"something where nothing should be": {
			func(_ *actor.ActorSystem, p *probe.Probe) {
				p.Request(p.PID(), strings.Repeat("long ", 1000))
				p.ExpectNone(time.Second)
			},
			[]string{"no message for 1s, but there is string long long", "… from under-test"},
		},
		"not terminated": {
			func(system *actor.ActorSystem, p *probe.Probe) {
				p.Watch(spawn(system, echo))
				p.ExpectTerminated(actor.NewPID(system.Address(), "other"))
			},
			[]string{"no Terminated of other within 3s"},
		},
		"not stopped": {
			func(_ *actor.ActorSystem, p *probe.Probe) { p.ExpectStopped(time.Second) },
			[]string{"not stopped within 1s"},
		},
		"waiting at a stopped probe": {
			func(system *actor.ActorSystem, p *probe.Probe) {
				system.Root.Poison(p.PID())
				probe.Expect[int](p)
			},
			[]string{"no int within 3s (the probe was stopped by a PoisonPill)"},
		},
		"reply to nobody": {
			func(_ *actor.ActorSystem, p *probe.Probe) { p.Reply("x") },
			[]string{"nobody to reply string to: no message was taken yet"},
		},
		"reply to a message without sender": {
			func(_ *actor.ActorSystem, p *probe.Probe) {
				send(p, 1)
				probe.Expect[int](p)
				p.Reply("x")
			},
			[]string{"int 1 had no sender"},
		},
		"auto pilot panics": {
			func(_ *actor.ActorSystem, p *probe.Probe) {
				p.SetAutoPilot(func(probe.Envelope) any { panic("stall") })
				send(p, 1)
				probe.Expect[int](p)
			},
			[]string{"the auto pilot panicked at int 1: stall"},
		},
		"two durations": {
			func(_ *actor.ActorSystem, p *probe.Probe) { p.ExpectStopped(1, 2) },
			[]string{"one duration"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := &recorder{TB: t}
				inner.run(func(tb testing.TB) {
					tb.Helper()
					system := probe.NewSystem(tb)
					tc.test(system, probe.New(tb, system, "under-test"))
				})
				for _, part := range tc.says {
					if !strings.Contains(inner.failure, part) {
						t.Errorf("the failure lacks %q: %s", part, inner.failure)
					}
				}
			})
		})
	}
}

func TestNamesThatFail(t *testing.T) {
	system := probe.NewSystem(t)
	probe.New(t, system, "taken")
	for says, names := range map[string][]string{
		`the name "taken" is taken`:         {"taken"},
		`takes one name, not ["one" "two"]`: {"one", "two"},
	} {
		inner := &recorder{TB: t}
		inner.run(func(tb testing.TB) {
			tb.Helper()
			probe.New(tb, system, names...)
		})
		if !strings.Contains(inner.failure, says) {
			t.Errorf("the failure lacks %q: %s", says, inner.failure)
		}
	}
}

// lines collects output.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
