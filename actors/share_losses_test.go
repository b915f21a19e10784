package actors

import (
	"context"
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
		lost, handed, taken := 0, time.Time{}, time.Time{}
		tap.onCall(func(ctx context.Context, c storeCall, do func(ctx context.Context) error) error {
			if c.op == "acquire" && lost < races {
				lost++
				ghosts, err := cr.store.Acquire(ctx, c.lease, "ghost")
				require.NoError(cr.t, err)
				last := lost == races
				late := context.WithoutCancel(ctx)
				time.AfterFunc(4*time.Second, func() { cr.passOn(late, ghosts, b.owner, last, &handed) })
			}
			err := do(ctx)
			if c.op == "acquire" && err == nil {
				taken = time.Now()
			}
			return err
		})
		b.subscribe(horizon)
		time.Sleep(2 * time.Minute)
		require.Equal(cr.t, races, lost)
		require.LessOrEqual(cr.t, taken.Sub(handed), 3*time.Second+100*time.Millisecond)
		cr.calm()
	})
}

// passOn releases a lease, or hands it over the last time.
func (cr *crew) passOn(ctx context.Context, lease leasestore.Lease, to string, last bool, handed *time.Time) {
	if !last {
		_, err := cr.store.Release(ctx, lease)
		require.NoError(cr.t, err)
		return
	}
	*handed = time.Now()
	_, err := cr.store.Acquire(ctx, lease, to)
	require.NoError(cr.t, err)
}
