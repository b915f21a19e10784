package actors

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// While a node looks at a free shard, slowly, another makes it the owner; its own attempt then finds the lease in its name already. Others count the
// ttl from the write that they saw, so the node may not count from its own attempt.
func TestALeaseFoundInOnesOwnNameIsTrustedFromAWriteOfOnesOwn(t *testing.T) {
	inCrew(t, 1, func(cr *crew) {
		cr.join("a")
		cr.put(cr.keys[0], "0")
		cr.puts = append(cr.puts, time.Now())
		time.Sleep(2 * time.Second)
		cr.leave("a")
		var tap tapStore
		b := cr.spawn("b", tapped(&tap))
		free := cr.lease(shardName(0))
		var given instant
		tap.onCall(func(ctx context.Context, c storeCall, do func(ctx context.Context) error) error {
			switch err := do(ctx); {
			case c.op == "view" && !given.noted():
				given.now()
				_, err = cr.store.Acquire(ctx, free, b.owner)
				time.Sleep(6 * time.Second)
				return err
			case c.op == "get" && err == nil:
				tap.onCall(func(context.Context, storeCall, func(context.Context) error) error { return errOutage })
				return nil
			default:
				return err
			}
		})
		cr.me.Request(b.broker, subscribeTo(testStream, cr.sub))
		probe.Fish(cr.me, func(*messages.Subscribed) bool { return true })
		time.Sleep(time.Until(given.at().Add(cr.cfg.Timings.withDefaults().LeaseTTL)))
		cr.putOne(cr.keys[0])
		time.Sleep(3 * time.Second)
		require.Len(cr.t, cr.deliveries(), 1, "it was delivered after the end of the ttl: %v", cr.history(shardName(0)))
		tap.onCall(nil)
		cr.calm()
	})
}
