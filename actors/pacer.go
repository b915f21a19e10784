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

// nearLimit is how long the calls that a second allows may take for it to be they that bound what is read.
const nearLimit = 1250 * time.Millisecond

// busy reports whether about as many calls are made as may be: more can be read only if each brings more.
func (p *pacer) busy(now time.Time) bool {
	return p.limit > 0 && len(p.calls) == p.limit && now.Sub(p.calls[0]) < nearLimit
}

// hasty reports whether a call now comes sooner than calls may on average.
func (p *pacer) hasty(now time.Time) bool {
	return p.limit > 0 && len(p.calls) > 0 && now.Sub(p.calls[len(p.calls)-1]) < time.Second/time.Duration(p.limit)
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
