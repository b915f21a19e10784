package actors

import (
	"slices"
	"sync"
	"time"
)

// turnstile bounds how many calls of a kind a broker's readers have under way at a time; those beyond it come in turn. Thousands of shards that all begin at
// once, after a start or when the service has been out of reach, would otherwise open thousands of connections at once.
//
// A call that takes long gives its place away: shards that the service leaves without an answer are not to hold up the others.
type turnstile struct {
	limit int // below 1: none

	mu      sync.Mutex
	in      int
	waiting []*turn // from at on
	at      int
}

// turnPatience is for how long a call has its place.
const turnPatience = 2 * time.Second

// turn is one reader's at a turnstile: of the call that it is about to make.
type turn struct {
	of    *turnstile
	tell  func() // the place is there
	state turnState
}

type turnState uint8

const (
	turnNone turnState = iota
	turnWaiting
	turnHeld // a place, for a call that has not begun
)

func newTurnstile(limit int) *turnstile { return &turnstile{limit: limit} }

func (s *turnstile) newTurn(tell func()) *turn { return &turn{of: s, tell: tell} }

// take reports whether the call may be made now; then the place is the call's, which ends with the function returned. Else tell is called when
// it is this turn's.
func (t *turn) take() (done func(), ok bool) {
	s := t.of
	if s.limit < 1 {
		return func() {}, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case t.state == turnHeld:
		t.state = turnNone
	case t.state == turnNone && s.in < s.limit:
		s.in++
	case t.state == turnNone:
		t.state = turnWaiting
		s.waiting = append(s.waiting, t)
		return nil, false
	default:
		return nil, false
	}
	leave := sync.OnceFunc(s.leave)
	late := afterUnlessStopped(turnPatience, leave)
	return func() {
		late.Stop()
		leave()
	}, true
}

// drop gives up a place that is waited for, or was given.
func (t *turn) drop() {
	if t != nil {
		t.end(turnWaiting) // it will be passed over
		t.unused()
	}
}

// unused gives up a place that was given. To wait goes on: word of a place may come late, when it has been used and the next is waited for.
func (t *turn) unused() {
	if t.end(turnHeld) {
		t.of.leave()
	}
}

// end reports whether the turn was in a state, which it leaves.
func (t *turn) end(in turnState) bool {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	if t.state != in {
		return false
	}
	t.state = turnNone
	return true
}

// leave gives a place to who has waited longest.
func (s *turnstile) leave() {
	s.mu.Lock()
	var next *turn
	for s.at < len(s.waiting) && next == nil {
		t := s.waiting[s.at]
		s.waiting[s.at] = nil
		s.at++
		if t.state == turnWaiting {
			t.state, next = turnHeld, t
		}
	}
	if s.at*2 >= len(s.waiting) {
		s.waiting, s.at = slices.Delete(s.waiting, 0, s.at), 0
	}
	if next == nil {
		s.in--
	}
	s.mu.Unlock()
	if next != nil {
		next.tell()
	}
}
