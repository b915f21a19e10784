package actors

import (
	"slices"
	"time"

	"github.com/protokinesis/protokinesis/leasestore"
)

// roster judges which members of a store are alive, as leasestore.Observer judges owners: a member is dead when its row has been the
// same for its period on this node's monotonic clock. Who is seen for the first time is alive. It is pure.
type roster struct {
	ttl     time.Duration
	seen    map[string]beatSeen
	members []leasestore.Member
	planner beatSeen
	plans   leasestore.Planner
	left    map[string]bool // who has said that it leaves, whatever its row says yet
}

// beatSeen is a sign of life, and since when it has been the last.
type beatSeen struct {
	mark   string
	beat   int64
	since  time.Time
	lapsed bool // a lease of the member has expired since
	proven bool // it has been seen to come, or to show another sign of life
}

func newRoster(ttl time.Duration) *roster {
	return &roster{ttl: ttl}
}

// observe takes in a look at the store; now is when it was over.
func (r *roster) observe(members []leasestore.Member, planner leasestore.Planner, now time.Time) {
	seen := make(map[string]beatSeen, len(members))
	for _, m := range members {
		s, known := r.seen[m.ID]
		if !known || s.beat != m.Beat {
			s = beatSeen{beat: m.Beat, since: now, proven: known || r.seen != nil}
		}
		seen[m.ID] = s
	}
	r.seen, r.members = seen, members
	if r.plans.Owner != planner.Owner || r.planner.mark != planner.Mark {
		r.planner = beatSeen{mark: planner.Mark, since: now}
	}
	r.plans = planner
}

// lapses notes that a lease of the member has expired: it is dead until its next sign of life, however long it may be silent. Else what it
// has left would fall to itself for as long as its row outlives its leases.
func (r *roster) lapses(id string) {
	if s, known := r.seen[id]; known {
		s.lapsed = true
		r.seen[id] = s
	}
}

// leaves notes that a member said itself that it is leaving.
func (r *roster) leaves(id string) {
	if r.left == nil {
		r.left = make(map[string]bool)
	}
	r.left[id] = true
}

func (r *roster) isAlive(m leasestore.Member, now time.Time) bool {
	period := m.Period
	if period == 0 {
		period = r.ttl
	}
	s, known := r.seen[m.ID]
	return known && !s.lapsed && now.Sub(s.since) < period
}

// isProven reports whether the member is known to have lived since the first look. A row that was there then may be of one that has long been dead: others
// know, and give it nothing. Members that are not ours show signs of life too seldom to be waited for.
func (r *roster) isProven(id string) bool {
	return r.seen[id].proven || slices.ContainsFunc(r.members, func(m leasestore.Member) bool { return m.ID == id && m.Period != 0 })
}

// takes reports whether the member is there, and takes shards of the stream.
func (r *roster) takes(id string, stream leasestore.StreamID, now time.Time) bool {
	return slices.ContainsFunc(r.members, func(m leasestore.Member) bool { return m.ID == id && r.isSharing(m, stream, now) })
}

func (r *roster) isSharing(m leasestore.Member, stream leasestore.StreamID, now time.Time) bool {
	return !m.Leaving && !r.left[m.ID] && m.Reads(stream) && r.isAlive(m, now)
}

// isSilentSince reports whether a member of ours, who shows signs of life often, has shown none since then.
func (r *roster) isSilentSince(id string, then time.Time) bool {
	return slices.ContainsFunc(r.members, func(m leasestore.Member) bool { return m.ID == id && m.Period == 0 && !r.seen[id].since.After(then) })
}

// lapseSilent takes for dead who of ours has shown no sign of life since then, as the look of now says.
func (r *roster) lapseSilent(then time.Time) {
	for _, m := range r.members {
		if r.isSilentSince(m.ID, then) {
			r.lapses(m.ID)
		}
	}
}

// sharing are the members that take shards of the stream, in order of their ids.
func (r *roster) sharing(stream leasestore.StreamID, now time.Time) []leasestore.Member {
	var all []leasestore.Member
	for _, m := range r.members {
		if r.isSharing(m, stream, now) {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b leasestore.Member) int { return compareStrings(a.ID, b.ID) })
	return all
}

// longDead is how many periods a member has been silent when its row is removed.
const longDead = 10

// forgettable are the rows of members that have long been dead. Those of others' workers are theirs to remove.
func (r *roster) forgettable(now time.Time) []leasestore.Member {
	var gone []leasestore.Member
	for _, m := range r.members {
		if m.Period == 0 && now.Sub(r.seen[m.ID].since) >= longDead*r.ttl {
			gone = append(gone, m)
		}
	}
	return gone
}

// isPlanned reports whether somebody else decides who reads what.
func (r *roster) isPlanned(now time.Time) bool {
	return r.plans.Owner != "" && now.Sub(r.planner.since) < max(r.plans.Period, r.ttl)
}
