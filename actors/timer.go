package actors

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// timers are an actor's timers: each has a name, fires once as a timerFired message to the actor, and is
// armed again by whoever handles it. Setting a timer replaces it. The library's own scheduler is not used: its timers
// outlive the actor, and cancelling them races.
//
// N is the actor's own type of names, so that a switch over them can be seen to be complete.
type timers[N ~uint8] struct {
	root  *actor.RootContext
	self  *actor.PID
	slots map[N]slot
}

type slot struct {
	number uint64
	timer  *time.Timer
}

// timerFired is a timer's message. A number that is not the slot's belongs to a timer that was replaced, cancelled, or
// set by an earlier incarnation.
type timerFired[N ~uint8] struct {
	name   N
	number uint64
}

func newTimers[N ~uint8](c actor.Context) *timers[N] {
	return &timers[N]{root: c.ActorSystem().Root, self: c.Self(), slots: make(map[N]slot)}
}

// set arms the timer to fire after d, instead of when it was set to fire before.
func (t *timers[N]) set(name N, d time.Duration) {
	t.cancel(name)
	number := nextGeneration()
	root, self := t.root, t.self
	t.slots[name] = slot{number: number, timer: time.AfterFunc(d, func() {
		root.Send(self, timerFired[N]{name: name, number: number})
	})}
}

// armed reports whether the timer is set and has not been handled.
func (t *timers[N]) armed(name N) bool {
	_, ok := t.slots[name]
	return ok
}

func (t *timers[N]) cancel(name N) {
	if s, ok := t.slots[name]; ok {
		s.timer.Stop()
		delete(t.slots, name)
	}
}

// fired reports whether m is of a timer that is still wanted, and disarms it.
func (t *timers[N]) fired(m timerFired[N]) bool {
	if t == nil {
		return false
	}
	if s, ok := t.slots[m.name]; !ok || s.number != m.number {
		return false
	}
	delete(t.slots, m.name)
	return true
}

// stop cancels all. Call it when the actor stops or restarts.
func (t *timers[N]) stop() {
	if t == nil {
		return
	}
	for name := range t.slots {
		t.cancel(name)
	}
}

// pause waits within an effect; never in an actor.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// after runs f once d has passed, on a goroutine of its own.
func after(d time.Duration, f func()) { time.AfterFunc(d, f) }

// afterUnlessStopped does so unless the timer is stopped before.
func afterUnlessStopped(d time.Duration, f func()) *time.Timer { return time.AfterFunc(d, f) }

// newLinger is a timer for waiting a while for something else.
func newLinger(d time.Duration) *time.Timer { return time.NewTimer(d) }

// together is a pause that ends a little sooner, at a moment that others' pauses end at, too: to wake a sleeping process costs more than what most timers
// are for. A pause of less than two seconds is left as it is.
func together(now time.Time, pause time.Duration) time.Duration {
	if pause < 20*moments {
		return pause
	}
	return pause - time.Duration(now.Add(pause).UnixNano()%int64(moments))
}

// moments are as far apart.
const moments = 100 * time.Millisecond
