package leasestore

import (
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// ErrInvalid says that the caller's value can not be stored: an empty owner or shard id, an offer to the owner or of a
// lease that has none, text that is not UTF-8, a checkpoint that would not be read back as it was written, or a negative counter. Nothing was written, and trying again is of no use.
var ErrInvalid = errors.New("lease store: invalid")

// The rules of all writes as pure functions, for whoever implements a Store over a database with transactions: read the row
// (the zero Lease with only Key set when there is none), apply the rule, and write the result unless it is an error.
// stored is the row as it is; lease is what the caller of the Store handed in. The results share no memory with either.

// ApplyAcquire is the rule of Store.Acquire.
func ApplyAcquire(stored, lease Lease, owner string) (Lease, error) {
	if owner == "" {
		return Lease{}, fmt.Errorf("%w: lease %s: acquired for an empty owner; to free a lease, release it", ErrInvalid, lease.Key)
	}
	if !utf8.ValidString(owner) {
		return Lease{}, fmt.Errorf("%w: lease %s: the owner %q is not UTF-8", ErrInvalid, lease.Key, owner)
	}
	if err := checkLease(lease); err != nil {
		return Lease{}, err
	}
	if stored.Counter != lease.Counter {
		return Lease{}, fenced(stored, lease, "acquire")
	}
	next := stored.clone()
	if stored.Counter == 0 {
		next = lease.clone()
	}
	next.Owner, next.Next = owner, ""
	next.Counter++
	return next, nil
}

// ApplyOffer is the rule of Store.Offer. Like a checkpoint, an offer is judged by the stored row, and only once the counter is right.
func ApplyOffer(stored, lease Lease, to string) (Lease, error) {
	if !utf8.ValidString(to) {
		return Lease{}, fmt.Errorf("%w: lease %s: the next owner %q is not UTF-8", ErrInvalid, lease.Key, to)
	}
	next, err := apply(stored, lease, "offer")
	switch {
	case err != nil:
		return Lease{}, err
	case to != "" && stored.Owner == "":
		return Lease{}, fmt.Errorf("%w: lease %s: offered to %q, but nobody owns it and could hand it over; acquire it", ErrInvalid, lease.Key, to)
	case to != "" && to == stored.Owner:
		return Lease{}, fmt.Errorf("%w: lease %s: offered to %q, who owns it", ErrInvalid, lease.Key, to)
	}
	next.Next = to
	return next, nil
}

// ApplyRenew is the rule of Store.Renew.
func ApplyRenew(stored, lease Lease) (Lease, error) {
	return apply(stored, lease, "renew")
}

// ApplyCheckpoint is the rule of Store.Checkpoint. A stale counter is reported before a checkpoint that goes backwards: who
// has lost the lease must hear that first.
func ApplyCheckpoint(stored, lease Lease, checkpoint Checkpoint) (Lease, error) {
	if err := checkCheckpoint(lease.Key, checkpoint); err != nil {
		return Lease{}, err
	}
	next, err := apply(stored, lease, "checkpoint")
	if err != nil {
		return Lease{}, err
	}
	if checkpoint.Compare(stored.Checkpoint) < 0 {
		return Lease{}, fmt.Errorf("lease %s: checkpoint %q is behind the stored %q: %w; to go back, seek", lease.Key, checkpoint, stored.Checkpoint, ErrBackwards)
	}
	next.Checkpoint = checkpoint
	return next, nil
}

// ApplyMove is the rule of Store.Move.
func ApplyMove(stored, lease Lease, to Checkpoint, seek int64) (Lease, error) {
	if err := checkCheckpoint(lease.Key, to); err != nil {
		return Lease{}, err
	}
	next, err := apply(stored, lease, "move")
	if err != nil {
		return Lease{}, err
	}
	next.Checkpoint, next.Seek = to, seek
	return next, nil
}

// ApplyRelease is the rule of Store.Release.
func ApplyRelease(stored, lease Lease) (Lease, error) {
	next, err := apply(stored, lease, "release")
	if err != nil {
		return Lease{}, err
	}
	next.Owner, next.Next = "", ""
	return next, nil
}

// ApplyDelete is the rule of Store.Delete: the row may be removed unless it is an error.
func ApplyDelete(stored, lease Lease) error {
	_, err := apply(stored, lease, "delete")
	return err
}

// ApplyBeat is the rule of Store.Beat.
func ApplyBeat(member Member) (Member, error) {
	if member.ID == "" || !utf8.ValidString(member.ID) {
		return Member{}, fmt.Errorf("%w: the member id %q is empty or not UTF-8", ErrInvalid, member.ID)
	}
	texts := []string{member.Address, member.Broker, member.System}
	for _, stream := range member.Streams {
		texts = append(texts, stream.Name)
	}
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return Member{}, fmt.Errorf("%w: member %s: %q is not UTF-8", ErrInvalid, member.ID, text)
		}
	}
	next := member.clone()
	next.Beat++
	return next, nil
}

// ApplyForget is the rule of Store.Forget: the row, if there is one, may be removed unless it is an error.
func ApplyForget(stored, member Member) error {
	if stored.ID != "" && stored.Beat != member.Beat {
		return fmt.Errorf("member %s: forget: the stored beat is %d, last seen was %d: %w", member.ID, stored.Beat, member.Beat, ErrFenced)
	}
	return nil
}

// ApplyState is the rule of Store.SaveState.
func ApplyState(stored, state StreamState) (StreamState, error) {
	if !utf8.ValidString(state.Stream.Name) {
		return StreamState{}, fmt.Errorf("%w: stream %q: the name is not UTF-8", ErrInvalid, state.Stream)
	}
	if !storable(state.Start) {
		return StreamState{}, fmt.Errorf("%w: stream %s: the start %q is not a checkpoint that can be read back", ErrInvalid, state.Stream, state.Start)
	}
	if stored.Version != state.Version {
		return StreamState{}, fmt.Errorf("stream %s: save state: the stored version is %d, the writer last saw %d: %w; read it again",
			state.Stream, stored.Version, state.Version, ErrFenced)
	}
	state.Version++
	return state, nil
}

// apply is the condition all writes but a first Acquire have in common, and what they all do.
func apply(stored, lease Lease, write string) (Lease, error) {
	if stored.Counter == 0 || stored.Counter != lease.Counter {
		return Lease{}, fenced(stored, lease, write)
	}
	if stored.Owner != lease.Owner { // the row was deleted and made anew: its counter has come to the same number
		return Lease{}, fmt.Errorf("lease %s: %s: the owner is %q, the writer last saw %q: %w; read it again",
			lease.Key, write, stored.Owner, lease.Owner, ErrFenced)
	}
	next := stored.clone()
	next.Counter++
	return next, nil
}

func fenced(stored, lease Lease, write string) error {
	if stored.Counter == 0 {
		return fmt.Errorf("lease %s: %s: there is no such lease, the writer last saw counter %d: %w; read it again",
			lease.Key, write, lease.Counter, ErrFenced)
	}
	return fmt.Errorf("lease %s: %s: the stored counter is %d (owner %q), the writer last saw %d: %w; read it again",
		lease.Key, write, stored.Counter, stored.Owner, lease.Counter, ErrFenced)
}

func checkLease(lease Lease) error {
	switch {
	case lease.Counter < 0:
		return fmt.Errorf("%w: lease %s: the counter %d is negative", ErrInvalid, lease.Key, lease.Counter)
	case lease.Shard == "":
		return fmt.Errorf("%w: lease %s: the shard id is empty", ErrInvalid, lease.Key)
	case !utf8.ValidString(lease.Stream.Name), !utf8.ValidString(lease.Shard):
		return fmt.Errorf("%w: lease %q: the key is not UTF-8", ErrInvalid, lease.Key)
	case slices.ContainsFunc(lease.Parents, func(id string) bool { return !utf8.ValidString(id) }):
		return fmt.Errorf("%w: lease %s: the parents %q are not UTF-8", ErrInvalid, lease.Key, lease.Parents)
	}
	return checkCheckpoint(lease.Key, lease.Checkpoint)
}

func checkCheckpoint(key Key, checkpoint Checkpoint) error {
	if !storable(checkpoint) {
		return fmt.Errorf("%w: lease %s: %q is not a checkpoint that can be read back; a sequence number has 1 to %d digits",
			ErrInvalid, key, checkpoint, maxSequenceDigits)
	}
	return nil
}

// storable reports whether the checkpoint's text means the same checkpoint: AtSequence takes any string, and one that
// reads as a sentinel must never be stored as one.
func storable(c Checkpoint) bool {
	back, err := ParseCheckpoint(c.String())
	return err == nil && back == c
}

// clone copies the lease, so that nobody can change the parents of a stored one.
func (l Lease) clone() Lease {
	l.Parents = slices.Clone(l.Parents)
	return l
}
