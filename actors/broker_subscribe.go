package actors

import (
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/messages"
)

func compareStrings(a, b string) int { return strings.Compare(a, b) }

// onSubscribe checks the request and lets a coordinator open the subscription.
func (b *broker) onSubscribe(c actor.Context, m *messages.Subscribe) {
	refuse := func(e *Error) { answer(c.ActorSystem(), c.Sender(), e, m.GetCorrelation()) }
	how, err := checkDescriptor(m.GetStream(), b.cfg.Timings)
	if err != nil {
		refuse(err)
		return
	}
	subscriber := m.GetSubscriber()
	if subscriber == nil {
		subscriber = c.Sender()
	}
	if subscriber == nil {
		refuse(invalid(how.stream.spelling, "subscriber", "is missing, and so is a sender: nobody would receive the deliveries"))
		return
	}
	how.redeliverAfter = redeliverAfter(how, m.GetStream(), isElsewhere(c.ActorSystem(), subscriber))
	for _, s := range b.subscriptions {
		if sameStream(s.spelling, how.stream) && s.consumer == how.consumer {
			refuse(alreadyRead(how.stream.spelling))
			return
		}
	}
	spec := coordinatorSpec{
		cfg: b.cfg, clients: b.clients, store: b.store, shared: b.shared(), owner: b.owner, how: how, subscriber: subscriber,
		deadline: time.Now().Add(b.cfg.Timings.OpenTimeout),
	}
	pid, spawnErr := c.SpawnNamed(coordinatorProps(spec, c.ActorSystem()), "subscription-"+how.stream.name+c.ActorSystem().ProcessRegistry.NextId())
	if spawnErr != nil {
		refuse(&Error{
			Kind: messages.ErrorKind_ERROR_KIND_STREAM, Stream: how.stream.spelling, Text: "the coordinator can't be started", Cause: spawnErr,
		})
		return
	}
	b.subscriptions[pid.Id] = &subscription{
		pid: pid, spelling: how.stream.spelling, consumer: how.consumer, subscriber: subscriber, asker: asked{c.Sender(), m.GetCorrelation()},
	}
}

func alreadyRead(stream string) *Error {
	e := invalid(stream, "stream.name", "this broker reads the stream through another subscription already")
	e.Advice = "unsubscribe that one first, or use another broker"
	return e
}

// sameStream compares what can be compared before the service is asked: the same spelling, or two ARNs or two names alike. A name
// and an ARN are compared once the service has told which stream the name is.
func sameStream(spelling string, ref streamRef) bool {
	other, err := parseStream(spelling)
	return err == nil && other.name == ref.name && other.arn == ref.arn
}

// onIdentified: a coordinator knows which stream it is, and asks whether it may read it.
func (b *broker) onIdentified(c actor.Context, m streamIdentified) {
	own := b.subscriptions[m.coordinator.Id]
	if own == nil { // it had ended when it panicked
		e := notConnected(messages.BrokerState_BROKER_STATE_CLOSED)
		e.Stream, e.Text = m.stream.Name, "the subscription has ended"
		c.Send(m.coordinator, streamClaimed{err: e})
		return
	}
	for _, s := range b.subscriptions {
		// By name: one that was created again is another stream, but whoever reads the one of before may not know yet.
		if s != own && s.stream.Name == m.stream.Name {
			c.Send(m.coordinator, streamClaimed{err: alreadyRead(own.spelling)})
			return
		}
	}
	for _, stream := range b.ending {
		if stream.Name == m.stream.Name {
			b.claims = append(b.claims, m)
			return
		}
	}
	if own.stream != m.stream && own.stream.Name != "" {
		b.leave(own.stream)
	}
	own.stream = m.stream
	b.join(c, m)
}

// onOpened answers Subscribe. What went wrong with single shards follows, to the subscriber.
func (b *broker) onOpened(c actor.Context, m subscriptionOpened) {
	s := b.subscriptions[m.coordinator.Id]
	if s == nil || s.open {
		return
	}
	s.open = true
	if s.asker.pid != nil {
		c.Send(s.asker.pid, &messages.Subscribed{
			Subscription: s.pid, Stream: s.spelling, StreamArn: m.arn, Shards: m.shards, Correlation: s.asker.correlation,
		})
	}
	for _, e := range m.troubles {
		c.Send(s.subscriber, &messages.SubscriptionError{Subscription: s.pid, Error: e.Message(0)})
	}
}

// onFailed answers Subscribe that it failed. The stream may be subscribed to again at once; that one begins when this one's readers have let go of
// their leases: both hold them under the same owner id, and neither the store nor they themselves could tell whose is whose.
func (b *broker) onFailed(c actor.Context, m subscriptionFailed) {
	s := b.subscriptions[m.coordinator.Id]
	if s == nil || s.open {
		return
	}
	if s.stream.Name != "" {
		b.ending[m.coordinator.Id] = s.stream
	}
	b.forget(m.coordinator)
	answer(c.ActorSystem(), s.asker.pid, m.err, s.asker.correlation)
}

// hasEnded lets those go on that waited for a coordinator which had failed.
func (b *broker) hasEnded(c actor.Context, coordinator *actor.PID) {
	if _, failed := b.ending[coordinator.Id]; !failed {
		return
	}
	delete(b.ending, coordinator.Id)
	claims := b.claims
	b.claims = nil
	if b.state != messages.BrokerState_BROKER_STATE_CONNECTED {
		return
	}
	for _, m := range claims {
		b.onIdentified(c, m)
	}
}

// onEnded forgets a subscription that ended in order, and only then answers Unsubscribe: whoever subscribes to the stream again
// when he hears it must find it free.
func (b *broker) onEnded(c actor.Context, m subscriptionEnded) {
	b.forget(m.coordinator)
	b.hasEnded(c, m.coordinator)
	for _, who := range m.askers {
		if who.pid != nil {
			c.Send(who.pid, &messages.Unsubscribed{Unfinished: m.unfinished, Correlation: who.correlation})
		}
	}
	if c.Sender() != nil {
		c.Respond(subscriptionForgotten{})
	}
}

// forget takes a subscription out of the book.
func (b *broker) forget(coordinator *actor.PID) {
	if s := b.subscriptions[coordinator.Id]; s != nil {
		delete(b.subscriptions, coordinator.Id)
		b.leave(s.stream)
	}
}

// childGone follows a child's Terminated as an ordinary message, so that the child's last words, which Terminated overtakes, come first.
type childGone struct{ who *actor.PID }

// onChildGone forgets a child. A coordinator that was stopped by force before it was open has not answered.
func (b *broker) onChildGone(c actor.Context, who *actor.PID) {
	b.hasEnded(c, who)
	if s := b.subscriptions[who.Id]; s != nil {
		b.forget(who)
		if !s.open {
			answer(c.ActorSystem(), s.asker.pid, &Error{
				Kind: messages.ErrorKind_ERROR_KIND_STREAM, Stream: s.spelling, Text: "the subscription was stopped before it was open",
			}, s.asker.correlation)
		}
	}
	for key, p := range b.publishers {
		if p.pid.Equal(who) {
			delete(b.publishers, key)
		}
	}
}

// onSeek passes a seek to the coordinator of its stream.
func (b *broker) onSeek(c actor.Context, m *messages.Seek) {
	ref, err := parseStream(m.GetStream())
	if err != nil {
		err.Field = "stream"
		answer(c.ActorSystem(), c.Sender(), err, m.GetCorrelation())
		return
	}
	for _, s := range b.subscriptions {
		if s.open && (sameStream(s.spelling, ref) || (ref.arn != "" && s.stream.Name == ref.arn)) {
			c.Forward(s.pid)
			return
		}
	}
	e := notConnected(b.state)
	e.Stream, e.Text, e.Advice = m.GetStream(), "this broker does not read the stream", "subscribe to it first"
	answer(c.ActorSystem(), c.Sender(), e, m.GetCorrelation())
}
