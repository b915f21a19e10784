package actors

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

// membership is this node's row among the members of the lease store. It is written every few seconds while the broker reads
// any stream, by one write at a time, and removed at the end. A broker whose store is its own has none: nobody else looks.
type membership struct {
	member  leasestore.Member
	writing bool
	again   bool               // something changed during the write
	stored  bool               // there is a row of ours, or may be
	seen    bool               // there is one
	abandon context.CancelFunc // ends the write under way
	// waiting are coordinators whose claim is answered when the row shows their stream.
	waiting  []streamIdentified
	failures int
	removed  bool
	// changes counts what others are to see of the row, shown is up to which it has been written, or could not be. leavers are coordinators that
	// wait for it.
	changes, shown int
	leavers        []*actor.PID
}

// beaten is the result of a write of the row.
type beaten struct {
	member  leasestore.Member
	claimed []streamIdentified
	changes int
	err     error
}

// memberRemoved: the row is gone, or could not be removed.
type memberRemoved struct{ err error }

// What a coordinator and the broker say to each other about its end.
type (
	// subscriptionLeaving: a coordinator hands its shards over, or can't read any for now, and wants no more of them.
	subscriptionLeaving struct{ coordinator *actor.PID }
	// subscriptionLeft answers it: the other nodes can see that, or it can't be stored.
	subscriptionLeft struct{}
)

func (b *broker) shared() bool { return !b.ownStore }

// join makes this node a member of the stream, and answers the coordinator when others can see it.
func (b *broker) join(c actor.Context, m streamIdentified) {
	if !b.shared() {
		c.Send(m.coordinator, streamClaimed{})
		return
	}
	ms := &b.membership
	if ms.member.ID == "" {
		ms.member = leasestore.Member{
			ID: b.owner, Address: c.ActorSystem().Address(), Broker: c.Self().GetId(), System: c.ActorSystem().ID,
		}
	}
	if !slices.Contains(ms.member.Streams, m.stream) {
		ms.member.Streams = append(slices.Clone(ms.member.Streams), m.stream)
	}
	ms.waiting = append(ms.waiting, m)
	ms.changes++
	b.beat()
}

func (b *broker) onLeaving(c actor.Context, m subscriptionLeaving) {
	if s := b.subscriptions[m.coordinator.Id]; s != nil {
		b.leave(s.stream)
	}
	b.tellWhenShown(c, m.coordinator)
}

// tellWhenShown tells a coordinator when the row is written as it is now.
func (b *broker) tellWhenShown(c actor.Context, coordinator *actor.PID) {
	ms := &b.membership
	ms.leavers = append(ms.leavers, coordinator)
	if !ms.writing || ms.removed {
		b.tellLeavers(c)
	}
}

func (b *broker) tellLeavers(c actor.Context) {
	ms := &b.membership
	if ms.member.ID != "" && ms.shown != ms.changes && !ms.removed {
		return // the write that comes
	}
	for _, coordinator := range ms.leavers {
		c.Send(coordinator, subscriptionLeft{})
	}
	ms.leavers = nil
}

// leave takes the stream out of the row.
func (b *broker) leave(stream leasestore.StreamID) {
	ms := &b.membership
	if i := slices.Index(ms.member.Streams, stream); i >= 0 {
		ms.member.Streams = slices.Delete(slices.Clone(ms.member.Streams), i, i+1)
		ms.changes++
		b.beat()
	}
}

// beat writes the row, once more after the write under way.
func (b *broker) beat() {
	ms := &b.membership
	if ms.member.ID == "" || ms.removed {
		return
	}
	if ms.writing {
		ms.again = true
		return
	}
	ms.writing, ms.again, ms.stored = true, false, true
	store, member, claimed, changes := b.store, ms.member, ms.waiting, ms.changes
	ms.waiting = nil
	timeout := b.cfg.Timings.LeaseTTL / 3
	if !ms.seen {
		timeout = max(timeout, b.cfg.Timings.CallTimeout) // nobody counts on it yet, and the store may have to make its table first
	}
	ms.abandon = b.fx.run(timeout, func(ctx context.Context) any {
		m := beaten{claimed: claimed, changes: changes}
		m.err = withoutPanic(func() (err error) {
			m.member, err = store.Beat(ctx, member)
			return err
		})
		return m
	})
}

func (b *broker) onBeaten(c actor.Context, m beaten) {
	ms := &b.membership
	ms.writing, ms.shown = false, m.changes
	b.tellLeavers(c)
	if m.err == nil {
		ms.seen = true
		ms.failures = 0
		ms.member.Beat = m.member.Beat
	} else {
		// Others take this node for dead after a ttl and give it nothing more; what it holds it keeps, by its leases.
		ms.failures++
		ms.member.Beat++ // it may be stored all the same
		b.cfg.logger().Warn("this node's sign of life can't be stored", slog.Int("failures", ms.failures), slog.Any("error", m.err))
	}
	for _, claim := range m.claimed {
		answer := streamClaimed{}
		if m.err != nil {
			answer.err = leaseError(leasestore.Key{Stream: claim.stream}, b.subscriptions[claim.coordinator.GetId()].name(), "this node can't be made a member", m.err)
		}
		c.Send(claim.coordinator, answer)
	}
	switch {
	case b.state == messages.BrokerState_BROKER_STATE_CLOSING && len(c.Children()) == 0:
		b.checkClosed(c)
	case ms.again || len(ms.waiting) > 0:
		b.beat()
	case len(ms.member.Streams) > 0:
		pause := spread(b.cfg.Timings.RenewEvery)
		if m.err != nil {
			pause = jitter(min(b.cfg.Timings.RenewEvery, leaseRetryMax))
		}
		b.timers.set(timerBeat, pause)
	}
}

// removeMember removes the row at the end, and reports whether that is done.
func (b *broker) removeMember() bool {
	ms := &b.membership
	switch {
	case !ms.stored || ms.removed && !ms.writing:
		return true
	case ms.writing:
		if !ms.seen && !ms.removed {
			ms.abandon() // it may take long, and nobody waits for it any more
		}
		return false // onBeaten, onMemberRemoved come back
	}
	ms.writing, ms.removed = true, true
	b.timers.cancel(timerBeat)
	store, member := b.store, ms.member
	b.fx.run(min(b.cfg.Timings.LeaseTTL/3, time.Second), func(ctx context.Context) any {
		return memberRemoved{err: withoutPanic(func() error { return store.Forget(ctx, member) })}
	})
	return false
}

func (b *broker) onMemberRemoved(c actor.Context, m memberRemoved) {
	b.membership.writing = false
	if m.err != nil {
		b.cfg.logger().Info("this node's member row is left: others forget it when it has been silent", slog.Any("error", m.err))
	}
	b.checkClosed(c)
}

// name is the stream as it was named in Subscribe.
func (s *subscription) name() string {
	if s == nil {
		return ""
	}
	return s.spelling
}
