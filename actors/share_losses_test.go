package actors

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
)

// A node has been slower than another at a free lease time and again, and is handed it in the end. It does not wait for what it has lost before: each
// time it was somebody's, as is in order.
func TestALeaseThatWasLostOftenIsTakenUpAtOnceWhenItIsHanded(t *testing.T) {
	inCrew(t, 1, func(cr *crew) {
		const races = 8
		var tap tapStore
		b := cr.spawn("b", tapped(&tap))
		var lost atomic.Int64
		var handed, taken instant
		tap.onCall(func(ctx context.Context, c storeCall, do func(ctx context.Context) error) error {
			if c.op == "acquire" && lost.Load() < races {
				ghosts, err := cr.store.Acquire(ctx, c.lease, "ghost")
				require.NoError(cr.t, err)
				last := lost.Add(1) == races
				late := context.WithoutCancel(ctx)
				time.AfterFunc(4*time.Second, func() { cr.passOn(late, ghosts, b.owner, last, &handed) })
			}
			err := do(ctx)
			if c.op == "acquire" && err == nil {
				taken.now()
			}
			return err
		})
		b.subscribe(horizon)
		time.Sleep(2 * time.Minute)
		require.EqualValues(cr.t, races, lost.Load())
		require.LessOrEqual(cr.t, taken.at().Sub(handed.at()), 3*time.Second+100*time.Millisecond)
		cr.calm()
	})
}

// passOn releases a lease, or hands it over the last time.
func (cr *crew) passOn(ctx context.Context, lease leasestore.Lease, to string, last bool, handed *instant) {
	if !last {
		_, err := cr.store.Release(ctx, lease)
		require.NoError(cr.t, err)
		return
	}
	handed.now()
	_, err := cr.store.Acquire(ctx, lease, to)
	require.NoError(cr.t, err)
}
