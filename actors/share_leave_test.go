package actors

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// leaveTogether begins to shut nodes down at the same instant, and waits for their ends.
func (cr *crew) leaveTogether(names ...string) {
	cr.t.Helper()
	for _, name := range names {
		cr.living[name].leave()
	}
	for _, name := range names {
		probe.Fish(cr.me, func(*messages.Closed) bool { return true })
		delete(cr.living, name)
	}
}

// unread are the shards that the next node can't read at once: somebody seems to have them.
func (cr *crew) held() (held []string) {
	for _, s := range cr.service.Shards(testStream) {
		if l := cr.lease(s.ID); l.Owner != "" && cr.living[nodeOf(l.Owner)] == nil && !l.Checkpoint.IsShardEnd() {
			held = append(held, s.ID+" of "+l.Owner)
		}
	}
	return held
}

// Nodes that leave at the same instant hand nothing to each other that stays there: who comes next reads at once.
func TestNodesLeaveTogether(t *testing.T) {
	for _, hints := range []bool{true, false} {
		for _, work := range []time.Duration{0, 700 * time.Millisecond} {
			for _, stays := range []bool{false, true} {
				t.Run(fmt.Sprintf("hints=%v work=%v stays=%v", hints, work, stays), func(t *testing.T) {
					inCrew(t, 9, func(cr *crew) {
						cr.join("a", "b", "c")
						if stays {
							cr.join("d")
						}
						cr.pass(within(hints, 3*time.Second, 8*time.Second))
						cr.balanced()
						cr.works(work)
						cr.pass(2 * time.Second)
						began := time.Now()
						cr.leaveTogether("a", "b", "c")
						require.LessOrEqual(cr.t, time.Since(began), 2*time.Second)
						require.Empty(cr.t, cr.held(), "%v", cr.history(""))
						if !stays {
							cr.join("d")
						}
						cr.pass(4 * time.Second)
						require.LessOrEqual(cr.t, cr.gap(began), within(hints, 3*time.Second, 5*time.Second))
						cr.calm()
						require.Zero(cr.t, cr.twice())
					}, func(c *Config) { c.quiet = !hints })
				})
			}
		}
	}
}
