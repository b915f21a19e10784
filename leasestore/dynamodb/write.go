package dynamodb

import (
	"context"
	"errors"
	"time"

	"github.com/protokinesis/protokinesis/leasestore"
)

// write is one of the writes of a lease. What it means is said by leasestore's rules; this is how a rule becomes a conditional write.
//
// The rule is applied to what the caller's lease makes one expect of the row, and all of that which the rule looked at is made a condition: the counter
// and the owner always, for a checkpoint the stored one too. So a right expectation costs one write and no read, and a wrong one writes nothing. Then
// the row as it was (the service tells it with the refusal) takes the place of the expectation: the rule either says what is wrong, ErrFenced or
// ErrBackwards or ErrInvalid, or the write is tried again on that basis. The caller's lease is never believed against the row.
//
// The SDK tries again by itself when no reply comes. If the first try had been applied, the second is refused, which is ErrFenced here: callers tell
// it from a lost lease by leasestore.Confirm, as they must anyway for a reply that never comes.
type write struct {
	name string
	rule func(stored leasestore.Lease) (leasestore.Lease, error)
	// express adds to u what the row must be like, beyond counter and stream, and how it changes, beyond the counter.
	express func(u *update, was leaseRow, next leasestore.Lease)
}

// How often a row may turn out different, with the same counter, before the write is given up: only a KCL leader changes rows so, once per handoff.
const maxBases = 4

var errRestless = errors.New("the row was changed again and again while it was written; try again")

func (s *Store) write(ctx context.Context, lease leasestore.Lease, w write) (leasestore.Lease, error) {
	what := w.name + " lease " + lease.String()
	key, err := s.keys.lease(lease.Key)
	if err != nil {
		return leasestore.Lease{}, err
	}
	ctx, cancel, err := s.beginStream(ctx, lease.Stream)
	if err != nil {
		return leasestore.Lease{}, err
	}
	defer cancel()

	was := believed(lease)
	for n := range maxBases {
		next, err := w.rule(was.lease)
		if err != nil && n > 0 {
			return leasestore.Lease{}, err // the stored row says so
		}
		var now, old item
		refused := true
		if err == nil {
			now, old, refused, err = s.update(ctx, key, s.lease(lease.Key, w, was, next), what)
		} else {
			old, err = s.get(ctx, key, what)
		}
		switch {
		case err != nil:
			return leasestore.Lease{}, err
		case !refused:
			return s.decodeLease(lease.Key, key, now)
		}
		if was, err = s.decodeRow(lease.Key, key, old); err != nil {
			return leasestore.Lease{}, err
		}
	}
	return leasestore.Lease{}, s.failed(what, errRestless)
}

// lease is the conditional write of a row that is expected to be as was.
func (s *Store) lease(key leasestore.Key, w write, was leaseRow, next leasestore.Lease) *update {
	u := newUpdate()
	if was.lease.Counter == 0 {
		u.require(u.absent(attrKey))
	} else {
		u.require(u.equals(attrCounter, number(storedCounter(was.lease.Counter))))
		s.requireStream(u, key.Stream)
	}
	u.put(attrCounter, number(storedCounter(next.Counter)))
	u.put(ownWritten, text(stamp(time.Now(), next.Counter)))
	w.express(u, was, next)
	return u
}

// requireStream requires that the row is of that stream, or does not say.
func (s *Store) requireStream(u *update, stream leasestore.StreamID) {
	u.require(either(u.absent(ownStream), u.equals(ownStream, text(stream.String()))))
}

// requireOwner requires that owner owns the lease: KCL's starting of a handoff, which does not raise the counter, changes nothing of that.
func requireOwner(u *update, owner string) {
	if owner == "" {
		u.requireText(attrOwner, "")
		u.requireText(attrHandoffOwner, "")
		return
	}
	u.require(either(
		u.equals(attrHandoffOwner, text(owner)),
		"("+u.absent(attrHandoffOwner)+" AND "+u.equals(attrOwner, text(owner))+")",
	))
}

// putOwner makes the row that of an owner, or nobody, with no handoff pending.
func putOwner(u *update, was leaseRow, owner string) {
	u.putText(attrOwner, owner)
	u.drop(attrHandoffOwner)
	if was.lease.Owner != "" && was.lease.Owner != owner {
		u.increase(attrSwitches)
	}
}

// putPosition stores a checkpoint, as KCL does.
func putPosition(u *update, c leasestore.Checkpoint) {
	p := encodeCheckpoint(c)
	u.putText(attrCheckpoint, p.checkpoint)
	u.put(attrSub, digits(p.sub))
	u.putText(ownExact, p.exact)
	u.put(attrSwitches, number(0))
	u.drop(attrPending, attrPendingSub, attrPendingState)
}

// requirePosition requires that the stored checkpoint is as was.
func requirePosition(u *update, p position) {
	u.requireText(attrCheckpoint, p.checkpoint)
	u.requireText(ownExact, p.exact)
	if p.sub == "" {
		u.require(u.absent(attrSub))
	} else {
		u.require(u.equals(attrSub, digits(p.sub)))
	}
}
