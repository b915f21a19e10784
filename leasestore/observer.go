package leasestore

import "time"

// Observer judges which owners are dead. No clock of any other machine is involved: a lease is expired when its
// row has been the same for ttl as seen by this observer, so an owner that renews is alive however wrong its clock is, and
// a new observer takes every owner for alive until it has watched for ttl.
//
// Its judgement only says when it is worth trying: the Acquire that follows is conditional on the observed counter, so
// an owner that renewed meanwhile keeps its lease.
//
// An Observer is pure and not safe for concurrent use; the one actor that watches the leases owns it.
type Observer struct {
	ttl  time.Duration
	seen map[Key]sighting
}

// sighting is a row as last observed, and since when it has been like that.
type sighting struct {
	owner   string
	counter int64
	since   time.Time
}

// NewObserver returns an Observer that has seen nothing. ttl is how long an owner may be silent; it must be the
// ttl the owners count on.
func NewObserver(ttl time.Duration) *Observer {
	return &Observer{ttl: ttl, seen: map[Key]sighting{}}
}

// Observe replaces the picture by leases: all there are, of every stream this observer watches. Rows that
// are not among them are forgotten, and are new when they come back.
//
// now is time.Now() taken after the leases were read, never before: an owner trusts its lease for ttl from before its renewal
// began, and the observer must not start counting earlier than that.
func (o *Observer) Observe(leases []Lease, now time.Time) {
	seen := make(map[Key]sighting, len(leases))
	for _, lease := range leases {
		s, known := o.seen[lease.Key]
		if !known || !s.is(lease) {
			s = sighting{owner: lease.Owner, counter: lease.Counter, since: now}
		}
		seen[lease.Key] = s
	}
	o.seen = seen
}

// Expired reports whether the lease has an owner that was silent for ttl. It is false for a lease without an owner
// and for one that was not in the last Observe.
func (o *Observer) Expired(key Key, now time.Time) bool {
	s, known := o.seen[key]
	return known && s.owner != "" && now.Sub(s.since) >= o.ttl
}

// ExpiresAt is when exactly this row, owner and counter, will have been silent for ttl; false for a lease that has no owner or was not in the
// last Observe as it is.
func (o *Observer) ExpiresAt(lease Lease) (time.Time, bool) {
	s, known := o.seen[lease.Key]
	return s.since.Add(o.ttl), known && lease.Owner != "" && s.is(lease)
}

// Free reports whether the lease may be acquired: it has no owner, or exactly this row, owner and counter,
// has expired. It says nothing of whether the shard still has to be read (see Checkpoint.IsShardEnd).
func (o *Observer) Free(lease Lease, now time.Time) bool {
	return lease.Owner == "" || o.seen[lease.Key].is(lease) && o.Expired(lease.Key, now)
}

func (s sighting) is(lease Lease) bool { return s.owner == lease.Owner && s.counter == lease.Counter }
