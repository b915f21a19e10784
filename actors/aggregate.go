package actors

import (
	"github.com/protokinesis/protokinesis/internal/kpl"
)

// aggregateKey is the partition key of an aggregated record, as of the KPL's; its explicit hash key chooses the shard.
const aggregateKey = "a"

// bundle is the user records of an aggregated record, in their order.
type bundle struct {
	builder kpl.Builder
	records []*outgoing
}

const maxFreeBundles = 512

func (o *outbox) newBundle() *bundle {
	if n := len(o.freeBundles); n > 0 {
		b := o.freeBundles[n-1]
		o.freeBundles = o.freeBundles[:n-1]
		return b
	}
	return new(bundle)
}

// release takes back what a settled entry was made of. Nobody may read it any more.
func (o *outbox) release(b *bundle) {
	if b == nil || len(o.freeBundles) >= maxFreeBundles {
		return
	}
	b.builder.Reset()
	clear(b.records)
	b.records = b.records[:0]
	o.freeBundles = append(o.freeBundles, b)
}

// fillAggregate adds an aggregated record of a lane's next keys, each with as many of its records as fit; false: the request is full. A
// user record that finds no company goes as it is.
func (o *outbox) fillAggregate(r *request, l *shardLane) bool {
	if !r.fits(o.aggregateBytes) && !r.fits(l.head().head.size) {
		return false
	}
	limit := o.aggregateBytes - len(aggregateKey)
	if len(r.entries) > 0 {
		limit = min(limit, r.maxBytes-r.size-len(aggregateKey))
	}
	b := o.newBundle()
	for l.ready() > 0 && o.fillBundle(b, l, limit) {
	}
	switch len(b.records) {
	case 0: // too large to be aggregated
		o.release(b)
		q := l.head()
		first := q.head
		if !r.fits(first.size) {
			return false
		}
		o.takeOff(q)
		q.fly(first)
		r.add(putEntry{record: first, lane: l, size: first.size})
	case 1:
		first := b.records[0]
		r.add(putEntry{record: first, lane: l, size: first.size})
		o.release(b)
	default:
		r.add(putEntry{record: b.records[0], bundle: b, lane: l, size: b.builder.Size() + len(aggregateKey)})
	}
	return true
}

// fillBundle adds the records of the lane's next key; false: it is full, or the key's next record has to go alone.
func (o *outbox) fillBundle(b *bundle, l *shardLane, limit int) (more bool) {
	q := l.head()
	taken := false
	for r := q.head; r != nil; r = r.next {
		if r.alone || (r.hashKey != q.hashOf && !l.shard.holds(r.userRecord().Hash())) {
			return taken
		}
		if len(b.records) >= o.aggregateRecords || !b.builder.AddWithin(r.userRecord(), limit) {
			return false
		}
		if !taken {
			taken = true
			o.takeOff(q)
		}
		q.fly(r)
		b.records = append(b.records, r)
	}
	return true
}
