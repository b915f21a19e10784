package kinesistest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Clock is the time the service lives in: a base (real time unless [WithClock] says otherwise) plus
// an offset that tests move forward.
type Clock struct {
	base   func() time.Time
	offset atomic.Int64

	mu    sync.Mutex
	moved chan struct{} // closed and replaced by every Advance
}

func newClock(base func() time.Time) *Clock {
	return &Clock{base: base, moved: make(chan struct{})}
}

// Now returns the service's time.
func (c *Clock) Now() time.Time { return c.base().Add(time.Duration(c.offset.Load())) }

// Advance moves the clock forward by d and wakes everything that waits on it, such as open
// subscriptions. A negative d does nothing: the service's time never runs backwards.
func (c *Clock) Advance(d time.Duration) {
	if d <= 0 {
		return
	}
	c.offset.Add(int64(d))
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.moved)
	c.moved = make(chan struct{})
}

// changed returns a channel that the next Advance closes.
func (c *Clock) changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.moved
}

func (c *Clock) nowMillis() int64 { return c.Now().UnixMilli() }

// sleep waits d of real time; it reports false if ctx or done ended first. Network delays are real
// time on purpose: the client under test does not live on the service's clock.
func sleep(ctx context.Context, done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-done:
		return false
	}
}
