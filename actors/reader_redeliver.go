package actors

import (
	"log/slog"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/messages"
)

// defaultRedeliverAfter is redeliver_after for a subscriber on another node.
const defaultRedeliverAfter = 30 * time.Second

// redeliverAfter fills in the default of redeliver_after: what is sent to an actor of this node is not lost.
func redeliverAfter(how reading, d *messages.StreamDescriptor, elsewhere bool) time.Duration {
	if d.GetRedeliverAfter() == nil && elsewhere {
		return defaultRedeliverAfter
	}
	return how.redeliverAfter
}

// isElsewhere reports whether an actor lives on another node.
func isElsewhere(system *actor.ActorSystem, who *actor.PID) bool {
	return who.GetAddress() != noAddress && who.GetAddress() != system.Address()
}

// redeliverRounds is how often, within redeliver_after, the window is searched for what is overdue.
const redeliverRounds = 8

// armRedelivery sees to it that what is in flight is looked at again. One timer does it for all: it is not set anew for every record.
func (r *reader) armRedelivery() {
	if r.how.redeliverAfter > 0 && r.window.out > 0 && !r.timers.armed(timerRedeliver) {
		r.timers.set(timerRedeliver, r.how.redeliverAfter)
	}
}

// onRedeliverDue is the timer. While nothing may be delivered it does nothing; deliver sets it again.
func (r *reader) onRedeliverDue(c actor.Context) {
	r.window.clock(time.Now())
	r.window.newRound()
	r.redeliver(c)
}

// redeliver delivers again what may have been lost.
func (r *reader) redeliver(c actor.Context) {
	if r.state != stateReading {
		return
	}
	if !r.trusted() {
		r.onTrustEnded(c)
		return
	}
	again, next := r.window.overdue(r.how.redeliverAfter)
	if len(again) > 0 {
		r.log().Warn("records were not settled in time: they are delivered again", slog.Int("records", len(again)),
			slog.String("first", again[0].GetSequenceNumber()), slog.Int("attempt", int(again[0].GetAttempt())), slog.Int("in_flight", r.window.out))
	}
	r.send(c, again)
	if r.window.out > 0 {
		r.timers.set(timerRedeliver, max(next, r.how.redeliverAfter/redeliverRounds))
	}
}

// send delivers what the window has handed out, as the subscription is delivered.
func (r *reader) send(c actor.Context, deliveries []*messages.Delivery) {
	if r.how.batchSize == 0 {
		for _, d := range deliveries {
			c.Request(r.subscriber, d)
		}
		return
	}
	for batch := range slices.Chunk(deliveries, r.how.batchSize) {
		c.Request(r.subscriber, &messages.DeliveryBatch{Deliveries: batch, MillisBehindLatest: r.fetch.lag})
	}
}
