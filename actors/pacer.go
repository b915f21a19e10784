package actors

import "time"

// pacerMargin widens the second that calls are counted over: they arrive at the service a little closer together
// or further apart than they were made.
const pacerMargin = 20 * time.Millisecond

// pacer keeps a shard's reads within so many calls in any second, counting every call however it ends. A limit below 1 is none.
type pacer struct {
	limit int
	calls []time.Time // the last limit calls, oldest first
}

// paces are those of a shard: of GetRecords and of GetShardIterator. A reader hands them on to its successor.
type paces struct {
	reads, opens pacer
}

func newPaces(limit int) *paces {
	return &paces{reads: pacer{limit: limit}, opens: pacer{limit: limit}}
}

// wait is how long the next call has to wait.
func (p *pacer) wait(now time.Time) time.Duration {
	if p.limit < 1 || len(p.calls) < p.limit {
		return 0
	}
	return max(0, p.calls[0].Add(time.Second+pacerMargin).Sub(now))
}

// called counts a call made now.
func (p *pacer) called(now time.Time) {
	if p.limit < 1 {
		return
	}
	if len(p.calls) == p.limit {
		p.calls = p.calls[:copy(p.calls, p.calls[1:])]
	}
	p.calls = append(p.calls, now)
}
