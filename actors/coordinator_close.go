package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/messages"
)

// closingState is a coordinator's way out.
type closingState struct {
	begun      bool
	draining   bool // readers have been told
	askers     []closeRequest
	unfinished []string
	stopped    bool
	left       bool // the other nodes can see that this one leaves
	sweeps     int
}

// closeRequest asks a coordinator to end; asker, if any, is answered Unsubscribed.
type closeRequest struct {
	unsubscribe *messages.Unsubscribe
	asker       *actor.PID
	timeout     time.Duration
}

// close drains every reader; when the last has stopped, the coordinator stops too.
func (co *coordinator) close(c actor.Context, req closeRequest) {
	if u := req.unsubscribe; u != nil {
		co.closing.askers = append(co.closing.askers, req)
		req.timeout = -1
		if u.GetTimeout() != nil {
			req.timeout = max(0, u.GetTimeout().AsDuration())
		}
	}
	if req.timeout < 0 {
		req.timeout = co.cfg.Timings.ShutdownTimeout
	}
	if !co.opened && !co.closing.begun {
		// Nobody has been told that it failed, if this is a shutdown or the subscriber's end.
		c.Send(c.Parent(), subscriptionFailed{coordinator: c.Self(), err: notConnected(messages.BrokerState_BROKER_STATE_CLOSING)})
	}
	first := !co.closing.begun
	co.closing.begun = true
	co.behavior.Become(co.closingDown)
	for _, t := range []coordinatorTimer{timerList, timerScan, timerSoon, timerOpenDeadline, timerReopen, timerGather, timerHeirs} {
		co.timers.cancel(t)
	}
	co.seeks.refuseAll(c, notConnected(messages.BrokerState_BROKER_STATE_CLOSING))
	if first && co.found.id.Name != "" {
		c.Send(c.Parent(), subscriptionLeaving{c.Self()})
		co.hintAll(c, messages.HintKind_HINT_KIND_LEAVING)
	}
	if first && req.timeout > 0 && co.shares.company {
		co.timers.set(timerClose, req.timeout+co.cfg.Timings.LeaseTTL)
		co.lookForHeirs(req.timeout)
		return
	}
	co.drainReaders(c, req.timeout)
}

func (co *coordinator) onDrain(c actor.Context, m drain) {
	co.kept.draining = true
	co.close(c, closeRequest{timeout: m.timeout})
}

// endAgain is for an incarnation whose predecessor panicked while it ended. Its readers have gone with it.
func (co *coordinator) endAgain(c actor.Context) {
	co.closing.unfinished = append(co.closing.unfinished,
		"stream \""+co.how.stream.spelling+"\": its coordinator panicked; what was not settled comes again, and its leases run out by themselves")
	co.close(c, closeRequest{})
}

// drainReaders has every reader give its lease to an heir, or release it.
func (co *coordinator) drainReaders(c actor.Context, timeout time.Duration) {
	co.closing.draining = true
	heirs := co.heirs()
	for _, s := range co.shards {
		if s.reader == nil {
			continue
		}
		if to, named := heirs[s.id]; named || s.giving == "" { // named anew if the one that it was going to is gone
			s.name(to)
		}
		c.Send(s.reader, drain{timeout: timeout, to: s.giving})
	}
	// Readers keep the deadline themselves; this is for one that does not, such as one whose store hangs.
	co.timers.set(timerClose, timeout+co.cfg.Timings.LeaseTTL)
	co.checkClosed(c)
}

// closingDown is the closing behaviour: readers are draining.
func (co *coordinator) closingDown(c actor.Context) {
	switch m := c.Message().(type) {
	case readerEnded:
		if m.unfinished != "" {
			co.closing.unfinished = append(co.closing.unfinished, m.unfinished)
		}
		if s := co.shards[m.shard]; s != nil && s.started == m.reader {
			co.onGivenAway(c, s, m.row)
		}
	case *messages.Hint:
		co.onHint(c, m)
	case subscriptionLeft:
		co.closing.left = true
		if co.timers.armed(timerLeft) {
			co.timers.cancel(timerLeft)
			co.sweep()
		}
	case subscriptionForgotten:
		co.onForgotten(c)
	case *messages.Unsubscribe:
		if m.GetTimeout() != nil {
			co.close(c, closeRequest{unsubscribe: m, asker: c.Sender()})
			return
		}
		co.closing.askers = append(co.closing.askers, closeRequest{unsubscribe: m, asker: c.Sender()})
	case drain:
		co.onDrain(c, m)
	default:
		if isRequest(c.Message()) {
			answer(c.ActorSystem(), c.Sender(), notConnected(messages.BrokerState_BROKER_STATE_CLOSING), correlationOf(c.Message()))
		}
	}
}

// checkClosed ends the coordinator when no reader is left.
func (co *coordinator) checkClosed(c actor.Context) {
	for _, s := range co.shards {
		if s.reader != nil {
			return
		}
	}
	if co.closing.stopped {
		return
	}
	co.closing.stopped = true
	switch {
	case !co.shares.company:
		co.finishClose(c)
	case co.closing.left:
		co.sweep()
	default:
		co.timers.set(timerLeft, sweepTime)
	}
}

func (co *coordinator) onCloseDeadline(c actor.Context) {
	for _, s := range co.shards {
		if s.reader != nil {
			co.closing.unfinished = append(co.closing.unfinished,
				"stream \""+co.how.stream.spelling+"\": "+s.id+": the reader did not stop in time; its lease runs out by itself")
			c.Stop(s.reader)
		}
	}
}

func (co *coordinator) finishClose(c actor.Context) {
	ended := subscriptionEnded{coordinator: c.Self(), unfinished: co.closing.unfinished}
	for _, req := range co.closing.askers {
		ended.askers = append(ended.askers, asked{req.asker, req.unsubscribe.GetCorrelation()})
	}
	co.closing.askers = nil
	if co.kept.fatal != nil {
		c.Request(c.Parent(), ended)
		return
	}
	c.Send(c.Parent(), ended)
	co.stop(c)
}

// onForgotten: the broker has forgotten the subscription. Whoever hears what ended it may subscribe to the stream again at once.
func (co *coordinator) onForgotten(c actor.Context) {
	if !co.tellFatal(c) {
		return
	}
	for _, req := range co.closing.askers { // who came after the broker was told of the others
		if req.asker != nil {
			c.Send(req.asker, &messages.Unsubscribed{Unfinished: co.closing.unfinished, Correlation: req.unsubscribe.GetCorrelation()})
		}
	}
	co.closing.askers = nil
	co.stop(c)
}

// tellFatal tells what ended the subscription, once.
func (co *coordinator) tellFatal(c actor.Context) bool {
	e := co.kept.fatal
	if e != nil {
		co.tell(c, e, true)
	}
	co.kept.fatal = nil
	return e != nil
}

func (co *coordinator) stop(c actor.Context) {
	c.Unwatch(co.subscriber)
	c.Stop(c.Self())
}

func (co *coordinator) endIncarnation(c actor.Context) {
	co.fx.stop()
	co.timers.stop()
	co.answerAllPending(c)
}

// answerAllPending is for the end of an incarnation: whoever waits for an answer gets one.
func (co *coordinator) answerAllPending(c actor.Context) {
	e := &Error{
		Kind: messages.ErrorKind_ERROR_KIND_READ, Stream: co.how.stream.spelling,
		Text: "the coordinator stopped before this was done", OutcomeUnknown: true,
	}
	co.seeks.refuseAll(c, e)
	co.status.expire(c)
	for _, req := range co.closing.askers {
		answer(c.ActorSystem(), req.asker, e, req.unsubscribe.GetCorrelation())
	}
	co.closing.askers = nil
}
