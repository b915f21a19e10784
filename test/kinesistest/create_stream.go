package kinesistest

// streamMode is the capacity mode, as the API wraps it.
type streamMode struct{ StreamMode string }

// createStream is the request of CreateStream.
type createStream struct {
	StreamName         string
	ShardCount         *int
	StreamModeDetails  *streamMode
	MaxRecordSizeInKiB *int
}

func (r *createStream) describe(_ *Service, call *Call) { call.Stream = r.StreamName }

// check validates the request and returns the mode and number of shards it asks for.
func (r *createStream) check() (mode string, shards int, fail *apiError) {
	if !validStreamName(r.StreamName) {
		return "", 0, validation("Value '%s' at 'streamName' failed to satisfy constraint: "+
			"Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+", r.StreamName)
	}
	if kib := r.MaxRecordSizeInKiB; kib != nil && !validRecordSize(*kib) {
		return "", 0, badRecordSize(*kib)
	}
	mode = modeProvisioned
	if r.StreamModeDetails != nil {
		mode = r.StreamModeDetails.StreamMode
	}
	switch {
	case mode == modeOnDemand && r.ShardCount != nil:
		return "", 0, validation("ShardCount cannot be given for a stream in %s mode", modeOnDemand)
	case mode == modeOnDemand:
		return mode, onDemandShards, nil
	case mode != modeProvisioned:
		return "", 0, validation("Value '%s' at 'streamModeDetails.streamMode' failed to satisfy constraint: "+
			"Member must satisfy enum value set: [PROVISIONED, ON_DEMAND]", mode)
	case r.ShardCount == nil:
		return "", 0, validation("ShardCount must be given for a stream in %s mode", modeProvisioned)
	case *r.ShardCount < 1:
		return "", 0, validation("Value '%d' at 'shardCount' failed to satisfy constraint: "+
			"Member must have value greater than or equal to 1", *r.ShardCount)
	}
	return mode, *r.ShardCount, nil
}

func (r *createStream) run(x *exchange) (any, *apiError) {
	mode, shards, fail := r.check()
	if fail != nil {
		return nil, fail
	}
	recordKiB := defaultMaxRecordKiB
	if r.MaxRecordSizeInKiB != nil {
		recordKiB = *r.MaxRecordSizeInKiB
	}
	return nil, x.svc.create(r.StreamName, mode, shards, recordKiB)
}

func validRecordSize(kib int) bool { return kib >= defaultMaxRecordKiB && kib <= maxRecordKiB }

func badRecordSize(kib int) *apiError {
	return validation("Value '%d' at 'maxRecordSizeInKiB' failed to satisfy constraint: "+
		"Member must have value between %d and %d", kib, defaultMaxRecordKiB, maxRecordKiB)
}

// create makes a stream.
func (s *Service) create(name, mode string, shards, recordKiB int) *apiError {
	if open := s.openShards(); open+shards > s.cfg.shardLimit {
		return failf(codeLimitExceeded, "This request would exceed the shard limit for the account %s in %s. "+
			"Current shard count for the account: %d. Limit: %d. Number of additional shards that would have resulted "+
			"from this request: %d.", s.cfg.accountID, s.cfg.region, open, s.cfg.shardLimit, shards)
	}
	now := s.clock.nowMillis()
	st := &stream{
		svc: s, name: name, arn: s.arnPrefix() + name, createdAt: now, gone: make(chan struct{}),
		status: statusActive, mode: mode, retentionHours: defaultRetention, maxRecordKiB: recordKiB,
		byShardID: map[string]*shard{}, consumers: map[string]*consumer{},
	}
	at := st.event(now)
	st.firstShards = at
	for _, keys := range uniformRanges(shards) {
		st.addShard(keys, at)
	}
	st.reroute()

	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.streams[name]; old != nil && old.settle(now) {
		return inUse("Stream %s under account %s already exists.", name, s.cfg.accountID)
	}
	s.lastID++
	st.id = s.lastID
	s.streams[name], s.byID[st.id] = st, st
	st.mu.Lock()
	defer st.mu.Unlock()
	st.begin(statusCreating, nil)
	return nil
}

// deleteStream is the request of DeleteStream.
type deleteStream struct {
	streamRef
	EnforceConsumerDeletion bool
}

func (r *deleteStream) describe(_ *Service, call *Call) { call.Stream = r.name() }

func (r *deleteStream) run(x *exchange) (any, *apiError) {
	st, fail := x.svc.find(r.streamRef)
	if fail != nil {
		return nil, fail
	}
	if fail := st.delete(r.EnforceConsumerDeletion); fail != nil {
		return nil, fail
	}
	x.svc.settle(st)
	return nil, nil
}

// delete starts the deletion; reading and writing end at once.
func (st *stream) delete(withConsumers bool) *apiError {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.deleted || st.status == statusDeleting {
		return nil
	}
	if len(st.consumers) > 0 && !withConsumers {
		return inUse("Stream %s under account %s has enhanced fan-out consumers; EnforceConsumerDeletion deletes them, too.",
			st.name, st.svc.cfg.accountID)
	}
	close(st.gone)
	st.status = statusDeleting
	st.apply = func(int64) { st.deleted = true }
	st.due.Store(max(st.svc.clock.nowMillis()+st.svc.cfg.streamDelay.Milliseconds(), 1))
	return nil
}
