package actors

import (
	"context"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/leasestore"
)

// scanned is the result of a look at the leases and the stream's state, with the listing that came before it, if one did.
type scanned struct {
	listing
	listed   bool
	leases   []leasestore.Lease
	state    leasestore.StreamState
	leaseErr error
	members  []leasestore.Member
	planner  leasestore.Planner
	begun    time.Time
	seenAt   time.Time
	// stored are the streams that there are leases of, when the first look finds none of this one.
	stored []leasestore.StreamState
}

// listing is the result of listing the shards. It comes by itself: a service that does not answer must not hold up the look at the leases, by
// which the shards of a dead node are taken over.
type listing struct {
	shards   []shard
	listErr  error
	updating bool // the stream is being resharded; looked at only when something is missing
	// recreated is when the stream was created, if it is another than the one that is read.
	recreated time.Time
}

// list lists the shards. One listing is under way at a time; a scan follows it.
func (co *coordinator) list() {
	if co.listing {
		return // listDue has another follow
	}
	co.listing, co.listDue = true, false
	from := co.lister()
	co.fx.run(co.cfg.Timings.CallTimeout, func(ctx context.Context) any { return from.list(ctx) })
}

func (co *coordinator) onListing(c actor.Context, m listing) {
	co.listing, co.unseen = false, &m
	switch {
	case co.closing.begun:
	case co.claimed:
		co.scan()
	case m.listErr != nil:
		co.unseen = nil
		co.onFirstListingFailed(c, m.listErr)
	default:
		// Only now: whoever sees this node may hand it shards, and without a listing it could not read them.
		c.Send(c.Parent(), streamIdentified{coordinator: c.Self(), stream: co.found.id})
	}
}

// scan looks at the leases, and has the shards listed when that is due. One is under way at a time.
func (co *coordinator) scan() {
	if co.listDue {
		co.list()
	}
	if co.scanning {
		co.rescan = true
		return
	}
	if !co.live && co.unseen == nil {
		return // the first look needs both
	}
	co.scanning, co.rescan = true, false
	co.shares.lookedAt = time.Now()
	seen := scanned{begun: co.shares.lookedAt}
	if co.unseen != nil {
		seen.listed, seen.listing = true, *co.unseen
		co.unseen = nil
	}
	store, id, first := co.store, co.found.id, !co.live
	co.fx.run(co.lookTimeout(), func(ctx context.Context) any {
		m := seen
		var view leasestore.View
		view, m.leaseErr = store.View(ctx, id)
		m.leases, m.state, m.members, m.planner = view.Leases, view.State, view.Members, view.Planner
		m.seenAt = time.Now()
		if m.leaseErr == nil && stateIsMissing(view) {
			m.state, m.leaseErr = stateAfter(ctx, store, id)
		}
		if m.leaseErr == nil && m.state.Version == 0 && first && len(m.leases) == 0 {
			m.stored, m.leaseErr = store.Streams(ctx)
		}
		return m
	})
}

// lookTimeout is how long a look may take. One that gets no answer must not hold up the next, by which the shards of a dead node are taken over;
// but a store that is slow is given more time after each look that was too long for it.
func (co *coordinator) lookTimeout() time.Duration {
	if !co.live {
		return co.cfg.Timings.CallTimeout
	}
	return backoff(co.cfg.Timings.LeaseTTL/3, co.cfg.Timings.CallTimeout, 1+co.lookFail)
}

func (co *coordinator) onScanned(c actor.Context, m scanned) {
	co.scanning = false
	if co.closing.begun {
		return
	}
	if !m.recreated.IsZero() {
		co.onRecreated(c, m.recreated)
		return
	}
	if !co.live {
		if co.awaited == nil {
			co.firstPass(c, m)
		}
		return
	}
	co.checkListing(c, m)
	if co.closing.begun {
		return
	}
	if m.leaseErr != nil {
		co.lookFail++
		co.log().Warn("the leases can't be read; readers go on", slog.Any("error", m.leaseErr))
	} else {
		co.lookFail = 0
		co.learn(m)
		co.restoreState(m)
		if co.state.Seek != co.movedTo && !co.seeks.saving {
			co.follow(c)
		}
		co.reconcile(c)
		co.giveAway(c)
		co.forgetDead(m.seenAt)
		if m.listed && m.listErr == nil {
			co.audit(c, m)
		}
	}
	if co.rescan {
		co.scan()
		return
	}
	co.scheduleScans()
}

// checkListing deals with a listing that failed. Readers go on meanwhile; a stream that is gone ends the subscription.
func (co *coordinator) checkListing(c actor.Context, m scanned) {
	if !m.listed {
		return
	}
	if m.listErr == nil {
		if co.listFail > 0 {
			co.log().Info("the shards can be listed again", slog.Int("failures", co.listFail))
		}
		co.listFail, co.gone = 0, false
		return
	}
	e := streamError(co.how.stream.spelling, "the shards can't be listed", m.listErr)
	if classify(m.listErr) == failureNotFound && co.resets() {
		e.Text, e.Advice = "the stream is gone", "it is read from its oldest record when it is created again"
		if !co.gone {
			co.tell(c, e, false)
		}
		co.gone = true
	} else if classify(m.listErr) == failureNotFound {
		e.Text, e.Advice = "the stream is gone", "the subscription has ended; its leases stay in the store"
		co.fail(c, e)
		return
	}
	co.listFail++
	level := slog.LevelDebug // it may last for hours
	if co.listFail == 1 {
		level = slog.LevelWarn
	}
	co.log().Log(context.Background(), level, "the shards can't be listed; readers go on",
		slog.Int("failures", co.listFail), slog.Any("error", m.listErr))
	if co.listFail == tellAfter && !co.gone {
		co.tell(c, e, false)
	}
}

// forgetAfter is how many listings in a row lack a shard before it is forgotten: children of a shard that is not listed do not wait for it, and
// one page may get lost.
const forgetAfter = 2

// learn takes in what a scan saw.
func (co *coordinator) learn(m scanned) {
	if m.listed && m.listErr == nil {
		co.relist(m.shards)
	}
	co.learnLeases(m.leases, m.begun, m.seenAt)
	co.look(m)
	co.listStrangers()
	co.learnState(m)
}

// learnLeases takes in all leases, as a look showed them.
func (co *coordinator) learnLeases(leases []leasestore.Lease, begun, seenAt time.Time) {
	co.observer.Observe(leases, seenAt)
	rows := make(map[string]leasestore.Lease, len(leases))
	for _, lease := range leases {
		rows[lease.Shard] = lease
	}
	co.rows = rows
	for id, s := range co.shards {
		row := rows[id]
		if s.finished && s.finishedIn == co.state.Seek && !row.Checkpoint.IsShardEnd() {
			continue // we know better than a scan that began before the shard was finished
		}
		if begun.After(s.knownAt) {
			co.checkOverride(s, row)
			s.lease = row
			if row.Owner != "" && row.Owner != co.owner && !co.isFree(s, seenAt) {
				s.losses = 0 // it was lost to somebody, as is in order; only losses to nobody add up
			}
		}
		s.remember(row)
	}
}

// checkOverride drops the position that start_at gave a shard when another node turns out to read it: whenever the shard came here later, it
// would be moved back.
func (co *coordinator) checkOverride(s *shardInfo, row leasestore.Lease) {
	if s.override == nil || s.reader != nil || s.lease.Owner == "" || s.lease.Owner == co.owner || row.Counter == s.lease.Counter {
		return
	}
	co.log().Warn("start_at does not move the shard: another node reads it", slog.String("shard", s.id), slog.String("node", s.lease.Owner))
	s.override = nil
}

// listStrangers has the shards listed when there is a lease of one that no listing has shown yet: another node knows of a reshard, and may have
// handed one of its shards to this one.
func (co *coordinator) listStrangers() {
	for id, row := range co.rows {
		if _, known := co.shards[id]; known || co.strangers[id] || row.Checkpoint.IsShardEnd() {
			continue
		}
		co.strangers[id], co.listDue = true, true
		if co.live {
			co.soon(0)
		}
	}
}

// relist takes in a complete listing. A shard that is listed no more is forgotten once nobody here reads it.
func (co *coordinator) relist(shards []shard) {
	seen := make(map[string]bool, len(shards))
	for _, s := range shards {
		seen[s.id] = true
		co.know(s)
	}
	for id, s := range co.shards {
		if seen[id] {
			s.missed = 0
		} else if s.missed++; s.missed >= forgetAfter && s.reader == nil && !co.isYoung(s) {
			delete(co.shards, id)
			co.inOrder = nil
		}
	}
}

// isYoung: a child that was learned of from its parent's last page, and that listings may not show yet.
func (co *coordinator) isYoung(s *shardInfo) bool {
	for _, parent := range s.parents {
		if _, known := co.shards[parent]; known {
			return true
		}
	}
	return false
}

// know adds a shard, or brings what may change of it up to date.
func (co *coordinator) know(s shard) {
	if known, ok := co.shards[s.id]; ok {
		known.shard = s
		return
	}
	co.shards[s.id] = &shardInfo{shard: s}
	co.inOrder = nil
}

// meet adds a child that was learned of from its parent's end. It may have another parent that no listing has shown yet, as that one was made by
// a reshard too: then the listing that follows tells of both, or that the other is listed no more.
func (co *coordinator) meet(child shard) {
	if _, known := co.shards[child.id]; known {
		return
	}
	for _, parent := range child.parents {
		if _, known := co.shards[parent]; !known {
			return
		}
	}
	co.know(child)
}

// reconcile brings decisions and readers together: it starts a reader for every shard that may be read, has none, and whose lease is free, expired,
// or our own. It returns the shards started.
func (co *coordinator) reconcile(c actor.Context) []string {
	if co.closing.begun {
		return nil
	}
	decisions := co.decide(co.moving)
	now := time.Now()
	for _, s := range co.ordered() {
		s.decision = decisions[s.id]
		if s.override != nil {
			s.decision = decision{verdict: verdictStart, start: *s.override}
		}
	}
	mine := co.share(now)
	var started []string
	for _, s := range co.ordered() {
		if s.decision.verdict != verdictStart || s.reader != nil {
			continue
		}
		if wait := s.notUntil.Sub(now); wait > 0 {
			co.soon(wait)
			continue
		}
		if !mine[s.id] || co.isAhead(s) {
			continue
		}
		if s.lease.Owner == co.owner && co.live {
			co.logOrphan(s)
		}
		if co.startReader(c, s) {
			started = append(started, s.id)
		}
	}
	return started
}

// aheadLooks is for how many looks a shard waits for a state of the stream that is as new as its lease.
const aheadLooks = 20

// isAhead reports whether the lease has been moved by a seek that the last look did not show: stores need not show all rows as of one moment.
// Reading it by what is known would move it back.
func (co *coordinator) isAhead(s *shardInfo) bool {
	if s.lease.Seek <= co.state.Seek || co.state.Version == 0 || s.ahead >= aheadLooks {
		s.ahead = 0
		return false
	}
	s.ahead++
	co.rescanSoon()
	return true
}

// logOrphan tells of a lease of ours that has no reader: another node has handed it over, or ours has ended in a way that it should not.
func (co *coordinator) logOrphan(s *shardInfo) {
	if s.started == 0 || s.gaveAway {
		co.log().Info("a shard was handed to this node", slog.String("shard", s.id))
		return
	}
	co.log().Warn("a lease of ours has no reader: starting one", slog.String("shard", s.id))
}

// decide asks the lineage. A shard that has a reader here counts as leased, whatever the last scan saw; except when the readers themselves
// are about to be moved (moving).
func (co *coordinator) decide(moving bool) map[string]decision {
	l := newLineage(nil, nil, co.state, co.state.Tip && (co.state.Version == 0 || (moving && !co.follows)))
	l.relaxed, l.assumed, l.absent = co.how.relaxed, make(map[string]bool), make(map[string]bool)
	now := time.Now()
	for id, s := range co.shards {
		l.shards[id] = s.shard
		lease := s.asLeased()
		row := co.rows[id]
		l.assumed[id] = row.Counter == 0 || row.Seek != co.state.Seek
		if s.reader != nil && !moving && (lease.Counter == 0 || lease.Seek != co.state.Seek || lease.Checkpoint.IsZero()) {
			lease.Counter, lease.Seek, lease.Checkpoint = max(1, lease.Counter), co.state.Seek, s.decision.start
		}
		if lease.Counter > 0 {
			l.leases[id] = lease
		}
	}
	for id, row := range co.rows {
		if _, listed := l.shards[id]; !listed {
			l.leases[id] = row
			l.absent[id] = co.isAbsent(row, now)
		}
	}
	return l.decide()
}

func (co *coordinator) startReader(c actor.Context, s *shardInfo) bool {
	if s.paces == nil {
		s.paces = newPaces(co.cfg.Limits.ReadsPerSecond)
	}
	spec := readerSpec{
		cfg: co.cfg, clients: co.clients, store: co.store, owner: co.owner, how: co.how, stream: co.found.id, consumerARN: co.found.consumerARN,
		shard: s.shard, lease: s.lease, start: s.decision, moveFirst: s.override != nil, number: nextGeneration(),
		share: newShare(co.cfg.budget), paces: s.paces, source: co.sourceOf(s), seekNumber: co.state.Seek, subscriber: co.subscriber, broker: c.Parent(), subscription: c.Self(),
	}
	if s.rowDeleted() {
		co.log().Error("the lease's row was deleted while the shard was being read: it is made anew",
			slog.String("shard", s.id), slog.String("position", s.decision.start.String()), slog.String("settled", s.last.Checkpoint.String()))
		s.last.Counter = 0 // the new row begins to count anew
	}
	pid, err := c.SpawnNamed(readerProps(spec, c.ActorSystem()), s.id)
	if err != nil {
		co.log().Warn("reader not started yet", slog.String("shard", s.id), slog.Any("error", err))
		co.soon(restartFirst)
		return false
	}
	s.reader, s.share, s.started, s.crashed = pid, spec.share, spec.number, false
	s.giving, s.gaveAway, s.heir = "", false, heir{}
	return true
}

func (co *coordinator) rescanSoon() { co.soon(restartFirst) }

// soon asks for another scan after d, or earlier if that was asked for before. Not in the first pass: it is not begun twice, and open
// looks after the shards that need it.
func (co *coordinator) soon(d time.Duration) {
	if !co.live {
		return
	}
	if at := time.Now().Add(d); !co.timers.armed(timerSoon) || at.Before(co.soonAt) {
		co.soonAt = at
		co.timers.set(timerSoon, d)
	}
}

// scheduleScans arms the next listing and the next look at the leases: regularly in a store that others use too, else while some shard could be
// taken or waits for something.
func (co *coordinator) scheduleScans() {
	if !co.timers.armed(timerList) {
		pause := spread(co.cfg.Timings.ListEvery)
		if co.listFail > 0 {
			pause = jitter(backoff(time.Second, co.cfg.Timings.ListEvery, co.listFail))
		}
		co.timers.set(timerList, pause)
	}
	if co.shared || co.waitsForStore() {
		co.timers.set(timerScan, co.untilLook(time.Now()))
	}
}

func (co *coordinator) waitsForStore() bool {
	for _, s := range co.shards {
		if s.reader == nil && (s.decision.verdict == verdictStart || s.decision.look) {
			return true
		}
	}
	return false
}

// untilLook is the pause before the next look: until the next beat of the broker's clock, so that its subscriptions look together and share the
// read, but not beyond the moment at which a silent owner's lease expires.
func (co *coordinator) untilLook(now time.Time) time.Duration {
	every := co.cfg.Timings.RenewEvery
	pause := every - now.Sub(co.cfg.anchor)%every
	for _, s := range co.shards {
		if s.reader != nil || s.decision.verdict != verdictStart {
			continue
		}
		if at, owned := co.observer.ExpiresAt(s.lease); owned && at.After(now) {
			pause = min(pause, at.Sub(now))
		}
	}
	return pause
}

// spread is d, give or take a tenth.
func spread(d time.Duration) time.Duration { return (jitter(d) + d) / 2 }
