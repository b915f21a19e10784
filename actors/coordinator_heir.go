package actors

import (
	"time"

	"github.com/protokinesis/protokinesis/leasestore"
)

// A node that shards are handed to may die meanwhile. Its own leases would run out by themselves, but what it is handed begins another ttl. So whoever
// hands a shard over watches its heir until that one has taken it up, and takes back what it has not. Nothing can be delivered twice by
// it: an heir reads only once it has written the lease itself, and of the two writes one is fenced.

// heir is who a shard is handed to.
type heir struct {
	id      string
	named   time.Time
	counter int64 // of the lease as it was handed over, once it is
	foreign bool  // somebody else has named it, and looks after it
}

// has notes that the lease was handed over. The heir may be the one before the last that was named: that write was under way.
func (h *heir) has(row leasestore.Lease) {
	if !h.foreign {
		h.id, h.counter = row.Owner, row.Counter
	}
}

// name says who the shard is handed to; nobody if it is "".
func (s *shardInfo) name(to string) {
	s.giving, s.heir = to, heir{id: to, named: time.Now()}
}

// heirPatience is how many RenewEverys an heir may be without a sign of life since it was named. It gives one in each.
const heirPatience = 4.0 / 3

func (co *coordinator) heirPatience() time.Duration {
	return time.Duration(heirPatience * float64(co.cfg.Timings.RenewEvery))
}

// checkHeir looks after the heir of a shard. It follows a look.
func (co *coordinator) checkHeir(s *shardInfo, now time.Time) {
	switch h := s.heir; {
	case h.id == "":
	case s.reader == nil && (s.lease.Owner != h.id || s.lease.Counter != h.counter):
		s.heir = heir{} // it has the shard, or somebody else has
	case now.Sub(h.named) >= co.heirPatience() && co.shares.roster.isSilentSince(h.id, h.named):
		co.shares.roster.lapses(h.id)
	}
}

// inVain reports whether the shard was handed to a node that is dead, gone or does not read the stream any more, and that did not take it up.
func (co *coordinator) inVain(s *shardInfo, now time.Time) bool {
	h := s.heir
	return s.reader == nil && h.id != "" && s.lease.Owner == h.id && s.lease.Counter == h.counter && !co.shares.roster.takes(h.id, co.found.id, now)
}
