package dynamodb

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/protokinesis/protokinesis/leasestore"
)

// Get implements leasestore.Store.
func (s *Store) Get(ctx context.Context, key leasestore.Key) (leasestore.Lease, error) {
	what := "read lease " + key.String()
	rowKey, err := s.keys.lease(key)
	if err != nil {
		return leasestore.Lease{}, err
	}
	ctx, cancel, err := s.beginStream(ctx, key.Stream)
	if err != nil {
		return leasestore.Lease{}, err
	}
	defer cancel()
	row, err := s.readRow(ctx, key, rowKey, what)
	if err != nil {
		return leasestore.Lease{}, err
	}
	if row.lease.Counter == 0 {
		return leasestore.Lease{}, fmt.Errorf("lease %s: %w", key, leasestore.ErrNotFound)
	}
	return row.of(key), nil
}

// Acquire implements leasestore.Store.
func (s *Store) Acquire(ctx context.Context, lease leasestore.Lease, owner string) (leasestore.Lease, error) {
	if len(owner) > maxOwner {
		return leasestore.Lease{}, fmt.Errorf("%w: lease %s: the owner %.60q… is longer than the %d bytes that DynamoDB takes",
			leasestore.ErrInvalid, lease.Key, owner, maxOwner)
	}
	return s.write(ctx, lease, write{
		name: "acquire",
		rule: func(stored leasestore.Lease) (leasestore.Lease, error) {
			return leasestore.ApplyAcquire(stored, lease, owner)
		},
		express: func(u *update, was leaseRow, next leasestore.Lease) {
			u.put(ownStream, text(lease.Stream.String()))
			if was.lease.Counter == 0 {
				s.create(u, lease.Key, next)
				return
			}
			requireOwner(u, was.lease.Owner)
			putOwner(u, was, owner)
		},
	})
}

// create sets what a new row has. The hash key range is for KCL to add, which it does.
func (s *Store) create(u *update, key leasestore.Key, lease leasestore.Lease) {
	u.put(attrEntity, text(entityLease))
	u.put(attrOwner, text(lease.Owner))
	p := encodeCheckpoint(lease.Checkpoint)
	for attribute, value := range map[string]string{attrCheckpoint: p.checkpoint, ownExact: p.exact, ownApplication: s.config.application} {
		if value != "" {
			u.put(attribute, text(value))
		}
	}
	u.put(attrSub, digits(p.sub))
	u.put(attrSwitches, number(0))
	if lease.Seek != 0 {
		u.put(ownSeek, number(lease.Seek))
	}
	if parents := distinct(lease.Parents); len(parents) > 0 {
		u.put(attrParents, &types.AttributeValueMemberSS{Value: parents})
	}
	if !s.keys.single {
		u.put(attrStreamName, text(s.keys.stream(key.Stream)))
		u.put(attrShard, text(key.Shard))
	}
}

// Offer implements leasestore.Store. To KCL it is the start of a graceful handoff.
func (s *Store) Offer(ctx context.Context, lease leasestore.Lease, next string) (leasestore.Lease, error) {
	return s.write(ctx, lease, write{
		name: "offer",
		rule: func(stored leasestore.Lease) (leasestore.Lease, error) {
			return leasestore.ApplyOffer(stored, lease, next)
		},
		express: func(u *update, was leaseRow, _ leasestore.Lease) {
			requireOwner(u, was.lease.Owner)
			switch {
			case next != "":
				u.put(attrOwner, text(next))
				u.put(attrHandoffOwner, text(was.lease.Owner))
			case was.lease.Owner != "":
				u.put(attrOwner, text(was.lease.Owner))
				u.drop(attrHandoffOwner)
			}
		},
	})
}

// Renew implements leasestore.Store. It costs one write unit, as the index of owners is not touched. When a KCL leader has begun to hand the lease
// over, the renewal succeeds and Lease.Next says so.
func (s *Store) Renew(ctx context.Context, lease leasestore.Lease) (leasestore.Lease, error) {
	return s.write(ctx, lease, write{
		name: "renew",
		rule: func(stored leasestore.Lease) (leasestore.Lease, error) { return leasestore.ApplyRenew(stored, lease) },
		express: func(u *update, was leaseRow, _ leasestore.Lease) {
			requireOwner(u, was.lease.Owner)
		},
	})
}

// Checkpoint implements leasestore.Store.
func (s *Store) Checkpoint(ctx context.Context, lease leasestore.Lease, checkpoint leasestore.Checkpoint) (leasestore.Lease, error) {
	return s.write(ctx, lease, write{
		name: "checkpoint",
		rule: func(stored leasestore.Lease) (leasestore.Lease, error) {
			return leasestore.ApplyCheckpoint(stored, lease, checkpoint)
		},
		express: func(u *update, was leaseRow, next leasestore.Lease) {
			requireOwner(u, was.lease.Owner)
			requirePosition(u, was.position)
			putPosition(u, next.Checkpoint)
		},
	})
}

// Move implements leasestore.Store.
func (s *Store) Move(ctx context.Context, lease leasestore.Lease, to leasestore.Checkpoint, seek int64) (leasestore.Lease, error) {
	return s.write(ctx, lease, write{
		name: "move",
		rule: func(stored leasestore.Lease) (leasestore.Lease, error) {
			return leasestore.ApplyMove(stored, lease, to, seek)
		},
		express: func(u *update, was leaseRow, next leasestore.Lease) {
			requireOwner(u, was.lease.Owner)
			putPosition(u, next.Checkpoint)
			u.put(ownSeek, number(next.Seek))
		},
	})
}

// Release implements leasestore.Store.
func (s *Store) Release(ctx context.Context, lease leasestore.Lease) (leasestore.Lease, error) {
	return s.write(ctx, lease, write{
		name: "release",
		rule: func(stored leasestore.Lease) (leasestore.Lease, error) { return leasestore.ApplyRelease(stored, lease) },
		express: func(u *update, was leaseRow, _ leasestore.Lease) {
			requireOwner(u, was.lease.Owner)
			putOwner(u, was, "")
		},
	})
}

// Delete implements leasestore.Store.
func (s *Store) Delete(ctx context.Context, lease leasestore.Lease) error {
	what := "delete lease " + lease.String()
	key, err := s.keys.lease(lease.Key)
	if err != nil {
		return err
	}
	ctx, cancel, err := s.beginStream(ctx, lease.Stream)
	if err != nil {
		return err
	}
	defer cancel()
	for range maxBases {
		u := newUpdate()
		u.require(u.equals(attrCounter, number(storedCounter(lease.Counter))))
		s.requireStream(u, lease.Stream)
		requireOwner(u, lease.Owner)
		_, err := s.client.DeleteItem(ctx, u.deletion(s.table, key))
		if err == nil {
			return nil
		}
		old, _, err := s.refusal(ctx, key, what, err)
		if err != nil {
			return err
		}
		row, err := s.decodeRow(lease.Key, key, old)
		if err != nil {
			return err
		}
		if err := leasestore.ApplyDelete(row.lease, lease); err != nil {
			return err
		}
	}
	return s.failed(what, errRestless)
}

func (s *Store) readRow(ctx context.Context, lease leasestore.Key, key, what string) (leaseRow, error) {
	i, err := s.get(ctx, key, what)
	if err != nil {
		return leaseRow{}, err
	}
	return s.decodeRow(lease, key, i)
}

// decodeRow reads the row of that key, or the absence of one.
func (s *Store) decodeRow(lease leasestore.Key, key string, i item) (leaseRow, error) {
	if len(i) == 0 {
		return leaseRow{}, nil
	}
	row, err := decodeLease(i)
	switch {
	case err != nil:
		return leaseRow{}, s.failed("lease "+lease.String(), corrupt(key, err))
	case !row.isOf(lease.Stream):
		return leaseRow{}, s.failed("lease "+lease.String(), elsewhere(key, row.recorded, lease.Stream))
	}
	return row, nil
}

func (s *Store) decodeLease(lease leasestore.Key, key string, i item) (leasestore.Lease, error) {
	row, err := s.decodeRow(lease, key, i)
	return row.of(lease), err
}
