package kinesistest

import (
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"
)

// Status of streams and consumers.
const (
	statusActive   = "ACTIVE"
	statusCreating = "CREATING"
	statusUpdating = "UPDATING"
	statusDeleting = "DELETING"
)

const (
	modeProvisioned     = "PROVISIONED"
	modeOnDemand        = "ON_DEMAND"
	onDemandShards      = 4
	defaultRetention    = 24
	maxRetention        = 8760
	defaultMaxRecordKiB = 1024
	maxRecordKiB        = 10240
)

// stream is a data stream. Its lock is held for reading by everything that moves records and for
// writing by what changes the shards, so a put never meets a half-done split.
type stream struct {
	svc         *Service
	id          uint64 // tells a stream from an earlier one of the same name
	name        string
	arn         string
	createdAt   int64         // ms
	firstShards int64         // ms at which its first shards opened
	gone        chan struct{} // closed when the stream is deleted

	due atomic.Int64 // ms at which the change in progress is complete; 0 = none

	mu             sync.RWMutex
	status         string
	apply          func(at int64) // what completing the change does
	deleted        bool
	mode           string
	retentionHours int
	maxRecordKiB   int
	shards         []*shard // by index, closed ones included
	byShardID      map[string]*shard
	routes         []*shard // the open ones, by hash key
	nextShard      uint32
	lastEvent      int64
	oldestClosed   int64                // ms at which the first of the closed shards was closed; 0 = none is
	consumers      map[string]*consumer // by name
}

// settle applies the change whose time has come; false means the stream is deleted.
func (st *stream) settle(now int64) bool {
	if due := st.due.Load(); due == 0 || now < due {
		return true
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if due := st.due.Load(); !st.deleted && due != 0 && now >= due {
		st.due.Store(0)
		st.status = statusActive
		st.complete(due)
		if st.deleted {
			st.due.Store(due) // stay due, so that every later look finds it deleted
		}
	}
	return !st.deleted
}

func (st *stream) complete(at int64) {
	apply := st.apply
	st.apply = nil
	if apply != nil {
		apply(at)
	}
}

// begin starts a change: the stream is in status until the stream delay has passed, then apply runs.
// The caller holds st.mu for writing.
func (st *stream) begin(status string, apply func(at int64)) {
	now := st.svc.clock.nowMillis()
	st.apply = apply
	if st.svc.cfg.streamDelay == 0 {
		st.complete(now)
		return
	}
	st.status = status
	st.due.Store(now + st.svc.cfg.streamDelay.Milliseconds())
}

// event returns the time of a change of the shards. No two changes of a stream share a millisecond,
// so that "open at time t" has one answer; it may run a little ahead of the clock.
func (st *stream) event(at int64) int64 {
	st.lastEvent = max(at, st.lastEvent+1)
	return st.lastEvent
}

// addShard makes a shard at time at (ms). The caller holds st.mu for writing and updates the routes.
func (st *stream) addShard(keys hashRange, at int64, parents ...*shard) *shard {
	sh := &shard{
		id: shardID(st.nextShard), index: st.nextShard, keys: keys, keysText: wireRange(keys),
		created: seconds(at), createdAt: at,
	}
	for i, parent := range parents {
		sh.created = max(sh.created, parent.created+1)
		if i == 0 {
			sh.parent = parent.id
		} else {
			sh.adjacent = parent.id
		}
	}
	sh.startSeq = sh.sequenceAt(0, sh.created).String()
	st.nextShard++
	st.shards = append(st.shards, sh)
	st.byShardID[sh.id] = sh
	return sh
}

// reroute rebuilds the routes. The old slice stays as it is for those who still read it.
func (st *stream) reroute() {
	routes := make([]*shard, 0, len(st.routes)+1)
	st.oldestClosed = 0
	for _, sh := range st.shards {
		switch {
		case sh.isOpen():
			routes = append(routes, sh)
		case st.oldestClosed == 0 || sh.closedAt < st.oldestClosed:
			st.oldestClosed = sh.closedAt
		}
	}
	slices.SortFunc(routes, func(a, b *shard) int {
		if a.keys.start.less(b.keys.start) {
			return -1
		}
		return 1
	})
	st.routes = routes
}

// route returns the open shard that owns the hash key. The caller holds st.mu.
func (st *stream) route(key hashKey) *shard {
	if len(st.routes) == 1 {
		return st.routes[0]
	}
	i := sort.Search(len(st.routes), func(i int) bool { return key.less(st.routes[i].keys.start) })
	return st.routes[max(i-1, 0)]
}

// retention is how long records and closed shards are kept.
func (st *stream) retention() time.Duration { return time.Duration(st.retentionHours) * time.Hour }

// horizon is the arrival time (ms) below which records are gone. The caller holds st.mu.
func (st *stream) horizon(now int64) int64 { return now - st.retention().Milliseconds() }

// sweep forgets closed shards that are past retention.
func (st *stream) sweep(now int64) {
	st.mu.RLock()
	horizon := st.horizon(now)
	due := st.oldestClosed != 0 && st.oldestClosed < horizon
	st.mu.RUnlock()
	if !due {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.dropShards(func(sh *shard) bool { return !sh.isOpen() && sh.closedAt < horizon })
}

// dropShards forgets the shards that match. The caller holds st.mu for writing.
func (st *stream) dropShards(match func(*shard) bool) {
	kept := make([]*shard, 0, len(st.shards))
	for _, sh := range st.shards {
		if match(sh) {
			delete(st.byShardID, sh.id)
			continue
		}
		kept = append(kept, sh)
	}
	st.shards = kept
	st.reroute()
}

// shard returns a shard by id.
func (st *stream) shard(id string) (*shard, *apiError) {
	if !validShardID(id) {
		return nil, validation("Value '%s' at 'shardId' failed to satisfy constraint: "+
			"Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+", id)
	}
	st.sweep(st.svc.clock.nowMillis())
	st.mu.RLock()
	defer st.mu.RUnlock()
	if sh := st.byShardID[id]; sh != nil {
		return sh, nil
	}
	return nil, st.noShard(id)
}

// shardAt returns a shard by index.
func (st *stream) shardAt(index uint32) (*shard, *apiError) {
	st.sweep(st.svc.clock.nowMillis())
	st.mu.RLock()
	defer st.mu.RUnlock()
	i := sort.Search(len(st.shards), func(i int) bool { return st.shards[i].index >= index })
	if i == len(st.shards) || st.shards[i].index != index {
		return nil, st.noShard(shardID(index))
	}
	return st.shards[i], nil
}

// shardsAfter returns the shards whose ids come after id; the ids sort as the indexes do. The caller
// holds st.mu.
func (st *stream) shardsAfter(id string) []*shard {
	return st.shards[sort.Search(len(st.shards), func(i int) bool { return st.shards[i].id > id }):]
}

func validShardID(id string) bool { return validStreamName(id) }

func (st *stream) noShard(id string) *apiError {
	return notFound("Shard %s in stream %s under account %s does not exist", id, st.name, st.svc.cfg.accountID)
}

// serves returns nil if the data plane works. The caller holds st.mu.
func (st *stream) serves() *apiError {
	if st.status == statusActive || st.status == statusUpdating {
		return nil
	}
	return st.notActive()
}

func (st *stream) notActive() *apiError {
	return inUse("Stream %s under account %s not ACTIVE, instead in state %s", st.name, st.svc.cfg.accountID, st.status)
}
