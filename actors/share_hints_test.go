package actors

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

const fastPoll = 50 * time.Millisecond

func pollingFast(c *Config) { c.Timings.PollInterval = fastPoll }

// passFast is pass with a record in every shard every 100 ms.
func (cr *crew) passFast(d time.Duration) {
	cr.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		cr.putEach()
	}
}

// With hints a node that joins has its share within a second, one that leaves is replaced within one, and no shard is unread for half
// a second. Without, each sees it at its next look; one that joins looks more often until it has its share.
func TestHintsMakeHandoversQuick(t *testing.T) {
	for _, hints := range []bool{true, false} {
		t.Run(fmt.Sprint("hints=", hints), func(t *testing.T) {
			inCrew(t, 8, func(cr *crew) {
				cr.join("a", "b")
				cr.passFast(within(hints, 3*time.Second, 8*time.Second))
				cr.balanced()
				moves, began := cr.moves(), time.Now()
				cr.join("c")
				cr.passFast(within(hints, time.Second, 7*time.Second))
				cr.balanced()
				require.Equal(cr.t, 2, cr.moves()-moves, "the fewest")
				cr.passFast(time.Second)
				require.Less(cr.t, cr.gap(began), within(hints, 500*time.Millisecond, time.Second))
				moves, began = cr.moves(), time.Now()
				counts := cr.counts()
				cr.living["a"].leave()
				cr.passFast(within(hints, time.Second, 4*time.Second))
				cr.living["a"].closed()
				delete(cr.living, "a")
				cr.passFast(time.Second)
				require.Less(cr.t, cr.gap(began), within(hints, 500*time.Millisecond, 3500*time.Millisecond))
				require.Equal(cr.t, counts["a"], cr.moves()-moves, strings.Join(cr.history(""), "\n"))
				cr.calm()
				require.Zero(cr.t, cr.twice())
			}, pollingFast, func(c *Config) { c.quiet = !hints })
		})
	}
}

// A shard that changes hands for balance does so right after it was read, so that it goes unread for no longer than the handover takes. Each is polled once a
// second, at moments of its own, and there is a record to be read each time.
func TestAShardIsHandedOverRightAfterARead(t *testing.T) {
	inCrew(t, 8, func(cr *crew) {
		cr.join("a")
		cr.passFast(5 * time.Second)
		began := time.Now()
		cr.join("b")
		cr.passFast(8 * time.Second)
		cr.balanced()
		handed := 0
		for _, c := range cr.ledger.done() {
			if c.op != "acquire" || c.lease.Owner == "" || c.lease.Owner == c.to || c.at.Before(began) {
				continue
			}
			handed++
			var read time.Time
			for _, g := range cr.deliveries() {
				if g.d.GetShardId() == c.lease.Shard && !g.at.After(c.at) {
					read = g.at
				}
			}
			require.Less(cr.t, c.at.Sub(read), 100*time.Millisecond, c.lease.Shard)
		}
		require.Equal(cr.t, 4, handed)
		cr.calm()
		require.Zero(cr.t, cr.twice())
	})
}

// It does not wait for a read that hangs.
func TestAHandoverDoesNotWaitForAReadThatHangs(t *testing.T) {
	inCrew(t, 2, func(cr *crew) {
		cr.join("a")
		cr.passFast(5 * time.Second)
		hung := cr.service.Fault("GetRecords", kinesistest.Match{}, -1, kinesistest.Hang())
		cr.pass(time.Second)
		began := time.Now()
		cr.join("b")
		cr.pass(6 * time.Second)
		cr.balanced()
		for _, c := range cr.ledger.done() {
			if c.op == "acquire" && c.lease.Owner != "" && c.at.After(began) {
				require.Less(cr.t, c.at.Sub(began), 3*time.Second)
			}
		}
		hung.Clear()
	})
}

// A node that has less than its share looks more often while others may be about to give, and not for ever.
func TestANodeThatIsGivenNothingStopsLookingForIt(t *testing.T) {
	inCrew(t, 4, func(cr *crew) {
		cr.join("a")
		cr.pass(4 * time.Second)
		miser := leasestore.Member{ID: cr.all["a"].owner, Streams: []leasestore.StreamID{cr.streamID()}}
		cr.kill("a")
		keep := func(seconds int) {
			for range seconds {
				leases, err := cr.store.List(cr.t.Context(), cr.streamID())
				require.NoError(cr.t, err)
				for _, l := range leases {
					_, err := cr.store.Renew(cr.t.Context(), l)
					require.NoError(cr.t, err)
				}
				cr.beatOf(miser)
				time.Sleep(time.Second)
			}
		}
		keep(3)
		cr.join("b")
		keep(15)
		looks := cr.all["b"].tap.calls("view")
		require.LessOrEqual(cr.t, looks, 28, "twice a second for ten seconds")
		require.GreaterOrEqual(cr.t, looks, 16)
		keep(60)
		require.LessOrEqual(cr.t, cr.all["b"].tap.calls("view")-looks, 28, "every three seconds, and with each listing")
	})
}

// hints sends a hint to a node.
func (cr *crew) hint(to string, change func(h *messages.Hint)) {
	n := cr.all[to]
	streams, err := cr.store.Streams(cr.t.Context())
	require.NoError(cr.t, err)
	h := &messages.Hint{Kind: messages.HintKind_HINT_KIND_HANDED, To: n.owner, From: "stranger", Stream: streams[0].Stream.String()}
	change(h)
	cr.me.Send(n.broker, h)
}

// A flood of hints leads to a bounded number of looks, and hints for others to none.
func TestAFloodOfHints(t *testing.T) {
	inCrew(t, 3, func(cr *crew) {
		cr.join("a", "b")
		cr.pass(4 * time.Second)
		moves := cr.moves()
		looks := func(hint func()) int {
			time.Sleep(time.Until(cr.begun.Add(time.Since(cr.begun).Truncate(3*time.Second) + 3100*time.Millisecond))) // just after a look
			before := cr.all["a"].tap.calls("view")
			for range 1000 {
				for range 10 {
					hint()
				}
				time.Sleep(2 * time.Millisecond)
			}
			return cr.all["a"].tap.calls("view") - before
		}
		require.LessOrEqual(cr.t, looks(func() { cr.hint("a", func(*messages.Hint) {}) }), 21, "one in 100 ms")
		for what, change := range map[string]func(h *messages.Hint){
			"for another node":            func(h *messages.Hint) { h.To = cr.all["b"].owner },
			"for nobody":                  func(h *messages.Hint) { h.To = "" },
			"of another stream":           func(h *messages.Hint) { h.Stream = "arn:aws:kinesis:us-east-1:000000000000:stream/other@1" },
			"of no stream":                func(h *messages.Hint) { h.Stream = "" },
			"of the stream's former life": func(h *messages.Hint) { h.Stream += "0" },
		} {
			require.LessOrEqual(cr.t, looks(func() { cr.hint("a", change) }), 1, what)
		}
		cr.calm()
		require.Equal(cr.t, moves, cr.moves())
	})
}

// Hints that are false, of a kind unknown here, repeated, or that come before a node is connected or after it was shut down, do no harm.
func TestFalseHintsDoNoHarm(t *testing.T) {
	inCrew(t, 4, func(cr *crew) {
		cr.join("a")
		early := cr.spawn("c")
		lie := func() {
			for _, to := range []string{"a", "b", "c"} {
				if cr.all[to] == nil {
					continue
				}
				for kind := range messages.HintKind(12) {
					for _, from := range []string{"stranger", "", cr.all["a"].owner, early.owner} {
						cr.hint(to, func(h *messages.Hint) { h.Kind, h.From = kind, from })
					}
				}
			}
			cr.pass(250 * time.Millisecond)
		}
		for range 8 {
			lie()
		}
		cr.join("b")
		for range 8 {
			lie()
		}
		require.Equal(cr.t, 2, cr.moves())
		early.subscribe()
		for range 8 {
			lie()
		}
		require.Equal(cr.t, 3, cr.moves())
		cr.living["b"].leave()
		lie() // that others leave, too
		cr.living["b"].closed()
		delete(cr.living, "b")
		for range 20 {
			lie()
		}
		cr.calm()
		require.Zero(cr.t, cr.twice())
	})
}

// A node that is not connected yet has no use for hints.
func TestHintsBeforeConnect(t *testing.T) {
	inCrew(t, 1, func(cr *crew) {
		cr.me.Send(cr.broker, &messages.Hint{Kind: messages.HintKind_HINT_KIND_OFFERED})
		cr.me.Request(cr.broker, &messages.Connect{})
		probe.Expect[*messages.Connected](cr.me)
		cr.me.Send(cr.broker, &messages.Hint{Kind: messages.HintKind_HINT_KIND_OFFERED, To: "x", Stream: "y"})
		cr.join("a")
		cr.calm()
	})
}
