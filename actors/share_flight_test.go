package actors

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// L9: records that are never settled do not hold a handover up for longer than HandoverTimeout. They come again at the receiver, and who
// settles them late changes nothing.
func TestRecordsInFlightThatNeverSettle(t *testing.T) {
	for _, timeout := range []time.Duration{0, 2 * time.Second} { // 0 is the default, 10 s
		inCrew(t, 2, func(cr *crew) {
			cr.join("a")
			cr.pass(2 * time.Second)
			cr.worksLike(func(g gotten) time.Duration {
				if g.by == "a" {
					return 20 * time.Second // long after the handover
				}
				return -1 // b does not settle at all
			})
			cr.pass(3 * time.Second)
			cr.join("b")
			cr.pass(15 * time.Second)
			offered, handed := cr.handover()
			want := timeout
			if want == 0 {
				want = 10 * time.Second
			}
			require.Equal(cr.t, want, handed.at.Sub(offered.at))
			again := 0
			for _, g := range cr.deliveries() {
				if g.by == "b" && g.at.Before(handed.at.Add(2*time.Second)) && cr.puts[numberOf(g.d)].Before(offered.at) {
					again++
				}
			}
			require.Positive(cr.t, again, "what was in flight comes again")
			settled := cr.lease(handed.lease.Shard).Checkpoint
			time.Sleep(10 * time.Second) // a's deliveries are acked meanwhile, to a
			require.Positive(cr.t, cr.ackedCount())
			require.Equal(cr.t, settled, cr.lease(handed.lease.Shard).Checkpoint, "late settlements change nothing")
			cr.check()
			require.NotEmpty(cr.t, cr.goes("b", 0)) // what it has in flight comes a third time, at a
			cr.calm()
		}, func(c *Config) { c.Timings.HandoverTimeout = timeout })
	}
}

// handover are the offer and the last write of the only handover so far.
func (cr *crew) handover() (offered, handed storeCall) {
	cr.t.Helper()
	for _, c := range cr.ledger.done() {
		switch {
		case c.op == "offer" && c.to != "":
			require.Empty(cr.t, offered.op, "a second offer")
			offered = c
		case c.op == "acquire" && c.lease.Owner != "" && c.lease.Owner != c.to:
			require.Empty(cr.t, handed.op, "a second move")
			handed = c
		}
	}
	require.NotEmpty(cr.t, offered.op)
	require.NotEmpty(cr.t, handed.op)
	return offered, handed
}

// L9: a handler that takes five seconds is waited for, and no record comes twice.
func TestASlowHandlerIsWaitedFor(t *testing.T) {
	inCrew(t, 4, func(cr *crew) {
		cr.join("a")
		cr.works(5 * time.Second)
		cr.pass(6 * time.Second)
		cr.join("b", "c")
		cr.pass(12 * time.Second)
		cr.balanced()
		require.Equal(cr.t, 2, cr.moves())
		began := time.Now()
		cr.leave("b")
		require.LessOrEqual(cr.t, time.Since(began), 5100*time.Millisecond, "the last was delivered just before")
		require.GreaterOrEqual(cr.t, time.Since(began), 3900*time.Millisecond, "or a poll earlier")
		cr.calm()
		require.Zero(cr.t, cr.twice())
	})
}
