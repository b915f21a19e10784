package leasestore

import (
	"context"
	"errors"
	"fmt"
)

// Confirm finds out what became of a failed write that would have left owner as the owner: an Acquire (also a donor's, with
// the receiver as owner), Offer, Renew, Checkpoint or Move. before is the lease as last seen before the write, err what
// the write returned.
//
// A write can be applied and its reply lost, and then its second try is fenced by the first. So Confirm reads the row back: if
// it belongs to owner and its counter is the one after before's, a write of ours landed and Confirm returns the row, as held.
// That is sound because a counter is raised once per write, owner ids are unique to a broker, and one writer at a time writes
// a lease: nobody else can have made this row. (A tool that wants to move a lease it does not own must
// acquire it first.) Which of its writes landed is for the caller to see: the returned Checkpoint, Seek and Next are
// what is stored, and may be older than what it meant to store.
//
// For a donor an error that wraps ErrFenced is no reason to try again either: the receiver may have written the row since, and if
// somebody else has it, the donor has not.
//
// Otherwise the lease is returned empty, with an error that says what is known:
//   - it wraps ErrFenced: the row is another's or gone; the write was not applied and never will be. err is wrapped, too;
//   - it is err: the row is still as it was before. The write was not applied, but if err was an outage a write
//     still under way may be; try again with the same before;
//   - it wraps the error of reading back, and not ErrFenced: the outcome is still unknown.
//
// Errors that already say that nothing was written (ErrBackwards, ErrInvalid) are returned as they are.
func Confirm(ctx context.Context, store Store, before Lease, owner string, err error) (Lease, error) {
	return confirm(ctx, store, before, owner, err)
}

// ConfirmRelease is Confirm for a Release: it succeeds when the row has no owner and the counter after before's. That
// is sound whoever wrote it: only a release (the holder's, or one that a store or an operator did in its place) leaves a row
// without an owner, and each leaves the row that ours would have left.
//
// An error that wraps ErrFenced is no reason to try again: the lease is another's by now, so it is not
// the caller's, which is what it wanted.
func ConfirmRelease(ctx context.Context, store Store, before Lease, err error) (Lease, error) {
	return confirm(ctx, store, before, "", err)
}

func confirm(ctx context.Context, store Store, before Lease, owner string, err error) (Lease, error) {
	if err == nil {
		return Lease{}, fmt.Errorf("%w: lease %s: a write that succeeded has nothing to confirm", ErrInvalid, before.Key)
	}
	if errors.Is(err, ErrBackwards) || errors.Is(err, ErrInvalid) {
		return Lease{}, err
	}
	row, readErr := store.Get(ctx, before.Key)
	if readErr != nil && !errors.Is(readErr, ErrNotFound) {
		return Lease{}, unknown(before, err, readErr)
	}
	switch {
	case row.Counter == before.Counter+1 && row.Owner == owner:
		return row, nil
	case row.Counter == before.Counter, errors.Is(err, ErrFenced):
		return Lease{}, err
	default:
		return Lease{}, fmt.Errorf("%w; the write before it: %w", fenced(row, before, "confirm"), err)
	}
}

// unknown is the error of a write that failed and whose outcome could not be read back. ErrFenced must not be in its chain:
// the caller would take a lease that it may well hold for lost.
func unknown(before Lease, err, readErr error) error {
	if errors.Is(err, ErrFenced) {
		return fmt.Errorf("lease %s: the outcome of a write is unknown (%v): reading it back: %w", before.Key, err, readErr) //nolint:errorlint // see above
	}
	return fmt.Errorf("lease %s: the outcome of a write is unknown (%w): reading it back: %w", before.Key, err, readErr)
}
