package actors

import (
	"slices"
	"time"

	"github.com/protokinesis/protokinesis/messages"
)

// Deliveries to another node can be lost, and so can their settlements. What is not settled for a while is delivered again, as it is in flight still: with
// the same id, so that whichever settlement comes counts.
//
// A subscriber that is slow must not be sent everything twice for it. As subscribers handle what they are sent more or less in its order, a record's
// time only runs while nothing that was read before it is settled. And one that has stopped must not be sent the window over and
// over: first one record comes again, and only when such a record has been settled, two may, and so on.

// resends is what a window knows of deliveries that may have been lost.
type resends struct {
	limit    int           // how many may come again at once
	answered bool          // a record that came again was settled since the last round
	left     time.Duration // when the last record was settled of those that have left the window, and had not come again
}

// clock tells the window what time it is; it has none of its own.
func (w *window) clock(now time.Time) {
	if w.begun.IsZero() {
		w.begun = now
	}
	w.now = now.Sub(w.begun)
}

// answered is how many of the attempts the subscriber has settled, the last included: those that count for its patience.
func (e *entry) answered() int32 { return e.attempt - e.lost }

// noteAnswer: the record was settled just now.
func (w *window) noteAnswer(e *entry) {
	e.at = w.now
	if e.lost > 0 {
		w.resends.answered = true
		w.resends.limit++
	}
}

// noteLeft: a settled record leaves the window. Those that came again say nothing of how far the subscriber is.
func (w *window) noteLeft(e *entry) {
	if e.lost == 0 {
		w.resends.left = max(w.resends.left, e.at)
	}
}

// newRound begins anew with one record, unless those that came again since the last round found an answer.
func (w *window) newRound() {
	if !w.resends.answered {
		w.resends.limit = 1
	}
	w.resends.answered = false
}

// overdue takes the records that are to come again now, those that did so least often first. next is how long until it is worth looking again; when some
// come again, their settlement is the better moment.
func (w *window) overdue(after time.Duration) (again []*messages.Delivery, next time.Duration) {
	due, next := w.findOverdue(after)
	slices.SortStableFunc(due, func(a, b uint64) int { return int(w.entries.at(a).lost - w.entries.at(b).lost) })
	for _, id := range due[:min(len(due), w.resends.limit)] {
		e := w.entries.at(id)
		e.attempt++
		e.lost++
		e.at = w.now
		again = append(again, e.deliver())
		next = after
	}
	return again, next
}

// findOverdue looks at all records in flight, in order.
func (w *window) findOverdue(after time.Duration) (due []uint64, next time.Duration) {
	progress := w.resends.left
	next = after
	for id := w.entries.first; id < w.entries.next(); id++ {
		e := w.entries.at(id)
		switch e.state {
		case entrySettled, entryWaiting, entrySpent:
			if e.lost == 0 {
				progress = max(progress, e.at)
			}
		case entryOut:
			if wait := max(progress, e.at) + after - w.now; wait > 0 {
				next = min(next, wait)
			} else {
				due = append(due, id)
			}
		case entryReady, entryBlocked:
		}
	}
	return due, next
}
