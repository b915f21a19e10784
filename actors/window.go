package actors

import (
	"container/heap"
	"slices"
	"time"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

// window is what one reader has read and not settled, in the order of the shard: pure state, no actor and no I/O.
//
// Records are numbered from 1 by delivery id within a generation. The watermark is the last record with nothing unsettled at or
// below it: the most that may be checkpointed. What is in flight is bounded in records and bytes; as much again may be read
// ahead. So a subscriber that stops settling stops the reading.
type window struct {
	maxRecords  int // in flight, and the same again read ahead
	maxBytes    int // likewise
	perKeyOrder bool

	entries   ring
	watermark leasestore.Checkpoint

	ready   []uint64 // ids to deliver next, in order; from readyAt on
	readyAt int
	keys    map[string][]uint64 // per_key_order: keys with a record ready, out or waiting for a retry → ids behind it
	retries retryHeap

	out      int // in flight
	outBytes int
	held     int // bytes of all entries that are not settled
	pinned   int // bytes of the pages that they, and what is still to be unpacked, are part of
	settled  int64

	// ending: nothing more is begun. Records with an id of begunUpTo or more have not been delivered, and are not.
	ending    bool
	begunUpTo uint64

	now     time.Duration // since the window began; told by clock
	begun   time.Time
	resends resends
}

type entryState uint8

const (
	entryReady entryState = iota
	entryBlocked
	entryOut
	entryWaiting
	entrySpent
	entrySettled
)

// entry is one record of the window. Its delivery is dropped once settled, so that the payload can be freed.
type entry struct {
	delivery *messages.Delivery
	position leasestore.Checkpoint
	state    entryState
	attempt  int32
	lost     int32         // attempts that were not settled in time, and so have been repeated
	at       time.Duration // when it was last delivered or, once it was settled, when that was
	bytes    int
	arena    *arena
}

func newWindow(maxRecords, maxBytes int, perKeyOrder bool) *window {
	w := &window{maxRecords: maxRecords, maxBytes: maxBytes, perKeyOrder: perKeyOrder, resends: resends{limit: 1}}
	w.entries.first = 1
	if perKeyOrder {
		w.keys = make(map[string][]uint64)
	}
	return w
}

// nextID is the delivery id of the next record added.
func (w *window) nextID() uint64 { return w.entries.next() }

// room is how many records may be added now. While what is in flight is at its bound, one page may be read ahead, so that it is there when the
// subscriber settles; no more. Settled records behind one that is not count as read ahead.
func (w *window) room() int {
	ahead := w.buffered()
	full := w.out >= w.maxRecords || w.outBytes >= w.maxBytes || !w.nextFits()
	if (full && ahead > 0) || w.held-w.outBytes >= w.maxBytes {
		return 0
	}
	return max(0, w.maxRecords-ahead)
}

// readRoom is how many records may be read now: room, unless the memory of what is held says no. A record keeps all of its page, so a few may hold
// as much as a full window.
func (w *window) readRoom() int {
	if w.pinned-w.outBytes >= w.maxBytes {
		return 0
	}
	return w.room()
}

// nextFits: the next record to deliver, if there is one, fits into the bytes that may be in flight. One that is larger than the bound goes out
// when nothing else is.
func (w *window) nextFits() bool {
	return w.readyCount() == 0 || w.out == 0 || w.outBytes+w.entries.at(w.ready[w.readyAt]).bytes <= w.maxBytes
}

// roomAfter is readRoom as it will be when so many records, of a page of so many bytes, have been added and delivered: if all of them fit into what
// may be in flight, there is room for another page.
func (w *window) roomAfter(adding, bytes int) int {
	switch {
	case adding == 0:
		return w.readRoom()
	case w.out+w.buffered()+adding <= w.maxRecords && w.pinned+bytes < w.maxBytes:
		return w.maxRecords
	default:
		return 0
	}
}

// worthReading reports whether a read now would bring more than crumbs: at most half a window has been read ahead. A read costs
// one of the five calls per second however little it brings, so others wait a while for more room; not for ever, as the
// subscriber may be waiting for more records before it settles any.
func (w *window) worthReading() bool {
	room := w.readRoom()
	return room > 0 && room*2 >= w.maxRecords
}

// add appends a record read, of the page a; its delivery id is nextID.
func (w *window) add(d *messages.Delivery, a *arena) {
	id := w.entries.next()
	e := entry{
		delivery: d, bytes: len(d.Data) + envelopeSize(d.Headers) + len(d.PartitionKey), state: entryReady, arena: a,
		position: leasestore.AtSequence(d.SequenceNumber, d.SubSequenceNumber),
	}
	w.held += e.bytes
	a.hold()
	if !w.perKeyOrder {
		w.ready = append(w.ready, id)
	} else if behind, busy := w.keys[d.PartitionKey]; busy {
		e.state = entryBlocked
		w.keys[d.PartitionKey] = append(behind, id)
	} else {
		w.keys[d.PartitionKey] = nil
		w.ready = append(w.ready, id)
	}
	w.entries.push(e)
}

// next hands out the next record to deliver, or nil when there is none or what is in flight is at its bound. A record
// larger than the bound goes out when nothing else is.
func (w *window) next() *messages.Delivery {
	if w.readyAt == len(w.ready) || w.out >= w.maxRecords || !w.nextFits() {
		return nil
	}
	e := w.entries.at(w.ready[w.readyAt])
	w.popReady()
	e.state = entryOut
	e.attempt++
	e.at = w.now
	w.out++
	w.outBytes += e.bytes
	return e.deliver()
}

// pageOf is the page that a record in flight is of.
func (w *window) pageOf(d *messages.Delivery) *arena { return w.entries.at(d.DeliveryId).arena }

// deliver is the message for this attempt. A message that was sent is never written again, so a further attempt is a copy.
func (e *entry) deliver() *messages.Delivery {
	d := e.delivery
	if e.attempt == 1 {
		return d
	}
	return &messages.Delivery{
		Stream: d.Stream, ShardId: d.ShardId, SequenceNumber: d.SequenceNumber, SubSequenceNumber: d.SubSequenceNumber,
		PartitionKey: d.PartitionKey, Data: d.Data, Headers: d.Headers, ArrivalUnixMillis: d.ArrivalUnixMillis,
		Attempt: e.attempt, Generation: d.Generation, DeliveryId: d.DeliveryId,
	}
}

func (w *window) popReady() {
	w.readyAt++
	switch {
	case w.readyAt == len(w.ready):
		w.ready, w.readyAt = w.ready[:0], 0
	case w.readyAt >= 1024 && w.readyAt*2 >= len(w.ready):
		w.ready = w.ready[:copy(w.ready, w.ready[w.readyAt:])]
		w.readyAt = 0
	}
}

// settle applies an outcome to the records first to last, both inclusive. What is not in flight, never was, or is settled
// already is passed over. It returns how many records it changed.
func (w *window) settle(first, last uint64, outcome messages.Outcome, retryAt func(attempt int32) time.Time) int {
	if outcome != messages.Outcome_OUTCOME_ACK && outcome != messages.Outcome_OUTCOME_DROP && outcome != messages.Outcome_OUTCOME_RETRY {
		return 0 // not known here: the record stays in flight
	}
	first, last = max(first, w.entries.first), min(last, w.entries.next()-1)
	changed := 0
	for id := first; id <= last; id++ {
		e := w.entries.at(id)
		if e.state != entryOut {
			continue
		}
		changed++
		w.out--
		w.outBytes -= e.bytes
		w.noteAnswer(e)
		if outcome == messages.Outcome_OUTCOME_RETRY {
			e.state = entryWaiting
			heap.Push(&w.retries, retry{id: id, at: retryAt(e.answered())})
			continue
		}
		w.finish(e)
	}
	w.advance()
	return changed
}

// finish marks a record settled and lets the next one of its key go.
func (w *window) finish(e *entry) {
	w.settled++
	w.held -= e.bytes
	e.state = entrySettled
	key := e.delivery.PartitionKey
	e.delivery = nil
	e.arena.release()
	if !w.perKeyOrder {
		return
	}
	behind := w.keys[key]
	if len(behind) == 0 {
		delete(w.keys, key)
		return
	}
	if w.ending && behind[0] >= w.begunUpTo {
		return
	}
	w.entries.at(behind[0]).state = entryReady
	w.ready = append(w.ready, behind[0])
	w.keys[key] = behind[1:]
}

// advance moves the watermark over what is settled without a gap.
func (w *window) advance() {
	for w.entries.len() > 0 {
		e := w.entries.at(w.entries.first)
		if e.state != entrySettled {
			return
		}
		w.watermark = e.position
		w.noteLeft(e)
		w.entries.pop()
		if w.entries.len() == 0 {
			w.watermark = w.watermark.Clone() // it may stay for long, and would keep its page
		}
	}
}

// dueRetries makes the records whose pause is over ready again. Records that have had maxAttempts (0: no bound) are
// not; they are returned, and stay unsettled until settleSpent.
func (w *window) dueRetries(now time.Time, maxAttempts int32) (spent []*messages.Delivery) {
	for len(w.retries) > 0 && !w.retries[0].at.After(now) {
		r, _ := heap.Pop(&w.retries).(retry)
		e := w.entries.at(r.id)
		if maxAttempts > 0 && e.answered() >= maxAttempts {
			e.state = entrySpent
			spent = append(spent, e.deliver())
			continue
		}
		e.state = entryReady
		w.ready = append(w.ready, r.id)
	}
	return spent
}

// nextRetry is when the next pause ends.
func (w *window) nextRetry() (at time.Time, ok bool) {
	if len(w.retries) == 0 {
		return time.Time{}, false
	}
	return w.retries[0].at, true
}

// settleSpent drops a record that has spent its attempts and is taken care of.
func (w *window) settleSpent(id uint64) {
	if id < w.entries.first || id >= w.entries.next() {
		return
	}
	if e := w.entries.at(id); e.state == entrySpent {
		w.finish(e)
		w.advance()
	}
}

// giveUpUndelivered forgets the records behind the last that was delivered, and those that wait to be tried again, as a drain begins no more. What lies
// before that one and has not been delivered, because it waits behind its key, is still to be: else what was settled behind it would come
// again. What is unsettled in the end holds the watermark all the same.
func (w *window) giveUpUndelivered() {
	w.begunUpTo = w.entries.first
	for id := w.entries.first; id < w.entries.next(); id++ {
		if e := w.entries.at(id); e.attempt > 0 || e.state == entrySettled {
			w.begunUpTo = id + 1
		}
	}
	w.ending, w.retries = true, nil
	begun := slices.DeleteFunc(slices.Clone(w.ready[w.readyAt:]), func(id uint64) bool { return id >= w.begunUpTo })
	for _, id := range w.ready[w.readyAt:] {
		if id >= w.begunUpTo {
			w.entries.at(id).state = entryBlocked
		}
	}
	w.ready, w.readyAt = begun, 0
}

// readyCount is how many records could be delivered now, but for the bytes in flight.
func (w *window) readyCount() int { return len(w.ready) - w.readyAt }

// deliverable is how many records next would hand out now, but for the bytes in flight.
func (w *window) deliverable() int { return max(0, min(w.readyCount(), w.maxRecords-w.out)) }

func (w *window) empty() bool   { return w.entries.len() == 0 }
func (w *window) buffered() int { return w.entries.len() - w.out }

// ring is a queue of entries addressed by id: first is the id of the oldest. Its capacity is a power of two.
type ring struct {
	slots []entry
	first uint64
	count int
}

func (r *ring) len() int            { return r.count }
func (r *ring) next() uint64        { return r.first + uint64(r.count) }           //nolint:gosec // a length
func (r *ring) at(id uint64) *entry { return &r.slots[id&uint64(len(r.slots)-1)] } //nolint:gosec // a length

func (r *ring) push(e entry) {
	if r.count == len(r.slots) {
		r.grow()
	}
	*r.at(r.next()) = e
	r.count++
}

func (r *ring) pop() {
	*r.at(r.first) = entry{}
	r.first++
	r.count--
}

func (r *ring) grow() {
	bigger := ring{slots: make([]entry, max(16, 2*len(r.slots))), first: r.first, count: r.count}
	for id := r.first; id < r.next(); id++ {
		*bigger.at(id) = *r.at(id)
	}
	*r = bigger
}

// retry is a record waiting for its next delivery.
type retry struct {
	id uint64
	at time.Time
}

// retryHeap orders retries by time; heap.Interface.
type retryHeap []retry

func (h retryHeap) Len() int { return len(h) }
func (h retryHeap) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].id < h[j].id // a batch that is retried comes again in its order
	}
	return h[i].at.Before(h[j].at)
}
func (h retryHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *retryHeap) Push(x any)   { *h = append(*h, x.(retry)) } //nolint:forcetypeassert // heap.Interface
func (h *retryHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// respend lets a spent record that could not be taken care of wait, to be spent again at the given time.
func (w *window) respend(id uint64, at time.Time) {
	if id < w.entries.first || id >= w.entries.next() {
		return
	}
	if e := w.entries.at(id); e.state == entrySpent {
		e.state = entryWaiting
		heap.Push(&w.retries, retry{id: id, at: at})
	}
}
