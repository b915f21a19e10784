package kinesistest

import (
	"fmt"
	"sync"
)

// shard is one ordered partition of a stream.
//
// The fields of the first block never change. Those of the second change only with the stream
// locked for writing, so holding the stream's read lock is enough to read them. Those of the third
// belong to mu.
type shard struct {
	id        string
	index     uint32
	keys      hashRange
	keysText  wireHashRange
	parent    string // ParentShardId, or ""
	adjacent  string // AdjacentParentShardId, or ""
	created   uint64 // second in its sequence numbers
	createdAt int64  // ms, service clock
	startSeq  string

	closedAt int64 // ms; 0 = open
	endSeq   string
	children []*shard

	mu          sync.RWMutex
	log         recordLog
	lastArrival int64
	closed      bool          // as closedAt, for readers that hold only mu
	wake        chan struct{} // closed by the next put or by closing; nil if nobody waits
	reads       meter
	writes      meter
}

func shardID(index uint32) string { return fmt.Sprintf("shardId-%012d", index) }

func (sh *shard) sequenceAt(counter, second uint64) sequence {
	return sequence{created: sh.created, counter: counter, time: second, shard: sh.index}
}

// isOpen reports whether puts go to the shard. The caller holds the stream's lock.
func (sh *shard) isOpen() bool { return sh.closedAt == 0 }

// put stores a record and returns its sequence number in seq. The caller holds sh.mu.
func (sh *shard) put(now int64, p *putEntry, seq *[sequenceDigits]byte) {
	now = max(now, sh.lastArrival, sh.createdAt)
	sh.lastArrival = now
	sh.sequenceAt(sh.log.next()+1, seconds(now)).put(seq)
	sh.log.append(seq, now, p)
	sh.wakeReaders()
}

func (sh *shard) wakeReaders() {
	if sh.wake != nil {
		close(sh.wake)
		sh.wake = nil
	}
}

// close ends the shard. The caller holds the stream's write lock.
func (sh *shard) close(at int64, children ...*shard) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.closedAt = at
	sh.children = children
	sh.endSeq = sh.sequenceAt(endCounter, seconds(at)).String()
	sh.closed = true
	sh.wakeReaders()
}

// trim drops the records that arrived before horizon (ms).
func (sh *shard) trim(horizon int64) {
	sh.mu.RLock()
	due := len(sh.log.entries) > 0 && sh.log.entries[0].arrival < horizon
	sh.mu.RUnlock()
	if !due {
		return
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.log.drop(int(sh.log.since(horizon) - sh.log.first)) //nolint:gosec // at most len(entries)
}

// continuation is the sequence number after which the record with ordinal pos comes.
func (sh *shard) continuation(pos uint64, now int64) string {
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	switch {
	case pos == 0:
		return sh.startSeq
	case pos > sh.log.first && pos <= sh.log.next():
		return string(sh.log.at(pos - 1).sequence())
	default: // trimmed: the counter alone decides where reading goes on
		return sh.sequenceAt(pos, seconds(now)).String()
	}
}

func seconds(ms int64) uint64 { return uint64(ms / 1000) } //nolint:gosec // after 1970
