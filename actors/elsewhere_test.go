package actors

import (
	"fmt"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// elsewhere is another node, in virtual time: what is sent to its address goes through the wire's encoding to an actor of this process, unless it is lost
// on the way. Sockets do not live in a bubble.
type elsewhere struct {
	w       *world
	address string

	mu       sync.Mutex
	lose     func(message any) bool // may be nil
	watchers []*actor.PID
	watches  int
}

var _ actor.Process = (*elsewhere)(nil)

func newElsewhere(w *world) *elsewhere {
	e := &elsewhere{w: w, address: "elsewhere:1"}
	w.system.ProcessRegistry.Address = "here:1" // as if remote had been started
	w.system.ProcessRegistry.RegisterAddressResolver(func(pid *actor.PID) (actor.Process, bool) {
		return e, pid.GetAddress() == e.address
	})
	return e
}

// subscriber is the world's, as it is known from this node.
func (e *elsewhere) subscriber() *actor.PID { return actor.NewPID(e.address, e.w.sub.PID().GetId()) }

// open connects and subscribes with the subscriber elsewhere.
func (e *elsewhere) open(change ...func(*messages.StreamDescriptor)) *messages.Subscribed {
	e.w.t.Helper()
	e.w.connect()
	d := &messages.StreamDescriptor{Name: testStream}
	for _, f := range append([]func(*messages.StreamDescriptor){horizon}, change...) {
		f(d)
	}
	e.w.me.Request(e.w.broker, &messages.Subscribe{Stream: d, Subscriber: e.subscriber()})
	return probe.Fish(e.w.me, func(*messages.Subscribed) bool { return true })
}

// losing loses what lose says.
func (e *elsewhere) losing(lose func(message any) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lose = lose
}

func everything(any) bool { return true }

func (e *elsewhere) loses(message any) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lose != nil && e.lose(message)
}

// SendUserMessage implements actor.Process.
func (e *elsewhere) SendUserMessage(pid *actor.PID, message any) {
	_, m, sender := actor.UnwrapEnvelope(message)
	if e.loses(m) {
		return
	}
	e.w.system.Root.RequestWithCustomSender(actor.NewPID(e.w.system.Address(), pid.GetId()), overWire(m), sender)
}

// overWire is what arrives of a message.
func overWire(m any) proto.Message {
	sent, ok := m.(proto.Message)
	if !ok {
		panic(fmt.Sprintf("%T can't be sent to another node", m))
	}
	text, err := proto.Marshal(sent)
	if err != nil {
		panic(err)
	}
	got := sent.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(text, got); err != nil {
		panic(err)
	}
	return got
}

// SendSystemMessage implements actor.Process.
func (e *elsewhere) SendSystemMessage(_ *actor.PID, message any) {
	if m, ok := message.(*actor.Watch); ok && !e.loses(m) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.watches++
		e.watchers = append(e.watchers, m.Watcher)
	}
}

// Stop implements actor.Process.
func (e *elsewhere) Stop(*actor.PID) {}

// watched is how many watches have arrived.
func (e *elsewhere) watched() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.watches
}

// ends tells who watches that the subscriber is gone.
func (e *elsewhere) ends(why actor.TerminatedReason) {
	e.mu.Lock()
	watchers := e.watchers
	e.mu.Unlock()
	require.NotEmpty(e.w.t, watchers, "nobody watches the subscriber")
	for _, who := range watchers {
		ref, _ := e.w.system.ProcessRegistry.Get(who)
		ref.SendSystemMessage(who, &actor.Terminated{Who: e.subscriber(), Why: why})
	}
}
