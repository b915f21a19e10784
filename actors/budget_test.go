package actors

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// Whatever the readers do, the budget is the sum of what they hold and expect, and nothing when all have stopped.
func TestBudgetIsTheSumOfItsShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := &budget{limit: 50 << 20}
		shares := []*share{newShare(b), newShare(b), newShare(b)}
		for range rapid.IntRange(0, 50).Draw(t, "steps") {
			s := rapid.SampledFrom(shares).Draw(t, "share")
			switch rapid.SampledFrom([]string{"reserve", "arrived", "failed", "holds", "free"}).Draw(t, "step") {
			case "reserve":
				if s.reserved == 0 && s.reserve() {
					require.LessOrEqual(t, b.used.Load(), b.limit)
				}
			case "arrived":
				s.arrived(rapid.IntRange(0, maxPage).Draw(t, "page"))
			case "failed":
				s.failed()
			case "holds":
				s.holds(rapid.IntRange(0, maxPage).Draw(t, "held"))
			case "free":
				s.free()
			}
			sum := int64(0)
			for _, s := range shares {
				sum += s.held + s.reserved
			}
			require.Equal(t, sum, b.used.Load())
		}
		for _, s := range shares {
			s.free()
		}
		require.Zero(t, b.used.Load())
	})
}

// D6: many shards with large pages and a subscriber that settles nothing: together they hold the budget, a page for each read that was under way at
// its end, and a few records each. When it settles, all comes, from every shard.
func TestShardsHoldABudgetTogether(t *testing.T) {
	const shards, records, size = 40, 1200, 20 << 10
	all := &budget{limit: 12 << 20}
	inBubble(t, shards, func(w *world) {
		for i := range records {
			w.put(fmt.Sprint(i), strings.Repeat("x", size))
		}
		w.open(horizon)
		time.Sleep(5 * time.Minute)
		total, read := 0, w.served()
		for _, n := range read {
			total += n
		}
		require.Len(w.t, read, shards, "each shard is read")
		require.LessOrEqual(w.t, total*size, (12<<20)+shards*fewRecords*size)
		require.GreaterOrEqual(w.t, total*size, 6<<20, "and the budget is used")
		w.takeAll(records)
		time.Sleep(2 * time.Second)
		require.Zero(w.t, all.used.Load(), "what is settled is given back")
	}, func(c *Config) { c.budget = all })
}

// What a reader held is given back when it panics, is stopped, or moved.
func TestBudgetIsGivenBack(t *testing.T) {
	p, all := &panicker{}, &budget{limit: 1 << 30}
	inBubble(t, 2, func(w *world) {
		opened := w.open(horizon)
		for i := range 20 {
			w.put(fmt.Sprint(i), "x")
		}
		time.Sleep(2 * time.Second)
		held := all.used.Load()
		require.Positive(w.t, held)
		p.arm(roleReader, 1)
		time.Sleep(30 * time.Second)
		require.Zero(w.t, p.pending())
		require.Equal(w.t, held, all.used.Load(), "its successor reads the same again")
		w.me.Request(opened.GetSubscription(), &messages.Seek{To: toTip()})
		probe.Expect[*messages.Sought](w.me)
		time.Sleep(5 * time.Second)
		require.Zero(w.t, all.used.Load())
		for i := range 20 {
			w.put(fmt.Sprint(i), "x")
		}
		time.Sleep(2 * time.Second)
		require.Positive(w.t, all.used.Load())
		w.crash()
		require.Zero(w.t, all.used.Load())
	}, p.install, func(c *Config) { c.budget = all })
}
