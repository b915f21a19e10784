package kinesistest

import "strconv"

const (
	maxGetRecords = 10_000
	maxPageBytes  = 10 << 20
)

// getRecords is the request of GetRecords.
type getRecords struct {
	ShardIterator []byte
	Limit         *int64
	StreamARN     string
	DryRun        bool

	at     position
	stream *stream
	shard  *shard
	bad    *apiError
}

// parseGetRecords reads the request without reflection.
func parseGetRecords(c *codec, body []byte) (request, error) {
	if c.form == formCBOR {
		return parseGetRecordsCBOR(body)
	}
	r := &getRecords{}
	in := scanner{b: body}
	err := in.object(func(key []byte) error {
		switch string(key) {
		case "ShardIterator":
			return in.textInto(&r.ShardIterator)
		case "StreamARN":
			var arn []byte
			err := in.textInto(&arn)
			r.StreamARN = string(arn)
			return err
		case "Limit":
			return in.intInto(&r.Limit)
		case "DryRun":
			return in.boolInto(&r.DryRun)
		default:
			return in.skip()
		}
	})
	return r, err
}

// describe also looks up what the iterator points at, for run.
func (r *getRecords) describe(s *Service, call *Call) {
	at, err := s.parseIterator(r.ShardIterator)
	if err != nil {
		r.bad = invalidArgument("Invalid ShardIterator.")
		return
	}
	r.at = at
	call.Position = int64(at.ordinal) //nolint:gosec // counts records
	if r.stream = s.findID(at.stream); r.stream == nil {
		r.bad = notFound("The stream of the ShardIterator under account %s not found.", s.cfg.accountID)
		return
	}
	call.Stream = r.stream.name
	if r.shard, r.bad = r.stream.shardAt(at.shard); r.bad == nil {
		call.Shard = r.shard.id
	}
}

func (r *getRecords) check(x *exchange) *apiError {
	if r.bad != nil {
		return r.bad
	}
	if r.Limit != nil && (*r.Limit < 1 || *r.Limit > maxGetRecords) {
		return validation("Value '%d' at 'limit' failed to satisfy constraint: "+
			"Member must have value between 1 and %d", *r.Limit, maxGetRecords)
	}
	if r.StreamARN != "" {
		name, fail := x.svc.resolve(streamRef{StreamARN: r.StreamARN})
		if fail != nil {
			return fail
		}
		if name != r.stream.name {
			return invalidArgument("The ShardIterator does not belong to the stream %s.", r.StreamARN)
		}
	}
	if age := x.now.Sub(millisTime(r.at.issued)); age > iteratorLife {
		return failf(codeExpiredIterator, "Iterator expired. The iterator was created at time %s while right now it is %s "+
			"which is further in the future than the tolerated delay of 300000 milliseconds.", millisTime(r.at.issued), x.now.UTC())
	}
	return nil
}

func (r *getRecords) run(x *exchange) (any, *apiError) {
	if fail := r.check(x); fail != nil {
		return nil, fail
	}
	st, sh, now := r.stream, r.shard, x.now.UnixMilli()
	st.mu.RLock()
	fail, horizon := st.serves(), st.horizon(now)
	st.mu.RUnlock()
	if fail != nil {
		return nil, fail
	}
	if r.DryRun {
		return nil, errDryRun
	}
	sh.trim(horizon)
	limit := maxGetRecords
	if r.Limit != nil {
		limit = int(*r.Limit)
	}
	if x.fault.kind == effectEmptyPage {
		limit = 0
	}
	q := query{form: x.codec.form, from: r.at.ordinal, limit: limit, maxBytes: maxPageBytes}
	answer, fail := x.svc.readPage(st, sh, q, now)
	if fail != nil {
		return nil, fail
	}
	if x.fault.kind == effectNullIterator {
		answer.iterator, answer.children = nil, nil
	}
	x.call.RecordsOut = answer.count
	return answer, nil
}

// pageAnswer is the answer of GetRecords.
type pageAnswer struct {
	page
	behind   int64
	iterator []byte // nil at the end of a closed shard
	children []childShard
}

// readPage reads a page of a shard, within its read quota if limits are on.
func (s *Service) readPage(st *stream, sh *shard, q query, now int64) (*pageAnswer, *apiError) {
	var v view
	if s.cfg.limits {
		sh.mu.Lock()
		if !sh.reads.allowRead(now) {
			sh.mu.Unlock()
			return nil, throttled(st, sh)
		}
		v, _ = sh.view(q, now, true)
		sh.reads.bytes += v.size
		sh.mu.Unlock()
	} else {
		v = sh.look(q, now)
	}
	answer := &pageAnswer{page: v.page, behind: v.behind}
	if v.ended {
		st.mu.RLock()
		answer.children = childrenOf(sh)
		st.mu.RUnlock()
		return answer, nil
	}
	at := position{stream: st.id, shard: sh.index, ordinal: answer.next, issued: now}
	answer.iterator = s.iteratorFor(at)
	return answer, nil
}

// view is what a reader sees of a shard.
type view struct {
	page
	behind int64 // ms
	ended  bool  // there will never be a record after these
}

// look reads records. Usually it gets by without keeping others from reading.
func (sh *shard) look(q query, now int64) view {
	sh.mu.RLock()
	v, ok := sh.view(q, now, false)
	sh.mu.RUnlock()
	if ok {
		return v
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	v, _ = sh.view(q, now, true)
	return v
}

// view reads records. The caller holds sh.mu, for writing if segments may be turned; if they may not
// and must be, ok is false.
func (sh *shard) view(q query, now int64, turn bool) (v view, ok bool) {
	v.page = page{next: max(q.from, sh.log.first)}
	if q.limit > 0 {
		if v.page, ok = sh.log.read(q, turn); !ok {
			return v, false
		}
	}
	if v.next < sh.log.next() {
		v.behind = max(0, now-sh.log.at(v.next).arrival)
		return v, true
	}
	v.ended = sh.closed
	return v, true
}

func throttled(st *stream, sh *shard) *apiError {
	return failf(codeThroughputExceeded, "Rate exceeded for shard %s in stream %s under account %s.",
		sh.id, st.name, st.svc.cfg.accountID)
}

type childShard struct {
	ShardId      string
	ParentShards []string
	HashKeyRange wireHashRange
}

// childrenOf lists the shards that took over from a closed one. The caller holds the stream's lock.
func childrenOf(sh *shard) []childShard {
	children := make([]childShard, 0, len(sh.children))
	for _, child := range sh.children {
		parents := []string{child.parent}
		if child.adjacent != "" {
			parents = append(parents, child.adjacent)
		}
		children = append(children, childShard{ShardId: child.id, ParentShards: parents, HashKeyRange: child.keysText})
	}
	return children
}

// parts renders the answer around the stored records; it is why a page costs next to nothing.
func (a *pageAnswer) parts(c *codec) ([][]byte, error) {
	if c.form == formCBOR {
		return a.cbor("NextShardIterator")
	}
	a.trimComma()
	tail := make([]byte, 0, 192)
	tail = append(tail, `],"MillisBehindLatest":`...)
	tail = strconv.AppendInt(tail, a.behind, 10)
	if a.iterator != nil {
		tail = append(tail, `,"NextShardIterator":"`...)
		tail = append(tail, a.iterator...)
		tail = append(tail, '"')
	}
	tail, err := appendChildren(tail, a.children)
	if err != nil {
		return nil, err
	}
	parts := make([][]byte, 0, len(a.chunks)+2)
	parts = append(parts, []byte(`{"Records":[`))
	parts = append(parts, a.chunks...)
	return append(parts, append(tail, '}')), nil
}

func appendChildren(dst []byte, children []childShard) ([]byte, error) {
	if len(children) == 0 {
		return dst, nil
	}
	text, err := jsonCodec.encode(children)
	return append(append(dst, `,"ChildShards":`...), text...), err
}
