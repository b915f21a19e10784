package actors

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

// tableMaker is a store whose first call takes as long as the service takes to make a table.
type tableMaker struct {
	leasestore.Store
	ready time.Time
}

func (s *tableMaker) Beat(ctx context.Context, m leasestore.Member) (leasestore.Member, error) {
	if s.ready.IsZero() {
		s.ready = time.Now().Add(20 * time.Second)
	}
	select {
	case <-ctx.Done():
		return leasestore.Member{}, ctx.Err()
	case <-time.After(time.Until(s.ready)):
		return s.Store.Beat(ctx, m)
	}
}

// The first node waits for the table to be made, though that takes longer than a lease lives; later signs of life are bound by that.
func TestTheFirstSignOfLifeMayTakeLong(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		w.cfg.Store = &tableMaker{Store: w.store}
		a := w.join("a").subscribe(horizon)
		require.Len(w.t, a.opened.GetShards(), 2)
	})
}

// A shutdown does not wait for it.
func TestAShutdownOvertakesTheFirstSignOfLife(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		w.cfg.Store = &tableMaker{Store: w.store}
		a := w.join("a")
		w.me.Request(a.broker, &messages.Subscribe{Stream: &messages.StreamDescriptor{Name: testStream}, Subscriber: w.sub.PID()})
		time.Sleep(2 * time.Second)
		began := time.Now()
		a.leave()
		a.closed()
		require.Less(w.t, time.Since(began), 2*time.Second)
	})
}

// The store panics where a node's row is written or removed: that is a failure like any other. The next sign of life follows, and a shutdown ends.
func TestTheStorePanicsAtASignOfLife(t *testing.T) {
	inCrew(t, 2, func(cr *crew) {
		var tap tapStore
		cr.join("a")
		cr.spawn("b", tapped(&tap)).subscribe()
		cr.pass(4 * time.Second)
		panicking := true
		tap.onCall(func(ctx context.Context, c storeCall, do func(ctx context.Context) error) error {
			if c.op == "beat" && panicking || c.op == "forget" {
				panicking = false
				panic(errors.New("injected"))
			}
			return do(ctx)
		})
		cr.pass(4 * time.Second)
		begun := tap.calls("beat")
		cr.pass(20 * time.Second)
		require.GreaterOrEqual(cr.t, tap.calls("beat")-begun, 6)
		cr.calm()
		cr.leave("b")
		cr.calm()
	})
}
