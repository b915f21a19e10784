package kinesistest

import (
	"slices"
	"sync"
	"sync/atomic"
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

// callBlock is how many calls are kept in one piece of memory. A log that grew by copying would hold
// up every call in the meantime.
const callBlock = 1024

// callLog is a ring of the latest calls.
type callLog struct {
	counts callCounts

	mu     sync.Mutex
	limit  int
	blocks [][]Call // each full but the last one
	oldest int      // index of the oldest call once the ring is full
}

// callCounts counts calls by operation. Its keys never change.
type callCounts map[string]*atomic.Int64

func newCallCounts() callCounts {
	counts := make(callCounts, len(operations))
	for op := range operations {
		counts[op] = new(atomic.Int64)
	}
	return counts
}

func (l *callLog) add(call *Call) {
	l.counts[call.Op].Add(1)
	if l.limit == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	last := len(l.blocks) - 1
	switch {
	case last < 0 || len(l.blocks[last]) == callBlock && len(l.blocks)*callBlock < l.limit:
		block := make([]Call, 0, min(callBlock, l.limit-len(l.blocks)*callBlock))
		l.blocks = append(l.blocks, append(block, *call))
	case last*callBlock+len(l.blocks[last]) < l.limit:
		l.blocks[last] = append(l.blocks[last], *call)
	default:
		l.blocks[l.oldest/callBlock][l.oldest%callBlock] = *call
		l.oldest = (l.oldest + 1) % l.limit
	}
}

// Calls returns the latest calls, oldest first; see [WithCallLog]. A call is listed from the moment
// its answer is decided, so an open subscription or a hanging call is already there.
func (s *Service) Calls() []Call {
	l := &s.calls
	l.mu.Lock()
	defer l.mu.Unlock()
	calls := slices.Concat(l.blocks...)
	if calls == nil {
		return []Call{}
	}
	return slices.Concat(calls[l.oldest:], calls[:l.oldest])
}

// CallCount returns how many calls of op the service has answered since it started, "" or "*" for
// all. It counts with the log turned off, too.
func (s *Service) CallCount(op string) int {
	if op != "" && op != anyOp {
		return s.calls.counts.of(op)
	}
	total := 0
	for op := range s.calls.counts {
		total += s.calls.counts.of(op)
	}
	return total
}

func (c callCounts) of(op string) int {
	if n := c[op]; n != nil {
		return int(n.Load())
	}
	return 0
}

// ClearCalls empties the log and sets all counts to 0.
func (s *Service) ClearCalls() {
	l := &s.calls
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blocks, l.oldest = nil, 0
	for _, n := range l.counts {
		n.Store(0)
	}
}
