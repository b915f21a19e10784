package actors

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
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

// A node that ends before it can know that another has been dead for long hands it nothing: that one has shown no sign of life in all the time.
func TestANodeThatLeavesSoonPassesOverTheDead(t *testing.T) {
	inCrew(t, 4, func(cr *crew) {
		cr.join("a", "b")
		cr.pass(4 * time.Second)
		cr.kill("b")
		cr.pass(30 * time.Second)
		cr.join("c")
		cr.pass(7 * time.Second)
		cr.balanced()
		began := time.Now()
		cr.leave("c")
		require.Empty(cr.t, cr.held())
		cr.pass(3 * time.Second)
		require.Less(cr.t, cr.gap(began), 2*time.Second)
		cr.calm()
	})
}

// A node leaves while another is about to hand it shards, with records in flight. With hints they go elsewhere at once; without, they
// are handed to a node that is gone, and taken back.
func TestANodeLeavesThatIsBeingHandedShards(t *testing.T) {
	for _, hints := range []bool{true, false} {
		for _, after := range []time.Duration{100 * time.Millisecond, 1900 * time.Millisecond, 2050 * time.Millisecond} {
			t.Run(fmt.Sprint("hints=", hints, " ", after), func(t *testing.T) {
				inCrew(t, 4, func(cr *crew) {
					cr.join("a", "b")
					cr.pass(within(hints, 3*time.Second, 8*time.Second))
					cr.works(2 * time.Second)
					cr.pass(3 * time.Second)
					offered := make(chan bool, 10)
					cr.ledger.onDone(func(c storeCall) {
						if c.op == "offer" {
							offered <- true
						}
					})
					cr.join("c")
					<-offered
					time.Sleep(after)
					began := time.Now()
					cr.living["c"].leave()
					delete(cr.living, "c")
					cr.pass(16 * time.Second)
					probe.Fish(cr.me, func(*messages.Closed) bool { return true })
					require.LessOrEqual(cr.t, cr.gap(began), within(hints, 4*time.Second, 8*time.Second))
					cr.calm()
					require.Zero(cr.t, cr.twice())
				}, func(c *Config) { c.quiet = !hints })
			})
		}
	}
}

// A shutdown that does not wait hands over too; what was in flight comes again at the heirs.
func TestShutdownWithoutWaitingHandsOver(t *testing.T) {
	inCrew(t, 6, func(cr *crew) {
		cr.join("a", "b", "c")
		cr.pass(3 * time.Second)
		cr.balanced()
		cr.works(5 * time.Second)
		cr.pass(3 * time.Second)
		began := time.Now()
		unfinished := cr.goes("b", 0)
		require.Less(cr.t, time.Since(began), 100*time.Millisecond)
		require.Len(cr.t, unfinished, 2, "each of its shards had records in flight")
		require.Empty(cr.t, cr.held())
		cr.pass(8 * time.Second)
		require.Less(cr.t, cr.gap(began), 2*time.Second)
		cr.calm()
	})
}

// The store hangs as a node is shut down: it ends within its bounds, and its shards are taken over.
func TestShutdownWithAStoreThatHangs(t *testing.T) {
	for _, timeout := range []time.Duration{0, 5 * time.Second} {
		inCrew(t, 4, func(cr *crew) {
			cr.join("a")
			var tap tapStore
			cr.spawn("b", tapped(&tap)).subscribe()
			cr.pass(4 * time.Second)
			cr.balanced()
			began := time.Now()
			tap.onCall(func(ctx context.Context, _ storeCall, _ func(ctx context.Context) error) error {
				<-ctx.Done()
				return ctx.Err()
			})
			cr.me.Request(cr.living["b"].broker, &messages.Shutdown{Timeout: durationOf(timeout)})
			delete(cr.living, "b")
			cr.pass(16 * time.Second)
			closed := probe.Fish(cr.me, func(*messages.Closed) bool { return true })
			require.NotEmpty(cr.t, closed.GetUnfinished())
			require.LessOrEqual(cr.t, cr.gap(began), takeoverTime+time.Second)
			cr.calm()
		})
	}
}

// A node that unsubscribes from one of two streams hands over the shards of that one, and remains a member of the other.
func TestUnsubscribeHandsOverOneStream(t *testing.T) {
	inCrew(t, 4, func(cr *crew) {
		require.NoError(cr.t, cr.service.CreateStream("other", 4))
		cr.join("a", "b")
		cr.pass(3 * time.Second)
		for _, name := range []string{"a", "b"} {
			cr.me.Request(cr.living[name].broker, subscribeTo("other", cr.sub))
			probe.Fish(cr.me, func(*messages.Subscribed) bool { return true })
		}
		cr.pass(4 * time.Second)
		require.Equal(cr.t, map[string]int{"a": 2, "b": 2}, cr.ownersOf("other"))
		cr.balanced()
		began := time.Now()
		cr.me.Request(cr.living["b"].opened.GetSubscription(), &messages.Unsubscribe{})
		probe.Fish(cr.me, func(*messages.Unsubscribed) bool { return true })
		require.Equal(cr.t, map[string]int{"a": 4}, cr.ownersOf(testStream))
		require.Equal(cr.t, map[string]int{"a": 2, "b": 2}, cr.ownersOf("other"))
		cr.pass(20 * time.Second)
		require.Less(cr.t, cr.gap(began), 2*time.Second)
		require.Equal(cr.t, map[string]int{"a": 4}, cr.ownersOf(testStream), "it wants none of them any more")
		require.Equal(cr.t, map[string]int{"a": 2, "b": 2}, cr.ownersOf("other"))
		cr.living["b"].subscribe()
		cr.calm()
		require.Zero(cr.t, cr.twice())
	})
}

// ownersOf counts the shards of a stream by node.
func (cr *crew) ownersOf(stream string) map[string]int {
	cr.t.Helper()
	counts := make(map[string]int)
	streams, err := cr.store.Streams(cr.t.Context())
	require.NoError(cr.t, err)
	for _, st := range streams {
		if !strings.HasSuffix(st.Stream.Name, "/"+stream) {
			continue
		}
		rows, err := cr.store.List(cr.t.Context(), st.Stream)
		require.NoError(cr.t, err)
		for _, row := range rows {
			counts[nodeOf(row.Owner)]++
		}
	}
	return counts
}

// A node's row goes when it leaves. That of a node that died is removed when it has been silent for long; should it come to life after that, its
// row comes back, and it gets a share again.
func TestRowsOfMembers(t *testing.T) {
	inCrew(t, 4, func(cr *crew) {
		cr.join("a", "b", "c")
		cr.pass(3 * time.Second)
		require.Equal(cr.t, []string{"a", "b", "c"}, cr.members())
		cr.leave("b")
		require.Equal(cr.t, []string{"a", "c"}, cr.members())
		cr.living["c"].shut()
		time.Sleep(80 * time.Second)
		require.Equal(cr.t, []string{"a", "c"}, cr.members())
		time.Sleep(40 * time.Second)
		require.Equal(cr.t, []string{"a"}, cr.members())
		require.Equal(cr.t, map[string]int{"a": 4}, cr.ownersOf(testStream))
		cr.living["c"].open()
		cr.pass(8 * time.Second)
		require.Equal(cr.t, []string{"a", "c"}, cr.members())
		cr.calm()
	})
}

func (cr *crew) members() (names []string) {
	cr.t.Helper()
	view, err := cr.store.View(cr.t.Context(), leasestore.StreamID{})
	require.NoError(cr.t, err)
	for _, m := range view.Members {
		names = append(names, nodeOf(m.ID))
	}
	return names
}
