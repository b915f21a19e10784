package actors

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/protokinesis/protokinesis/leasestore"
)

// The stream's state may get lost, with the whole table or alone. What the last stream-wide seek was must not be: to whoever does not know of it
// every lease looks as if it had still to be moved. So a seek's number is never taken back, and a node that knows of a later one than is stored, stores it again.

// stateRestored is the result of restoreState.
type stateRestored struct {
	state leasestore.StreamState
	err   error
}

// stateIsMissing reports whether a look shows leases of a seek and no state. It may be lost; or the look passed its row before it was stored, and those of
// the leases afterwards.
func stateIsMissing(v leasestore.View) bool {
	return v.State.Version == 0 && slices.ContainsFunc(v.Leases, func(l leasestore.Lease) bool { return l.Seek > 0 })
}

// stateAfter reads the state once its leases have been seen: it is stored before any lease has its number, so by now it is there unless it is lost.
func stateAfter(ctx context.Context, store leasestore.Store, stream leasestore.StreamID) (leasestore.StreamState, error) {
	state, err := store.State(ctx, stream)
	if errors.Is(err, leasestore.ErrNotFound) {
		return leasestore.StreamState{}, nil
	}
	return state, err
}

// learnState takes in the stream's state, as a look showed it.
func (co *coordinator) learnState(m scanned) {
	later := m.begun.After(co.stateAt)
	switch {
	case m.state.Version > 0 && (co.state.Version == 0 || m.state.Seek > co.state.Seek):
		co.state, co.stateAt = m.state, m.seenAt
	case m.state.Version > co.state.Version && m.state.Seek == co.state.Seek, m.state.Version > 0 && later && m.state.Seek == co.state.Seek:
		co.state.Version, co.stateAt = m.state.Version, m.seenAt // it was stored anew
	case co.state.Version == 0:
		co.state = leasestore.StreamState{Stream: co.found.id, Start: leasestore.AtTimestamp(co.found.openedAt), Tip: true}
		for _, lease := range m.leases {
			co.state.Seek = max(co.state.Seek, lease.Seek) // the leases are as they should be, though the state is lost
		}
	}
}

// restoreState stores what this node knows of the stream, if what is stored is less.
func (co *coordinator) restoreState(m scanned) {
	lost := m.state.Version == 0 || m.state.Seek < co.state.Seek
	if !lost || co.state.Version == 0 || co.seeks.saving || co.restoring || !m.begun.After(co.stateAt) {
		return
	}
	co.restoring = true
	store, state := co.store, co.state
	state.Version = m.state.Version
	co.log().Warn("the stream's state in the lease store is lost, or of before the last seek: storing it again",
		slog.Int64("seek", state.Seek), slog.Int64("stored_version", m.state.Version))
	co.fx.run(co.cfg.Timings.LeaseTTL, func(ctx context.Context) any {
		saved, err := store.SaveState(ctx, state)
		return stateRestored{state: saved, err: err}
	})
}

// onStateRestored: where it could not be stored, the next look shows why, and whether it is still to be.
func (co *coordinator) onStateRestored(m stateRestored) {
	co.restoring = false
	if m.err == nil && m.state.Seek == co.state.Seek {
		co.state.Version, co.stateAt = m.state.Version, time.Now()
	}
}
