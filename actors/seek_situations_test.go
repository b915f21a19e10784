package actors

import (
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// A seek to any position, in any situation, with one rule for what comes after it: seekRun.check.

// seekSituation is what a seek meets.
type seekSituation struct {
	atEnd   bool             // the parent is read and not settled; else all but the newest records are settled
	before  func(r *seekRun) // just before it is asked for
	after   func(r *seekRun) // once it is
	errors  int              // how many may be answered before it is carried out
	without []string         // kinds that this is not for
}

var noSequence = []string{"sequence"}

var seekSituations = map[string]seekSituation{
	"quiet":                 {},
	"at the shard's end":    {atEnd: true, without: noSequence},
	"as the end is written": {atEnd: true, without: noSequence, before: (*seekRun).settleWithASlowStore, after: (*seekRun).mendStore},
	"a page is under way": {before: func(r *seekRun) {
		r.script.set(func(s *script) { s.page = func(*kinesis.GetRecordsOutput) { time.Sleep(6 * time.Second) } })
		time.Sleep(1500 * time.Millisecond) // both readers have asked, and hear of it when the seek has moved them
		r.putBoth(1)
	}, after: func(r *seekRun) { r.script.set(func(s *script) { s.page = nil }) }},
	"throttled": {before: func(r *seekRun) {
		r.service.Fault("GetRecords", kinesistest.Match{}, 8, kinesistest.Error("ProvisionedThroughputExceededException", "slow down"))
		time.Sleep(4 * time.Second)
	}},
	"reads fail": {before: func(r *seekRun) {
		r.service.Fault("GetRecords", kinesistest.Match{}, 12, kinesistest.Error("InternalFailure", "no"))
		time.Sleep(2 * time.Second)
	}},
	"the iterator hangs": {before: func(r *seekRun) {
		r.service.Fault("GetRecords", kinesistest.Match{}, 2, kinesistest.ExpireIterator())
		r.script.set(func(s *script) { s.open = func() { time.Sleep(20 * time.Second) } })
		time.Sleep(1500 * time.Millisecond)
	}, after: func(r *seekRun) { r.script.set(func(s *script) { s.open = shortly }) }},
	"the iterator fails": {before: func(r *seekRun) {
		r.service.Fault("GetShardIterator", kinesistest.Match{}, 3, kinesistest.Error("InternalFailure", "no"))
	}, errors: 3},
	"a record waits for its retry": {before: func(r *seekRun) {
		for _, d := range r.got {
			if !d.acked {
				d.acked = true
				r.world.sub.Send(d.reader, d.RetryAfter(3*time.Second))
			}
		}
	}},
	"a slow store": {before: func(r *seekRun) {
		r.store.slow(1500 * time.Millisecond)
		time.Sleep(4 * time.Second)
	}, after: (*seekRun).mendStore},
	"a renewal is under way": {before: func(r *seekRun) {
		r.store.slow(time.Second)
		for n := r.store.count("renew"); r.store.count("renew") == n; {
			time.Sleep(10 * time.Millisecond)
		}
	}, after: (*seekRun).mendStore},
	"replies of the store are lost": {before: func(r *seekRun) { r.store.outage(errOutage, true) }, after: (*seekRun).mendStore},
	"the store is down": {
		before: func(r *seekRun) { r.store.outage(errOutage, false) }, after: (*seekRun).mendStore, errors: 1,
	},
	"paused": {before: func(r *seekRun) {
		r.store.outage(errOutage, false)
		time.Sleep(15 * time.Second)
		r.requireState(messages.ShardState_SHARD_STATE_PAUSED)
	}, after: (*seekRun).mendStore, errors: 1},
	"a reader has panicked": {before: func(r *seekRun) {
		r.panics.arm(roleReader, 1)
		r.awaitPanic()
	}, errors: 1},
	"both readers have panicked again and again": {before: func(r *seekRun) {
		r.panics.arm(roleReader, 8)
		r.awaitPanic()
	}, errors: 3},
	"a reader panics at the seek": {before: func(r *seekRun) {
		r.panics.armAt(roleReader, "actors.moveReader", "actors.drain")
	}, errors: 1},
	"a reader panics at its new iterator": {before: func(r *seekRun) {
		r.panics.armAt(roleReader, "effectDone(actors.iteratorOpened)")
	}, errors: 1},
	"the coordinator has panicked": {before: func(r *seekRun) {
		r.panics.arm(roleCoordinator, 1)
		r.me.Request(r.broker, &messages.StatusRequest{})
		r.awaitPanic()
	}, errors: 1},
	"the coordinator panics as the position is stored": {before: func(r *seekRun) {
		r.panics.armAt(roleCoordinator, "effectDone(actors.stateSaved)")
	}, errors: 1, without: noSequence},
	"the coordinator panics as a reader has moved": {before: func(r *seekRun) {
		r.panics.armAt(roleCoordinator, "actors.readerMoved", "actors.readerReady")
	}, errors: 1},
	"the first pass": {before: func(r *seekRun) {
		r.script.set(func(s *script) { s.open = func() { time.Sleep(5 * time.Second) } })
		r.panics.arm(roleCoordinator, 1)
		r.me.Request(r.broker, &messages.StatusRequest{})
		r.awaitPanic()
		time.Sleep(2 * time.Second)
	}, after: func(r *seekRun) { r.script.set(func(s *script) { s.open = shortly }) }},
	"another to the horizon is under way": {before: another(toHorizon), without: noSequence},
	"another to the tip is under way":     {before: another(toTip)},
	"another to a sequence is under way": {before: func(r *seekRun) {
		r.me.Request(r.sub, &messages.Seek{To: seqSeek(shardName(1), r.record("low 3").SequenceNumber)})
	}},
	"another to the horizon was just done": {before: justDone(toHorizon), without: noSequence},
	"another to the tip was just done":     {before: justDone(toTip)},
	"one elsewhere is stored": {before: func(r *seekRun) {
		state := r.state()
		state.Seek++
		_, err := r.store.SaveState(r.t.Context(), state)
		require.NoError(r.t, err)
	}, errors: 1, without: noSequence},
	"the shard was just split": {before: func(r *seekRun) { split(r.world, shardName(1)) }, without: noSequence},
	"the parent is trimmed": {before: func(r *seekRun) {
		require.Equal(r.t, 1, r.service.Trim(testStream, shardName(0), 1))
	}},
	"the parent is listed no more": {before: func(r *seekRun) {
		require.True(r.t, r.service.DropShard(testStream, shardName(0)))
	}, without: []string{"timestamp in the parent"}},
}

// TestSeekInAnySituation: positions × situations.
func TestSeekInAnySituation(t *testing.T) {
	for name, situation := range seekSituations {
		for to, kind := range seekKinds {
			if slices.Contains(situation.without, to) {
				continue
			}
			t.Run(name+"/"+to, func(t *testing.T) {
				s, p := &script{open: shortly}, &panicker{}
				inBubble(t, 1, func(w *world) {
					r := startSeekRun(w, s, p, situation.atEnd)
					if situation.before != nil {
						situation.before(r)
					}
					r.collect()
					moved := r.seek(kind, situation.errors, situation.after).GetShards()
					r.settleLate(kind, moved)
					require.Zero(w.t, p.pending())
					for _, sh := range w.service.Shards(testStream) { // children found later
						if sh.EndSequence == "" && sh.ID != shardName(2) {
							split(w, sh.ID)
							break
						}
					}
					r.putBoth(2)
					r.pump()
					r.check(kind)
				}, s.install, p.install)
			})
		}
	}
}

// shortly is how long an iterator takes, so that an answer that does not wait for it is seen.
func shortly() { time.Sleep(300 * time.Millisecond) }

func toTip() *messages.Position { return &messages.Position{At: &messages.Position_Latest{}} }

func another(to func() *messages.Position) func(r *seekRun) {
	return func(r *seekRun) { r.me.Request(r.sub, &messages.Seek{To: to()}) }
}

func justDone(to func() *messages.Position) func(r *seekRun) {
	return func(r *seekRun) {
		another(to)(r)
		probe.Fish(r.me, func(*messages.Sought) bool { return true })
	}
}

func (r *seekRun) awaitPanic() {
	for r.panics.pending() > 0 {
		time.Sleep(time.Millisecond)
	}
}

// settleWithASlowStore settles the parent's last records, and returns while its SHARD_END is on its way.
func (r *seekRun) settleWithASlowStore() {
	r.store.slow(time.Second)
	n := r.store.count("checkpoint")
	for _, d := range r.got {
		r.ack(d)
	}
	for r.store.count("checkpoint") == n {
		time.Sleep(10 * time.Millisecond)
	}
}

// mendStore ends what ailed the store, some seconds after the seek was asked for.
func (r *seekRun) mendStore() {
	time.Sleep(4 * time.Second)
	r.store.outage(nil, false)
	r.store.slow(0)
}

func (r *seekRun) requireState(want messages.ShardState) {
	r.t.Helper()
	r.me.Request(r.broker, &messages.StatusRequest{})
	for _, s := range probe.Fish(r.me, func(*messages.Status) bool { return true }).GetSubscriptions() {
		for _, row := range s.GetShards() {
			if row.GetShardId() != shardName(0) { // that one is finished
				require.Equal(r.t, want, row.GetState(), row.GetShardId())
			}
		}
	}
}
