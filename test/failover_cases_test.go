//go:build unix

package test

import (
	"syscall"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/protokinesis/protokinesis/test/failover"
)

// The nodes of all cases, and by how much their clocks are wrong.
var failoverSkews = map[string]time.Duration{"n1": time.Hour, "n2": -time.Hour, "n3": 0, "n4": 30 * time.Minute, "n5": -30 * time.Minute}

// Limits of what is waited for; what must be faster is said by the table.
const (
	failoverSoon = 2 * time.Minute
	// failoverCalm is how long a picture has to stay as it is, to count.
	failoverCalm = 5 * time.Second
)

// up starts nodes and waits until they share all shards and every shard is read.
func (f *failoverRun) up(names ...string) {
	f.t.Helper()
	for _, name := range names {
		f.start(name, failoverSkews[name])
	}
	f.publish()
	f.balanced(names...)
	from := f.now()
	f.await("every shard is read", func(l *failover.Log) bool {
		_, unread := l.AllRead(f.shards, failover.Span{From: from, To: f.now()})
		return unread == 0
	})
	f.pass(failoverCalm)
}

// readAgain waits until others read the shards that a node had at a time, and returns how long it took.
func (f *failoverRun) readAgain(node string, at time.Duration) time.Duration {
	f.t.Helper()
	f.await("its shards are read again", func(l *failover.Log) bool {
		_, missing := l.ReadAgain(node, failover.Span{From: at, To: f.now()})
		return len(missing) == 0
	})
	took, _ := f.log().ReadAgain(node, failover.Span{From: at, To: f.now()})
	return took
}

// failoverKill: one of three nodes is killed.
func failoverKill(f *failoverRun) []failoverFigure {
	f.up("n1", "n2", "n3")
	n2 := f.nodes["n2"]
	at := f.now()
	n2.signal(syscall.SIGKILL)
	<-n2.exit
	unsettled := f.log().Unsettled("n2", f.now())
	took := f.readAgain("n2", at)
	f.balanced("n1", "n3")
	report := f.finish()
	f.expect(report.Duplicates <= unsettled, "%d records came twice, and %d were not in a checkpoint", report.Duplicates, unsettled)
	f.expect(report.Takeovers == f.shards/3, "%d leases were taken over", report.Takeovers)
	return []failoverFigure{
		seconds("every shard read again", took, failoverTTL+3*time.Second),
		count("records that came twice", report.Duplicates, unsettled),
	}
}

// failoverLeave: one of three nodes is told to leave.
func failoverLeave(must time.Duration) func(f *failoverRun) []failoverFigure {
	return func(f *failoverRun) []failoverFigure {
		f.up("n1", "n2", "n3")
		n2 := f.nodes["n2"]
		at := f.now()
		n2.signal(syscall.SIGTERM)
		took := f.readAgain("n2", at)
		n2.left()
		left := f.now() - at
		f.balanced("n1", "n3")
		f.pass(failoverCalm)
		span := failover.Span{From: at, To: f.now()}
		moves := len(f.log().Moves(span))
		report := f.finish()
		f.expect(report.Duplicates == 0, "%d records came twice", report.Duplicates)
		f.expect(report.Takeovers == 0, "%d leases were taken over", report.Takeovers)
		f.expect(moves == f.shards/3, "%d moves", moves)
		return []failoverFigure{
			seconds("every shard read again", took, must),
			seconds("the node has ended", left, 0),
			count("records that came twice", report.Duplicates, 0),
		}
	}
}

// failoverJoin: a fourth node joins three.
func failoverJoin(must time.Duration) func(f *failoverRun) []failoverFigure {
	return func(f *failoverRun) []failoverFigure {
		f.up("n1", "n2", "n3")
		at := f.now()
		f.start("n4", failoverSkews["n4"])
		all := []string{"n1", "n2", "n3", "n4"}
		f.balanced(all...)
		f.pass(failoverCalm)
		span := failover.Span{From: at, To: f.now()}
		l := f.log()
		took, ok := l.Balanced(all, f.shards, span)
		f.expect(ok, "who has which shard does not stay as it is")
		moves := len(l.Moves(span))
		gap, _ := l.Gap(span)
		report := f.finish()
		f.expect(report.Duplicates == 0, "%d records came twice", report.Duplicates)
		f.expect(report.Takeovers == 0, "%d leases were taken over", report.Takeovers)
		f.expect(moves == f.shards/4, "%d moves", moves)
		return []failoverFigure{
			seconds("spread at most 1", took, must),
			count("moves", moves, f.shards/4),
			seconds("a shard unread", gap, 2*time.Second),
			count("records that came twice", report.Duplicates, 0),
		}
	}
}

// failoverCold: five nodes start at the same time.
func failoverCold(f *failoverRun) []failoverFigure {
	all := []string{"n1", "n2", "n3", "n4", "n5"}
	at := f.now()
	for _, name := range all {
		f.start(name, failoverSkews[name])
	}
	f.publish()
	f.balanced(all...)
	f.pass(failoverCalm)
	span := failover.Span{From: at, To: f.now()}
	l := f.log()
	took, ok := l.Balanced(all, f.shards, span)
	f.expect(ok, "who has which shard does not stay as it is")
	changes := l.Takes(span)
	report := f.finish()
	f.expect(report.Duplicates == 0, "%d records came twice", report.Duplicates)
	f.expect(changes <= f.shards+5, "%d leases were taken", changes)
	return []failoverFigure{
		seconds("spread at most 1", took, 15*time.Second),
		count("leases taken", changes, f.shards+5),
		count("records that came twice", report.Duplicates, 0),
	}
}

// failoverStop: one of three nodes stands still for 30 s. In every other run it can't reach the store when it wakes up, so that nobody tells it that it has lost
// its shards.
func failoverStop(f *failoverRun) []failoverFigure {
	all := []string{"n1", "n2", "n3"}
	f.up(all...)
	n2 := f.nodes["n2"]
	stopped := f.now()
	n2.signal(syscall.SIGSTOP)
	n2.drain()
	unsettled := f.log().Unsettled("n2", f.now())
	took := f.readAgain("n2", stopped)
	f.pass(time.Until(f.began.Add(stopped + 30*time.Second)))
	f.balanced("n1", "n3")
	if f.number%2 == 0 {
		n2.cut(gateHangs)
	}
	n2.signal(syscall.SIGCONT)
	f.pass(failoverCalm)
	if f.number%2 == 0 {
		n2.heal()
	}
	f.balanced(all...)
	f.pass(failoverCalm)
	report := f.finish()
	f.expect(report.Duplicates <= unsettled+report.Late, "%d records came twice, and %d were not in a checkpoint", report.Duplicates, unsettled)
	return []failoverFigure{
		seconds("every shard read again", took, failoverTTL+3*time.Second),
		count("printed by the zombie", report.Late, 0), // but what was on its way when it was stopped may be
		count("written by the zombie", report.Foreign, 0),
		count("records that came twice", report.Duplicates, unsettled),
	}
}

// failoverOutage: for 20 s no node reaches the store.
func failoverOutage(f *failoverRun) []failoverFigure {
	f.up("n1", "n2", "n3")
	mode := []gateMode{gateHangs, gateRefuses}[f.number%2]
	for _, n := range f.nodes {
		n.cut(mode)
	}
	f.pass(20 * time.Second)
	at := f.now()
	for _, n := range f.nodes {
		n.heal()
	}
	f.await("every shard is read", func(l *failover.Log) bool {
		_, unread := l.AllRead(f.shards, failover.Span{From: at, To: f.now()})
		return unread == 0
	})
	took, _ := f.log().AllRead(f.shards, failover.Span{From: at, To: f.now()})
	f.balanced("n1", "n2", "n3")
	for name, n := range f.nodes {
		assert.True(f.t, n.alive(), "node %s", name)
	}
	report := f.finish()
	return []failoverFigure{
		seconds("every shard read after it", took, 0),
		count("records that came twice", report.Duplicates, -1),
	}
}
