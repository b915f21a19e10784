package kinesistest

import (
	"sync"
	"time"
)

// Call is one request the service understood, as [Service.Calls] reports it. Fields that do not
// apply to the operation are zero.
type Call struct {
	Time   time.Time // when it arrived, on the service's clock
	Op     string    // such as "GetRecords"
	Stream string    // name
	Shard  string    // id; for PutRecord the shard the key hashes to
	Key    string    // PutRecord: the partition key

	IteratorType   string    // GetShardIterator, SubscribeToShard: such as "LATEST"
	SequenceNumber string    // GetShardIterator, SubscribeToShard: the starting sequence number
	Timestamp      time.Time // GetShardIterator, SubscribeToShard: the starting time
	Position       int64     // GetRecords: records ever put to the shard before the iterator
	Consumer       string    // SubscribeToShard: the consumer's ARN

	RecordsIn  int    // PutRecord, PutRecords: records in the request
	RecordsOut int    // GetRecords: records in the answer
	ErrorCode  string // code of the answer if it was an error
	Fault      string // the fault that changed the answer, such as "reset"
}

// callLog is a ring of the latest calls.
type callLog struct {
	mu     sync.Mutex
	limit  int
	calls  []Call
	oldest int // index of the oldest call once the ring is full
	counts map[string]int
}

func (l *callLog) add(call *Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[call.Op]++
	switch {
	case l.limit == 0:
	case len(l.calls) < l.limit:
		l.calls = append(l.calls, *call)
	default:
		l.calls[l.oldest] = *call
		l.oldest = (l.oldest + 1) % l.limit
	}
}

// Calls returns the latest calls, oldest first; see [WithCallLog]. A call is listed from the moment
// its answer is decided, so an open subscription or a hanging call is already there.
func (s *Service) Calls() []Call {
	l := &s.calls
	l.mu.Lock()
	defer l.mu.Unlock()
	return append(append(make([]Call, 0, len(l.calls)), l.calls[l.oldest:]...), l.calls[:l.oldest]...)
}

// CallCount returns how many calls of op the service has answered since it started, "" or "*" for
// all. It counts with the log turned off, too.
func (s *Service) CallCount(op string) int {
	l := &s.calls
	l.mu.Lock()
	defer l.mu.Unlock()
	if op != "" && op != anyOp {
		return l.counts[op]
	}
	total := 0
	for _, n := range l.counts {
		total += n
	}
	return total
}

// ClearCalls empties the log and sets all counts to 0.
func (s *Service) ClearCalls() {
	l := &s.calls
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls, l.oldest = nil, 0
	clear(l.counts)
}
