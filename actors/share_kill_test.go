package actors

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// takeoverTime is how long the shards of a dead node may be unread: a ttl, and a look.
const takeoverTime = 13 * time.Second

// L7: of three nodes one dies without a word, at any moment between two signs of life. Every shard is read again within a ttl and a look; what comes
// twice was not settled, or not saved yet.
func TestADeadNodesShardsAreReadAgainInTime(t *testing.T) {
	for _, after := range []time.Duration{0, 700 * time.Millisecond, 1400 * time.Millisecond, 2100 * time.Millisecond, 2900 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			inCrew(t, 12, func(cr *crew) {
				cr.join("a", "b", "c")
				cr.pass(10*time.Second + after)
				cr.balanced()
				moves, died := cr.moves(), time.Now()
				cr.kill("b")
				cr.pass(15 * time.Second)
				require.LessOrEqual(cr.t, cr.gap(died), takeoverTime)
				require.Equal(cr.t, 4, cr.moves()-moves, "only what was the dead node's moves")
				cr.calm()
				require.Empty(cr.t, cr.again(died.Add(-1100*time.Millisecond)), "saved a second before")
			})
		})
	}
}
