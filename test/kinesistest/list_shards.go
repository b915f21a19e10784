package kinesistest

const (
	filterAfterShardID    = "AFTER_SHARD_ID"
	filterAtTrimHorizon   = "AT_TRIM_HORIZON"
	filterFromTrimHorizon = "FROM_TRIM_HORIZON"
	filterAtLatest        = "AT_LATEST"
	filterAtTimestamp     = "AT_TIMESTAMP"
	filterFromTimestamp   = "FROM_TIMESTAMP"
)

// shardFilter narrows ListShards.
type shardFilter struct {
	Type      string
	ShardId   string `json:",omitempty"`
	Timestamp *epoch `json:",omitempty"`
}

// listShards is the request of ListShards.
type listShards struct {
	streamRef
	NextToken               string
	ExclusiveStartShardId   string
	MaxResults              *int
	StreamCreationTimestamp *epoch
	ShardFilter             *shardFilter
}

type listShardsAnswer struct {
	Shards    []wireShard
	NextToken string `json:",omitempty"`
}

func (r *listShards) describe(s *Service, call *Call) {
	call.Stream = r.name()
	var token pageToken
	if r.NextToken != "" && s.readToken(r.NextToken, s.clock.Now(), &token) == nil {
		if st := s.findID(token.Stream); st != nil {
			call.Stream = st.name
		}
	}
}

func (r *listShards) run(x *exchange) (any, *apiError) {
	limit := x.svc.cfg.listPage
	if r.MaxResults != nil {
		if *r.MaxResults < 1 || *r.MaxResults > maxListLimit {
			return nil, validation("Value '%d' at 'maxResults' failed to satisfy constraint: "+
				"Member must have value between 1 and %d", *r.MaxResults, maxListLimit)
		}
		limit = min(limit, *r.MaxResults)
	}
	st, token, fail := r.open(x)
	if fail != nil {
		return nil, fail
	}
	now := x.now.UnixMilli()
	st.sweep(now)
	st.mu.RLock()
	defer st.mu.RUnlock()
	if st.status != statusActive && st.status != statusUpdating {
		return nil, st.notActive()
	}
	rest := st.shardsAfter(token.After)
	answer := &listShardsAnswer{Shards: make([]wireShard, 0, min(limit, len(rest)))}
	for _, sh := range rest {
		if !token.Filter.match(st, sh, now) {
			continue
		}
		if len(answer.Shards) == limit {
			token.After = answer.Shards[limit-1].ShardId
			token.Issued = now
			answer.NextToken = x.svc.writeToken(token)
			break
		}
		answer.Shards = append(answer.Shards, sh.wire())
	}
	return answer, nil
}

// open finds the stream and where in it the page starts.
func (r *listShards) open(x *exchange) (*stream, pageToken, *apiError) {
	if r.NextToken == "" {
		return r.first(x)
	}
	if r.StreamName != "" || r.StreamCreationTimestamp != nil || r.ExclusiveStartShardId != "" {
		return nil, pageToken{}, invalidArgument("NextToken and StreamName, StreamCreationTimestamp or " +
			"ExclusiveStartShardId cannot be provided together.")
	}
	var token pageToken
	if fail := x.svc.readToken(r.NextToken, x.now, &token); fail != nil {
		return nil, token, fail
	}
	st := x.svc.findID(token.Stream)
	if st == nil {
		return nil, token, notFound("The stream of the NextToken under account %s not found.", x.svc.cfg.accountID)
	}
	if r.StreamARN != "" && r.StreamARN != st.arn {
		return nil, token, invalidArgument("NextToken does not belong to the stream %s.", r.StreamARN)
	}
	return st, token, nil
}

func (r *listShards) first(x *exchange) (*stream, pageToken, *apiError) {
	st, fail := x.svc.find(r.streamRef)
	if fail != nil {
		return nil, pageToken{}, fail
	}
	if at := r.StreamCreationTimestamp; at != nil && int64(*at) != st.createdAt && int64(*at)/1000*1000 != st.createdAt/1000*1000 {
		return nil, pageToken{}, x.svc.noStream(st.name)
	}
	token := pageToken{Stream: st.id, After: r.ExclusiveStartShardId, Filter: r.ShardFilter}
	if fail := token.Filter.check(); fail != nil {
		return nil, pageToken{}, fail
	}
	if token.Filter != nil && token.Filter.Type == filterAfterShardID {
		token.After = max(token.After, token.Filter.ShardId)
	}
	return st, token, nil
}

// check validates the filter; nil is the filter that matches all.
func (f *shardFilter) check() *apiError {
	if f == nil {
		return nil
	}
	switch f.Type {
	case filterAtTrimHorizon, filterFromTrimHorizon, filterAtLatest:
		return nil
	case filterAfterShardID:
		if f.ShardId == "" {
			return invalidArgument("ShardId must be specified when ShardFilter type is %s.", f.Type)
		}
		return nil
	case filterAtTimestamp, filterFromTimestamp:
		if f.Timestamp == nil {
			return invalidArgument("Timestamp must be specified when ShardFilter type is %s.", f.Type)
		}
		return nil
	default:
		return validation("Value '%s' at 'shardFilter.type' failed to satisfy constraint: Member must satisfy enum value set: "+
			"[AFTER_SHARD_ID, AT_TRIM_HORIZON, FROM_TRIM_HORIZON, AT_LATEST, AT_TIMESTAMP, FROM_TIMESTAMP]", f.Type)
	}
}

// match reports whether the filter lets a shard pass. The caller holds st.mu.
func (f *shardFilter) match(st *stream, sh *shard, now int64) bool {
	if f == nil {
		return true
	}
	oldest := max(st.horizon(now), st.firstShards)
	switch f.Type {
	case filterAtTrimHorizon:
		return sh.openAt(oldest)
	case filterAtLatest:
		return sh.isOpen()
	case filterAtTimestamp:
		at := max(int64(*f.Timestamp), oldest)
		return sh.createdAt <= at && (sh.isOpen() || sh.closedAt >= at)
	case filterFromTimestamp:
		return sh.isOpen() || sh.closedAt >= max(int64(*f.Timestamp), oldest)
	default: // FROM_TRIM_HORIZON and AFTER_SHARD_ID: everything that is still there
		return true
	}
}

// openAt reports whether puts went to the shard at time at (ms).
func (sh *shard) openAt(at int64) bool {
	return sh.createdAt <= at && (sh.isOpen() || sh.closedAt > at)
}
