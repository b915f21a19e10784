package actors

import (
	"slices"
	"time"

	"github.com/protokinesis/protokinesis/internal/kpl"
)

// Slow lanes are those whose shard refuses records: when they may send, how much they may hold, and what gives way to others.

// pacing brings a lane in line with its pace, after what a request said of it.
func (o *outbox) pacing(l *shardLane, now time.Time) {
	if o.lanes[l.shard.id] == l { // else it has gone with its shard, or is the rest
		l.pace.answered(l.answer, now)
		o.setSlow(l, l.pace.limited(), now)
	}
	l.answer = laneAnswer{}
}

// forget lets lanes go whose shard has refused nothing for a while.
func (o *outbox) forget(now time.Time) {
	for _, l := range slices.Backward(o.slow) { // setSlow takes one out
		if l != &o.rest {
			l.pace.forget(now)
			o.setSlow(l, l.pace.limited(), now)
		}
	}
}

// setSlow moves a lane between those that are bounded and those that are not.
func (o *outbox) setSlow(l *shardLane, slow bool, now time.Time) {
	if l.slow == slow {
		return
	}
	o.slowVersion++
	if slow {
		l.slow = true
		o.turns.remove(l)
		o.readyKeys -= l.ready()
		o.readyBytes -= l.readyBytes
		o.slow = append(o.slow, l)
		if l != &o.rest {
			o.slowCount += l.count
			o.slowBytes += l.bytes
			o.checkFull(l)
		}
		o.opens(l, now)
		return
	}
	if l != &o.rest {
		o.slowCount -= l.count
		o.slowBytes -= l.bytes
	}
	l.slow = false
	l.full.Store(false)
	o.checkCrowded()
	if o.slow = slices.DeleteFunc(o.slow, func(other *shardLane) bool { return other == l }); len(o.slow) == 0 {
		o.slowAt = time.Time{}
	}
	o.readyKeys += l.ready()
	o.readyBytes += l.readyBytes
	if l.ready() > 0 {
		o.turns.push(l)
	}
}

// opens takes a slow lane with ready keys into account.
func (o *outbox) opens(l *shardLane, now time.Time) {
	if l.ready() == 0 || (o.held && l == &o.rest) {
		return
	}
	if at := l.pace.opens(now); o.slowAt.IsZero() || at.Before(o.slowAt) {
		o.slowAt = at
	}
}

// A slow lane may hold a quarter of what the stream may, and all of them together three: the others must have room.
const (
	slowShare    = 4
	slowTogether = 3
	// evictShare is how much more is evicted than there has to be, as a part of the bound: it is not done for each record.
	evictShare = 16
)

func (o *outbox) checkFull(l *shardLane) {
	if full := l.slow && (l.count >= o.maxRecords/slowShare || l.bytes >= o.maxBytes/slowShare); full != l.full.Load() {
		l.full.Store(full)
	}
	o.checkCrowded()
}

func (o *outbox) checkCrowded() {
	crowded := o.slowCount >= o.maxRecords/slowShare*slowTogether || o.slowBytes >= o.maxBytes/slowShare*slowTogether
	if crowded != o.crowded.Load() {
		o.crowded.Store(crowded)
	}
}

// refuses returns the lane that is too full for another record, if it is a slow one. The only shard of a stream has all the room there is.
func (o *outbox) refuses(key, hashKey string) *shardLane {
	if o.slowCount == 0 || o.shards == nil || len(o.shards.open) < 2 {
		return nil
	}
	q := keyQueue{key: key, head: &outgoing{hashKey: hashKey}}
	l := o.laneOf(&q)
	if l.slow && (l.full.Load() || o.crowded.Load()) {
		return l
	}
	return nil
}

// shut reports whether a record of this hash key would go into a slow lane that is full.
func (o *outbox) shut(hash kpl.Hash) bool {
	if o.shards == nil {
		return false
	}
	s, known := o.shards.find(hash)
	l := o.lanes[s.id]
	return known && l != nil && l.slow && (l.full.Load() || o.crowded.Load())
}

// evict removes the youngest waiting records of slow lanes that hold more than their part, to make room for so many others and some more. If all
// lanes are slow there are no others. What may have been stored is tried on: whoever published it again would not know.
func (o *outbox) evict(records int, bytes int64, now time.Time, told func(r *outgoing, l *shardLane)) {
	if o.slowCount == 0 || o.shards == nil || len(o.slow) >= len(o.shards.open) {
		return
	}
	records, bytes = records+o.maxRecords/evictShare, bytes+o.maxBytes/evictShare
	for r := o.newest; r != nil && (records > 0 || bytes > 0) && o.tooMuch(); {
		older, l := r.older, r.queue.lane
		if !r.flying && !r.unknown && l.slow && l != &o.rest && (o.overCrowded() || o.overFull(l)) {
			records--
			bytes -= int64(r.size)
			o.finish(r, now)
			told(r, l)
		}
		r = older
	}
}

// tooMuch reports whether any slow lane holds more than it may.
func (o *outbox) tooMuch() bool { return o.overCrowded() || slices.ContainsFunc(o.slow, o.overFull) }

func (o *outbox) overFull(l *shardLane) bool {
	return l != &o.rest && (l.count > o.maxRecords/slowShare || l.bytes > o.maxBytes/slowShare)
}

func (o *outbox) overCrowded() bool {
	return o.slowCount > o.maxRecords/slowShare*slowTogether || o.slowBytes > o.maxBytes/slowShare*slowTogether
}
