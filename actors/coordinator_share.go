package actors

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

// shareState is what a coordinator knows of the nodes it shares the stream with.
type shareState struct {
	roster *roster
	// before is the picture of the look before the last, last that of the last.
	before, last *fleet
	lookedAt     time.Time // when the last look began
	gathered     bool      // nodes that start with this one have had their time to show themselves
	expecting    time.Time // since when others are about to give shards to this node
	members      []string  // as last logged
	firstSeen    *int64    // version of the stream's state at the first look
	company      bool      // other nodes have been seen
}

// sharing are the members that take shards of the stream, this node among them when others have seen it.
func (co *coordinator) sharing() []leasestore.Member {
	return co.shares.roster.sharing(co.found.id, time.Now())
}

// fleet is the picture of now.
func (co *coordinator) fleet(now time.Time) *fleet {
	f := &fleet{me: co.owner, salt: co.found.id.String()}
	for _, m := range co.sharing() {
		f.members = append(f.members, m.ID)
	}
	if at, found := slices.BinarySearch(f.members, co.owner); !found && !co.closing.begun {
		f.members = slices.Insert(f.members, at, co.owner)
	} else if found && co.closing.begun {
		f.members = slices.Delete(f.members, at, at+1)
	}
	for _, s := range co.ordered() {
		if s.decision.verdict == verdictStart {
			f.shards = append(f.shards, co.fleetShard(s, f.members, now))
		}
	}
	return f
}

func (co *coordinator) fleetShard(s *shardInfo, members []string, now time.Time) fleetShard {
	one := fleetShard{id: s.id, holder: s.lease.Owner, owner: s.lease.Owner, looks: s.freeLooks(now, co.cfg.Timings.RenewEvery)}
	next := s.lease.Next
	switch {
	case s.reader != nil:
		one.holder, one.owner, next = co.owner, co.owner, s.giving
	case s.lease.Owner == co.owner:
	case co.isFree(s, now):
		one.holder, one.owner, next = "", "", ""
	}
	if _, alive := slices.BinarySearch(members, next); alive && next != "" {
		one.owner = next
	}
	return one
}

// isFree reports whether the lease may be taken, as far as the last look shows.
func (co *coordinator) isFree(s *shardInfo, now time.Time) bool {
	return s.reader == nil && s.lease.Owner != co.owner && (co.observer.Free(s.lease, now) || co.inVain(s, now))
}

// noteFree notes, at each look, since when a shard has been free.
func (co *coordinator) noteFree(now time.Time) {
	for _, s := range co.shards {
		switch {
		case !co.isFree(s, now):
			s.freeSince = time.Time{}
		case s.freeSince.IsZero():
			s.freeSince = now
		}
	}
}

// freeLooks is how many regular looks the shard has been free for. Others are not counted, such as those that a lease's end or a hint leads to: a
// node may take several of them while the one that the shard falls to has still to see that it is free.
func (s *shardInfo) freeLooks(now time.Time, every time.Duration) int {
	if s.freeSince.IsZero() {
		return 0
	}
	return 1 + int(now.Sub(s.freeSince)/every)
}

// share decides which free shards this node takes. Children of a shard that it has read to its end it takes in any case: they are to be read
// now, and nobody else knows of them yet.
func (co *coordinator) share(now time.Time) map[string]bool {
	f := co.fleet(now)
	co.shares.last = f
	mine := make(map[string]bool)
	for _, id := range assign(f, co.shares.before).take {
		mine[id] = true
	}
	for id, s := range co.shards {
		if s.lease.Owner == co.owner || co.inVain(s, now) || (s.override != nil || co.isHeir(s)) && co.isFree(s, now) {
			mine[id] = true
		}
	}
	return mine
}

// isHeir reports whether the shard is the new child of one that was finished here.
func (co *coordinator) isHeir(s *shardInfo) bool {
	return s.lease.Counter == 0 && slices.ContainsFunc(s.parents, func(id string) bool {
		parent := co.shards[id]
		return parent != nil && parent.finished && parent.finishedIn == co.state.Seek
	})
}

// look takes in what a scan saw of the other nodes.
func (co *coordinator) look(m scanned) {
	st := &co.shares
	st.roster.observe(m.members, m.planner, m.seenAt)
	st.company = st.company || slices.ContainsFunc(m.members, func(m leasestore.Member) bool { return m.ID != co.owner })
	for _, s := range co.shards {
		co.checkHeir(s, m.seenAt)
		if s.decision.verdict == verdictStart && s.lease.Owner != "" && !s.lease.Checkpoint.IsShardEnd() && co.isFree(s, m.seenAt) {
			st.roster.lapses(s.lease.Owner)
		}
	}
	co.noteFree(m.seenAt)
	st.before = st.last
}

// giveAway hands over what is beyond this node's share. It follows a look.
func (co *coordinator) giveAway(c actor.Context) {
	now := time.Now()
	st := &co.shares
	f := co.fleet(now)
	st.last = f
	co.logMembers(f)
	if st.roster.isPlanned(now) {
		return // somebody else balances, and moves of ours would undo its
	}
	give := assign(f, st.before).give
	for _, id := range slices.Sorted(maps.Keys(give)) {
		if !st.roster.isProven(give[id]) {
			continue
		}
		co.give(c, co.shards[id], give[id], co.cfg.Timings.HandoverTimeout)
	}
	if len(give) == 0 && len(assign(f, f).give) > 0 {
		co.soon(co.cfg.Timings.RenewEvery / lookAgain) // it holds back until it has seen the same twice
	}
	co.withdraw(c, f)
	co.expect(now)
}

// expect looks more often while others are about to hand shards to this node, as they may have no way to tell it. It does not for ever: they may be at their
// bounds, or leave that to somebody else.
func (co *coordinator) expect(now time.Time) {
	st := &co.shares
	switch {
	case !co.shared || st.last == nil || st.roster.isPlanned(now) || !expects(st.last):
		st.expecting = time.Time{}
		return
	case st.expecting.IsZero():
		st.expecting = now
	}
	if now.Sub(st.expecting) < co.cfg.Timings.HandoverTimeout {
		co.soon(co.cfg.Timings.RenewEvery / lookAgain)
	}
}

// lookAgain is the part of RenewEvery after which a picture that asks for moves, or for shards to be given to this node, is looked at again.
const lookAgain = 6

// give hands one shard over.
func (co *coordinator) give(c actor.Context, s *shardInfo, to string, timeout time.Duration) {
	if s == nil || s.reader == nil {
		return
	}
	co.log().Info("handing a shard over", slog.String("shard", s.id), slog.String("to", to))
	s.name(to)
	c.Send(s.reader, drain{timeout: timeout, to: to, afterRead: true})
	co.hintOwner(c, messages.HintKind_HINT_KIND_OFFERED, to)
}

// withdraw releases what is being handed to a node that is no more.
func (co *coordinator) withdraw(c actor.Context, f *fleet) {
	for _, s := range co.shards {
		if s.giving == "" || s.reader == nil {
			continue
		}
		if _, alive := slices.BinarySearch(f.members, s.giving); !alive {
			co.log().Info("the node that a shard was being handed to is gone: releasing it", slog.String("shard", s.id), slog.String("to", s.giving))
			s.giving = ""
			c.Send(s.reader, drain{timeout: co.cfg.Timings.HandoverTimeout})
		}
	}
}

// onGiving: a reader hands its lease over because somebody else has said so.
func (co *coordinator) onGiving(c actor.Context, m readerGiving) {
	if s := co.shards[m.shard]; s != nil && s.reader != nil {
		s.giving, s.heir = m.to, heir{foreign: true}
		co.hintOwner(c, messages.HintKind_HINT_KIND_OFFERED, m.to)
	}
}

// onGivenAway: a reader has released its lease or handed it over. What a scan under way says of it is older.
func (co *coordinator) onGivenAway(c actor.Context, s *shardInfo, row leasestore.Lease) {
	s.giving = ""
	if row.Counter == 0 {
		s.heir = heir{} // what became of the lease is not known
		return
	}
	s.lease, s.knownAt, s.gaveAway = row, time.Now(), true
	s.heir.has(row)
	if row.Owner != "" {
		co.hintOwner(c, messages.HintKind_HINT_KIND_HANDED, row.Owner)
	} else {
		co.hintAll(c, messages.HintKind_HINT_KIND_RELEASED)
	}
}

// heirs are the nodes that get what this one reads, shard by shard, as it ends. Without other nodes there are none, and the leases are
// released.
func (co *coordinator) heirs() map[string]string {
	if !co.shared {
		return nil
	}
	f := co.fleet(time.Now())
	return assign(f, nil).give
}

// redirect gives to others what was to go to a node that is leaving, too.
func (co *coordinator) redirect(c actor.Context, leaving string) {
	co.shares.roster.leaves(leaving)
	heirs := co.heirs()
	for _, s := range co.shards {
		if s.reader != nil && s.giving == leaving {
			s.name(heirs[s.id])
			c.Send(s.reader, drain{timeout: -1, to: s.giving})
		}
	}
}

// gather reports whether the first pass waits for nodes that start at the same time: in a store that nodes share, when no node reads the stream
// yet. Each of them would take all there is.
func (co *coordinator) gather() bool {
	if co.shares.gathered || co.opened || !co.sharedByNodes() || co.cfg.Timings.GatherTime <= 0 {
		return false
	}
	now := time.Now()
	for _, row := range co.rows {
		if row.Owner != "" && !co.observer.Free(row, now) && !row.Checkpoint.IsShardEnd() {
			return false
		}
	}
	co.shares.gathered = true
	co.log().Info("nobody reads the stream yet: waiting for other nodes", slog.Duration("for", co.cfg.Timings.GatherTime))
	co.timers.set(timerGather, co.cfg.Timings.GatherTime)
	return true
}

// sharedByNodes reports whether the store says that other processes may use it.
func (co *coordinator) sharedByNodes() bool {
	s, ok := co.store.(interface{ Shared() bool })
	return ok && s.Shared()
}

// forgetDead removes the rows of members that have long been silent.
func (co *coordinator) forgetDead(now time.Time) {
	gone := co.shares.roster.forgettable(now)
	if len(gone) == 0 {
		return
	}
	store, log := co.store, co.log()
	co.fx.run(co.cfg.Timings.CallTimeout, func(ctx context.Context) any {
		for _, m := range gone {
			if err := store.Forget(ctx, m); err != nil {
				log.Debug("the row of a dead node stays for now", slog.String("node", m.ID), slog.Any("error", err))
			}
		}
		return nil
	})
}

func (co *coordinator) logMembers(f *fleet) {
	if !slices.Equal(f.members, co.shares.members) {
		co.shares.members = f.members
		co.log().Info("nodes that share the stream", slog.Any("nodes", f.members))
	}
}

// lastLook is the result of lookForHeirs.
type lastLook struct {
	view          leasestore.View
	begun, seenAt time.Time
	timeout       time.Duration
	err           error
}

// lookForHeirs looks at the nodes once more before this one hands over what it has: in a rolling deployment the one that was there at the last
// look has ended, and what is handed to it is read by nobody for a ttl. Reading goes on meanwhile.
func (co *coordinator) lookForHeirs(timeout time.Duration) {
	store, id := co.store, co.found.id
	co.fx.run(min(co.cfg.Timings.LeaseTTL/3, time.Second), func(ctx context.Context) any {
		m := lastLook{begun: time.Now(), timeout: timeout}
		m.view, m.err = store.View(ctx, id)
		m.seenAt = time.Now()
		return m
	})
}

func (co *coordinator) onLastLook(c actor.Context, m lastLook) {
	if m.err != nil {
		co.log().Info("a look at the other nodes failed; going by the one before", slog.Any("error", m.err))
	} else {
		co.learnLeases(m.view.Leases, m.begun, m.seenAt) // who has how many by now
		co.shares.roster.observe(m.view.Members, m.view.Planner, m.seenAt)
		// A node that has not been here for a ttl takes those for alive that were dead before it came, and will not be here to take back what it hands them.
		co.shares.roster.lapseSilent(m.seenAt.Add(-co.heirPatience()))
	}
	if !co.closing.draining {
		co.drainReaders(c, m.timeout)
	}
}
