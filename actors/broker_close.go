package actors

import (
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/messages"
)

// onShutdown begins the end, or joins it.
func (b *broker) onShutdown(c actor.Context, m *messages.Shutdown) {
	b.closing.askers = append(b.closing.askers, asked{c.Sender(), m.GetCorrelation()})
	b.shutdown(c, callerTimeout(m.GetTimeout(), m.GetTimeout() != nil, b.cfg.Timings.ShutdownTimeout))
}

// shutdown drains every child. A Connect under way is cancelled.
func (b *broker) shutdown(c actor.Context, timeout time.Duration) {
	if timeout < 0 {
		timeout = b.cfg.Timings.ShutdownTimeout
	}
	b.become(messages.BrokerState_BROKER_STATE_CLOSING, b.closingDown)
	b.unfollow()
	for _, who := range b.connecting {
		answer(c.ActorSystem(), who.pid, notConnected(b.state), who.correlation)
	}
	b.connecting = nil
	b.membership.member.Leaving = true
	b.membership.changes++
	b.beat()
	b.drainChildren(c, timeout)
	b.checkClosed(c)
}

func (b *broker) drainChildren(c actor.Context, timeout time.Duration) {
	for _, child := range append([]*actor.PID(nil), c.Children()...) {
		c.Send(child, drain{timeout: timeout})
	}
	// The children keep the deadline themselves, with a ttl for the last writes; this is for one that does not.
	b.timers.set(timerBrokerClose, timeout+b.cfg.Timings.LeaseTTL+time.Second)
}

// closingDown: children are draining. Requests are refused.
func (b *broker) closingDown(c actor.Context) {
	switch m := c.Message().(type) {
	case *messages.Shutdown:
		b.closing.askers = append(b.closing.askers, asked{c.Sender(), m.GetCorrelation()})
		if m.GetTimeout() != nil {
			b.drainChildren(c, max(0, m.GetTimeout().AsDuration()))
		}
	case drain:
	case subscriptionLeaving:
		b.tellWhenShown(c, m.coordinator)
	case *messages.Hint:
		b.onHint(c, m)
	case subscriptionFailed:
		b.onFailed(c, m)
	case subscriptionOpened:
		b.onOpened(c, m)
	case streamIdentified:
	case subscriptionEnded:
		b.closing.unfinished = append(b.closing.unfinished, m.unfinished...)
		b.onEnded(c, m)
		b.checkClosed(c)
	case childGone:
		b.onChildGone(c, m.who)
		b.checkClosed(c)
	default:
		b.common(c)
	}
}

// checkClosed ends the closing when no child is left and their last words have been heard.
func (b *broker) checkClosed(c actor.Context) {
	if len(c.Children()) == 0 && len(b.subscriptions) == 0 && len(b.publishers) == 0 && b.removeMember() {
		b.finishClose(c)
	}
}

func (b *broker) onCloseDeadline(c actor.Context) {
	for _, child := range append([]*actor.PID(nil), c.Children()...) {
		b.cfg.logger().Warn("stopped by force at the end of the shutdown", slog.String("pid", child.Id))
		b.closing.unfinished = append(b.closing.unfinished, child.Id+" did not stop in time")
		c.Stop(child)
	}
}

func (b *broker) finishClose(c actor.Context) {
	if b.state == messages.BrokerState_BROKER_STATE_CLOSED {
		return
	}
	b.answerApplications(c)
	b.status.expire(c) // no timer does it any more; children that have stopped answer nothing
	b.timers.stop()
	b.fx.stop()
	b.releaseAll()
	b.become(messages.BrokerState_BROKER_STATE_CLOSED, b.closed)
	for _, who := range b.closing.askers {
		b.answerClosed(c, who)
	}
	b.closing.askers = nil
}

// closed: the end, for ever.
func (b *broker) closed(c actor.Context) {
	switch m := c.Message().(type) {
	case *messages.Shutdown:
		b.answerClosed(c, asked{c.Sender(), m.GetCorrelation()})
	case subscriptionEnded:
		b.onEnded(c, m)
	case drain, childGone, subscriptionFailed, subscriptionOpened, streamIdentified, subscriptionLeaving:
	default:
		b.common(c)
	}
}

func (b *broker) answerClosed(c actor.Context, who asked) {
	if who.pid != nil {
		c.Send(who.pid, &messages.Closed{Unfinished: b.closing.unfinished, Correlation: who.correlation})
	}
}

// releaseAll closes what is the broker's own: goroutines, idle connections, and the lease store if it was not given.
func (b *broker) releaseAll() {
	b.cfg.pool.close()
	if b.closeIdle != nil {
		b.closeIdle()
	}
	if b.ownStore && b.store != nil {
		_ = b.store.Close() // in memory: nothing can fail
	}
}

// stopped is for a broker that is stopped by force: whoever waits gets an answer, and whoever asks while the children stop is told that it is
// closed.
func (b *broker) stopped(c actor.Context) {
	b.unfollow()
	e := notConnected(messages.BrokerState_BROKER_STATE_CLOSED)
	for _, who := range b.connecting {
		answer(c.ActorSystem(), who.pid, e, who.correlation)
	}
	for _, s := range b.subscriptions {
		if !s.open {
			answer(c.ActorSystem(), s.asker.pid, e, s.asker.correlation)
		}
	}
	for _, who := range b.closing.askers {
		b.answerClosed(c, who)
	}
	b.answerApplications(c)
	b.status.expire(c)
	b.connecting, b.closing.askers = nil, nil
	clear(b.subscriptions)
	clear(b.publishers)
	b.become(messages.BrokerState_BROKER_STATE_CLOSED, b.closed)
}
