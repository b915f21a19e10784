package probe

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// DefaultTimeout is how long a probe waits for a message unless it is told otherwise.
const DefaultTimeout = 3 * time.Second

// Envelope is a message as it reached a probe.
type Envelope struct {
	// Message is the message itself, without Proto.Actor's wrapping.
	Message any
	// Sender is whom an answer should go to; nil if the message was sent without one.
	Sender *actor.PID
	// Header is what the sender, or a middleware of it, put beside the message; nil if nothing.
	Header map[string]string
	// System reports that this was a system message (Terminated). These overtake user messages on their way.
	System bool
}

// Probe is an actor of which the test is the behaviour. See the package's documentation.
//
// All methods are safe for concurrent use; only one goroutine at a time should take messages, or it is a matter
// of luck who gets which.
type Probe struct {
	tb     testing.TB
	system *actor.ActorSystem
	pid    *actor.PID

	mu        sync.Mutex
	timeout   time.Duration
	queue     []Envelope
	arrival   chan struct{} // closed at the next change of the queue or of stoppedBy; nil while nobody waits
	last      Envelope      // the message taken last
	autoPilot func(Envelope) any
	panicked  string       // what the auto pilot panicked with, until a test function reports it
	watchers  []*actor.PID // who gets Terminated when the probe stops
	stoppedBy string       // empty while the probe lives
}

// New starts a probe in system. It is called name, or gets a name of its own; a name that is taken fails the test.
// At the end of the test the probe is unregistered without a word to its watchers: to play an actor that stops, call
// [Probe.Stop].
func New(tb testing.TB, system *actor.ActorSystem, name ...string) *Probe {
	tb.Helper()
	var id string
	switch len(name) {
	case 0:
		id = "probe" + system.ProcessRegistry.NextId()
	case 1:
		id = name[0]
	default:
		tb.Fatalf("probe.New takes one name, not %q", name)
		return nil
	}
	p := &Probe{tb: tb, system: system, timeout: DefaultTimeout}
	pid, added := system.ProcessRegistry.Add(&process{p}, id)
	if !added {
		tb.Fatalf("probe.New: the name %q is taken in this actor system", id)
		return nil
	}
	p.pid = pid
	tb.Cleanup(func() { p.stop("the end of the test") })
	return p
}

// PID is the probe's address.
func (p *Probe) PID() *actor.PID { return p.pid }

// SetTimeout changes how long this probe waits when no duration is given.
func (p *Probe) SetTimeout(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timeout = d
}

// Send sends message to the actor, without a sender.
func (p *Probe) Send(to *actor.PID, message any) { p.system.Root.Send(to, message) }

// Request sends message to the actor with the probe as sender: an answer comes back to the probe.
func (p *Probe) Request(to *actor.PID, message any) {
	p.system.Root.RequestWithCustomSender(to, message, p.pid)
}

// Reply sends message to the sender of the message taken last; it fails the test if that one had no sender.
func (p *Probe) Reply(message any) {
	p.tb.Helper()
	p.mu.Lock()
	last := p.last
	p.mu.Unlock()
	switch {
	case last.Sender != nil:
		p.Send(last.Sender, message)
	case last.Message == nil:
		p.fail("nobody to reply %T to: no message was taken yet", message)
	default:
		p.fail("nobody to reply %T to: %s had no sender", message, describe(last))
	}
}

// Sender is the sender of the message taken last; nil if it had none.
func (p *Probe) Sender() *actor.PID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last.Sender
}

// Last is the message taken last; the zero Envelope if none was taken yet.
func (p *Probe) Last() Envelope {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// SetAutoPilot makes the probe answer by itself: pilot is called with every message that comes, and what it returns,
// unless nil, is sent to the message's sender. The messages are queued all the same, each after its answer was sent.
// A nil pilot ends it.
//
// The pilot runs on the goroutine of whoever sends to the probe, several at once if several do. It must not block
// and not fail the test itself: a panic in it is reported by whichever function next waits at the probe.
func (p *Probe) SetAutoPilot(pilot func(Envelope) (reply any)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.autoPilot = pilot
}

// Watch makes the probe receive *actor.Terminated when the actor stops, or now if it is gone already.
func (p *Probe) Watch(who *actor.PID) { p.sendSystem(who, &actor.Watch{Watcher: p.pid}) }

// Unwatch ends Watch.
func (p *Probe) Unwatch(who *actor.PID) { p.sendSystem(who, &actor.Unwatch{Watcher: p.pid}) }

// Watchers are the actors that watch the probe now, in the order in which they began.
func (p *Probe) Watchers() []*actor.PID {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]*actor.PID(nil), p.watchers...)
}

// Stop stops the probe as an actor is stopped: its watchers receive *actor.Terminated, and what is sent to it from now
// on is a dead letter. Messages that came before can still be taken. A Stop or PoisonPill that an actor sends to
// the probe does the same.
func (p *Probe) Stop() { p.terminate("the test (Probe.Stop)") }

// Stopped reports whether the probe was stopped, by Stop or by an actor.
func (p *Probe) Stopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stoppedBy != ""
}

func (p *Probe) sendSystem(to *actor.PID, message any) {
	ref, _ := p.system.ProcessRegistry.Get(to) // the dead letter process if there is no such actor
	ref.SendSystemMessage(to, message)
}

// terminate stops the probe and tells its watchers.
func (p *Probe) terminate(by string) {
	for _, watcher := range p.stop(by) {
		p.sendSystem(watcher, &actor.Terminated{Who: p.pid, Why: actor.TerminatedReason_Stopped})
	}
}

// stop takes the probe out of the system and returns who watched it; no one when it was stopped before.
func (p *Probe) stop(by string) []*actor.PID {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stoppedBy != "" {
		return nil
	}
	p.stoppedBy = by
	p.system.ProcessRegistry.Remove(p.pid)
	watchers := p.watchers
	p.watchers = nil
	p.changed()
	return watchers
}

// changed wakes who waits. p.mu is held.
func (p *Probe) changed() {
	if p.arrival != nil {
		close(p.arrival)
		p.arrival = nil
	}
}

// deliver answers a message if there is an auto pilot, then queues it; false means that the probe has stopped.
func (p *Probe) deliver(envelope Envelope) bool {
	p.mu.Lock()
	pilot, stopped := p.autoPilot, p.stoppedBy != ""
	p.mu.Unlock()
	if stopped {
		return false
	}
	if pilot != nil {
		p.answer(pilot, envelope)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue = append(p.queue, envelope)
	p.changed()
	return true
}

func (p *Probe) answer(pilot func(Envelope) any, envelope Envelope) {
	defer func() {
		if reason := recover(); reason != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.panicked = fmt.Sprintf("the auto pilot panicked at %s: %v", describe(envelope), reason)
			p.changed()
		}
	}()
	if reply := pilot(envelope); reply != nil && envelope.Sender != nil {
		p.Send(envelope.Sender, reply)
	}
}

// fail ends the test. It is called from the goroutine of the test only.
func (p *Probe) fail(format string, args ...any) {
	p.tb.Helper()
	p.tb.Fatalf("probe %s: %s", p.pid.GetId(), fmt.Sprintf(format, args...))
}

// process is the probe as Proto.Actor sees it. It has no mailbox: messages are queued by whoever sends them.
type process struct{ probe *Probe }

var _ actor.Process = (*process)(nil)

// SendUserMessage queues a message; a PoisonPill stops the probe.
func (s *process) SendUserMessage(pid *actor.PID, message any) {
	header, inner, sender := actor.UnwrapEnvelope(message)
	if _, poison := inner.(*actor.PoisonPill); poison {
		s.probe.terminate("a PoisonPill")
		return
	}
	envelope := Envelope{Message: inner, Sender: sender}
	if header != nil && header.Length() > 0 {
		envelope.Header = header.ToMap()
	}
	// A PID that has resolved the probe once keeps sending here, also after the probe was unregistered.
	if !s.probe.deliver(envelope) {
		s.probe.system.DeadLetter.SendUserMessage(pid, message)
	}
}

// SendSystemMessage does what an actor's cell does: it keeps the list of watchers, and stops. Only Terminated is for the test.
func (s *process) SendSystemMessage(pid *actor.PID, message any) {
	p := s.probe
	switch m := message.(type) {
	case *actor.Watch:
		if !p.addWatcher(m.Watcher) {
			p.sendSystem(m.Watcher, &actor.Terminated{Who: p.pid, Why: actor.TerminatedReason_Stopped})
		}
	case *actor.Unwatch:
		p.removeWatcher(m.Watcher)
	case *actor.Stop:
		s.Stop(pid)
	case *actor.Terminated:
		if !p.deliver(Envelope{Message: m, System: true}) {
			p.system.DeadLetter.SendSystemMessage(pid, m)
		}
	}
}

// Stop stops the probe.
func (s *process) Stop(*actor.PID) { s.probe.terminate("a Stop") }

func (p *Probe) addWatcher(watcher *actor.PID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stoppedBy != "" {
		return false
	}
	for _, w := range p.watchers {
		if w.Equal(watcher) {
			return true
		}
	}
	p.watchers = append(p.watchers, watcher)
	return true
}

func (p *Probe) removeWatcher(watcher *actor.PID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, w := range p.watchers {
		if w.Equal(watcher) {
			p.watchers = append(p.watchers[:i:i], p.watchers[i+1:]...)
			return
		}
	}
}

// describe says what a message is on one line, for failures.
func describe(e Envelope) string {
	const most = 300
	text := fmt.Sprintf("%T", e.Message)
	if value := fmt.Sprintf("%+v", e.Message); value != "" {
		text += " " + value
	}
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	if e.Sender != nil {
		text += " from " + e.Sender.GetId()
	}
	return text
}

// describeAll lists messages, one per line.
func describeAll(envelopes []Envelope) string {
	const most = 20
	var list strings.Builder
	for i, e := range envelopes {
		if i == most {
			fmt.Fprintf(&list, "\n\t… and %d more", len(envelopes)-most)
			break
		}
		list.WriteString("\n\t" + describe(e))
	}
	return list.String()
}
