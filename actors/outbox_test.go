package actors

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Whatever fails, is refused, expires or is resharded: per key the records leave in their order, one entry at a time; each is sent until it is
// settled, and settled once.
func TestOutboxKeepsTheOrderOfEachKey(t *testing.T) {
	for name, spec := range map[string]outboxSpec{
		"strict": {}, "relaxed": {relaxed: true}, "aggregated": {aggregate: true}, "aggregated and relaxed": {aggregate: true, relaxed: true},
		"few": {aggregate: true, aggregateRecords: 3, aggregateBytes: 500},
	} {
		t.Run(name, func(t *testing.T) { rapid.Check(t, func(t *rapid.T) { outboxRun(t, spec) }) })
	}
}

func outboxRun(t *rapid.T, spec outboxSpec) {
	s := newOutboxMachine(spec)
	maxEntries := rapid.IntRange(1, 6).Draw(t, "maxEntries")
	maxBytes := rapid.IntRange(1, 1000).Draw(t, "maxBytes")
	keys := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h"})
	payloads := rapid.SampledFrom([]string{"", "x", "0123456789", string(make([]byte, 90)), string(make([]byte, 400))})
	explicit := rapid.SampledFrom([]string{"", "", "", "5", maxHashKey})
	flight := func(t *rapid.T) int {
		if len(s.flights) == 0 {
			t.Skip("nothing on its way")
		}
		return rapid.IntRange(0, len(s.flights)-1).Draw(t, "flight")
	}
	t.Repeat(map[string]func(*rapid.T){
		"add": func(t *rapid.T) {
			for range rapid.IntRange(1, 10).Draw(t, "n") {
				s.addAt(keys.Draw(t, "key"), explicit.Draw(t, "hash"), payloads.Draw(t, "data"))
			}
		},
		"send":      func(t *rapid.T) { s.take(t, maxEntries, maxBytes) },
		"send more": func(t *rapid.T) { s.take(t, maxEntries, maxBytes) },
		"land": func(t *rapid.T) {
			s.land(t, flight(t), func(r *outgoing) (bool, time.Duration) {
				r.alone = r.alone || rapid.IntRange(0, 20).Draw(t, "alone") == 0
				return rapid.Bool().Draw(t, "stored"), time.Duration(rapid.IntRange(0, 3).Draw(t, "pause")) * time.Second
			})
		},
		"halve": func(t *rapid.T) {
			if n := flight(t); len(s.flights[n]) > 1 {
				s.halve(n)
			}
		},
		"pace": func(t *rapid.T) {
			if len(s.o.lanes) == 0 {
				t.Skip("no lane")
			}
			l := s.o.lanes[rapid.SampledFrom(slices.Sorted(maps.Keys(s.o.lanes))).Draw(t, "lane")]
			l.answer = laneAnswer{refusedCount: rapid.IntRange(0, 10).Draw(t, "refused"), storedCount: rapid.IntRange(0, 1).Draw(t, "stored")}
			s.o.pacing(l, s.now)
		},
		"time": func(t *rapid.T) {
			s.now = s.now.Add(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
		},
		"list": func(t *rapid.T) {
			s.o.setMap(shardsOf(rapid.IntRange(0, 2).Draw(t, "first"), rapid.IntRange(1, 4).Draw(t, "shards")), s.now)
		},
		"forget": func(*rapid.T) { s.o.setMap(nil, s.now) },
		"hold":   func(t *rapid.T) { s.o.hold(rapid.Bool().Draw(t, "held"), s.now) },
		"expire": func(t *rapid.T) {
			if rapid.IntRange(0, 4).Draw(t, "often") > 0 {
				t.Skip("not now")
			}
			s.now = s.now.Add(time.Duration(rapid.IntRange(1, 60).Draw(t, "s")) * time.Second)
			s.o.expire(s.now, func(r *outgoing) {
				require.False(t, s.flying[r] || r.flying || r.deadline.After(s.now))
				s.done[r] = true
				s.forget(r)
			})
			if at, waits := s.o.expires(); waits {
				require.True(t, at.After(s.now), "all that wait and are due were told")
			}
		},
		"": func(t *rapid.T) { s.check(t) },
	})
	s.o.hold(false, s.now)
	s.drain(t, maxEntries, maxBytes)
	s.check(t)
	require.Empty(t, s.take(t, maxEntries, maxBytes))
}

// Keys take turns: one with many records does not hold up the others.
func TestOutboxKeysTakeTurns(t *testing.T) {
	s := newOutboxMachine(outboxSpec{})
	for range 5 {
		s.add("busy", "1")
	}
	s.add("a", "1")
	s.add("b", "1")
	require.Equal(t, []string{"busy", "a"}, keysOf(s.take(t, 2, 100)))
	s.land(t, 0, stored)
	require.Equal(t, []string{"b", "busy"}, keysOf(s.take(t, 2, 100)))
}

// Lanes take turns: a shard with many keys leaves the others their part of a request.
func TestOutboxLanesTakeTurns(t *testing.T) {
	s := newOutboxMachine(outboxSpec{})
	s.o.setMap(shardsOf(0, 4), s.now)
	for i := range 100 {
		s.addAt(fmt.Sprint("busy", i), "0", "")
	}
	for i := range 4 {
		s.addAt(fmt.Sprint("other", i), maxHashKey, "")
	}
	last := s.take(t, 10, 1000)
	others := slices.DeleteFunc(last, func(e putEntry) bool { return e.lane.shard.id == shardName(0) })
	require.GreaterOrEqual(t, len(others), 3)
}

func keysOf(entries []putEntry) (keys []string) {
	for i := range entries {
		keys = append(keys, entries[i].record.key)
	}
	return keys
}

// P3: [a1 b1 a2 a3], a1 is throttled: neither a2 nor a3 overtakes it.
func TestOutboxRetriesBeforeLaterRecordsOfTheKey(t *testing.T) {
	s := newOutboxMachine(outboxSpec{})
	a1, _, a2, a3 := s.add("a", "1"), s.add("b", "1"), s.add("a", "1"), s.add("a", "1")
	require.Equal(t, []string{"a", "b"}, keysOf(s.take(t, 500, 1000)))
	require.False(t, s.o.sendable(s.now), "a2 waits for a1")
	s.land(t, 0, func(r *outgoing) (bool, time.Duration) { return r != a1, 0 })
	s.add("c", "1")
	for _, want := range []*outgoing{a1, a2, a3} {
		require.Same(t, want, s.take(t, 1, 1000)[0].record, "what was tried goes first")
		s.land(t, 0, stored)
		if want == a1 {
			s.take(t, 1, 1000)
			s.land(t, 0, stored)
		}
	}
	s.check(t)
}

// Several requests are under way: a key is in one of them.
func TestOutboxSeveralRequestsHaveDifferentKeys(t *testing.T) {
	s := newOutboxMachine(outboxSpec{})
	for range 3 {
		for i := range 10 {
			s.add(fmt.Sprint(i), "")
		}
	}
	require.Len(t, s.take(t, 6, 1000), 6)
	require.Len(t, s.take(t, 6, 1000), 4)
	require.Empty(t, s.take(t, 6, 1000))
	s.land(t, 1, failedAtOnce)
	require.Len(t, s.take(t, 6, 1000), 4, "the same four")
	s.check(t)
}

func TestOutboxRelaxedSendsRecordsOfAKeyTogether(t *testing.T) {
	s := newOutboxMachine(outboxSpec{relaxed: true})
	for range 10 {
		s.add("one key", "")
	}
	require.Len(t, s.take(t, 6, 1000), 6)
	require.Len(t, s.take(t, 6, 1000), 4)
	s.check(t)
}

func TestOutboxLimits(t *testing.T) {
	s := newOutboxMachine(outboxSpec{})
	for i, size := range []int{50, 50, 1, 200, 100} {
		s.add(string(rune('a'+i)), string(make([]byte, size-1)))
	}
	require.Len(t, s.take(t, 10, 100), 2, "exactly the bytes allowed")
	require.Len(t, s.take(t, 10, 100), 1, "the next one does not fit")
	require.Len(t, s.take(t, 10, 100), 1, "larger than a request may be: alone")
	require.Len(t, s.take(t, 10, 100), 1)
	require.Empty(t, s.take(t, 10, 100))
}

// P5: a request refused as a whole for one record is halved until that record is alone; all others are stored.
func TestOutboxFindsTheFaultyRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newOutboxMachine(outboxSpec{})
		n := rapid.IntRange(1, 500).Draw(t, "n")
		at := rapid.IntRange(0, n-1).Draw(t, "at")
		var faulty *outgoing
		for i := range n {
			if r := s.add(fmt.Sprint(i), "1"); i == at {
				faulty = r
			}
		}
		requests, found := 0, false
		for !s.o.empty() {
			requests++
			entries := s.take(t, 500, 1<<20)
			refused := slices.ContainsFunc(entries, func(e putEntry) bool { return e.record == faulty })
			if refused && len(entries) > 1 {
				s.halve(0)
				if rapid.IntRange(0, 5).Draw(t, "another") == 0 {
					s.add(entries[0].record.key, "1") // a later record of a key under way waits
				}
			} else {
				found = found || refused
				s.land(t, 0, stored)
			}
			s.check(t)
		}
		require.True(t, found)
		require.Len(t, s.done, s.total)
		require.LessOrEqual(t, requests, 2*bits.Len(500)+4+s.total-n, "halving, not trying each")
	})
}

// What was settled is not kept.
func TestOutboxOfManyKeys(t *testing.T) {
	s := newOutboxMachine(outboxSpec{})
	s.o.setMap(shardsOf(0, 8), s.now)
	for range 3 {
		for i := range 4000 {
			s.add(fmt.Sprint(i), "data")
		}
	}
	for n := 0; !s.o.empty(); n++ {
		s.take(t, 500, 1<<20)
		i := 0
		s.land(t, 0, func(r *outgoing) (bool, time.Duration) {
			i++
			if i%7 == 0 && r.failures == 0 {
				r.failures++
				return false, 0
			}
			return true, 0
		})
	}
	s.check(t)
	require.Len(t, s.done, 12_000)
	require.Empty(t, s.o.keys)
	require.LessOrEqual(t, s.o.freeCount, maxFreeKeys)
}

// A lane that is throttled leaves room for the others: it may use a quarter, and all of them together three.
func TestOutboxRefusesAThrottledLaneItsPart(t *testing.T) {
	s := newOutboxMachine(outboxSpec{maxRecords: 40, maxBytes: 1 << 20})
	s.o.setMap(shardsOf(0, 5), s.now)
	hot := func(i int) string { return hashAt(i, 5) }
	fill := func(i, n int) (taken int) {
		for range n {
			if s.o.refuses("k", hot(i)) == nil {
				s.addAt(fmt.Sprint("k", i, s.total), hot(i), "")
				taken++
			}
		}
		return taken
	}
	throttle := func(i int) {
		l := s.o.lanes[shardName(i)]
		l.answer = laneAnswer{refusedCount: 1}
		s.o.pacing(l, s.now)
	}
	require.Equal(t, 20, fill(0, 20), "no lane is slow")
	throttle(0)
	require.Zero(t, fill(0, 5), "it has more than its quarter")
	require.Equal(t, 15, fill(1, 15), "the others go on")
	require.Equal(t, 5, fill(2, 5))
	throttle(1)
	throttle(2)
	require.Zero(t, fill(2, 1), "slow lanes have more than three quarters")
	require.Equal(t, 5, fill(3, 5))
	s.drain(t, 500, 1<<20)
	require.Equal(t, 10, fill(2, 20))
	require.Equal(t, 50, fill(3, 50))
	s.check(t)

	alone := newOutboxMachine(outboxSpec{maxRecords: 40, maxBytes: 1 << 20})
	alone.o.setMap(shardsOf(0, 1), s.now)
	for i := range 20 {
		alone.add(fmt.Sprint(i), "")
	}
	l := alone.o.lanes[shardName(0)]
	l.answer = laneAnswer{refusedCount: 1}
	alone.o.pacing(l, alone.now)
	require.True(t, l.slow)
	require.Nil(t, alone.o.refuses("k", ""), "the only shard of a stream has all the room")
}

// When a request is full, the slow lanes that it had no room for are due.
func TestOutboxSlowLanesThatHadNoRoomAreDue(t *testing.T) {
	const lanes = 3
	s := newOutboxMachine(outboxSpec{})
	s.o.setMap(shardsOf(0, lanes), s.now)
	for i := range lanes {
		for n := range 200 {
			s.addAt(fmt.Sprint("k", i, "-", n), hashAt(i, lanes), "")
		}
		l := s.o.lanes[shardName(i)]
		l.answer = laneAnswer{refusedCount: 1}
		s.o.pacing(l, s.now)
	}
	s.now = s.now.Add(time.Second)
	s.take(t, 190, 1<<20) // all that the first may send, and most of the second
	for _, l := range s.o.slow {
		if at := l.pace.opens(s.now); l.ready() > 0 {
			require.False(t, s.o.slowAt.After(at), "%s opens in %v, and is looked at in %v", l.shard.id, at.Sub(s.now), s.o.slowAt.Sub(s.now))
		}
	}
}

// What is evicted can be published again at once, so a record that may have been stored is not: its receipt would not say so.
func TestOutboxDoesNotEvictWhatMayBeStored(t *testing.T) {
	s := newOutboxMachine(outboxSpec{maxRecords: 16, maxBytes: 1 << 20})
	s.o.setMap(shardsOf(0, 2), s.now)
	for i := range 12 {
		s.addAt(fmt.Sprint("k", i), hashAt(0, 2), "")
	}
	for r := s.o.newest; r != nil; r = r.older.older {
		r.unknown = true
	}
	l := s.o.lanes[shardName(0)]
	l.answer = laneAnswer{refusedCount: 1}
	s.o.pacing(l, s.now)
	evicted := 0
	s.o.evict(10, 0, s.now, func(r *outgoing, _ *shardLane) {
		require.False(t, r.unknown)
		evicted++
	})
	require.Equal(t, 6, evicted)
}
