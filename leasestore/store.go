package leasestore

import (
	"context"
	"errors"
)

// Errors of a Store; see also ErrInvalid. Any other error, the end of ctx included, is an outage (network, disk,
// throttling): its outcome is unknown, the write may have been applied, and the caller finds out with Confirm.
var (
	// ErrFenced: the row is not as the caller last saw it (another counter, another version, or it is gone). Nothing was written.
	ErrFenced = errors.New("lease store: fenced: the lease was written by someone else since it was read")
	// ErrNotFound: no such row.
	ErrNotFound = errors.New("lease store: not found")
	// ErrBackwards: the checkpoint is behind the stored one; behind SHARD_END is all but SHARD_END. Nothing was written.
	ErrBackwards = errors.New("lease store: a checkpoint never goes backwards")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("lease store: closed")
)

// Store keeps leases and checkpoints. It is the only authority over who reads a shard: whoever's
// conditional write succeeds owns the lease. A Store may be shared by any number of brokers and is safe for
// concurrent use. Every method honours ctx; none blocks without bound.
//
// All writes are compare-and-set on Lease.Counter and return the lease as it now is, with Counter one higher. A write whose
// condition does not hold returns an error that wraps ErrFenced and changes nothing.
//
// The conformance suite is package storetest.
type Store interface {
	// Get returns the lease, or ErrNotFound.
	Get(ctx context.Context, key Key) (Lease, error)
	// List returns all leases of a stream, ordered by shard id; none is an empty slice. Each row is as it was at some moment of the
	// call: stores that read in pages need not show all rows as of one moment.
	List(ctx context.Context, stream StreamID) ([]Lease, error)
	// View returns all there is about a stream, with the members, in one look; what was said of List holds for it. It is what every node
	// calls every few seconds, so it costs one read of the store, shared by the streams that are looked at together.
	View(ctx context.Context, stream StreamID) (View, error)
	// Streams returns the states of all streams that have rows in this store, ordered by StreamID.String. A stream that
	// has leases but no saved state is returned with Version 0.
	Streams(ctx context.Context) ([]StreamState, error)

	// Acquire makes owner the owner of the lease. With lease.Counter 0 the lease must not exist yet and is created with its
	// Checkpoint, Seek and Parents; otherwise the stored counter must be lease.Counter, and only the owner changes. Whether
	// the former owner is dead is the caller's judgement (see Observer). A lease at SHARD_END can be acquired too: what it is good
	// for is a seek back into a finished shard.
	//
	// A donor that hands a lease over calls it with the receiver's id: one write changes the owner.
	Acquire(ctx context.Context, lease Lease, owner string) (Lease, error)
	// Offer sets Lease.Next: the owner is about to hand the lease to next, and lets what is in flight settle before. An empty next
	// withdraws the offer. It renews the lease as well. ErrInvalid when next is the owner, or when there is none.
	Offer(ctx context.Context, lease Lease, next string) (Lease, error)
	// Renew raises the counter, which tells observers that the owner lives.
	Renew(ctx context.Context, lease Lease) (Lease, error)
	// Checkpoint stores how far the shard is settled; it renews the lease as well. ErrBackwards when checkpoint
	// is behind the stored one (Checkpoint.Compare); the same one again is fine.
	Checkpoint(ctx context.Context, lease Lease, checkpoint Checkpoint) (Lease, error)
	// Move stores a position given by a seek: unlike Checkpoint it may go backwards and away from SHARD_END. It sets Lease.Seek.
	Move(ctx context.Context, lease Lease, to Checkpoint, seek int64) (Lease, error)
	// Release clears the owner, so that another may acquire the lease at once. The checkpoint stays.
	Release(ctx context.Context, lease Lease) (Lease, error)
	// Delete removes the lease.
	Delete(ctx context.Context, lease Lease) error

	// State returns the stream's state, or ErrNotFound.
	State(ctx context.Context, stream StreamID) (StreamState, error)
	// SaveState stores the stream's state if the stored version is state.Version (0: none is stored), and returns it with Version
	// one higher; otherwise ErrFenced.
	SaveState(ctx context.Context, state StreamState) (StreamState, error)

	// Beat stores a member's row, whatever was there before under its id, with Beat one higher than given, and returns it. Only the member itself
	// calls it.
	Beat(ctx context.Context, member Member) (Member, error)
	// Forget removes the row of a member that leaves, or that has been silent for long, if its Beat is still member.Beat; otherwise
	// ErrFenced. No such row is fine.
	Forget(ctx context.Context, member Member) error

	// Close frees what the store holds (files, connections). Every later call returns ErrClosed; closing twice is fine.
	Close() error
}
