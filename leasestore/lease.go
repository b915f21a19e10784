package leasestore

import (
	"strconv"
	"time"
)

// StreamID names one life of a stream. A stream that is deleted and created again under its name is
// another stream: its creation time is part of the identity, so old checkpoints are never met by accident.
type StreamID struct {
	// Name is the stream's ARN (any other text that is unique to the stream will do).
	Name string
	// CreatedMillis is StreamCreationTimestamp in Unix milliseconds.
	CreatedMillis int64
}

// NewStreamID is the identity of the stream called name that was created at created.
func NewStreamID(name string, created time.Time) StreamID {
	return StreamID{Name: name, CreatedMillis: created.UnixMilli()}
}

// String is name@created.
func (s StreamID) String() string { return s.Name + "@" + strconv.FormatInt(s.CreatedMillis, 10) }

// Key names a lease. Shard ids repeat across streams, so a key always has both.
type Key struct {
	Stream StreamID
	Shard  string
}

// String is stream/shard.
func (k Key) String() string { return k.Stream.String() + "/" + k.Shard }

// Lease is the right of one owner to read one shard, and how far the shard is settled.
// It is a value: a Store hands out copies and keeps none of the caller's.
type Lease struct {
	Key
	// Owner is who may read the shard; empty when the lease is free. It stays set on a finished shard.
	Owner string
	// Next is who the lease is about to be handed to; empty when no handover is pending. Until it is done Owner reads the shard, and
	// Owner alone writes the lease. Every change of the owner clears it.
	Next string
	// Counter is the fencing token: every write raises it by one and is conditional on the value its
	// writer last saw, so a writer that has lost the lease can change nothing. 0 means "not stored yet".
	Counter int64
	// Checkpoint is where the next reader goes on.
	Checkpoint Checkpoint
	// Seek is the number of the stream-wide seek (StreamState.Seek) that the checkpoint belongs to. A lease
	// with a smaller number than its stream's has not been moved by that seek yet: its checkpoint is void.
	Seek int64
	// Parents are the shard ids this shard came from by a split or merge, as listed when it was first leased. They are a set: a store may return
	// them in another order, and each once.
	Parents []string
}

// StreamState is what is stored once per stream: where shards without a usable checkpoint start.
type StreamState struct {
	Stream StreamID
	// Version is raised by one by every write and every write is conditional on it; 0 means "not stored yet".
	Version int64
	// Seek counts the stream-wide seeks. See Lease.Seek.
	Seek int64
	// Start is the position the last stream-wide seek (or, at Seek 0, the first opening) gave to all shards.
	Start Checkpoint
	// Tip says that Start is the instant at which the tip was asked for, not an instant that was asked for itself: a
	// child of such a shard is younger than Start and is read whole.
	Tip bool
}
