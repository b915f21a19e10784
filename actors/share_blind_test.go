package actors

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A node's coordinator starts again, and can't open the stream for a while as the service does not answer it. It is no member of the stream until it
// can: whatever it were handed, nobody would read.
func TestANodeThatCannotOpenItsSubscriptionAgainIsHandedNothing(t *testing.T) {
	inCrew(t, 4, func(cr *crew) {
		var breaks, blind atomic.Bool
		cr.join("a")
		b := cr.spawn("b", func(c *Config) {
			c.intercept = func(r role, _ any) {
				if r == roleCoordinator && breaks.CompareAndSwap(true, false) {
					panic(errors.New("injected"))
				}
			}
		})
		b.hold.Store(new(func(op string) {
			if blind.Load() && op == "DescribeStreamSummary" {
				panic(errors.New("no route"))
			}
		}))
		b.subscribe()
		cr.pass(4 * time.Second)
		cr.balanced()
		blind.Store(true)
		breaks.Store(true)
		cr.pass(takeoverTime + 2*time.Second)
		began := time.Now()
		cr.pass(60 * time.Second)
		require.Equal(cr.t, map[string]int{"a": 4}, cr.ownersOf(testStream), "%v", cr.history(""))
		require.Less(cr.t, cr.gap(began), 2*time.Second)
		blind.Store(false)
		cr.pass(20 * time.Second)
		cr.balanced()
		cr.calm()
	})
}
