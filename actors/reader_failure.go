package actors

import (
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

const (
	// throttleFirst is the pause after a throttle: the service counts over a second.
	throttleFirst = time.Second
	throttleMax   = 10 * time.Second
	failureFirst  = 100 * time.Millisecond
	failureMax    = 10 * time.Second
	// deniedPause is for failures that a person has to solve.
	deniedPause = 10 * time.Second
	// reopenAfter is how many failures in a row make the iterator suspect: some services answer 500 for an expired one.
	reopenAfter = 5
)

// onReadFailure keeps the place and tries again, each kind of failure in its way.
func (r *reader) onReadFailure(c actor.Context, err error) {
	f := &r.fetch
	e := readError(r.how.stream.spelling, r.shard.id, "the shard can't be read", err)
	kind := classify(err)
	switch kind {
	case failureExpired, failureInvalid:
		// Where reading goes on is known without the iterator.
		f.iterator = ""
		if !f.reopened {
			f.reopened = true
			r.openIterator()
			return
		}
		r.timers.set(timerOpen, r.failed(c, e))
		return
	case failureNotFound:
		f.iterator = ""
		r.onNotFound(e)
		return
	case failureThrottled:
		f.next = time.Now().Add(r.failed(c, e))
		if f.iterator == "" {
			r.timers.set(timerOpen, time.Until(f.next))
		}
	case failureTransient, failureTimeout, failureDenied, failureConfig, failureCredentials:
		f.next = time.Now().Add(r.failed(c, e))
		if f.iterator == "" || f.failures%reopenAfter == 0 {
			f.iterator = ""
			r.timers.set(timerOpen, time.Until(f.next))
			return
		}
	}
	r.fetchMore()
}

// failed counts a failure, tells the subscriber when it lasts, and says how long to wait. A throttle is none.
func (r *reader) failed(c actor.Context, e *Error) time.Duration {
	f := &r.fetch
	kind := classify(e)
	if kind == failureThrottled {
		f.refusals++
		pause := throttlePause(f.refusals, f.owed)
		f.owed = 0
		return jitterUp(pause)
	}
	f.failures++
	r.log().Debug("read failed", slog.Int("failures", f.failures), slog.Any("error", e))
	if !f.told && (f.failures >= tellAfter || kind.lasting()) {
		f.told = true
		r.log().Warn("the shard can't be read", slog.Any("error", e))
		r.tell(c, e)
	}
	if kind.lasting() {
		return jitter(deniedPause)
	}
	return jitter(backoff(failureFirst, failureMax, f.failures))
}

// recovered: the shard has been read. An iterator is not enough: it may be had though reading is refused.
func (r *reader) recovered() {
	if r.fetch.told {
		r.log().Info("the shard can be read again")
	}
	f := &r.fetch
	f.failures, f.refusals, f.reopened, f.told = 0, 0, false, false
}

// jitterUp is d or up to a fifth more.
func jitterUp(d time.Duration) time.Duration { return max(d, jitter(d)) }
