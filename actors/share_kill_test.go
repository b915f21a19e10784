package actors

import (
	"context"
	"fmt"
	"sync/atomic"
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

// The same when the node dies in the middle of a handover: it was offered a shard, had offered one, was just handed one, or has just taken it up.
func TestANodeDiesInAHandover(t *testing.T) {
	for name, at := range map[string]struct {
		dies string
		when func(c storeCall) bool
	}{
		"the receiver, offered one": {"new", func(c storeCall) bool { return c.op == "offer" }},
		"the donor, offering one":   {"a", func(c storeCall) bool { return c.op == "offer" && nodeOf(c.lease.Owner) == "a" }},
		"the receiver, handed one": {"new", func(c storeCall) bool {
			return c.op == "acquire" && nodeOf(c.to) == "new" && nodeOf(c.lease.Owner) != "new"
		}},
		"the receiver, taking one up": {"new", func(c storeCall) bool { return c.op == "acquire" && nodeOf(c.lease.Owner) == "new" }},
	} {
		for _, work := range []time.Duration{0, 5 * time.Second} {
			t.Run(fmt.Sprint(name, " ", work), func(t *testing.T) {
				inCrew(t, 6, func(cr *crew) {
					cr.join("a", "b")
					cr.pass(4 * time.Second)
					cr.works(work)
					cr.pass(time.Second)
					died := make(chan time.Time, 1)
					cr.ledger.onDone(func(c storeCall) {
						if len(died) == 0 && at.when(c) {
							cr.all[at.dies].process.kill()
							died <- time.Now()
						}
					})
					cr.spawn("new")
					cr.me.Request(cr.all["new"].broker, subscribeTo(testStream, cr.sub))
					cr.pass(25 * time.Second)
					delete(cr.living, at.dies)
					require.LessOrEqual(cr.t, cr.gap(<-died), takeoverTime)
					cr.calm()
				})
			})
		}
	}
}

// A look at the store gets no answer, as its packets are lost, while another node dies: the next look is not held up for as long as a call may take.
func TestALookThatHangsDoesNotHoldUpATakeover(t *testing.T) {
	inCrew(t, 4, func(cr *crew) {
		cr.join("a")
		var tap tapStore
		cr.spawn("b", tapped(&tap)).subscribe()
		cr.pass(4 * time.Second)
		cr.balanced()
		var hung atomic.Bool
		tap.onCall(func(ctx context.Context, c storeCall, do func(ctx context.Context) error) error {
			if c.op == "view" && hung.CompareAndSwap(false, true) {
				<-ctx.Done()
				return ctx.Err()
			}
			return do(ctx)
		})
		killed := time.Now()
		cr.kill("a")
		cr.pass(35 * time.Second)
		require.True(cr.t, hung.Load())
		require.Less(cr.t, cr.gap(killed), 20*time.Second)
		cr.calm()
	})
}

// A store that is slow to show what it holds is waited for.
func TestALookMayTakeLong(t *testing.T) {
	inCrew(t, 2, func(cr *crew) {
		var tap tapStore
		cr.join("a")
		cr.spawn("b", tapped(&tap)).subscribe()
		cr.pass(4 * time.Second)
		var shown atomic.Int32
		tap.onCall(func(ctx context.Context, c storeCall, do func(ctx context.Context) error) error {
			if c.op != "view" {
				return do(ctx)
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(9 * time.Second):
				shown.Add(1)
				return do(ctx)
			}
		})
		cr.kill("a")
		cr.pass(90 * time.Second)
		require.Positive(cr.t, shown.Load())
		cr.balanced()
		tap.onCall(nil)
		cr.calm()
	})
}
