package actors

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/messages"
)

// subscriberLost: the way to the node of the subscriber is gone, and with it whatever was on it. It may live all the same.
type subscriberLost struct{}

// onTerminated passes on that a reader or the subscriber has stopped, as an ordinary message: their last words, which Terminated overtakes, come first.
func (co *coordinator) onTerminated(c actor.Context, m *actor.Terminated) {
	if m.Who.Equal(co.subscriber) && m.Why != actor.TerminatedReason_Stopped && isElsewhere(c.ActorSystem(), co.subscriber) {
		c.Send(c.Self(), subscriberLost{})
		return
	}
	c.Send(c.Self(), childGone{m.Who})
}

// onSubscriberLost ends the subscription: another node may read on. If the subscriber lives, it is told so when it can be reached again.
func (co *coordinator) onSubscriberLost(c actor.Context) {
	if co.closing.begun {
		return
	}
	co.end(c, &Error{
		Kind: messages.ErrorKind_ERROR_KIND_READ, Stream: co.how.stream.spelling,
		Text:   fmt.Sprintf("the subscriber's node, %s, can't be reached: the subscription has ended", co.subscriber.GetAddress()),
		Advice: "subscribe again",
	})
}

// watchAgain repeats the watch of a subscriber on another node, now and then: it is a message as any other, and can be lost.
func (co *coordinator) watchAgain(c actor.Context) {
	if isElsewhere(c.ActorSystem(), co.subscriber) {
		c.Watch(co.subscriber)
	}
}
