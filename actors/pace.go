package actors

import "time"

// pace bounds what is sent to one shard once the shard has refused something, so that what is sent is about what it takes. Pure state.
//
// It counts in shares of what a shard takes in a second by the service's own limits, 1,000 records and 1 MiB: an entry costs the larger of its two
// shares. It begins at 1 a second. A window in which much was refused brings it down to what was stored, but not by much at once, and only if that helps:
// what a shard refuses may have other reasons than our rate. One in which hardly anything was refused brings it up a little. When nothing has been
// refused for a while there is no bound any more. While a shard takes nothing at all, one entry is tried now and then.
type pace struct {
	rate      float64 // shares a second; 0: no bound
	tokens    float64 // shares that may be sent now
	counted   time.Time
	begun     time.Time // the bound
	refusedAt time.Time

	windowFrom      time.Time
	stored, refused float64 // shares, in this window
	entries         int
	before          float64 // the rate before the last window brought it down; 0: it did not
	beforeRefused   float64 // the part that was refused then
	patience        int     // windows to come that do not bring it down

	streak  int // entries refused in a row
	shut    int // tries refused in a row; 0: open
	tried   bool
	reopens time.Time
}

const (
	shardRecords = 1000    // a second
	shardBytes   = 1 << 20 // a second

	paceFirst  = 1.0
	paceWindow = 500 * time.Millisecond
	// paceSlice is how much is sent at once: a request for each entry would cost more than it is worth.
	paceSlice = 25 * time.Millisecond
	// paceBurst is how much may be saved up.
	paceBurst  = 4 * paceSlice
	paceForget = 10 * time.Second
	paceLeast  = 0.01
	// A window is long enough to have some entries to judge by, unless there are very few.
	paceSample    = 20
	paceWindowMax = 10 * paceWindow
	// Parts of a window that are refused: little enough to go faster, and too much.
	paceLittle  = 0.03
	paceTooMuch = 0.1
	paceUp      = 1.05
	paceDown    = 0.7 // at most, at once
	// If a lower rate leaves more than this of what was refused, it was brought down in vain.
	paceInVain   = 0.7
	pacePatience = 10
	// paceStreak entries refused in a row, and none stored, shut a lane.
	paceStreak = 8

	paceRetryFirst = 250 * time.Millisecond
	paceRetryMax   = 5 * time.Second
)

// paceCost is what an entry of so many bytes costs.
func paceCost(size int) float64 { return max(1.0/shardRecords, float64(size)/shardBytes) }

// limited reports whether there is a bound.
func (p *pace) limited() bool { return p.rate > 0 }

// opens is when something may be sent next; not after now: at once.
func (p *pace) opens(now time.Time) time.Time {
	p.forget(now)
	switch {
	case !p.limited():
		return now
	case p.shut > 0:
		return p.reopens
	}
	p.refill(now)
	if missing := p.rate*paceSlice.Seconds() - p.tokens; missing > 0 {
		at := now.Add(max(time.Millisecond, seconds(missing/p.rate)))
		if forgotten := p.refusedAt.Add(paceForget); forgotten.Before(at) { // a large entry leaves a debt of minutes at a low rate
			return forgotten
		}
		return at
	}
	return now
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (p *pace) refill(now time.Time) {
	p.tokens = min(p.rate*paceBurst.Seconds(), p.tokens+p.rate*max(0, now.Sub(p.counted).Seconds()))
	p.counted = now
}

// spend counts an entry sent; more reports whether another may follow.
func (p *pace) spend(cost float64, now time.Time) (more bool) {
	if !p.limited() {
		return true
	}
	p.tokens -= cost
	if p.shut > 0 {
		p.tried, p.reopens = true, now.Add(jitter(backoff(paceRetryFirst, paceRetryMax, p.shut)))
		return false
	}
	return p.tokens > 0
}

// laneAnswer is what one request says of a lane: entries, and their cost.
type laneAnswer struct {
	storedCount, refusedCount int
	stored, refused           float64
}

// answered takes in what became of the entries of a request.
func (p *pace) answered(a laneAnswer, now time.Time) {
	if a.refusedCount > 0 {
		p.refusedAt = now
		if !p.limited() {
			*p = pace{rate: paceFirst, begun: now, counted: now, windowFrom: now, refusedAt: now}
			a = laneAnswer{refusedCount: a.refusedCount, storedCount: a.storedCount} // was sent at another rate
		}
	}
	switch {
	case !p.limited():
	case now.Sub(p.refusedAt) >= paceForget:
		*p = pace{}
	case a.storedCount > 0:
		if p.shut > 0 {
			p.shut, p.windowFrom, p.stored, p.refused, p.entries = 0, now, 0, 0, 0
			p.tokens, p.counted = 0, now
		}
		p.streak = 0
		p.count(a, now)
	case p.shut > 0:
		if p.tried {
			p.shut++
			p.tried, p.reopens = false, now.Add(jitter(backoff(paceRetryFirst, paceRetryMax, p.shut)))
		}
	default:
		p.count(a, now)
		if p.streak += a.refusedCount; p.streak >= paceStreak {
			p.streak, p.shut, p.tried, p.reopens = 0, 1, false, now.Add(jitter(paceRetryFirst))
			if now.Sub(p.begun) > 2*paceWindow { // else it is what was sent before there was a bound
				p.rate = max(paceLeast, paceDown*p.rate)
			}
		}
	}
}

// count adds to the window, and sets the rate when it is over.
func (p *pace) count(a laneAnswer, now time.Time) {
	p.stored += a.stored
	p.refused += a.refused
	p.entries += a.storedCount + a.refusedCount
	passed := now.Sub(p.windowFrom)
	if passed < paceWindow || p.entries == 0 || (p.entries < paceSample && passed < paceWindowMax) || p.stored+p.refused == 0 {
		return
	}
	p.adjust(p.refused/(p.stored+p.refused), p.stored/passed.Seconds())
	p.windowFrom, p.stored, p.refused, p.entries = now, 0, 0, 0
}

// adjust sets the rate by the part of a window that was refused, and what was stored a second.
func (p *pace) adjust(refused, stored float64) {
	before, beforeRefused := p.before, p.beforeRefused
	p.before = 0
	most := refused > 0.5
	switch {
	case before > 0 && !most && refused > paceInVain*beforeRefused:
		p.rate, p.patience = before, pacePatience
	case refused <= paceLittle:
		p.rate = p.rate*paceUp + 0.002
	case p.patience > 0 && !most:
		p.patience--
	case refused > paceTooMuch:
		p.before, p.beforeRefused = p.rate, refused
		p.rate = min(p.rate, max(paceLeast, paceDown*p.rate, stored))
	}
}

// forget ends the bound when nothing has been refused for a while.
func (p *pace) forget(now time.Time) {
	if p.limited() && p.shut == 0 && now.Sub(p.refusedAt) >= paceForget {
		*p = pace{}
	}
}
