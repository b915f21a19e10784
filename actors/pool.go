package actors

import (
	"sync"
	"time"
)

// pool runs a broker's mailboxes and effects on goroutines that stay for a moment when they are done. A goroutine that is started
// anew for every message and every call has to grow its stack each time, which for an idle shard's poll is a good part of its cost. It
// bounds nothing: who finds no idle goroutine starts one.
//
// close ends the idle ones at once. A pool that is closed goes on working, without keeping goroutines.
type pool struct {
	work   chan func()
	closed chan struct{}
	once   sync.Once
}

const (
	// poolLinger is how long an idle goroutine waits for more.
	poolLinger = 100 * time.Millisecond
	// poolThroughput is how many messages of an actor are handled before others may run, as with the library's own dispatcher.
	poolThroughput = 300
)

func newPool() *pool { return &pool{work: make(chan func()), closed: make(chan struct{})} }

func (p *pool) close() { p.once.Do(func() { close(p.closed) }) }

// Schedule implements actor.Dispatcher.
func (p *pool) Schedule(run func()) {
	select {
	case p.work <- run:
	default:
		go p.loop(run)
	}
}

// Throughput implements actor.Dispatcher.
func (p *pool) Throughput() int { return poolThroughput }

func (p *pool) loop(run func()) {
	linger := newLinger(poolLinger)
	defer linger.Stop()
	for {
		run()
		linger.Reset(poolLinger)
		select {
		case run = <-p.work:
		case <-linger.C:
			return
		case <-p.closed:
			return
		}
	}
}
