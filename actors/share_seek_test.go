package actors

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// seek asks a node to, and returns its answer.
func (cr *crew) seek(node string, to *messages.Position) any {
	cr.t.Helper()
	clerk := probe.New(cr.t, cr.system, fmt.Sprint("clerk-", nextGeneration()))
	clerk.SetTimeout(2 * time.Minute)
	clerk.Request(cr.all[node].broker, &messages.Seek{Stream: testStream, To: to})
	return probe.Fish(clerk, func(m any) bool {
		switch m.(type) {
		case *messages.Sought, *messages.Error:
			return true
		}
		return false
	})
}

// onceMore requires that each of the first n records was delivered since then.
func (cr *crew) onceMore(n int, since time.Time) {
	cr.t.Helper()
	all := cr.puts
	cr.puts = all[:n]
	defer func() { cr.puts = all }()
	require.Empty(cr.t, cr.lost(since), "not delivered again")
}

// inGenerations requires that in each generation of a shard the records are delivered in order: a seek makes others come between.
func (cr *crew) inGenerations() {
	cr.t.Helper()
	require.Empty(cr.t, cr.jumps())
}

func (cr *crew) jumps() (wrong []string) {
	last := make(map[string]int)
	for _, g := range cr.deliveries() {
		if key := fmt.Sprint(g.d.GetShardId(), g.d.GetGeneration(), g.d.GetPartitionKey()); g.d.GetAttempt() == 1 {
			if numberOf(g.d) < last[key] {
				wrong = append(wrong, fmt.Sprintf("%v, after %d", g, last[key]))
			}
			last[key] = numberOf(g.d)
		}
	}
	return wrong
}

// A seek of the whole stream while shards are being handed over, asked of the donor or the receiver, just as they are offered, during the
// wait for what is in flight, or just as they arrive: every record comes again, whoever has its shard by then.
func TestASeekDuringAHandover(t *testing.T) {
	for _, hints := range []bool{true, false} {
		for _, at := range []string{"a", "b"} {
			for _, after := range []time.Duration{0, 500 * time.Millisecond, 1000 * time.Millisecond, 1100 * time.Millisecond} {
				t.Run(fmt.Sprintf("hints=%v at %s after %v", hints, at, after), func(t *testing.T) {
					inCrew(t, 4, func(cr *crew) {
						cr.join("a")
						cr.pass(2 * time.Second)
						cr.works(1050 * time.Millisecond) // something is in flight at any time
						cr.pass(2 * time.Second)
						offered := make(chan bool, 10)
						cr.ledger.onDone(func(c storeCall) {
							if c.op == "offer" {
								offered <- true
							}
						})
						cr.join("b")
						<-offered
						time.Sleep(after)
						began, n := time.Now(), len(cr.puts)
						answer := cr.seek(at, toHorizon())
						require.IsType(cr.t, &messages.Sought{}, answer)
						cr.pass(6 * time.Second)
						cr.works(0)
						time.Sleep(5 * time.Second)
						cr.balanced()
						cr.onceMore(n, began)
						cr.inGenerations()
						cr.pass(3 * time.Second)
						time.Sleep(2 * time.Second)
						cr.checkOwners()
						cr.onceMore(len(cr.puts), began)
						for i := range 4 {
							require.EqualValues(cr.t, 2, cr.lease(shardName(i)).Seek, "start_at was the first")
						}
					}, func(c *Config) { c.quiet = !hints })
				})
			}
		}
	}
}

// A seek of one shard as it is handed over: it is refused and moves nothing, or it is done, and holds for whoever reads the shard by then.
func TestASeekOfAShardThatIsHandedOver(t *testing.T) {
	outcomes := make(map[string]int)
	for _, after := range []time.Duration{-time.Millisecond, 0, 500 * time.Millisecond, 1100 * time.Millisecond} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			inCrew(t, 2, func(cr *crew) {
				cr.join("a")
				cr.pass(2 * time.Second)
				cr.works(1050 * time.Millisecond)
				cr.pass(2 * time.Second)
				offered := make(chan string, 10)
				cr.ledger.onCall(func(ctx context.Context, c storeCall, do func(ctx context.Context) error) error {
					if c.op == "offer" {
						offered <- c.lease.Shard
						if after < 0 {
							time.Sleep(time.Second) // it is under way
						}
					}
					return do(ctx)
				})
				cr.join("b")
				shard := <-offered
				time.Sleep(after)
				records := cr.service.Records(testStream)
				began, n := time.Now(), 0
				var to string
				for _, r := range records {
					if r.Shard == shard && to == "" {
						to = r.SequenceNumber
					}
					if r.Shard == shard {
						n++
					}
				}
				answer := cr.seek("a", seqSeek(shard, to))
				outcomes[fmt.Sprintf("%T", answer)]++
				cr.pass(6 * time.Second)
				cr.works(0)
				time.Sleep(2 * time.Second)
				again := make(map[int]bool)
				for _, g := range cr.deliveries() {
					if !g.at.Before(began) && g.d.GetShardId() == shard && cr.puts[numberOf(g.d)].Before(began) {
						again[numberOf(g.d)] = true
					}
				}
				if _, done := answer.(*messages.Sought); done {
					require.Len(cr.t, again, n, "all of the shard comes again")
				} else {
					require.Empty(cr.t, cr.again(began), "nothing that was settled comes again")
				}
				cr.balanced()
				cr.inGenerations()
				cr.checkOwners()
			})
		})
	}
	require.Positive(t, outcomes["*messages.Error"])
}

// R2: a seek to the tip on three nodes. What is published from then on is read, on all of them; what was before does not come any more,
// once they have heard of it.
func TestASeekToTheTipOnSeveralNodes(t *testing.T) {
	for _, hints := range []bool{true, false} {
		t.Run(fmt.Sprint("hints=", hints), func(t *testing.T) {
			inCrew(t, 6, func(cr *crew) {
				cr.join("a", "b", "c")
				cr.pass(within(hints, 3*time.Second, 8*time.Second))
				cr.balanced()
				cr.works(-1) // nothing is settled any more
				cr.pass(3 * time.Second)
				began, n := time.Now(), len(cr.puts)
				require.IsType(cr.t, &messages.Sought{}, cr.seek("b", toTip()))
				cr.works(0)
				cr.pass(within(hints, time.Second, 4*time.Second))
				followed := time.Now()
				cr.pass(6 * time.Second)
				time.Sleep(2 * time.Second)
				for _, g := range cr.deliveries() {
					require.False(cr.t, numberOf(g.d) < n && g.at.After(followed), "%v is of before", g)
				}
				seen := make(map[int]bool)
				for _, g := range cr.deliveries() {
					seen[numberOf(g.d)] = true
				}
				for i := n; i < len(cr.puts); i++ {
					require.True(cr.t, seen[i], "%d was lost, put %v after the seek", i, cr.puts[i].Sub(began))
				}
				cr.inGenerations()
				cr.checkOwners()
				for i := range 6 {
					require.EqualValues(cr.t, 2, cr.lease(shardName(i)).Seek)
				}
			}, func(c *Config) { c.quiet = !hints })
		})
	}
}

// start_at of a node that joins moves the stream for all, once.
func TestStartAtOfANodeThatJoins(t *testing.T) {
	inCrew(t, 4, func(cr *crew) {
		cr.join("a", "b")
		cr.pass(4 * time.Second)
		began, n := time.Now(), len(cr.puts)
		cr.spawn("c").subscribe(horizon)
		cr.pass(4 * time.Second)
		cr.onceMore(n, began)
		twice := cr.twice()
		require.LessOrEqual(cr.t, twice, 2*n)
		cr.pass(4 * time.Second)
		time.Sleep(2 * time.Second)
		cr.balanced()
		require.Equal(cr.t, twice, cr.twice(), "it is over")
		cr.inGenerations()
		cr.checkOwners()
	})
}

// A sequence in start_at moves a shard that the node takes at once, and no other: one that another node reads stays where it is, also when it is
// handed over later.
func TestStartAtASequenceOfAShardThatAnotherReads(t *testing.T) {
	inCrew(t, 2, func(cr *crew) {
		cr.join("a")
		cr.pass(4 * time.Second)
		b := cr.spawn("b")
		for i := range 2 { // whichever it gets
			first := ""
			for _, r := range cr.service.Records(testStream) {
				if r.Shard == shardName(i) && first == "" {
					first = r.SequenceNumber
				}
			}
			b.subscribe(func(d *messages.StreamDescriptor) { d.StartAt = seqSeek(shardName(i), first) })
			cr.pass(6 * time.Second)
			cr.balanced()
			require.Zero(cr.t, cr.twice())
			cr.me.Request(b.opened.GetSubscription(), &messages.Unsubscribe{})
			probe.Fish(cr.me, func(*messages.Unsubscribed) bool { return true })
		}
		delete(cr.living, "b")
		cr.calm()
	})
}

// A look that is not of one moment shows a lease that has been moved by a seek, and the stream's state of before it. The shard is
// not moved back.
func TestALookThatIsOlderThanASeek(t *testing.T) {
	inCrew(t, 2, func(cr *crew) {
		cr.join("a")
		cr.pass(3 * time.Second)
		time.Sleep(2 * time.Second) // all of it is read
		stale := &staleState{}
		before, err := cr.store.Streams(cr.t.Context())
		require.NoError(cr.t, err)
		require.IsType(cr.t, &messages.Sought{}, cr.seek("a", toTip()))
		cr.pass(3 * time.Second)
		twice := cr.twice()
		stale.show(before[0])
		cr.spawn("b", func(c *Config) { stale.Store, c.Store = c.Store, stale }).subscribe()
		cr.pass(800 * time.Millisecond)
		stale.show(leasestore.StreamState{})
		cr.pass(3 * time.Second)
		time.Sleep(2 * time.Second)
		require.Equal(cr.t, twice, cr.twice())
		cr.calm()
	})
}

// staleState shows a state of before in its looks.
type staleState struct {
	leasestore.Store
	mu    sync.Mutex
	state leasestore.StreamState
}

func (s *staleState) show(state leasestore.StreamState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = state
}

func (s *staleState) View(ctx context.Context, stream leasestore.StreamID) (leasestore.View, error) {
	view, err := s.Store.View(ctx, stream)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state.Version > 0 {
		view.State = s.state
	}
	return view, err
}
