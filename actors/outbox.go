package actors

import (
	"container/heap"
	"sync/atomic"
	"time"
)

// outbox is what a publisher has accepted and not settled: pure state.
//
// In strict order, a partition key has one entry on its way at a time: one record, or the user records of one aggregated record. The key's next ones
// wait until these are settled or to be tried again, as PutRecords promises no order among its entries. In relaxed order records do not wait for
// each other.
//
// Keys with something to send queue in the lane of their shard. Lanes take turns, and so do the keys of a lane. A lane whose shard refuses records is
// bounded by its pace and holds up no other.
type outbox struct {
	outboxSpec
	keys           map[string]*keyQueue
	oldest, newest *outgoing // all records, in the order they came, which is that of their deadlines
	count          int
	bytes          int64

	shards *shardMap // nil: not known
	epoch  uint64
	rest   shardLane // of records whose shard is not known
	held   bool      // rest waits for the shard map
	lanes  map[string]*shardLane

	turns      laneRing // lanes that are not slow and have ready keys
	readyKeys  int      // of these
	readyBytes int      // of what they would send next

	slow        []*shardLane
	slowFrom    int       // whose turn it is
	slowAt      time.Time // when the first of them that has ready keys opens; zero: none has
	slowCount   int
	slowBytes   int64
	slowVersion uint64      // changes when others are slow
	crowded     atomic.Bool // slow lanes hold as much as they may together; read by Go callers

	parked parkedKeys
	split  [][]putEntry // parts of a request that was refused as a whole, sent alone to find the entry at fault

	freeKeys    *keyQueue // to be used again
	freeCount   int
	freeBundles []*bundle
}

// outboxSpec is what an outbox is made with.
type outboxSpec struct {
	relaxed, aggregate bool
	// Bounds of an aggregated record.
	aggregateBytes, aggregateRecords int
	// maxRecords and maxBytes are the bounds of the stream, of which a slow lane may use a part.
	maxRecords int
	maxBytes   int64
}

// outgoing is one record. It has all that is needed of its request, which belongs to its sender again once it is answered.
type outgoing struct {
	reply
	key      string
	keyless  bool // none was given: it is a random one
	hashKey  string
	data     []byte // with the header envelope
	size     int
	deadline time.Time
	failures int
	cause    error // of the last failure
	unknown  bool  // a try may have stored it
	refused  bool  // the last failure: its shard takes no more
	flying   bool  // on its way
	alone    bool  // not to be aggregated
	astray   int   // how often it was stored in an aggregated record of another shard
	queue    *keyQueue

	next, prev   *outgoing // of its key
	newer, older *outgoing
}

// putEntry is an entry of a request: a record, or an aggregated one.
type putEntry struct {
	record *outgoing // the first, if there are many
	bundle *bundle   // of an aggregated record; else nil
	lane   *shardLane
	size   int

	// What became of it, see judge.
	fate            fate
	shard, sequence string
	cause           error
	unknown         bool // it may be stored all the same
}

// records are the entry's user records.
func (e *putEntry) records(one *[1]*outgoing) []*outgoing {
	if e.bundle != nil {
		return e.bundle.records
	}
	one[0] = e.record
	return one[:]
}

const maxFreeKeys = 1024

func newOutbox(spec outboxSpec) *outbox {
	return &outbox{outboxSpec: spec, keys: make(map[string]*keyQueue), lanes: make(map[string]*shardLane)}
}

// add takes a record in. Its deadline is not before that of any other.
func (o *outbox) add(r *outgoing, now time.Time) {
	o.count++
	o.bytes += int64(r.size)
	if r.older = o.newest; r.older == nil {
		o.oldest = r
	} else {
		r.older.newer = r
	}
	o.newest = r
	var q *keyQueue
	if !o.relaxed {
		q = o.keys[r.key]
	}
	if q == nil {
		q = o.newKey(r.key)
		q.push(r)
		o.place(q, now)
		return
	}
	q.push(r)
	o.weigh(q.lane, 1, int64(r.size))
	if q.state == keyReady && o.aggregate {
		o.reweigh(q, q.weight+r.size)
	}
}

func (o *outbox) newKey(key string) *keyQueue {
	q := o.freeKeys
	if q == nil {
		q = new(keyQueue)
	} else {
		o.freeKeys = q.next
		o.freeCount--
	}
	*q = keyQueue{key: key, mapped: !o.relaxed}
	if q.mapped {
		o.keys[key] = q
	}
	return q
}

func (o *outbox) dropKey(q *keyQueue) {
	if q.mapped {
		delete(o.keys, q.key)
	}
	o.leave(q)
	q.lane = nil
	if o.freeCount < maxFreeKeys {
		*q = keyQueue{next: o.freeKeys}
		o.freeKeys = q
		o.freeCount++
	}
}

// weigh counts records of a lane; a lane of nil is none.
func (o *outbox) weigh(l *shardLane, records int, size int64) {
	if l == nil {
		return
	}
	l.count += records
	l.bytes += size
	if l.slow && l != &o.rest {
		o.slowCount += records
		o.slowBytes += size
		o.checkFull(l)
	}
}

// place puts a key with something to send into its lane, or among the parked.
func (o *outbox) place(q *keyQueue, now time.Time) {
	o.assign(q)
	if q.wakeAt.After(now) {
		q.state = keyParked
		heap.Push(&o.parked, q)
		return
	}
	o.enter(q, now)
}

// assign gives a key the lane of its oldest record.
func (o *outbox) assign(q *keyQueue) {
	q.epoch = o.epoch
	l := o.laneOf(q)
	if l == q.lane {
		return
	}
	o.weigh(q.lane, -q.count, -q.bytes)
	q.lane = l
	o.weigh(l, q.count, q.bytes)
}

func (o *outbox) laneOf(q *keyQueue) *shardLane {
	if o.shards == nil {
		return &o.rest
	}
	s, known := o.shards.find(q.hashOfHead())
	if !known {
		return &o.rest
	}
	l := o.lanes[s.id]
	if l == nil {
		l = &shardLane{shard: s}
		o.lanes[s.id] = l
	}
	return l
}

// enter makes a key ready.
func (o *outbox) enter(q *keyQueue, now time.Time) {
	l := q.lane
	q.state = keyReady
	if q.tried {
		l.retry.push(q)
	} else {
		l.fresh.push(q)
	}
	if q.weight = q.head.size; o.aggregate {
		q.weight = int(q.bytes)
	}
	l.readyBytes += q.weight
	if l.slow {
		if l.ready() == 1 {
			o.opens(l, now)
		}
		return
	}
	o.readyKeys++
	o.readyBytes += q.weight
	o.turns.push(l)
}

// leave makes a key neither ready nor parked.
func (o *outbox) leave(q *keyQueue) {
	switch q.state {
	case keyParked:
		heap.Remove(&o.parked, q.parkAt)
	case keyReady:
		l := q.lane
		q.list.remove(q)
		l.readyBytes -= q.weight
		if !l.slow {
			o.readyKeys--
			o.readyBytes -= q.weight
			if l.ready() == 0 {
				o.turns.remove(l)
			}
		}
	case keyIdle, keyFlying:
	}
	q.state = keyIdle
}

func (o *outbox) reweigh(q *keyQueue, weight int) {
	more := weight - q.weight
	q.weight = weight
	q.lane.readyBytes += more
	if !q.lane.slow {
		o.readyBytes += more
	}
}

// finish removes a settled record.
func (o *outbox) finish(r *outgoing, now time.Time) {
	o.count--
	o.bytes -= int64(r.size)
	if r.older == nil {
		o.oldest = r.newer
	} else {
		r.older.newer = r.newer
	}
	if r.newer == nil {
		o.newest = r.older
	} else {
		r.newer.older = r.older
	}
	r.newer, r.older = nil, nil
	q := r.queue
	o.weigh(q.lane, -1, -int64(r.size))
	if !r.flying {
		o.finishWaiting(q, r, now)
		return
	}
	q.remove(r)
	o.land(q, r, now)
}

func (o *outbox) finishWaiting(q *keyQueue, r *outgoing, now time.Time) {
	again := q.state != keyFlying
	if again {
		o.leave(q)
	}
	q.remove(r)
	switch {
	case q.count == 0:
		o.dropKey(q)
	case again:
		o.place(q, now)
	}
}

// again lets a record that was sent and not stored be sent again, but not before the time given.
func (o *outbox) again(r *outgoing, notBefore, now time.Time) {
	q := r.queue
	q.tried = true
	if notBefore.After(q.wakeAt) {
		q.wakeAt = notBefore
	}
	o.land(q, r, now)
}

// land counts a record that is back. With the last one, its key may send again.
func (o *outbox) land(q *keyQueue, r *outgoing, now time.Time) {
	r.flying = false
	if q.flying--; q.flying > 0 {
		return
	}
	q.state = keyIdle
	if q.count == 0 {
		o.dropKey(q)
		return
	}
	o.place(q, now)
}

// wake makes parked keys ready whose time has come.
func (o *outbox) wake(now time.Time) {
	for len(o.parked) > 0 && !o.parked[0].wakeAt.After(now) {
		q := o.parked[0]
		o.leave(q)
		o.place(q, now)
	}
}

// expire removes the records that wait and whose deadline has passed.
func (o *outbox) expire(now time.Time, told func(r *outgoing)) {
	for r := o.oldest; r != nil && !r.deadline.After(now); {
		next := r.newer
		if !r.flying {
			o.finish(r, now)
			told(r)
		}
		r = next
	}
}

// expires is the deadline of the first record that waits.
func (o *outbox) expires() (at time.Time, ok bool) {
	for r := o.oldest; r != nil; r = r.newer {
		if !r.flying {
			return r.deadline, true
		}
	}
	return time.Time{}, false
}

// setMap places everything by another shard map; nil is none.
func (o *outbox) setMap(m *shardMap, now time.Time) {
	o.shards = m
	o.epoch++
	for id, l := range o.lanes {
		if m != nil && m.hasSame(l.shard) {
			continue
		}
		o.setSlow(l, false, now)
		delete(o.lanes, id)
	}
	for r := o.oldest; r != nil; r = r.newer {
		q := r.queue
		if q.epoch == o.epoch || q.state == keyFlying { // one that flies gets its lane when it is back
			continue
		}
		o.leave(q)
		o.place(q, now)
	}
}

// hold makes records whose shard is not known wait for the map, or lets them go.
func (o *outbox) hold(held bool, now time.Time) {
	o.held = held
	o.setSlow(&o.rest, held, now)
}

func (o *outbox) empty() bool { return o.count == 0 }
