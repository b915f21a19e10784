package kinesistest

import (
	"fmt"
	"strconv"
)

// putRecord is the request of PutRecord.
type putRecord struct {
	ref      streamRef
	entry    putEntry
	ordering []byte
	dryRun   bool
	bad      *apiError
	stream   *stream
}

// putRecords is the request of PutRecords.
type putRecords struct {
	ref     streamRef
	entries []putEntry
	more    int // records beyond those that a request may have, which are only counted
	spare   putEntry
	dryRun  bool
	bad     *apiError
	stream  *stream
}

// refField reads the members that name the stream; known is false for any other member.
func refField(in *scanner, ref *streamRef, key []byte) (known bool, err error) {
	var text []byte
	switch string(key) {
	case "StreamName":
		err = in.textInto(&text)
		ref.StreamName = string(text)
	case "StreamARN":
		err = in.textInto(&text)
		ref.StreamARN = string(text)
	default:
		return false, nil
	}
	return true, err
}

// entryField reads the members of a record.
func entryField(in *scanner, p *putEntry, key []byte) (known bool, err error) {
	switch string(key) {
	case "Data", "PartitionKey":
		if in.null() {
			return true, nil
		}
		source, err := in.str()
		if err != nil {
			return true, err
		}
		if string(key) == "Data" {
			return true, p.setData(source)
		}
		return true, p.setKey(source)
	case "ExplicitHashKey":
		return true, in.textInto(&p.explicitHash)
	default:
		return false, nil
	}
}

func parsePutRecord(c *codec, body []byte) (request, error) {
	if c.form == formCBOR {
		return parsePutRecordCBOR(body)
	}
	r := &putRecord{}
	in := scanner{b: body}
	err := in.object(func(key []byte) error {
		if known, err := entryField(&in, &r.entry, key); known {
			return err
		}
		if known, err := refField(&in, &r.ref, key); known {
			return err
		}
		switch string(key) {
		case "SequenceNumberForOrdering":
			return in.textInto(&r.ordering)
		case "DryRun":
			return in.boolInto(&r.dryRun)
		default:
			return in.skip()
		}
	})
	return r, err
}

func parsePutRecords(c *codec, body []byte) (request, error) {
	if c.form == formCBOR {
		return parsePutRecordsCBOR(body)
	}
	r := &putRecords{}
	in := scanner{b: body}
	record := func() error {
		p := r.another()
		if in.null() {
			return nil
		}
		return in.object(func(key []byte) error {
			if known, err := entryField(&in, p, key); known {
				return err
			}
			return in.skip()
		})
	}
	err := in.object(func(key []byte) error {
		if known, err := refField(&in, &r.ref, key); known {
			return err
		}
		switch string(key) {
		case "Records":
			r.entries = make([]putEntry, 0, guessRecords(body))
			return in.array(record)
		case "DryRun":
			return in.boolInto(&r.dryRun)
		default:
			return in.skip()
		}
	})
	return r, err
}

// another is room for a record.
func (r *putRecords) another() *putEntry {
	if len(r.entries) == maxPutRecords {
		r.more++
		r.spare = putEntry{}
		return &r.spare
	}
	r.entries = append(r.entries, putEntry{})
	return &r.entries[len(r.entries)-1]
}

func (r *putRecords) count() int { return len(r.entries) + r.more }

// guessRecords is how many records to make room for.
func guessRecords(body []byte) int {
	const smallRecord = 64 // bytes
	return min(maxPutRecords, 1+len(body)/smallRecord)
}

// describe also finds the stream and the shard, for run.
func (r *putRecord) describe(s *Service, call *Call) {
	call.Stream, call.Key, call.RecordsIn = r.ref.name(), string(r.entry.key), 1
	if r.bad = r.entry.check(); r.bad != nil {
		return
	}
	if r.stream, r.bad = s.find(r.ref); r.bad == nil {
		r.bad = r.stream.assign(&r.entry)
	}
	if r.entry.shard != nil {
		call.Shard = r.entry.shard.id
	}
}

func (r *putRecords) describe(s *Service, call *Call) {
	call.Stream, call.RecordsIn = r.ref.name(), r.count()
	if r.bad = r.check(); r.bad != nil {
		return
	}
	if r.stream, r.bad = s.find(r.ref); r.bad != nil {
		return
	}
	for i := range r.entries {
		if r.bad = r.stream.assign(&r.entries[i]); r.bad != nil {
			return
		}
	}
}

// anyEntry reports whether a fault's match fits at least one of the records.
func (r *putRecords) anyEntry(m Match) bool {
	for i := range r.entries {
		if m.fitsEntry(&r.entries[i]) {
			return true
		}
	}
	return false
}

func (r *putRecords) check() *apiError {
	if n := r.count(); n < 1 || n > maxPutRecords {
		return validation("Value of length %d at 'records' failed to satisfy constraint: "+
			"Member must have length between 1 and %d", n, maxPutRecords)
	}
	total := 0
	for i := range r.entries {
		p := &r.entries[i]
		if fail := p.check(); fail != nil {
			return fail
		}
		total += p.size()
	}
	if total > maxPutBytes {
		return invalidArgument("Records size of %d bytes exceeds the %d bytes a PutRecords request may have.", total, maxPutBytes)
	}
	return nil
}

// assign checks an entry against the stream and finds the shard it goes to now, on which a fault may
// match. The put itself routes again, since a split may come between.
func (st *stream) assign(p *putEntry) *apiError {
	st.mu.RLock()
	defer st.mu.RUnlock()
	if fail := st.serves(); fail != nil {
		return fail
	}
	p.shard = st.route(p.hash)
	return p.checkSize(st)
}

// store puts one entry into the shard that owns its hash. The caller holds st.mu for reading.
func (st *stream) store(p *putEntry, now int64, seq *[sequenceDigits]byte) *apiError {
	p.shard = st.route(p.hash)
	sh := p.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if st.svc.cfg.limits && !sh.writes.allowWrite(now, p.size()) {
		return throttled(st, sh)
	}
	sh.put(now, p, seq)
	return nil
}

type putRecordAnswer struct {
	ShardId        string
	SequenceNumber string
}

func (r *putRecord) run(x *exchange) (any, *apiError) {
	if r.bad != nil {
		return nil, r.bad
	}
	if r.ordering != nil {
		if _, err := parseSequence(string(r.ordering)); err != nil {
			return nil, invalidArgument("ExclusiveMinimumSequenceNumber %s used in PutRecord on stream %s under account %s "+
				"is invalid.", r.ordering, r.stream.name, x.svc.cfg.accountID)
		}
	}
	if r.dryRun {
		return nil, errDryRun
	}
	r.stream.mu.RLock()
	defer r.stream.mu.RUnlock()
	var seq [sequenceDigits]byte
	if fail := r.stream.store(&r.entry, x.now.UnixMilli(), &seq); fail != nil {
		return nil, fail
	}
	return &putRecordAnswer{ShardId: r.entry.shard.id, SequenceNumber: string(seq[:])}, nil
}

// putResult is the outcome of one entry.
type putResult struct {
	shard *shard
	seq   [sequenceDigits]byte
	fail  *apiError
}

// putRecordsAnswer is the answer of PutRecords, rendered without reflection.
type putRecordsAnswer struct {
	results []putResult
	failed  int
}

func (r *putRecords) run(x *exchange) (any, *apiError) {
	if r.bad != nil {
		return nil, r.bad
	}
	st := r.stream
	st.mu.RLock()
	defer st.mu.RUnlock()
	if r.dryRun {
		return nil, errDryRun
	}
	answer := &putRecordsAnswer{results: make([]putResult, len(r.entries))}
	now := x.now.UnixMilli()
	matched := 0
	for i := range r.entries {
		p, result := &r.entries[i], &answer.results[i]
		if x.fault.kind == effectPartial && x.fault.hits(p, i, &matched) {
			result.fail = &apiError{code: x.fault.code, message: partialMessage(x.fault.code, st, p.shard)}
		} else {
			result.fail = st.store(p, now, &result.seq)
		}
		result.shard = p.shard
		if result.fail != nil {
			answer.failed++
		}
	}
	return answer, nil
}

func partialMessage(code string, st *stream, sh *shard) string {
	if code == codeThroughputExceeded {
		return throttled(st, sh).message
	}
	return "Internal service failure."
}

func (a *putRecordsAnswer) parts(c *codec) ([][]byte, error) {
	if c.form == formCBOR {
		return a.cbor(), nil
	}
	b := make([]byte, 0, 64+len(a.results)*128)
	b = append(b, `{"FailedRecordCount":`...)
	b = strconv.AppendInt(b, int64(a.failed), 10)
	b = append(b, `,"Records":[`...)
	for i := range a.results {
		if i > 0 {
			b = append(b, ',')
		}
		r := &a.results[i]
		if r.fail != nil {
			b = fmt.Appendf(b, `{"ErrorCode":%q,"ErrorMessage":%q}`, r.fail.code, r.fail.message)
			continue
		}
		b = append(b, `{"SequenceNumber":"`...)
		b = append(b, r.seq[:]...)
		b = append(b, `","ShardId":"`...)
		b = append(b, r.shard.id...)
		b = append(b, `"}`...)
	}
	return [][]byte{append(b, `]}`...)}, nil
}
