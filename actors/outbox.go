package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// outbox is what a publisher has accepted and not answered: pure state.
//
// Records of one partition key leave in the order they came: a request takes at most one record of a key (PutRecords promises no order
// among its entries), and the key's next one waits until that one is stored or given up. Keys take turns.
type outbox struct {
	keys  map[string]*keyQueue
	ready []*keyQueue // with a record to send and none on its way; from readyAt on
	at    int
	split [][]*outgoing // parts of a request that was refused as a whole, sent alone to find the record at fault
	count int
	bytes int64
	free  *keyQueue // of finished keys, to be used again
}

// keyQueue is one key's records, oldest first.
type keyQueue struct {
	key        string
	head, tail *outgoing
}

// outgoing is one record. It has all that is needed of its request, which belongs to its sender again once it is answered.
type outgoing struct {
	sender      *actor.PID
	correlation uint64
	key         string
	hashKey     string
	data        []byte // with the header envelope
	size        int
	deadline    time.Time
	failures    int
	unknown     bool // a try may have stored it
	queue       *keyQueue
	next        *outgoing
}

func newOutbox() *outbox { return &outbox{keys: make(map[string]*keyQueue)} }

// add takes a record in.
func (o *outbox) add(p *outgoing) {
	o.count++
	o.bytes += int64(p.size)
	q, busy := o.keys[p.key]
	if !busy {
		q = o.newQueue(p.key)
		o.keys[p.key] = q
		q.head, q.tail = p, p
		o.ready = append(o.ready, q)
	} else {
		q.tail.next = p
		q.tail = p
	}
	p.queue = q
}

func (o *outbox) newQueue(key string) *keyQueue {
	if q := o.free; q != nil {
		o.free = nil
		*q = keyQueue{key: key}
		return q
	}
	return &keyQueue{key: key}
}

// take chooses the records of the next request: one of each key, in turn, within the request's limits. One record
// goes whatever its size.
func (o *outbox) take(maxRecords, maxBytes int) []*outgoing {
	if n := len(o.split); n > 0 {
		part := o.split[0]
		o.split = o.split[1:]
		return part
	}
	var batch []*outgoing
	size := 0
	for len(batch) < maxRecords && o.at < len(o.ready) {
		p := o.ready[o.at].head
		if len(batch) > 0 && size+p.size > maxBytes {
			break
		}
		if batch == nil {
			batch = make([]*outgoing, 0, min(maxRecords, len(o.ready)-o.at))
		}
		o.ready[o.at] = nil
		o.at++
		size += p.size
		batch = append(batch, p)
	}
	o.compact()
	return batch
}

func (o *outbox) compact() {
	switch {
	case o.at == len(o.ready):
		o.ready, o.at = o.ready[:0], 0
	case o.at >= 1024 && o.at*2 >= len(o.ready):
		n := copy(o.ready, o.ready[o.at:])
		clear(o.ready[n:])
		o.ready, o.at = o.ready[:n], 0
	}
}

// finish removes a record that was sent and is stored or given up; the next one of its key may go.
func (o *outbox) finish(p *outgoing) {
	o.count--
	o.bytes -= int64(p.size)
	q := p.queue
	q.head = p.next
	if q.head == nil {
		delete(o.keys, q.key)
		o.free = q
		return
	}
	o.ready = append(o.ready, q)
}

// again puts records that were sent and not stored back, before what has not been sent, in their order.
func (o *outbox) again(failed []*outgoing) {
	if len(failed) == 0 {
		return
	}
	ready := make([]*keyQueue, 0, len(failed)+len(o.ready)-o.at)
	for _, p := range failed {
		ready = append(ready, p.queue)
	}
	o.ready, o.at = append(ready, o.ready[o.at:]...), 0
}

// halve prepares a request that was refused as a whole to be sent in two parts.
func (o *outbox) halve(batch []*outgoing) {
	half := len(batch) / 2
	o.split = append(o.split, batch[:half], batch[half:])
}

// all visits every record, whether on its way or not.
func (o *outbox) all(visit func(p *outgoing)) {
	for _, q := range o.keys {
		for p := q.head; p != nil; p = p.next {
			visit(p)
		}
	}
}

func (o *outbox) empty() bool { return o.count == 0 }

// readyCount is how many keys have a record to send.
func (o *outbox) readyCount() int { return len(o.ready) - o.at }

// sendable reports whether take would return something.
func (o *outbox) sendable() bool { return len(o.split) > 0 || o.at < len(o.ready) }
