package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/protokinesis/protokinesis/leasestore"
)

// leaseRow is a lease as it is stored; its key is in the database.
type leaseRow struct {
	Owner      string   `json:"owner,omitempty"`
	Next       string   `json:"next,omitempty"`
	Counter    int64    `json:"counter"`
	Checkpoint string   `json:"checkpoint,omitempty"`
	Seek       int64    `json:"seek,omitempty"`
	Parents    []string `json:"parents,omitempty"`
}

func encodeLease(l leasestore.Lease) ([]byte, error) {
	return json.Marshal(leaseRow{
		Owner: l.Owner, Next: l.Next, Counter: l.Counter, Checkpoint: l.Checkpoint.String(), Seek: l.Seek, Parents: l.Parents,
	})
}

func decodeLease(key leasestore.Key, value []byte) (leasestore.Lease, error) {
	var row leaseRow
	if err := json.Unmarshal(value, &row); err != nil {
		return leasestore.Lease{}, fmt.Errorf("%w: the row of lease %s: %w", ErrCorrupt, key, err)
	}
	checkpoint, err := leasestore.ParseCheckpoint(row.Checkpoint)
	if err != nil {
		return leasestore.Lease{}, fmt.Errorf("%w: the row of lease %s: %w", ErrCorrupt, key, err)
	}
	if row.Counter < 1 {
		return leasestore.Lease{}, fmt.Errorf("%w: the row of lease %s: the counter is %d", ErrCorrupt, key, row.Counter)
	}
	return leasestore.Lease{
		Key: key, Owner: row.Owner, Next: row.Next, Counter: row.Counter, Checkpoint: checkpoint, Seek: row.Seek, Parents: row.Parents,
	}, nil
}

// stateRow is a stream's state as it is stored.
type stateRow struct {
	Version int64  `json:"version"`
	Seek    int64  `json:"seek,omitempty"`
	Start   string `json:"start,omitempty"`
	Tip     bool   `json:"tip,omitempty"`
}

func encodeState(s leasestore.StreamState) ([]byte, error) {
	return json.Marshal(stateRow{Version: s.Version, Seek: s.Seek, Start: s.Start.String(), Tip: s.Tip})
}

func decodeState(stream leasestore.StreamID, value []byte) (leasestore.StreamState, error) {
	var row stateRow
	if err := json.Unmarshal(value, &row); err != nil {
		return leasestore.StreamState{}, fmt.Errorf("%w: the state of stream %s: %w", ErrCorrupt, stream, err)
	}
	start, err := leasestore.ParseCheckpoint(row.Start)
	if err != nil {
		return leasestore.StreamState{}, fmt.Errorf("%w: the state of stream %s: %w", ErrCorrupt, stream, err)
	}
	if row.Version < 1 {
		return leasestore.StreamState{}, fmt.Errorf("%w: the state of stream %s: the version is %d", ErrCorrupt, stream, row.Version)
	}
	return leasestore.StreamState{Stream: stream, Version: row.Version, Seek: row.Seek, Start: start, Tip: row.Tip}, nil
}

// streamKey names a stream in the database. The creation time has no @, so the last @ ends the name.
func streamKey(stream leasestore.StreamID) []byte { return []byte(stream.String()) }

func parseStreamKey(key []byte) (leasestore.StreamID, error) {
	text := string(key)
	at := strings.LastIndexByte(text, '@')
	if at < 0 {
		return leasestore.StreamID{}, fmt.Errorf("%w: the stream key %q has no creation time", ErrCorrupt, text)
	}
	millis, err := strconv.ParseInt(text[at+1:], 10, 64)
	stream := leasestore.StreamID{Name: text[:at], CreatedMillis: millis}
	if err == nil && stream.String() != text {
		err = errors.New("it is not written as usual")
	}
	if err != nil {
		return leasestore.StreamID{}, fmt.Errorf("%w: the creation time of stream key %q: %w", ErrCorrupt, text, err)
	}
	return stream, nil
}
