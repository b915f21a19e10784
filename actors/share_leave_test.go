package actors

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Nodes that are stopped one right after the other, as in a rolling deployment, hand nothing to one that has ended, and the last one gives
// back also what it was handed and did not know of yet.
func TestNodesThatLeaveOneAfterTheOther(t *testing.T) {
	for _, hints := range []bool{true, false} {
		t.Run(fmt.Sprintf("hints=%v", hints), func(t *testing.T) {
			inBubble(t, 12, func(w *world) {
				l := &fleetLog{w: w}
				a := w.join("a").subscribe(horizon)
				b, c := w.join("b").subscribe(), w.join("c").subscribe()
				l.pass(20 * time.Second)
				require.Equal(w.t, map[string]int{a.owner: 4, b.owner: 4, c.owner: 4}, w.owned(12))
				l.check(0) // nothing is in flight
				a.leave()
				a.closed()
				b.leave()
				b.closed()
				require.Equal(w.t, map[string]int{c.owner: 12}, w.owned(12))
				c.leave()
				c.closed()
				require.Equal(w.t, map[string]int{"": 12}, w.owned(12))
			}, func(c *Config) { c.quiet = !hints })
		})
	}
}
