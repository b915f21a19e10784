package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/messages"
)

// Messages still in a mailbox when its actor stops are swallowed by the library: their senders wait for nothing. A closed broker therefore
// never stops by itself. Should someone stop it all the same, two things answer for it: its mailbox, what is in it
// or reaches it later, and a tombstone under its name, what is sent to its PID from then on, from other nodes too.

// refuse answers a request that came too late.
func refuse(system *actor.ActorSystem, message any) {
	_, m, sender := actor.UnwrapEnvelope(message)
	if r, ok := m.(refusable); ok {
		r.refuse(notConnected(messages.BrokerState_BROKER_STATE_CLOSED))
		return
	}
	if sender == nil {
		return
	}
	switch m.(type) {
	case *messages.Shutdown:
		system.Root.Send(sender, &messages.Closed{Correlation: correlationOf(m)})
	case *messages.StatusRequest:
		system.Root.Send(sender, &messages.Status{
			State: messages.BrokerState_BROKER_STATE_CLOSED, Correlation: correlationOf(m),
		})
	default:
		if isRequest(m) {
			answer(system, sender, notConnected(messages.BrokerState_BROKER_STATE_CLOSED), correlationOf(m))
		}
	}
}

// mailbox is the library's unbounded mailbox with an invoker that turns PoisonPill into drain, and answers for the actor once it was stopped.
type mailbox struct {
	actor.Mailbox
	system *actor.ActorSystem
}

func answeringMailbox(system *actor.ActorSystem) actor.MailboxProducer {
	unbounded := actor.Unbounded()
	return func() actor.Mailbox { return &mailbox{Mailbox: unbounded(), system: system} }
}

// RegisterHandlers implements actor.Mailbox.
func (m *mailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	m.Mailbox.RegisterHandlers(&answeringInvoker{MessageInvoker: invoker, system: m.system, mailbox: m.Mailbox}, dispatcher)
}

type answeringInvoker struct {
	actor.MessageInvoker
	system  *actor.ActorSystem
	mailbox actor.Mailbox
	ending  bool
}

// InvokeSystemMessage implements actor.MessageInvoker.
//
// From Stop on the actor only waits for its children. The library would go on passing it messages until they are gone, and
// restart it if it was about to be: it would spawn children again, and never end.
func (i *answeringInvoker) InvokeSystemMessage(message any) {
	switch message.(type) {
	case *actor.Stop:
		i.ending = true
		i.MessageInvoker.InvokeSystemMessage(message)
		i.mailbox.PostSystemMessage(&actor.ResumeMailbox{}) // it is suspended if the actor was about to be restarted
	case *actor.Restart:
		if !i.ending {
			i.MessageInvoker.InvokeSystemMessage(message)
		}
	default:
		i.MessageInvoker.InvokeSystemMessage(message)
	}
}

// InvokeUserMessage implements actor.MessageInvoker.
func (i *answeringInvoker) InvokeUserMessage(message any) {
	if i.ending {
		refuse(i.system, message)
		return
	}
	if _, poison := actor.UnwrapEnvelopeMessage(message).(*actor.PoisonPill); poison {
		message = drain{timeout: -1}
	}
	i.MessageInvoker.InvokeUserMessage(message)
}

// tombstone is what stands under a stopped broker's name.
type tombstone struct {
	system *actor.ActorSystem
}

var _ actor.Process = tombstone{}

func leaveTombstone(c actor.Context) {
	c.ActorSystem().ProcessRegistry.Add(tombstone{c.ActorSystem()}, c.Self().Id)
}

// SendUserMessage implements actor.Process.
func (t tombstone) SendUserMessage(_ *actor.PID, message any) { refuse(t.system, message) }

// SendSystemMessage implements actor.Process: whoever watches is told that the broker has stopped.
func (t tombstone) SendSystemMessage(pid *actor.PID, message any) {
	if w, ok := message.(*actor.Watch); ok {
		if ref, ok := t.system.ProcessRegistry.Get(w.Watcher); ok {
			ref.SendSystemMessage(w.Watcher, &actor.Terminated{Who: pid})
		}
	}
}

// Stop implements actor.Process.
func (t tombstone) Stop(*actor.PID) {}
