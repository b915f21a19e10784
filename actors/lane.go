package actors

import (
	"sync/atomic"
	"time"

	"github.com/protokinesis/protokinesis/internal/kpl"
)

// shardLane is what waits for one shard, as far as the shard map can tell, or, with no id, for any. Pure state.
type shardLane struct {
	shard hashShard
	pace  pace

	retry keyList // keys with a record that was tried; they go first
	fresh keyList

	readyBytes int

	// All records of its keys, waiting or on their way.
	count int
	bytes int64
	full  atomic.Bool // a slow lane that holds as much as it may; read by Go callers

	slow bool // it is bounded, and among the outbox's slow lanes; else, when it has ready keys, in the ring
	turn bool // it is in the ring
	next *shardLane

	answer laneAnswer // of the request that is being judged
}

func (l *shardLane) ready() int { return l.retry.count + l.fresh.count }

// laneRing has the lanes that take turns, in a circle; last is before the one whose turn it is.
type laneRing struct {
	last  *shardLane
	count int
}

func (r *laneRing) push(l *shardLane) {
	if l.turn {
		return
	}
	if r.last == nil {
		l.next = l
	} else {
		l.next, r.last.next = r.last.next, l
	}
	r.last, l.turn = l, true
	r.count++
}

// first is the lane whose turn it is.
func (r *laneRing) first() *shardLane { return r.last.next }

// rotate gives the next lane its turn.
func (r *laneRing) rotate() { r.last = r.last.next }

// pop takes the first lane out.
func (r *laneRing) pop() {
	l := r.last.next
	if l == r.last {
		r.last = nil
	} else {
		r.last.next = l.next
	}
	l.next, l.turn = nil, false
	r.count--
}

// remove takes any lane out.
func (r *laneRing) remove(l *shardLane) {
	if !l.turn {
		return
	}
	for range r.count {
		if r.first() == l {
			r.pop()
			return
		}
		r.rotate()
	}
}

// head is the key whose turn it is.
func (l *shardLane) head() *keyQueue {
	if l.retry.first != nil {
		return l.retry.first
	}
	return l.fresh.first
}

// keyState is what a key's queue is doing.
type keyState uint8

const (
	keyIdle   keyState = iota
	keyReady           // in its lane
	keyParked          // waits until a failed record may be tried again
	keyFlying          // has records on their way
)

// keyQueue is one key's records, oldest first. In relaxed order every record has one of its own.
type keyQueue struct {
	key    string
	mapped bool // it is in the outbox's map of keys
	state  keyState
	flying int // records on their way; they are the oldest
	tried  bool
	wakeAt time.Time // parked until then
	parkAt int       // index among the parked

	head, tail *outgoing
	count      int
	bytes      int64
	weight     int // what it adds to the outbox's ready bytes

	// hash is that of hashOf, the explicit hash key of the head, or of the key if that is empty.
	hash   kpl.Hash
	hashOf string
	hashed bool

	lane       *shardLane
	list       *keyList
	next, prev *keyQueue
	epoch      uint64 // of the shard map that placed it
}

func (q *keyQueue) push(o *outgoing) {
	o.queue, o.prev = q, q.tail
	if q.tail == nil {
		q.head = o
	} else {
		q.tail.next = o
	}
	q.tail = o
	q.count++
	q.bytes += int64(o.size)
}

func (q *keyQueue) remove(o *outgoing) {
	if o.prev == nil {
		q.head = o.next
	} else {
		o.prev.next = o.next
	}
	if o.next == nil {
		q.tail = o.prev
	} else {
		o.next.prev = o.prev
	}
	o.next, o.prev = nil, nil
	q.count--
	q.bytes -= int64(o.size)
}

// hashOfHead is the hash key of the oldest record.
func (q *keyQueue) hashOfHead() kpl.Hash {
	if explicit := q.head.hashKey; !q.hashed || q.hashOf != explicit {
		q.hash, q.hashOf, q.hashed = kpl.UserRecord{PartitionKey: q.key, ExplicitHashKey: explicit}.Hash(), explicit, true
	}
	return q.hash
}

// keyList is a list of keys; each is in one at most.
type keyList struct {
	first, last *keyQueue
	count       int
}

func (l *keyList) push(q *keyQueue) {
	q.list, q.prev = l, l.last
	if l.last == nil {
		l.first = q
	} else {
		l.last.next = q
	}
	l.last = q
	l.count++
}

func (l *keyList) remove(q *keyQueue) {
	if q.prev == nil {
		l.first = q.next
	} else {
		q.prev.next = q.next
	}
	if q.next == nil {
		l.last = q.prev
	} else {
		q.next.prev = q.prev
	}
	q.list, q.next, q.prev = nil, nil, nil
	l.count--
}

// parkedKeys is a heap of parked keys by the time they wake; heap.Interface.
type parkedKeys []*keyQueue

func (h parkedKeys) Len() int           { return len(h) }
func (h parkedKeys) Less(i, j int) bool { return h[i].wakeAt.Before(h[j].wakeAt) }
func (h parkedKeys) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].parkAt, h[j].parkAt = i, j
}

func (h *parkedKeys) Push(x any) {
	q := x.(*keyQueue) //nolint:forcetypeassert // heap.Interface
	q.parkAt = len(*h)
	*h = append(*h, q)
}

func (h *parkedKeys) Pop() any {
	old := *h
	q := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return q
}
