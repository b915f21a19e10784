package actors

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What did not settle before a shard was handed over comes again at its new owner. It is no unfinished work of the node that gave it, which may
// end long after.
func TestHandoversInThePastAreNoUnfinishedWork(t *testing.T) {
	inBubble(t, 4, func(w *world) {
		l := &fleetLog{w: w, left: map[string]bool{"a": true}}
		a := w.join("a").subscribe(horizon)
		for i := range 40 {
			w.put(fmt.Sprint(i), fmt.Sprint(i))
		}
		time.Sleep(time.Second)
		l.take()
		b := w.join("b").subscribe()
		time.Sleep(defaultHandoverTimeout + 5*time.Second)
		require.Equal(w.t, map[string]int{a.owner: 2, b.owner: 2}, w.owned(4))
		l.left["a"] = false
		l.take()
		for _, g := range l.got {
			w.system.Root.Send(g.reader, g.d.Ack())
		}
		time.Sleep(time.Second)
		a.leave()
		a.closed()
	})
}
