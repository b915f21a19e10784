package actors

import "github.com/asynkron/protoactor-go/actor"

const (
	// envelopeBlock is how many records' envelopes share a block of memory at most, and so how long one of them can hold the others.
	envelopeBlock = 64
	fewEnvelopes  = 8
	// idleEnvelopes is how many bytes of pages that are settled a block may keep.
	idleEnvelopes = 64 << 10
)

// envelopes are for the next deliveries. Those of the block that were used keep their records, settled or not.
type envelopes struct {
	left  []actor.MessageEnvelope
	pages []*arena // of the records in those that were used
}

// next is for a record of a page; so many more can be sent now.
func (e *envelopes) next(page *arena, more int) *actor.MessageEnvelope {
	if len(e.left) == 0 {
		e.left, e.pages = make([]actor.MessageEnvelope, min(envelopeBlock, more+fewEnvelopes)), e.pages[:0]
	}
	if n := len(e.pages); n == 0 || e.pages[n-1] != page {
		e.pages = append(e.pages, page)
	}
	env := &e.left[0]
	e.left = e.left[1:]
	return env
}

// trim gives the block up if it keeps more than a little that is counted no more.
func (e *envelopes) trim() {
	idle := 0
	for _, page := range e.pages {
		if page.holders == 0 {
			idle += page.bytes
		}
	}
	if idle > idleEnvelopes {
		*e = envelopes{}
	}
}
