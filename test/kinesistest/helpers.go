package kinesistest

import (
	"fmt"
	"time"
)

// Record is a record as the service stores it.
type Record struct {
	Shard          string // id
	SequenceNumber string
	PartitionKey   string
	Data           []byte
	Arrival        time.Time // ApproximateArrivalTimestamp, in milliseconds
}

// Shard is a shard as the service sees it.
type Shard struct {
	ID             string
	Parent         string // ParentShardId, "" if it has none
	AdjacentParent string // second parent of a merged shard, "" if it has none
	StartHash      string // decimal, inclusive
	EndHash        string // decimal, inclusive
	StartSequence  string
	EndSequence    string // "" while the shard is open
	Created        time.Time
	Closed         time.Time // zero while the shard is open
	Records        int       // records that can still be read
}

// CreateStream makes a provisioned stream, without a call over the wire. With [WithStreamDelay] it
// is CREATING at first, like any other.
func (s *Service) CreateStream(name string, shards int) error {
	r := createStream{StreamName: name, ShardCount: &shards}
	mode, shards, fail := r.check()
	if fail == nil {
		fail = s.create(name, mode, shards, defaultMaxRecordKiB)
	}
	return asError(fail)
}

// asError keeps a nil *apiError from becoming an error that is not nil.
func asError(fail *apiError) error {
	if fail == nil {
		return nil
	}
	return fmt.Errorf("kinesistest: %w", fail)
}

// Put stores a record as PutRecord would, limits included, but without a call over the wire: faults
// do not touch it and it is not logged. It returns where the record went; an error is a
// [smithy.APIError] like those of the SDK.
func (s *Service) Put(stream, key string, data []byte) (shardID, sequenceNumber string, err error) {
	p := putEntry{key: []byte(key), raw: data, dataLen: len(data)}
	if data == nil {
		p.raw = []byte{}
	}
	if fail := p.check(); fail != nil {
		return "", "", asError(fail)
	}
	st, fail := s.find(streamRef{StreamName: stream})
	if fail == nil {
		fail = st.assign(&p)
	}
	if fail != nil {
		return "", "", asError(fail)
	}
	st.mu.RLock()
	defer st.mu.RUnlock()
	var seq [sequenceDigits]byte
	if fail := st.store(&p, s.clock.nowMillis(), &seq); fail != nil {
		return "", "", asError(fail)
	}
	return p.shard.id, string(seq[:]), nil
}

// Records returns every record of a stream that can still be read, shard by shard in the order of
// the shard ids and within a shard in its order. A stream that does not exist has no records.
func (s *Service) Records(stream string) []Record {
	st, fail := s.find(streamRef{StreamName: stream})
	if fail != nil {
		return nil
	}
	st.mu.RLock()
	defer st.mu.RUnlock()
	var records []Record
	horizon := st.horizon(s.clock.nowMillis())
	for _, sh := range st.shards {
		sh.trim(horizon)
		records = append(records, sh.records()...)
	}
	return records
}

func (sh *shard) records() []Record {
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	records := make([]Record, len(sh.log.entries))
	for i := range records {
		e, p := &sh.log.entries[i], sh.log.stored(i)
		records[i] = Record{
			Shard: sh.id, SequenceNumber: string(e.sequence()), PartitionKey: string(p.text()),
			Data: p.data(), Arrival: millisTime(e.arrival),
		}
	}
	return records
}

// Shards returns the shards of a stream that ListShards would list, in the order of their ids. A
// stream that does not exist has none.
func (s *Service) Shards(stream string) []Shard {
	st, fail := s.find(streamRef{StreamName: stream})
	if fail != nil {
		return nil
	}
	now := s.clock.nowMillis()
	st.sweep(now)
	st.mu.RLock()
	defer st.mu.RUnlock()
	shards := make([]Shard, 0, len(st.shards))
	for _, sh := range st.shards {
		sh.trim(st.horizon(now))
		shards = append(shards, sh.info())
	}
	return shards
}

func (sh *shard) info() Shard {
	info := Shard{
		ID: sh.id, Parent: sh.parent, AdjacentParent: sh.adjacent,
		StartHash: sh.keysText.StartingHashKey, EndHash: sh.keysText.EndingHashKey,
		StartSequence: sh.startSeq, EndSequence: sh.endSeq, Created: millisTime(sh.createdAt),
	}
	if !sh.isOpen() {
		info.Closed = millisTime(sh.closedAt)
	}
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	info.Records = len(sh.log.entries)
	return info
}

// Trim drops the oldest n records of a shard, as retention does, and returns how many there were to
// drop. Positions before them then read from the oldest record that is left.
func (s *Service) Trim(stream, shard string, n int) int {
	sh := s.findShard(stream, shard)
	if sh == nil {
		return 0
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	n = max(0, min(n, len(sh.log.entries)))
	sh.log.drop(n)
	return n
}

// DropShard forgets a closed shard and its records, as happens when its retention is over: it is no
// longer listed, and reading it fails with ResourceNotFoundException. It reports whether there was
// such a shard; an open one is kept.
func (s *Service) DropShard(stream, shard string) bool {
	sh := s.findShard(stream, shard)
	if sh == nil {
		return false
	}
	st, fail := s.find(streamRef{StreamName: stream})
	if fail != nil {
		return false
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if sh.isOpen() {
		return false
	}
	st.dropShards(func(other *shardOf) bool { return other == sh })
	return true
}

// shardOf lets functions that have a parameter called shard name the type.
type shardOf = shard

func (s *Service) findShard(stream, id string) *shardOf {
	st, fail := s.find(streamRef{StreamName: stream})
	if fail != nil {
		return nil
	}
	st.mu.RLock()
	defer st.mu.RUnlock()
	return st.byShardID[id]
}
