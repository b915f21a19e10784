package actors

import (
	"slices"

	"github.com/protokinesis/protokinesis/leasestore"
)

// remember keeps a row for the case that it is deleted, unless what is remembered is newer.
func (s *shardInfo) remember(row leasestore.Lease) {
	if row.Counter > 0 && (row.Owner != s.last.Owner || row.Counter > s.last.Counter) {
		s.last = row
	}
}

// rememberOwn keeps the last state of a lease that a reader of ours held, with what it had settled.
func (s *shardInfo) rememberOwn(lease leasestore.Lease) {
	if lease.Shard != "" && lease.Counter >= s.last.Counter {
		s.last = lease
	}
}

// rowDeleted: the lease had a row once, and has none.
func (s *shardInfo) rowDeleted() bool { return s.lease.Counter == 0 && s.last.Shard != "" }

// asLeased is the shard's lease as far as lineage is concerned. A row that was deleted while the shard was being read, here or elsewhere, does
// not send it back to where it would start anew, nor ahead to the tip.
func (s *shardInfo) asLeased() leasestore.Lease {
	if s.reader == nil && s.rowDeleted() {
		last := s.last
		last.Counter = max(1, last.Counter)
		return last
	}
	return s.lease
}

// Sources of a shard's start, for the log: a checkpoint takes precedence over what is configured, which surprises people.
const (
	sourceStartAt    = "start_at"
	sourceSeek       = "seek"
	sourceCheckpoint = "stored checkpoint"
	sourceDeleted    = "checkpoint of a deleted row"
	sourceInherited  = "inherited from its parents"
	sourceDefault    = "default"
)

// sourceOf says what decided where the shard starts.
func (co *coordinator) sourceOf(s *shardInfo) string {
	start, lease := s.decision.start, s.asLeased()
	switch {
	case s.override != nil:
		return sourceStartAt
	case !lease.Checkpoint.IsZero() && lease.Seek == co.state.Seek && lease.Checkpoint == start:
		if s.rowDeleted() {
			return sourceDeleted
		}
		return sourceCheckpoint
	case start != co.state.Start, slices.ContainsFunc(s.parents, co.wasRead):
		return sourceInherited
	case co.state.Seek == 0:
		return sourceDefault
	case co.how.startAt != nil && !co.live:
		return sourceStartAt
	default:
		return sourceSeek
	}
}

// wasRead: the shard was read since the last stream-wide seek, here or elsewhere.
func (co *coordinator) wasRead(id string) bool {
	if s := co.shards[id]; s != nil && s.finished && s.finishedIn == co.state.Seek {
		return true
	}
	row, stored := co.rows[id]
	return stored && row.Seek == co.state.Seek
}
