package probe

import (
	"reflect"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// Expect takes the next message and returns it. It fails the test if the message is not a T, or if none comes within the
// time.
func Expect[T any](p *Probe, within ...time.Duration) T {
	p.tb.Helper()
	var none T
	limit := p.limit(within)
	envelope, ok := p.take(time.Now().Add(limit))
	if !ok {
		p.failWaiting("no %s within %v", typeName[T](), limit)
		return none
	}
	message, ok := envelope.Message.(T)
	if !ok {
		p.failWaiting("the next message should be %s, but is %s", typeName[T](), describe(envelope))
		return none
	}
	return message
}

// Fish takes messages until one is a T for which fits is true (a nil fits takes any T) and returns that one; those before it
// are dropped. It fails the test, and lists what it dropped, if there is none within the time.
func Fish[T any](p *Probe, fits func(T) bool, within ...time.Duration) T {
	p.tb.Helper()
	limit := p.limit(within)
	deadline := time.Now().Add(limit)
	var seen []Envelope
	for {
		envelope, ok := p.take(deadline)
		if !ok {
			var none T
			p.fail("no fitting %s within %v%s; passed over %d messages:%s",
				typeName[T](), limit, p.stoppedNote(), len(seen), describeAll(seen))
			return none
		}
		if message, ok := envelope.Message.(T); ok && (fits == nil || fits(message)) {
			return message
		}
		seen = append(seen, envelope)
	}
}

// ReceiveN takes the next n messages, which must all be of type T and come within the time, counted over all of them.
func ReceiveN[T any](p *Probe, n int, within ...time.Duration) []T {
	p.tb.Helper()
	limit := p.limit(within)
	deadline := time.Now().Add(limit)
	messages := make([]T, 0, n)
	for len(messages) < n {
		envelope, ok := p.take(deadline)
		if !ok {
			p.failWaiting("%d of %d %s within %v", len(messages), n, typeName[T](), limit)
			return messages
		}
		message, ok := envelope.Message.(T)
		if !ok {
			p.failWaiting("message %d of %d should be %s, but is %s", len(messages)+1, n, typeName[T](), describe(envelope))
			return messages
		}
		messages = append(messages, message)
	}
	return messages
}

// TryReceive takes the next message if there is one; it does not wait. In a synctest bubble, call synctest.Wait
// before it.
func (p *Probe) TryReceive() (Envelope, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.takeLocked()
}

// ExpectNone fails the test if a message is queued, or comes within d.
func (p *Probe) ExpectNone(d time.Duration) {
	p.tb.Helper()
	if envelope, ok := p.take(time.Now().Add(d)); ok {
		p.failWaiting("there should be no message for %v, but there is %s", d, describe(envelope))
	}
}

// ExpectTerminated waits until the probe has been told that the actor, which it must watch, has stopped. Other
// messages stay in the queue.
func (p *Probe) ExpectTerminated(who *actor.PID, within ...time.Duration) *actor.Terminated {
	p.tb.Helper()
	limit := p.limit(within)
	var terminated *actor.Terminated
	found := p.await(time.Now().Add(limit), func() bool {
		for i, envelope := range p.queue {
			if t, ok := envelope.Message.(*actor.Terminated); ok && t.Who.Equal(who) {
				terminated = t
				p.queue = append(p.queue[:i:i], p.queue[i+1:]...)
				return true
			}
		}
		return false
	})
	if !found {
		p.failWaiting("no Terminated of %s within %v", who.GetId(), limit)
	}
	return terminated
}

// ExpectStopped waits until the probe has been stopped, by an actor or by [Probe.Stop]. Messages stay in the queue.
func (p *Probe) ExpectStopped(within ...time.Duration) {
	p.tb.Helper()
	limit := p.limit(within)
	if !p.await(time.Now().Add(limit), func() bool { return p.stoppedBy != "" }) {
		p.failWaiting("not stopped within %v", limit)
	}
}

// limit is the duration given, or the probe's own.
func (p *Probe) limit(within []time.Duration) time.Duration {
	p.tb.Helper()
	switch len(within) {
	case 0:
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.timeout
	case 1:
		return within[0]
	default:
		p.fail("one duration can be given, not %v", within)
		return 0
	}
}

func (p *Probe) take(deadline time.Time) (envelope Envelope, ok bool) {
	p.tb.Helper()
	p.await(deadline, func() bool {
		envelope, ok = p.takeLocked()
		return ok
	})
	return envelope, ok
}

// takeLocked takes the next message. p.mu is held.
func (p *Probe) takeLocked() (Envelope, bool) {
	if len(p.queue) == 0 {
		return Envelope{}, false
	}
	envelope := p.queue[0]
	p.queue[0] = Envelope{}
	p.queue = p.queue[1:]
	p.last = envelope
	return envelope, true
}

// await waits until met, which is called with p.mu held, returns true; false means that the time is up.
func (p *Probe) await(deadline time.Time, met func() bool) bool {
	p.tb.Helper()
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for timeUp := false; ; {
		p.mu.Lock()
		done := met()
		panicked := p.panicked
		p.panicked = ""
		if p.arrival == nil {
			p.arrival = make(chan struct{})
		}
		arrival := p.arrival
		p.mu.Unlock()
		if panicked != "" {
			p.fail("%s", panicked)
			return false
		}
		if done || timeUp {
			return done
		}
		select {
		case <-arrival:
		case <-timer.C:
			timeUp = true // look once more: what came meanwhile is in time
		}
	}
}

// failWaiting is fail with what is left in the queue.
func (p *Probe) failWaiting(format string, args ...any) {
	p.tb.Helper()
	format += "%s"
	args = append(args, p.stoppedNote())
	p.mu.Lock()
	left := append([]Envelope(nil), p.queue...)
	p.mu.Unlock()
	if len(left) > 0 {
		format += "; still queued are %d messages:%s"
		args = append(args, len(left), describeAll(left))
	}
	p.fail(format, args...)
}

func (p *Probe) stoppedNote() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stoppedBy == "" {
		return ""
	}
	return " (the probe was stopped by " + p.stoppedBy + ")"
}

func typeName[T any]() string { return reflect.TypeFor[T]().String() }
