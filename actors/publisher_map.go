package actors

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// The publisher lists the stream's shards when it has a use for them: to aggregate, when a shard refuses records, and when records are stored in
// other shards than they should by the last listing. One listing is under way at a time, and after each there is a pause that grows for as long as
// listings bring nothing new.

const (
	listPauseFirst = time.Second
	listPauseMax   = 30 * time.Second
	// listForget: a listing that is as old is no reason to wait for the next.
	listForget = time.Minute
	// listPatience is how long records to be aggregated wait for the first listing; then they go as they are.
	listPatience = time.Second
	// maxAstray is how often a record is aggregated and stored elsewhere before it goes as it is.
	maxAstray = 3
)

// mapDone is the result of a listing.
type mapDone struct {
	shards *shardMap
	auto   bool
	err    error
}

// wantMap has the shards listed, now or when the pause is over.
func (p *publisher) wantMap(now time.Time) {
	switch {
	case p.listing:
	case now.Before(p.listNext):
		if !p.timers.armed(timerRelist) {
			p.timers.set(timerRelist, p.listNext.Sub(now))
		}
	default:
		p.list(now)
	}
}

// list lists the shards, and asks whether the stream distributes records by itself where that matters.
func (p *publisher) list(now time.Time) {
	p.listing = true
	if now.Sub(p.listNext) > listForget {
		p.listPause = 0
	}
	client, ref, describe := p.clients.Control, p.ref, p.how.aggregate || p.mismatched || p.auto
	p.fx.run(p.cfg.Timings.CallTimeout, func(ctx context.Context) any {
		if describe {
			out, err := client.DescribeStreamSummary(ctx, describeInput(ref))
			switch {
			case err == nil && out.StreamDescriptionSummary.RecordDistributionStrategy == types.RecordDistributionStrategyAuto:
				return mapDone{auto: true}
			case err != nil && (!refused(err) || classify(err) == failureThrottled):
				return mapDone{err: err} // it can be known later; who may not ask may aggregate all the same
			}
		}
		shards, err := listShards(ctx, client, ref)
		if err != nil {
			return mapDone{err: err}
		}
		return mapDone{shards: newShardMap(shards)}
	})
}

// onMapDone takes in a listing.
func (p *publisher) onMapDone(m mapDone) {
	now := time.Now()
	p.listing = false
	changed := m.err == nil && (m.auto != p.auto || !m.shards.equal(p.out.shards))
	if p.listPause = min(max(listPauseFirst, 2*p.listPause), listPauseMax); changed {
		p.listPause = listPauseFirst
	}
	p.listNext = now.Add(p.listPause)
	if m.err != nil {
		p.listFailed(m.err)
	} else {
		if p.listFailures > 0 || p.listedAt.IsZero() {
			p.log().Debug("shards listed")
		}
		p.listFailures, p.listedAt, p.mismatched, p.auto = 0, now, false, m.auto
		if changed {
			p.out.setMap(m.shards, now)
			p.paceRefused(now)
		}
	}
	p.endPatience(now)
	if p.auto && p.how.aggregate {
		p.refuseAll(now)
	}
	p.resolve(now)
	p.openGate(now)
	p.send(now, false)
	p.answer()
}

// paceRefused lets the lanes of records that were refused before it was known by which shard have their pace.
func (p *publisher) paceRefused(now time.Time) {
	for _, q := range p.out.parked {
		if q.head.refused && q.lane != &p.out.rest {
			if q.lane.answer.refusedCount == 0 {
				p.touched = append(p.touched, q.lane)
			}
			q.lane.answer.refusedCount++
		}
	}
	p.pacing(now)
}

// pacing brings the lanes that a request had records of in line with their pace.
func (p *publisher) pacing(now time.Time) {
	for _, l := range p.touched {
		p.out.pacing(l, now)
	}
	p.touched = p.touched[:0]
	p.out.forget(now)
}

func (p *publisher) listFailed(err error) {
	p.listFailures++
	level := slog.LevelDebug // it may last
	if p.listFailures == 1 {
		level = slog.LevelWarn
	}
	text := "the shards can't be listed: a throttled one may hold up others"
	if p.how.aggregate {
		text = "the shards can't be listed: records are not aggregated"
	}
	p.log().Log(context.Background(), level, text, slog.Any("error", err))
}

// prepareMap sees to it that there is a listing to aggregate by.
func (p *publisher) prepareMap(now time.Time) {
	if !p.how.aggregate || now.Sub(p.listedAt) < listForget {
		return
	}
	if !p.patient && p.out.shards == nil && p.listedAt.IsZero() && p.listFailures == 0 {
		p.patient = true
		p.out.hold(true, now)
		p.timers.set(timerPatience, listPatience)
	}
	p.wantMap(now)
}

// endPatience lets go what waited for the first listing.
func (p *publisher) endPatience(now time.Time) {
	if p.out.held {
		p.timers.cancel(timerPatience)
		p.out.hold(false, now)
	}
}

// openGate tells Go callers which shards take no more.
func (p *publisher) openGate(now time.Time) {
	if p.gateVersion == p.out.slowVersion {
		return
	}
	defer p.makeRoom(now)
	p.gateVersion = p.out.slowVersion
	lanes := make(map[string]*shardLane)
	for _, l := range p.out.slow {
		if l != &p.out.rest {
			lanes[l.shard.id] = l
		}
	}
	if len(lanes) == 0 || len(p.out.shards.open) < 2 {
		p.outlet.gate.Store(nil)
		return
	}
	p.outlet.gate.Store(&shardGate{shards: p.out.shards, lanes: lanes, crowded: &p.out.crowded})
}

// strays looks at an entry that was stored in another shard than foreseen. If it is an aggregated one with user records that do not belong
// there, it is not where its readers look for it, KCL readers drop it as a whole, and the order of its keys is lost: all its records are sent again.
// That can be said once the shards have been listed anew; it reports whether the entry is taken care of.
func (p *publisher) strays(e *putEntry, now time.Time) bool {
	if s, known := p.find(e.record); !known || s.id != e.shard {
		p.mismatched = true
		p.wantMap(now)
	}
	if e.bundle == nil || p.auto {
		return false
	}
	if !p.resolveOne(e, now) {
		p.astray = append(p.astray, *e)
		p.mismatched = true
		p.wantMap(now)
	}
	return true
}

// find is where a record belongs by the last listing.
func (p *publisher) find(r *outgoing) (hashShard, bool) {
	if p.out.shards == nil {
		return hashShard{}, false
	}
	return p.out.shards.find(r.userRecord().Hash())
}

var errAstray = errors.New("it was stored within an aggregated record of a shard that it does not belong to")

// resolveOne settles an aggregated record that was stored in another shard than foreseen; false: that shard is not known yet.
func (p *publisher) resolveOne(e *putEntry, now time.Time) bool {
	if p.out.shards == nil {
		return false
	}
	shard, known := p.out.shards.listed[e.shard]
	if !known {
		return false
	}
	for _, r := range e.bundle.records {
		if !shard.holds(r.userRecord().Hash()) {
			p.sendAgain(e, now)
			return true
		}
	}
	p.settleStored(e, now)
	return true
}

// sendAgain sends the user records of an aggregated record again.
func (p *publisher) sendAgain(e *putEntry, now time.Time) {
	e.fate = fateRefused
	for _, r := range e.bundle.records {
		r.failures++
		r.astray++
		r.cause, r.unknown, r.alone = errAstray, true, r.alone || r.astray >= maxAstray
		if !now.Before(r.deadline) {
			p.done(r, Outcome{Err: publishFailure(p.stream, r)}, now)
		} else {
			p.out.again(r, now, now)
		}
	}
	p.out.release(e.bundle)
}

// resolve looks again at what was stored in shards that were not known.
func (p *publisher) resolve(now time.Time) {
	left := p.astray[:0]
	for i := range p.astray {
		e := p.astray[i]
		switch {
		case p.auto:
			p.settleStored(&e, now)
		case p.resolveOne(&e, now):
		case slices.ContainsFunc(e.bundle.records, func(r *outgoing) bool { return !now.Before(r.deadline) }):
			p.sendAgain(&e, now) // those are told
		default:
			left = append(left, e)
		}
	}
	clear(p.astray[len(left):])
	if p.astray = left; len(left) > 0 {
		p.wantMap(now)
	}
}

// refuseAll answers whoever wants records aggregated that can't be.
func (p *publisher) refuseAll(now time.Time) {
	for r := p.out.oldest; r != nil; {
		next := r.newer
		if !r.flying {
			e := autoStream(p.stream)
			e.OutcomeUnknown = r.unknown
			p.done(r, Outcome{Err: e}, now)
		}
		r = next
	}
}
