package dynamodb

import (
	"context"
	"fmt"

	"github.com/protokinesis/protokinesis/leasestore"
)

// stateRow is a stream's state as it is stored.
type stateRow struct {
	leasestore.StreamState

	key string
}

// decodeState reads a stream row of ours.
func decodeState(key string, i item) (stateRow, error) {
	d := decoder{item: i}
	row := stateRow{key: key, StreamState: leasestore.StreamState{
		Version: d.number(ownVersion), Seek: d.number(ownSeek), Tip: d.flag(ownTip),
	}}
	start, stream := d.text(ownStart), d.text(ownStream)
	if d.err != nil {
		return row, d.err
	}
	var err error
	if row.Start, err = leasestore.ParseCheckpoint(start); err != nil {
		return row, fmt.Errorf("%s: %w", ownStart, err)
	}
	if row.Stream, err = parseStreamID(stream); err != nil {
		return row, fmt.Errorf("%s: %w", ownStream, err)
	}
	if row.Version < 1 {
		return row, fmt.Errorf("%s is %d", ownVersion, row.Version)
	}
	return row, nil
}

func sortState(found *snapshot, key string, i item) error {
	if i[ownVersion] == nil {
		return nil // KCL's stream info
	}
	row, err := decodeState(key, i)
	if err != nil {
		return corrupt(key, err)
	}
	found.states[key] = row
	return nil
}

// State implements leasestore.Store.
func (s *Store) State(ctx context.Context, stream leasestore.StreamID) (leasestore.StreamState, error) {
	key, err := s.keys.state(stream)
	if err != nil {
		return leasestore.StreamState{}, err
	}
	ctx, cancel, err := s.beginStream(ctx, stream)
	if err != nil {
		return leasestore.StreamState{}, err
	}
	defer cancel()
	state, err := s.readState(ctx, stream, key)
	if err != nil {
		return leasestore.StreamState{}, err
	}
	if state.Version == 0 {
		return leasestore.StreamState{}, fmt.Errorf("state of stream %s: %w", stream, leasestore.ErrNotFound)
	}
	return state, nil
}

// SaveState implements leasestore.Store.
func (s *Store) SaveState(ctx context.Context, state leasestore.StreamState) (leasestore.StreamState, error) {
	what := "save the state of stream " + state.Stream.String()
	key, err := s.keys.state(state.Stream)
	if err != nil {
		return leasestore.StreamState{}, err
	}
	stored := leasestore.StreamState{Version: state.Version}
	if _, err := leasestore.ApplyState(stored, state); err != nil {
		return leasestore.StreamState{}, err
	}
	ctx, cancel, err := s.beginStream(ctx, state.Stream)
	if err != nil {
		return leasestore.StreamState{}, err
	}
	defer cancel()
	for range maxBases {
		next, err := leasestore.ApplyState(stored, state)
		if err != nil {
			return leasestore.StreamState{}, err
		}
		_, old, refused, err := s.update(ctx, key, s.state(state.Version, next), what)
		if err != nil {
			return leasestore.StreamState{}, err
		}
		if !refused {
			return next, nil
		}
		if stored, err = s.decodeState(state.Stream, key, old); err != nil {
			return leasestore.StreamState{}, err
		}
	}
	return leasestore.StreamState{}, s.failed(what, errRestless)
}

// state is the write that makes next of a row with that version.
func (s *Store) state(version int64, next leasestore.StreamState) *update {
	u := newUpdate()
	if version == 0 {
		u.require(u.absent(ownVersion))
	} else {
		u.require(u.equals(ownVersion, number(version)))
		s.requireStream(u, next.Stream)
	}
	u.put(ownVersion, number(next.Version))
	u.put(ownSeek, number(next.Seek))
	u.putText(ownStart, next.Start.String())
	u.put(ownTip, flag(next.Tip))
	u.put(ownStream, text(next.Stream.String()))
	u.put(attrEntity, text(entityStream))
	u.put(attrStreamID, text(s.keys.stream(next.Stream))) // KCL expects one in every row of this kind
	if s.config.application != "" {
		u.put(ownApplication, text(s.config.application))
	}
	return u
}

func (s *Store) readState(ctx context.Context, stream leasestore.StreamID, key string) (leasestore.StreamState, error) {
	i, err := s.get(ctx, key, "read the state of stream "+stream.String())
	if err != nil {
		return leasestore.StreamState{}, err
	}
	return s.decodeState(stream, key, i)
}

// decodeState reads the row of that key, or the absence of one.
func (s *Store) decodeState(stream leasestore.StreamID, key string, i item) (leasestore.StreamState, error) {
	if len(i) == 0 {
		return leasestore.StreamState{}, nil
	}
	row, err := decodeState(key, i)
	switch {
	case err != nil:
		return leasestore.StreamState{}, s.failed("state of stream "+stream.String(), corrupt(key, err))
	case row.Stream != stream:
		return leasestore.StreamState{}, s.failed("state of stream "+stream.String(), elsewhere(key, row.Stream.String(), stream))
	}
	return row.StreamState, nil
}
