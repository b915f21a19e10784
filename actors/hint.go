package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

// Nodes tell each other when there is news in the lease store, so that it is seen at once and not at the next look. A hint says
// only "look": the store decides, so a lost, late, false or repeated hint costs a look at most, and those are at least hintPause apart.

const (
	// hintPause is the shortest time between two looks that hints have led to.
	hintPause = 100 * time.Millisecond
	// noAddress is that of an actor system that no other reaches.
	noAddress = "nonhost"
)

// peersChanged tells a coordinator that nodes may have come or gone.
type peersChanged struct{}

// hinted looks at the store soon.
func (co *coordinator) hinted() {
	if co.shared && co.live && !co.closing.begun {
		co.soon(max(0, hintPause-time.Since(co.shares.lookedAt)))
	}
}

// onHint is another node's hint.
func (co *coordinator) onHint(c actor.Context, m *messages.Hint) {
	if m.GetKind() == messages.HintKind_HINT_KIND_LEAVING && co.closing.begun {
		co.redirect(c, m.GetFrom())
	}
	co.hinted()
}

// hint tells another node.
func (co *coordinator) hint(c actor.Context, kind messages.HintKind, to leasestore.Member) {
	if co.cfg.quiet {
		return
	}
	if pid := reachable(c.ActorSystem(), to); pid != nil && to.ID != co.owner {
		c.Send(pid, &messages.Hint{Kind: kind, To: to.ID, From: co.owner, Stream: co.found.id.String()})
	}
}

// hintAll tells every other node that shares the stream.
func (co *coordinator) hintAll(c actor.Context, kind messages.HintKind) {
	for _, m := range co.sharing() {
		co.hint(c, kind, m)
	}
}

// hintOwner tells the node that holds leases under this id.
func (co *coordinator) hintOwner(c actor.Context, kind messages.HintKind, owner string) {
	for _, m := range co.sharing() {
		if m.ID == owner {
			co.hint(c, kind, m)
		}
	}
}

// reachable is a member's broker, or nil if this node has no way to it.
func reachable(system *actor.ActorSystem, m leasestore.Member) *actor.PID {
	own := system.Address()
	switch {
	case m.Address == "" || m.Broker == "":
		return nil
	case m.Address == own && (own != noAddress || m.System == system.ID):
	case m.Address == noAddress || own == noAddress:
		return nil
	}
	return actor.NewPID(m.Address, m.Broker)
}

// onHint passes a hint to the coordinator of its stream.
func (b *broker) onHint(c actor.Context, m *messages.Hint) {
	if m.GetTo() != b.owner || b.owner == "" {
		return
	}
	for _, s := range b.subscriptions {
		if s.stream.String() == m.GetStream() {
			c.Send(s.pid, m)
		}
	}
}
