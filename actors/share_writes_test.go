package actors

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
)

// storeFaults are what may become of a write of a lease.
var storeFaults = map[string]func(below leasestore.Store) around{
	"fails": func(leasestore.Store) around {
		return func(context.Context, storeCall, func(ctx context.Context) error) error { return errOutage }
	},
	"is done and its reply lost": func(leasestore.Store) around {
		return func(ctx context.Context, _ storeCall, do func(ctx context.Context) error) error {
			if err := do(ctx); err != nil {
				return err
			}
			return errOutage
		}
	},
	"hangs": func(leasestore.Store) around {
		return func(ctx context.Context, _ storeCall, _ func(ctx context.Context) error) error {
			<-ctx.Done()
			return ctx.Err()
		}
	},
	"hangs and is done later": func(leasestore.Store) around {
		return func(ctx context.Context, _ storeCall, do func(ctx context.Context) error) error {
			<-ctx.Done()
			time.AfterFunc(100*time.Millisecond, func() { _ = do(context.WithoutCancel(ctx)) })
			return ctx.Err()
		}
	},
	"comes after a renewal of its own": func(below leasestore.Store) around {
		return func(ctx context.Context, c storeCall, do func(ctx context.Context) error) error {
			_, _ = below.Renew(ctx, c.lease)
			return do(ctx)
		}
	},
	"comes after a stranger's": func(below leasestore.Store) around {
		return func(ctx context.Context, c storeCall, do func(ctx context.Context) error) error {
			_, _ = below.Acquire(ctx, c.lease, "stranger-1")
			return do(ctx)
		}
	},
}

// handoverWrites are the writes of a donor, and how they are told from others.
var handoverWrites = map[string]func(c storeCall) bool{
	"the offer":           func(c storeCall) bool { return c.op == "offer" },
	"the last checkpoint": func(c storeCall) bool { return c.op == "checkpoint" && c.lease.Next != "" },
	"the last write": func(c storeCall) bool {
		return c.op == "acquire" && nodeOf(c.lease.Owner) != nodeOf(c.to) && c.lease.Owner != ""
	},
}

// unreadFor is for how long a shard may be unread when a fault was met so often.
func unreadFor(fault string, times int32) time.Duration {
	switch {
	case strings.HasSuffix(fault, "stranger's"):
		return takeoverTime + time.Second // the stranger takes the lease and is never heard of again
	case strings.HasPrefix(fault, "hangs"):
		return time.Duration(times)*4*time.Second + time.Second
	}
	return 3 * time.Second
}

// L3, L16: whatever becomes of any write of a handover, once or three times in a row, with records in flight or none: nothing is lost, what was
// settled does not come twice, and the shard is read again soon.
func TestEachWriteOfAHandoverGoesWrong(t *testing.T) {
	for name, fault := range storeFaults {
		for what, isIt := range handoverWrites {
			for _, times := range []int32{1, 3} {
				for _, idle := range []bool{false, true} {
					if idle && (what == "the last checkpoint" || times > 1) {
						continue // there is no checkpoint to write; more faults add nothing
					}
					t.Run(fmt.Sprintf("%s %s, %d times, idle=%v", what, name, times, idle), func(t *testing.T) {
						inCrew(t, 2, func(cr *crew) {
							var tap tapStore
							cr.spawn("a", tapped(&tap)).subscribe(horizon)
							cr.pass(2 * time.Second)
							if !idle {
								cr.works(1500 * time.Millisecond) // longer than a poll: some are in flight at any time
								cr.pass(2 * time.Second)
							}
							var met atomic.Int32
							how := fault(tap.Store)
							tap.onCall(func(ctx context.Context, c storeCall, do func(ctx context.Context) error) error {
								if !isIt(c) || met.Add(1) > times {
									return do(ctx)
								}
								return how(ctx, c, do)
							})
							began := time.Now()
							cr.join("b")
							time.Sleep(2 * time.Second)
							cr.pass(18 * time.Second)
							require.Positive(cr.t, met.Load())
							require.LessOrEqual(cr.t, cr.gap(began), unreadFor(name, times))
							cr.calm()
							if outlasts := strings.HasPrefix(name, "hangs") && times > 1; !outlasts && !strings.HasSuffix(name, "stranger's") {
								require.Empty(cr.t, cr.again(time.Now()), "was settled, and the lease was not lost")
							}
						})
					})
				}
			}
		}
	}
}

// L3: the reply of a renewal is lost, and it can't be read back, just before the node leaves. What it gives back or hands over is its own all the same.
func TestALeaseIsGivenAwayAfterALostReply(t *testing.T) {
	for _, heir := range []bool{false, true} {
		t.Run(fmt.Sprint("heir=", heir), func(t *testing.T) {
			inCrew(t, 2, func(cr *crew) {
				var tap tapStore
				cr.spawn("a", tapped(&tap)).subscribe(horizon)
				if heir {
					cr.join("b")
				}
				cr.pass(4 * time.Second)
				time.Sleep(3 * time.Second)
				shard := ""
				for i := range 2 {
					if nodeOf(cr.lease(shardName(i)).Owner) == "a" {
						shard = shardName(i)
					}
				}
				lost := make(chan bool)
				var reads, renewals atomic.Int32
				tap.onCall(func(ctx context.Context, c storeCall, do func(ctx context.Context) error) error {
					if shard == c.lease.Shard && c.op == "get" && reads.Add(1) == 1 {
						return errOutage // nor can it be read back
					}
					err := do(ctx)
					if c.lease.Shard == shard && c.op == "renew" && err == nil && renewals.Add(1) == 1 {
						close(lost)
						return errOutage
					}
					return err
				})
				<-lost
				cr.leave("a")
				if owner := cr.lease(shard).Owner; heir {
					require.Equal(cr.t, "b", nodeOf(owner))
					cr.calm()
				} else {
					require.Empty(cr.t, owner)
				}
				writes := 0
				for _, c := range cr.ledger.done() {
					if c.op == "acquire" && c.lease.Shard == shard && nodeOf(c.to) == "a" {
						writes++
					}
				}
				require.Equal(cr.t, 1, writes, "it was not taken anew to be given away")
			})
		})
	}
}
