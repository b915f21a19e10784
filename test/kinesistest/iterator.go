package kinesistest

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"time"
)

const (
	iteratorLife = 5 * time.Minute
	tokenLife    = 300 * time.Second

	iteratorVersion = 1
	iteratorSize    = 1 + 8 + 4 + 8 + 8 + 8
)

var errIterator = errors.New("not an iterator of this service")

// position is what a shard iterator stands for. Everything about the iterator is in the token, so
// the service keeps nothing for it.
type position struct {
	stream  uint64
	shard   uint32
	ordinal uint64
	issued  int64 // ms
}

// iteratorFor returns the token of a position: its fields and a keyed checksum, in base64.
func (s *Service) iteratorFor(p position) []byte {
	var raw [iteratorSize]byte
	raw[0] = iteratorVersion
	binary.BigEndian.PutUint64(raw[1:], p.stream)
	binary.BigEndian.PutUint32(raw[9:], p.shard)
	binary.BigEndian.PutUint64(raw[13:], p.ordinal)
	binary.BigEndian.PutUint64(raw[21:], uint64(p.issued)) //nolint:gosec // read back the same way
	binary.BigEndian.PutUint64(raw[29:], maphash.Bytes(s.seed, raw[:29]))
	return base64.StdEncoding.AppendEncode(nil, raw[:])
}

func (s *Service) parseIterator(token []byte) (position, error) {
	var raw [iteratorSize + 3]byte
	if base64.StdEncoding.DecodedLen(len(token)) > len(raw) {
		return position{}, errIterator
	}
	n, err := base64.StdEncoding.Decode(raw[:], token)
	if err != nil || n != iteratorSize || raw[0] != iteratorVersion ||
		binary.BigEndian.Uint64(raw[29:]) != maphash.Bytes(s.seed, raw[:29]) {
		return position{}, errIterator
	}
	return position{
		stream:  binary.BigEndian.Uint64(raw[1:]),
		shard:   binary.BigEndian.Uint32(raw[9:]),
		ordinal: binary.BigEndian.Uint64(raw[13:]),
		issued:  int64(binary.BigEndian.Uint64(raw[21:])), //nolint:gosec // written the same way
	}, nil
}

// Iterator types.
const (
	atSequence    = "AT_SEQUENCE_NUMBER"
	afterSequence = "AFTER_SEQUENCE_NUMBER"
	trimHorizon   = "TRIM_HORIZON"
	latest        = "LATEST"
	atTimestamp   = "AT_TIMESTAMP"
)

// startingPosition says where to begin reading a shard.
type startingPosition struct {
	Type           string
	SequenceNumber string `json:",omitempty"`
	Timestamp      *epoch `json:",omitempty"`
}

// locate turns a starting position into the ordinal of the first record to read.
func (sh *shard) locate(st *stream, start startingPosition, op string) (uint64, *apiError) {
	switch start.Type {
	case trimHorizon:
		return 0, nil
	case latest:
		sh.mu.RLock()
		defer sh.mu.RUnlock()
		return sh.log.next(), nil
	case atTimestamp:
		if start.Timestamp == nil {
			return 0, invalidArgument("Must specify timestamp parameter for iterator of type AT_TIMESTAMP.")
		}
		if now := st.svc.clock.nowMillis(); int64(*start.Timestamp) > now {
			return 0, invalidArgument("The timestampInMillis parameter cannot be greater than the currentTimestampInMillis. "+
				"timestampInMillis: %d, currentTimestampInMillis: %d", int64(*start.Timestamp), now)
		}
		sh.mu.RLock()
		defer sh.mu.RUnlock()
		return sh.log.since(int64(*start.Timestamp)), nil
	case atSequence, afterSequence:
		return sh.locateSequence(st, start, op)
	default:
		return 0, validation("Value '%s' at 'shardIteratorType' failed to satisfy constraint: Member must satisfy "+
			"enum value set: [AFTER_SEQUENCE_NUMBER, LATEST, AT_TIMESTAMP, AT_SEQUENCE_NUMBER, TRIM_HORIZON]", start.Type)
	}
}

func (sh *shard) locateSequence(st *stream, start startingPosition, op string) (uint64, *apiError) {
	number := start.SequenceNumber
	if number == "" {
		return 0, invalidArgument("Must specify sequence number parameter for iterator of type %s.", start.Type)
	}
	q, err := parseSequence(number)
	if errors.Is(err, errSequenceSyntax) {
		return 0, validation("Value '%s' at 'startingSequenceNumber' failed to satisfy constraint: "+
			"Member must satisfy regular expression pattern: 0|([1-9]\\d{0,128})", number)
	}
	if err == nil && q.shard != sh.index {
		return 0, invalidArgument("Invalid StartingSequenceNumber. It encodes %s, while it was used in a call to a shard with %s",
			shardID(q.shard), sh.id)
	}
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	next := sh.log.next()
	if err == nil && q.created == sh.created && q.counter == endCounter && sh.closed {
		return next, nil
	}
	if err != nil || q.created != sh.created || q.counter > next {
		return 0, invalidArgument("StartingSequenceNumber %s used in %s on shard %s in stream %s under account %s "+
			"is invalid because it did not come from this stream.", number, op, sh.id, st.name, st.svc.cfg.accountID)
	}
	if start.Type == atSequence && q.counter > 0 {
		return q.counter - 1, nil
	}
	return q.counter, nil
}

// getShardIterator is the request of GetShardIterator.
type getShardIterator struct {
	streamRef
	ShardId                string
	ShardIteratorType      string
	StartingSequenceNumber string
	Timestamp              *epoch
	DryRun                 bool
}

type getShardIteratorAnswer struct{ ShardIterator string }

func (r *getShardIterator) describe(_ *Service, call *Call) {
	call.Stream, call.Shard = r.name(), r.ShardId
	call.IteratorType, call.SequenceNumber = r.ShardIteratorType, r.StartingSequenceNumber
	if r.Timestamp != nil {
		call.Timestamp = r.Timestamp.time()
	}
}

func (r *getShardIterator) run(x *exchange) (any, *apiError) {
	st, fail := x.svc.find(r.streamRef)
	if fail != nil {
		return nil, fail
	}
	st.mu.RLock()
	fail = st.serves()
	st.mu.RUnlock()
	if fail != nil {
		return nil, fail
	}
	sh, fail := st.shard(r.ShardId)
	if fail != nil {
		return nil, fail
	}
	start := startingPosition{Type: r.ShardIteratorType, SequenceNumber: r.StartingSequenceNumber, Timestamp: r.Timestamp}
	ordinal, fail := sh.locate(st, start, "GetShardIterator")
	if fail != nil {
		return nil, fail
	}
	if r.DryRun {
		return nil, errDryRun
	}
	at := position{stream: st.id, shard: sh.index, ordinal: ordinal, issued: x.now.UnixMilli()}
	return &getShardIteratorAnswer{ShardIterator: string(x.svc.iteratorFor(at))}, nil
}
