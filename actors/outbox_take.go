package actors

import "time"

// request is a PutRecords that is being filled.
type request struct {
	entries              []putEntry
	size                 int
	maxEntries, maxBytes int
}

// fits reports whether an entry of so many bytes may be added. One goes whatever its size.
func (r *request) fits(size int) bool {
	return len(r.entries) == 0 || (len(r.entries) < r.maxEntries && r.size+size <= r.maxBytes)
}

func (r *request) full() bool { return len(r.entries) >= r.maxEntries || r.size >= r.maxBytes }

func (r *request) add(e putEntry) {
	r.entries = append(r.entries, e)
	r.size += e.size
}

// fill chooses what goes with the next request: a part of a refused one alone; else what slow lanes may send now, then the others in turn.
func (o *outbox) fill(r *request, now time.Time) {
	if len(o.split) > 0 {
		for i := range o.split[0] {
			r.add(o.split[0][i])
		}
		o.split[0] = nil
		o.split = o.split[1:]
		return
	}
	if len(o.slow) > 0 && !o.fillSlow(r, now) {
		return
	}
	for o.turns.count > 0 && !r.full() {
		l := o.turns.first()
		for range max(1, (r.maxEntries-len(r.entries))/o.turns.count) {
			if l.ready() == 0 {
				break
			}
			if !o.fillOne(r, l) {
				return
			}
		}
		if o.turns.count > 0 && o.turns.first() == l { // it leaves the ring with its last key
			o.turns.rotate()
		}
	}
}

// fillSlow adds what slow lanes may send now; false: the request is full.
func (o *outbox) fillSlow(r *request, now time.Time) bool {
	if o.slowAt.After(now) {
		return true
	}
	o.slowAt = time.Time{}
	room, from := true, o.slowFrom
	for i := range o.slow {
		l := o.slow[(from+i)%len(o.slow)]
		if o.held && l == &o.rest {
			continue
		}
		if room && l.ready() > 0 && !l.pace.opens(now).After(now) {
			if room = o.fillPaced(r, l, now); !room {
				o.slowFrom = (from + i) % len(o.slow)
			}
		}
		o.opens(l, now)
	}
	return room
}

// fillPaced adds what a slow lane may send now; false: the request is full.
func (o *outbox) fillPaced(r *request, l *shardLane, now time.Time) bool {
	for l.ready() > 0 {
		before := r.size
		if !o.fillOne(r, l) {
			return false
		}
		if !l.pace.spend(paceCost(r.size-before), now) {
			break
		}
	}
	return true
}

// fillOne adds the next entry of a lane with ready keys; false: it does not fit.
func (o *outbox) fillOne(r *request, l *shardLane) bool {
	q := l.head()
	first := q.head
	if o.aggregate && l.shard.id != "" && !first.alone {
		return o.fillAggregate(r, l)
	}
	if !r.fits(first.size) {
		return false
	}
	o.takeOff(q)
	q.fly(first)
	r.add(putEntry{record: first, lane: l, size: first.size})
	return true
}

// takeOff takes a ready key out of its lane.
func (o *outbox) takeOff(q *keyQueue) {
	o.leave(q)
	q.state, q.tried, q.wakeAt = keyFlying, false, time.Time{}
}

func (q *keyQueue) fly(r *outgoing) {
	r.flying = true
	q.flying++
}

// halve prepares a request that was refused as a whole to be sent in two parts. Its entries stay on their way.
func (o *outbox) halve(entries []putEntry) {
	half := len(entries) / 2
	for _, part := range [][]putEntry{entries[:half], entries[half:]} {
		o.split = append(o.split, append([]putEntry(nil), part...))
	}
}

// sendable reports whether fill would find something.
func (o *outbox) sendable(now time.Time) bool {
	return len(o.split) > 0 || o.readyKeys > 0 || o.slowDue(now)
}

// slowDue reports whether a slow lane may send.
func (o *outbox) slowDue(now time.Time) bool { return !o.slowAt.IsZero() && !o.slowAt.After(now) }

// fills reports whether what is ready is enough for a whole request.
func (o *outbox) fills(maxEntries, maxBytes int) bool {
	return o.readyBytes >= maxBytes || (!o.aggregate && o.readyKeys >= maxEntries)
}

// next is when something that is not ready now will be, by itself; zero: never.
func (o *outbox) next() time.Time {
	at := o.slowAt
	if len(o.parked) > 0 && (at.IsZero() || o.parked[0].wakeAt.Before(at)) {
		at = o.parked[0].wakeAt
	}
	return at
}
