package kinesistest

// splitShard is the request of SplitShard.
type splitShard struct {
	streamRef
	ShardToSplit       string
	NewStartingHashKey string
}

func (r *splitShard) describe(_ *Service, call *Call) {
	call.Stream, call.Shard = r.name(), r.ShardToSplit
}

func (r *splitShard) run(x *exchange) (any, *apiError) {
	key, ok, tooBig := parseHashKey(r.NewStartingHashKey)
	if !ok || tooBig {
		return nil, validation("Value '%s' at 'newStartingHashKey' failed to satisfy constraint: "+
			"Member must be a hash key", r.NewStartingHashKey)
	}
	st, fail := x.svc.find(r.streamRef)
	if fail != nil {
		return nil, fail
	}
	open := x.svc.openShards()
	st.mu.Lock()
	defer st.mu.Unlock()
	sh, fail := st.reshardable(r.ShardToSplit)
	if fail != nil {
		return nil, fail
	}
	if !sh.keys.start.next().less(key) || !key.less(sh.keys.end) {
		return nil, invalidArgument("NewStartingHashKey %s used in SplitShard() on shard %s in stream %s under account %s is "+
			"not both greater than one plus the shard's StartingHashKey %s and less than the shard's EndingHashKey %s.",
			r.NewStartingHashKey, sh.id, st.name, x.svc.cfg.accountID, sh.keys.start, sh.keys.end)
	}
	if open+1 > x.svc.cfg.shardLimit {
		return nil, st.tooManyShards(open, 1)
	}
	st.begin(statusUpdating, func(at int64) {
		st.split(sh, key, at)
		st.reroute()
	})
	return nil, nil
}

func (st *stream) tooManyShards(open, more int) *apiError {
	return failf(codeLimitExceeded, "This request would exceed the shard limit for the account %s in %s. "+
		"Current shard count for the account: %d. Limit: %d. Number of additional shards that would have resulted "+
		"from this request: %d.", st.svc.cfg.accountID, st.svc.cfg.region, open, st.svc.cfg.shardLimit, more)
}

// reshardable returns an open shard of an active stream. The caller holds st.mu.
func (st *stream) reshardable(id string) (*shard, *apiError) {
	if st.deleted || st.status != statusActive {
		return nil, st.notActive()
	}
	sh := st.byShardID[id]
	if sh == nil {
		return nil, notFound("Could not find shard %s in stream %s under account %s.", id, st.name, st.svc.cfg.accountID)
	}
	if !sh.isOpen() {
		return nil, invalidArgument("Shard %s in stream %s under account %s is closed.", id, st.name, st.svc.cfg.accountID)
	}
	return sh, nil
}

// split replaces a shard by two, the second of which starts at key. The caller holds st.mu for
// writing and updates the routes.
func (st *stream) split(sh *shard, key hashKey, at int64) (low, high *shard) {
	at = st.event(at)
	low = st.addShard(hashRange{sh.keys.start, key.prev()}, at, sh)
	high = st.addShard(hashRange{key, sh.keys.end}, at, sh)
	sh.close(at, low, high)
	return low, high
}

// merge replaces two neighbours by one. The caller holds st.mu for writing and updates the routes.
func (st *stream) merge(a, b *shard, at int64) *shard {
	at = st.event(at)
	low, high := a, b
	if b.keys.start.less(a.keys.start) {
		low, high = b, a
	}
	child := st.addShard(hashRange{low.keys.start, high.keys.end}, at, a, b)
	a.close(at, child)
	b.close(at, child)
	return child
}

// mergeShards is the request of MergeShards.
type mergeShards struct {
	streamRef
	ShardToMerge         string
	AdjacentShardToMerge string
}

func (r *mergeShards) describe(_ *Service, call *Call) {
	call.Stream, call.Shard = r.name(), r.ShardToMerge
}

func (r *mergeShards) run(x *exchange) (any, *apiError) {
	st, fail := x.svc.find(r.streamRef)
	if fail != nil {
		return nil, fail
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	a, fail := st.reshardable(r.ShardToMerge)
	if fail != nil {
		return nil, fail
	}
	b, fail := st.reshardable(r.AdjacentShardToMerge)
	if fail != nil {
		return nil, fail
	}
	if !a.keys.endsBefore(b.keys) && !b.keys.endsBefore(a.keys) {
		return nil, invalidArgument("Shards %s and %s in stream %s under account %s are not an adjacent pair of shards "+
			"eligible for merging", a.id, b.id, st.name, x.svc.cfg.accountID)
	}
	st.begin(statusUpdating, func(at int64) {
		st.merge(a, b, at)
		st.reroute()
	})
	return nil, nil
}

// updateShardCount is the request of UpdateShardCount.
type updateShardCount struct {
	streamRef
	TargetShardCount int
	ScalingType      string
}

type updateShardCountAnswer struct {
	StreamName        string
	StreamARN         string
	CurrentShardCount int
	TargetShardCount  int
}

func (r *updateShardCount) describe(_ *Service, call *Call) { call.Stream = r.name() }

func (r *updateShardCount) run(x *exchange) (any, *apiError) {
	if r.ScalingType != "UNIFORM_SCALING" {
		return nil, validation("Value '%s' at 'scalingType' failed to satisfy constraint: "+
			"Member must satisfy enum value set: [UNIFORM_SCALING]", r.ScalingType)
	}
	st, fail := x.svc.find(r.streamRef)
	if fail != nil {
		return nil, fail
	}
	open := x.svc.openShards()
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.deleted || st.status != statusActive {
		return nil, st.notActive()
	}
	current, target := len(st.routes), r.TargetShardCount
	switch {
	case st.mode != modeProvisioned:
		return nil, validation("Request is invalid because stream %s is in %s mode", st.name, st.mode)
	case target < 1 || target > 2*current || 2*target < current:
		return nil, invalidArgument("UpdateShardCount cannot scale stream %s from %d to %d shards: the target must be "+
			"between half and double the current count.", st.name, current, target)
	case open-current+target > x.svc.cfg.shardLimit:
		return nil, st.tooManyShards(open, target-current)
	}
	st.begin(statusUpdating, func(at int64) { st.scale(target, at) })
	return &updateShardCountAnswer{
		StreamName: st.name, StreamARN: st.arn, CurrentShardCount: current, TargetShardCount: target,
	}, nil
}

// scale cuts the open shards at the borders of n equal ranges and then merges what lies within one
// range, so every new shard has a proper lineage. Shards that only served the transition stay behind
// closed and empty, as they do in Kinesis.
func (st *stream) scale(n int, at int64) {
	routes := st.routes
	for _, want := range uniformRanges(n) {
		var merged *shard
		for len(routes) > 0 && !want.end.less(routes[0].keys.start) {
			piece := routes[0]
			routes = routes[1:]
			if want.end.less(piece.keys.end) {
				low, high := st.split(piece, want.end.next(), at)
				piece = low
				routes = append([]*shard{high}, routes...)
			}
			if merged == nil {
				merged = piece
			} else {
				merged = st.merge(merged, piece, at)
			}
		}
	}
	st.reroute()
}
