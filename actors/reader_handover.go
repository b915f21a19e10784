package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// A shard that goes to another node so that both have their share is given right after a read of it. So it goes unread for no longer than the handover
// takes, not for what is left of the poll interval as well, and shards that are given at the same time don't all go to the store at once.

// lastReadWithin is how long a handover waits for a read.
const lastReadWithin = 1500 * time.Millisecond

// drainAfterRead puts a drain off until the read that is under way, or due soon, has been taken in; false if there is none. Any other drain takes its place.
func (r *reader) drainAfterRead(m drain) bool {
	f := &r.fetch
	due := f.calling || r.timers.armed(timerFetch) && time.Until(f.wake) < lastReadWithin
	if !m.afterRead || r.state != stateReading || f.push != nil || !due {
		return false
	}
	m.afterRead = false
	r.drain.after = &m
	r.timers.set(timerHandover, lastReadWithin)
	return true
}

// handover begins the drain that was put off.
func (r *reader) handover(c actor.Context) {
	if m := r.drain.after; m != nil && !r.drain.draining && !r.drain.ended {
		r.onDrain(c, *m)
	}
}
