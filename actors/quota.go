package actors

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/protokinesis/protokinesis/internal/kpl"
)

// quota bounds what all publishers of a stream hold unanswered, in records and bytes, and together with those of other streams what a broker's
// publishers hold in bytes. Actors are refused at once what does not fit; Go callers wait, in turn.
//
// Whoever takes a record in has made room for it before, and gives the room back when the record is settled.
type quota struct {
	maxRecords int
	maxBytes   int64
	all        *publishBudget

	mu      sync.Mutex
	records int
	bytes   int64
	waiting []*roomWaiter
}

// publishBudget is the bytes of all publishers of a broker.
type publishBudget struct {
	limit int64
	used  atomic.Int64
}

// roomWaiter is a Go caller that waits for room.
type roomWaiter struct {
	records int
	bytes   int64
	hash    *kpl.Hash // of the record; nil: there are several
	granted chan struct{}
}

// roomPoll is how often a waiter looks by itself: room that another stream has given back is told to nobody.
const roomPoll = 50 * time.Millisecond

// fits: what is more than a bound is let in alone.
func (q *quota) fits(records int, bytes int64) bool {
	if q.records > 0 && (q.records+records > q.maxRecords || q.bytes+bytes > q.maxBytes) {
		return false
	}
	if used := q.all.used.Add(bytes); used > q.all.limit && used > bytes {
		q.all.used.Add(-bytes)
		return false
	}
	q.records += records
	q.bytes += bytes
	return true
}

// try makes room at once, or not at all. It does not overtake those that wait.
func (q *quota) try(records int, bytes int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting) == 0 && q.fits(records, bytes)
}

// wait makes room, or returns the error of ctx.
func (q *quota) wait(ctx context.Context, records int, bytes int64, hash *kpl.Hash) error {
	w := &roomWaiter{records: records, bytes: bytes, hash: hash, granted: make(chan struct{})}
	q.mu.Lock()
	q.waiting = append(q.waiting, w)
	q.grant()
	q.mu.Unlock()
	poll := newLinger(roomPoll)
	defer poll.Stop()
	for {
		select {
		case <-w.granted:
			return nil
		case <-poll.C:
			q.release(0, 0)
			poll.Reset(roomPoll)
		case <-ctx.Done():
			if q.leave(w) {
				return ctx.Err()
			}
			return nil // it was granted at the same moment
		}
	}
}

// leave takes a waiter out; false: it has been granted.
func (q *quota) leave(w *roomWaiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, other := range q.waiting {
		if other == w {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
			q.grant()
			return true
		}
	}
	return false
}

// release gives room back.
func (q *quota) release(records int, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.records -= records
	q.bytes -= bytes
	q.all.used.Add(-bytes)
	q.grant()
}

func (q *quota) grant() {
	granted := 0
	for _, w := range q.waiting {
		if !q.fits(w.records, w.bytes) {
			break
		}
		close(w.granted)
		granted++
	}
	if granted > 0 {
		q.waiting = append(q.waiting[:0], q.waiting[granted:]...)
	}
}

// wanted is how much room Go callers wait for, but for records that would only go into a shard that takes no more.
func (q *quota) wanted(shut func(kpl.Hash) bool) (records int, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range q.waiting {
		if w.hash != nil && shut(*w.hash) {
			continue
		}
		records += w.records
		bytes += w.bytes
	}
	return records, bytes
}

// held is what is held now.
func (q *quota) held() (records int, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.records, q.bytes
}
