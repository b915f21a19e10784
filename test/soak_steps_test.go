package test

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/soak"
)

// Bounds of a run.
const (
	mostShards = 8
	// mostJumps keeps what the clock is moved within the retention of 24 h.
	mostJumps = 20 * time.Hour
	// seekGivenUp answers a seek to a record that can't be carried out: the node does not read the shards.
	seekGivenUp = "given up"
)

// do makes a step happen.
func (r *soakRun) do(s soakStep) {
	if s.busy > 0 {
		if wait := time.Until(r.busy); wait > 0 {
			time.Sleep(wait)
		}
		r.busy = time.Now().Add(s.busy)
	}
	r.add(soak.Event{What: soak.Note, Text: string(s.kind), Millis: time.Since(r.began).Milliseconds(), Counter: r.published()})
	r.instants = append(r.instants, r.server.Clock().Now().UnixMilli())
	if r.step(s) {
		r.counts[s.kind]++
	}
}

// step reports whether there was something to do.
func (r *soakRun) step(s soakStep) bool {
	switch s.kind {
	case stepSplit:
		return r.splitOne(s.pick[0])
	case stepMerge:
		return r.mergeTwo(s.pick[0])
	case stepFault:
		r.disturbService(s)
	case stepClock:
		return r.jump(s.pick[0])
	case stepSeekTime, stepSeekStart, stepSeekTip, stepSeekRecord:
		return r.askSeek(s)
	case stepPartition, stepBlip:
		r.chosen(s).store.disturb(troubleOf(s), s.busy)
	case stepOutage, stepLoses:
		for _, p := range r.running() {
			p.store.disturb(troubleOf(s), s.busy)
		}
	case stepStop:
		p := r.chosen(s)
		if s.pick[0]/2%2 == 0 { // it is cut off when it wakes up, and is not told that its leases are lost
			p.store.disturb(troubleOf(s), s.busy)
		}
		r.halt(p)
	case stepLeave:
		r.away = r.chosen(s)
		r.end(soak.Ended, r.away)
	case stepRestart:
		all := r.running()
		r.end(soak.Ended, all...)
		r.awaitEnd(all...)
		require.NoError(r.t, r.store.Close())
		r.openStore()
		r.startAll()
	case stepKill:
		r.away = r.chosen(s)
		r.end(soak.Killed, r.away)
	case stepKillAll:
		all := r.running()
		r.end(soak.Killed, all...)
		r.awaitEnd(all...)
		r.startAll()
	case stepBack:
		r.back()
	}
	return true
}

// chosen is the node that a step is about: any, or more often the one with the most leases.
func (r *soakRun) chosen(s soakStep) *soakProcess {
	running := r.running()
	if s.pick[1]%4 == 0 {
		return running[s.pick[1]/4%uint64(len(running))]
	}
	names := make([]string, len(running))
	for i, p := range running {
		names[i] = p.name
	}
	return r.running(r.store.busiest(names))[0]
}

func troubleOf(s soakStep) string {
	if s.kind == stepLoses {
		return storeLoses
	}
	return []string{storeDown, storeHangs}[s.pick[0]%2]
}

// startAll starts all nodes.
func (r *soakRun) startAll() {
	for _, name := range soakNodes {
		r.start(name)
	}
}

func (r *soakRun) openShards() []kinesistest.Shard {
	shards := r.server.Shards(r.stream)
	return slices.DeleteFunc(shards, func(s kinesistest.Shard) bool { return !s.Closed.IsZero() })
}

// asListed is a shard as ListShards gives it.
func asListed(s kinesistest.Shard) types.Shard {
	return types.Shard{ShardId: &s.ID, HashKeyRange: &types.HashKeyRange{StartingHashKey: &s.StartHash, EndingHashKey: &s.EndHash}}
}

func (r *soakRun) splitOne(pick uint64) bool {
	open := r.openShards()
	if len(open) >= mostShards {
		return false
	}
	r.split(r.t, r.stream, asListed(open[pick%uint64(len(open))]))
	return true
}

func (r *soakRun) mergeTwo(pick uint64) bool {
	open := r.openShards()
	if len(open) < 2 {
		return false
	}
	low := func(s kinesistest.Shard) *big.Int {
		n, _ := new(big.Int).SetString(s.StartHash, 10)
		return n
	}
	slices.SortFunc(open, func(a, b kinesistest.Shard) int { return low(a).Cmp(low(b)) })
	i := pick % uint64(len(open)-1) //nolint:gosec // positive
	r.merge(r.t, r.stream, asListed(open[i]), asListed(open[i+1]))
	return true
}

func (r *soakRun) disturbService(s soakStep) {
	f := soakFaults[s.pick[0]%uint64(len(soakFaults))]
	calls := 1 + int(s.pick[1]%f.most) //nolint:gosec // a handful
	name := f.op + " " + f.name
	r.faults[name] = append(r.faults[name], r.server.Fault(f.op, kinesistest.Match{}, calls, f.effect))
}

// jump moves the service's clock, as a pause of the consumer does: its iterators expire.
func (r *soakRun) jump(pick uint64) bool {
	d := 5*time.Minute + time.Duration(1+pick%300)*time.Second
	if r.jumps+d > mostJumps {
		return false
	}
	r.jumps += d
	r.server.Clock().Advance(d)
	return true
}

// askSeek asks for a seek, unless one is under way.
func (r *soakRun) askSeek(s soakStep) bool {
	c := soakCommand{Do: doSeek, Mode: seekRecord, Pick: s.pick[1]}
	switch s.kind { //nolint:exhaustive // the seeks
	case stepSeekStart:
		c.Mode = seekHorizon
	case stepSeekTip:
		c.Mode = seekTip
	case stepSeekTime:
		back := min(len(r.instants), 40)
		c.Mode, c.Millis = seekTime, r.instants[len(r.instants)-1-int(s.pick[1]%uint64(back))] //nolint:gosec // an index
	}
	p := r.chosen(s)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seek != nil || r.nodes[p.name] != p {
		return false
	}
	r.seekID++
	c.ID = fmt.Sprint("seek-", r.seekID)
	r.seek, r.seeker = &c, p.name
	p.tell(c)
	return true
}

// faultCounts says how many calls each kind of fault has hit.
func (r *soakRun) faultCounts() []string {
	var out []string
	for name, all := range r.faults {
		hit := 0
		for _, f := range all {
			hit += f.Count()
		}
		if hit > 0 {
			out = append(out, fmt.Sprintf("%s %d", name, hit))
		}
	}
	slices.SortFunc(out, cmp.Compare[string])
	return out
}
