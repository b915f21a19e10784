package test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/protokinesis/protokinesis/test/kinesistest"
)

// soakStep is something that happens to the soak.
type soakStep struct {
	at   time.Duration // since the beginning
	kind stepKind
	busy time.Duration // how long no other disruption may begin
	away time.Duration // how long the node is gone, or stands still
	pick [3]uint64     // what of the many, by the rules of the kind

	quiet bool // nothing happens in the background meanwhile
}

type stepKind string

// What happens. The first group goes on in the background, of the second one at a time.
const (
	stepSplit      stepKind = "split"
	stepMerge      stepKind = "merge"
	stepFault      stepKind = "fault"
	stepClock      stepKind = "clock"
	stepSeekTime   stepKind = "seek to a time"
	stepSeekStart  stepKind = "seek to the horizon"
	stepSeekTip    stepKind = "seek to the tip"
	stepSeekRecord stepKind = "seek to a record"

	stepPartition stepKind = "partition"
	stepBlip      stepKind = "short partition"
	stepOutage    stepKind = "outage"
	stepLoses     stepKind = "lost replies"
	stepStop      stepKind = "stop"
	stepLeave     stepKind = "leave"
	stepRestart   stepKind = "restart"
	stepKill      stepKind = "kill"
	stepKillAll   stepKind = "kill of all"

	// stepBack ends a stop, and follows a leave and a kill: the node joins again.
	stepBack stepKind = "back"
)

// soakSchedule is what happens in a run: of each kind so much in every bag, in an order that depends on the seed alone.
func soakSchedule(seed uint64, length time.Duration) []soakStep {
	random := rand.New(rand.NewPCG(seed, 1))
	disruptions := disruptions(random, length)
	background := bag{random: random, full: map[stepKind]int{
		stepSplit: 6, stepMerge: 5, stepFault: 22, stepClock: 5, stepSeekTime: 2, stepSeekStart: 1, stepSeekTip: 1, stepSeekRecord: 8,
	}}
	steps := slices.Clone(disruptions)
	for at := time.Duration(0); ; {
		at += time.Duration(150+random.IntN(500)) * time.Millisecond
		if at >= length {
			break
		}
		if !slices.ContainsFunc(disruptions, func(s soakStep) bool { return s.wantsQuiet(at) }) {
			steps = append(steps, newStep(random, background.next(), at))
		}
	}
	slices.SortStableFunc(steps, func(a, b soakStep) int { return int(a.at - b.at) })
	return steps
}

// disruptions are one after the other. The first is a partition, of nodes that have nothing else to bear yet; a kill, a stop and a leave follow, for short runs.
func disruptions(random *rand.Rand, length time.Duration) []soakStep {
	kinds := bag{random: random, left: []stepKind{stepPartition, stepKill, stepStop, stepLeave}, full: map[stepKind]int{
		stepPartition: 2, stepBlip: 1, stepOutage: 1, stepLoses: 1, stepStop: 2, stepLeave: 2, stepRestart: 1, stepKill: 2, stepKillAll: 1,
	}}
	var steps []soakStep
	for at := time.Second; at < length; {
		step := newStep(random, kinds.next(), at)
		step.quiet = (step.kind == stepPartition || step.kind == stepStop) && (len(steps) == 0 || step.pick[0]%2 == 0)
		steps = append(steps, step)
		if step.away > 0 {
			steps = append(steps, soakStep{at: at + step.away, kind: stepBack})
		}
		at += step.busy + time.Duration(200+random.IntN(800))*time.Millisecond
	}
	return steps
}

// wantsQuiet: nothing else happens during every other partition, and shortly before it. A node without a fence is seen only while its shards are
// open and can be read.
func (s soakStep) wantsQuiet(at time.Duration) bool {
	return s.quiet && at > s.at-time.Second && at < s.at+s.busy
}

func newStep(random *rand.Rand, kind stepKind, at time.Duration) soakStep {
	step := soakStep{at: at, kind: kind}
	for i := range step.pick {
		step.pick[i] = random.Uint64()
	}
	if kind == stepSeekTip && step.pick[0]%2 == 0 {
		step.kind = stepSeekTime // a seek to the tip hides what was lost before it
	}
	spread := time.Duration(step.pick[2] % uint64(time.Second))
	switch kind {
	case stepPartition: // long enough for another node to see it, and for one without a fence to read on for a while
		step.busy = 3*soakTTL + spread
	case stepOutage:
		step.busy = soakTTL + 2*spread
	case stepBlip:
		step.busy = spread
	case stepStop: // it wakes up before it is over
		step.busy = 3*soakTTL + spread
		step.away = step.busy - soakTTL
	case stepLeave, stepKill: // it joins while its shards are still its own, or others'
		step.away = 200*time.Millisecond + 3*spread
		step.busy = step.away + 500*time.Millisecond + spread
	case stepLoses, stepRestart, stepKillAll:
		step.busy = 500*time.Millisecond + spread
	case stepBack, stepSplit, stepMerge, stepFault, stepClock, stepSeekTime, stepSeekStart, stepSeekTip, stepSeekRecord:
	}
	return step
}

// bag hands out kinds in random order, each as often as it is in the bag before it is filled again.
type bag struct {
	random *rand.Rand
	full   map[stepKind]int
	left   []stepKind
}

func (b *bag) next() stepKind {
	if len(b.left) == 0 {
		for kind, n := range b.full {
			for range n {
				b.left = append(b.left, kind)
			}
		}
		slices.Sort(b.left)
		b.random.Shuffle(len(b.left), func(i, j int) { b.left[i], b.left[j] = b.left[j], b.left[i] })
	}
	kind := b.left[0]
	b.left = b.left[1:]
	return kind
}

// soakFault is a fault of the service, for at most so many calls.
type soakFault struct {
	op, name string
	effect   kinesistest.Effect
	most     uint64
}

// soakFaults are the faults to choose from.
var soakFaults = func() []soakFault {
	fail := func(code string) kinesistest.Effect { return kinesistest.Error(code, "as the soak wants it") }
	const throttle, internal = "ProvisionedThroughputExceededException", "InternalFailure"
	return []soakFault{
		{"GetRecords", "throttle", fail(throttle), 2},
		{"GetRecords", "KMS throttle", fail("KMSThrottlingException"), 2},
		{"GetRecords", "500", fail(internal), 4},
		{"GetRecords", "503", fail("ServiceUnavailable"), 4},
		{"GetRecords", "reset", kinesistest.Reset(), 4},
		{"GetRecords", "mid-body reset", kinesistest.ResetMidBody(), 6},
		{"GetRecords", "expired iterator", kinesistest.ExpireIterator(), 6},
		{"GetRecords", "null iterator", kinesistest.NullIterator(), 3},
		{"GetRecords", "empty page", kinesistest.EmptyPage(), 10},
		{"GetRecords", "hang", kinesistest.Hang(), 2},
		{"GetRecords", "garbage", kinesistest.Body(200, []byte(`{"Records":[{`)), 3},
		{"GetShardIterator", "throttle", fail(throttle), 2},
		{"GetShardIterator", "500", fail(internal), 2},
		{"GetShardIterator", "reset", kinesistest.Reset(), 3},
		{"GetShardIterator", "hang", kinesistest.Hang(), 1},
		{"ListShards", "throttle", fail("LimitExceededException"), 6},
		{"ListShards", "500", fail(internal), 6},
		{"ListShards", "reset", kinesistest.Reset(), 4},
		{"ListShards", "mid-body reset", kinesistest.ResetMidBody(), 4},
		{"DescribeStreamSummary", "500", fail(internal), 4},
		{"PutRecords", "partial", kinesistest.Partial(throttle), 2},
		{"PutRecords", "partial", kinesistest.PartialEvery(throttle, 2), 4},
		{"PutRecords", "partial", kinesistest.PartialEvery(internal, 3), 4},
		{"PutRecords", "stored then reset", kinesistest.StoredThenReset(), 2},
		{"PutRecords", "mid-body reset", kinesistest.ResetMidBody(), 2},
		{"PutRecords", "500", fail(internal), 2},
		{"PutRecords", "hang", kinesistest.Hang(), 1},
	}
}()

// A seed is a schedule, and a minute and a half has some of everything; the first disruption is a partition.
func TestSoakSchedule(t *testing.T) {
	t.Parallel()
	const length = 90 * time.Second
	schedules := map[string]bool{}
	for seed := range uint64(20) {
		steps := soakSchedule(seed, length)
		assert.Equal(t, steps, soakSchedule(seed, length))
		schedules[fmt.Sprint(steps)] = true
		kinds := map[stepKind]int{}
		for _, s := range steps {
			if s.busy > 0 && len(kinds) == 0 {
				assert.Equal(t, stepPartition, s.kind)
			}
			if s.busy > 0 {
				kinds[s.kind]++
			}
		}
		assert.Len(t, kinds, 9, "disruptions with seed %d", seed)
		assert.GreaterOrEqual(t, kinds[stepPartition], 3)
	}
	assert.Len(t, schedules, 20)
}
