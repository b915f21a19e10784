package actors

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// handoverStages are the moments of a handover from a to new, by the write that has just been done.
var handoverStages = map[string]func(c storeCall) bool{
	"offered": func(c storeCall) bool { return c.op == "offer" },
	"settled": func(c storeCall) bool { return c.op == "checkpoint" && c.lease.Next != "" },
	"handed": func(c storeCall) bool {
		return c.op == "acquire" && nodeOf(c.lease.Owner) == "a" && nodeOf(c.to) == "new"
	},
	"taken up": func(c storeCall) bool {
		return c.op == "acquire" && nodeOf(c.lease.Owner) == "new" && nodeOf(c.to) == "new"
	},
}

// L20: the donor or the receiver of a handover stands still for 30 s at any stage of it. When it goes on, it writes nothing over what others wrote,
// and delivers of no shard that is another's; then it has its share again.
func TestAZombieInAHandover(t *testing.T) {
	for stage, is := range handoverStages {
		for _, who := range []string{"a", "new"} {
			t.Run(fmt.Sprint(who, " ", stage), func(t *testing.T) {
				inCrew(t, 4, func(cr *crew) {
					cr.join("a")
					cr.pass(2 * time.Second)
					cr.works(1500 * time.Millisecond) // longer than a poll: some are in flight
					cr.pass(2 * time.Second)
					stopped := make(chan bool, 1)
					cr.ledger.onDone(func(c storeCall) {
						if len(stopped) == 0 && is(c) {
							stopped <- true
							cr.all[who].shut()
						}
					})
					cr.spawn("new")
					cr.me.Request(cr.all["new"].broker, subscribeTo(testStream, cr.sub))
					cr.pass(5 * time.Second)
					require.Len(cr.t, stopped, 1)
					began := time.Now()
					cr.pass(25 * time.Second)
					require.LessOrEqual(cr.t, cr.gap(began), takeoverTime)
					for _, l := range cr.counts() {
						require.Contains(cr.t, []int{0, 4}, l, "the other has all")
					}
					writes := len(cr.all[who].tap.done())
					resumed := time.Now()
					cr.all[who].process.open()
					cr.pass(100 * time.Millisecond)
					for _, c := range cr.all[who].tap.done()[writes:] {
						require.NotEqual(cr.t, "checkpoint", c.op, "%v: a late write was applied", c.at)
					}
					cr.pass(12 * time.Second)
					cr.calm()
					require.Empty(cr.t, cr.again(resumed.Add(-30*time.Second-1500*time.Millisecond)), "saved before it stood still")
				})
			})
		}
	}
}
