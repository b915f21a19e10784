package actors

import (
	"fmt"
	"math/bits"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// outboxMachine plays the publisher to an outbox, and keeps what it should hold the slow way.
type outboxMachine struct {
	o       *outbox
	pending map[string][]*outgoing // by key, oldest first
	done    map[*outgoing]bool
	total   int
	failed  []*outgoing // they go first
	parts   int         // parts of halved requests that were not taken yet
}

func newOutboxMachine() *outboxMachine {
	return &outboxMachine{o: newOutbox(), pending: make(map[string][]*outgoing), done: make(map[*outgoing]bool)}
}

func (s *outboxMachine) add(key string, size int) *outgoing {
	p := &outgoing{key: key, size: size}
	s.o.add(p)
	s.pending[key] = append(s.pending[key], p)
	s.total++
	return p
}

// take checks a batch against the rules.
func (s *outboxMachine) take(t require.TestingT, maxRecords, maxBytes int) []*outgoing {
	sendable := s.o.sendable()
	batch := s.o.take(maxRecords, maxBytes)
	require.Equal(t, sendable, len(batch) > 0, "sendable says whether take returns something")
	size, keys := 0, make(map[string]bool)
	for _, p := range batch {
		require.False(t, keys[p.key], "two records of key %q in one request", p.key)
		keys[p.key] = true
		require.Same(t, s.pending[p.key][0], p, "not the oldest record of key %q", p.key)
		size += p.size
	}
	if s.parts > 0 {
		s.parts--
		return batch
	}
	require.LessOrEqual(t, len(batch), maxRecords)
	require.True(t, len(batch) <= 1 || size <= maxBytes, "%d bytes in %d records", size, len(batch))
	for i, p := range batch {
		if i < len(s.failed) {
			require.Same(t, s.failed[i], p, "what failed goes before what was not sent yet")
		}
	}
	s.failed = s.failed[min(len(batch), len(s.failed)):]
	return batch
}

func (s *outboxMachine) finish(t require.TestingT, p *outgoing) {
	require.False(t, s.done[p], "sent twice")
	s.done[p] = true
	s.o.finish(p)
	s.pending[p.key] = s.pending[p.key][1:]
	if len(s.pending[p.key]) == 0 {
		delete(s.pending, p.key)
	}
}

func (s *outboxMachine) again(failed []*outgoing) {
	s.o.again(failed)
	s.failed = append(append([]*outgoing(nil), failed...), s.failed...)
}

func (s *outboxMachine) halve(batch []*outgoing) {
	s.o.halve(batch)
	s.parts += 2
}

func (s *outboxMachine) check(t require.TestingT) {
	count, size := 0, int64(0)
	for _, queue := range s.pending {
		count += len(queue)
		for _, p := range queue {
			size += int64(p.size)
		}
	}
	require.Equal(t, count, s.o.count)
	require.Equal(t, size, s.o.bytes)
	require.Equal(t, count == 0, s.o.empty())
	got := make(map[*outgoing]bool)
	s.o.all(func(p *outgoing) {
		if got[p] || s.done[p] {
			require.Fail(t, "visited twice, or when finished")
		}
		got[p] = true
	})
	require.Len(t, got, count, "all visits every record, on its way or not")
	require.Len(t, s.o.keys, len(s.pending), "keys are forgotten with their last record")
}

// Per key the records leave in their order, one at a time; each is sent until it is stored, and stored once.
func TestOutboxKeepsTheOrderOfEachKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newOutboxMachine()
		maxRecords := rapid.IntRange(1, 6).Draw(t, "maxRecords")
		maxBytes := rapid.IntRange(1, 30).Draw(t, "maxBytes")
		keys := rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h"})
		add := func(t *rapid.T) {
			for range rapid.IntRange(1, 10).Draw(t, "n") {
				s.add(keys.Draw(t, "key"), rapid.IntRange(0, 40).Draw(t, "size"))
			}
		}
		send := func(t *rapid.T) {
			batch := s.take(t, maxRecords, maxBytes)
			if rapid.Bool().Draw(t, "more meanwhile") {
				add(t) // while the request is under way
			}
			if len(batch) > 1 && rapid.IntRange(0, 3).Draw(t, "refused") == 0 {
				s.halve(batch)
				return
			}
			var failed []*outgoing
			for _, p := range batch {
				if rapid.Bool().Draw(t, "stored") {
					s.finish(t, p)
				} else {
					failed = append(failed, p)
				}
			}
			s.again(failed)
		}
		t.Repeat(map[string]func(*rapid.T){"add": add, "send": send, "send more": send, "": func(t *rapid.T) { s.check(t) }})
		for n := 0; !s.o.empty(); n++ {
			require.LessOrEqual(t, n, s.total+s.parts, "records are stuck")
			for _, p := range s.take(t, maxRecords, maxBytes) {
				s.finish(t, p)
			}
		}
		s.check(t)
		require.Len(t, s.done, s.total, "each exactly once")
		require.False(t, s.o.sendable())
	})
}

// Keys take turns: one with many records does not hold up the others.
func TestOutboxKeysTakeTurns(t *testing.T) {
	s := newOutboxMachine()
	for range 5 {
		s.add("busy", 1)
	}
	s.add("a", 1)
	s.add("b", 1)
	batch := s.take(t, 2, 100)
	require.Equal(t, []string{"busy", "a"}, keysOf(batch))
	for _, p := range batch {
		s.finish(t, p)
	}
	require.Equal(t, []string{"b", "busy"}, keysOf(s.take(t, 2, 100)))
}

func keysOf(batch []*outgoing) (keys []string) {
	for _, p := range batch {
		keys = append(keys, p.key)
	}
	return keys
}

// P3: [a1 b1 a2 a3], a1 is throttled: neither a2 nor a3 overtakes it.
func TestOutboxRetriesBeforeLaterRecordsOfTheKey(t *testing.T) {
	s := newOutboxMachine()
	a1, b1, a2, a3 := s.add("a", 1), s.add("b", 1), s.add("a", 1), s.add("a", 1)
	require.Equal(t, []*outgoing{a1, b1}, s.take(t, 500, 1000))
	require.False(t, s.o.sendable(), "a2 waits for a1")
	s.finish(t, b1)
	s.again([]*outgoing{a1})
	for _, want := range []*outgoing{a1, a2, a3} {
		require.Equal(t, []*outgoing{want}, s.take(t, 500, 1000))
		s.finish(t, want)
	}
	s.check(t)
}

func TestOutboxLimits(t *testing.T) {
	s := newOutboxMachine()
	for i, size := range []int{50, 50, 1, 200, 100} {
		s.add(fmt.Sprint(i), size)
	}
	require.Len(t, s.take(t, 10, 100), 2, "exactly the bytes allowed")
	require.Len(t, s.take(t, 10, 100), 1, "the next one does not fit")
	require.Len(t, s.take(t, 10, 100), 1, "larger than a request may be: alone")
	require.Len(t, s.take(t, 10, 100), 1)
	require.Empty(t, s.take(t, 10, 100))
	require.Nil(t, newOutbox().take(10, 10))
}

// P5: a request refused as a whole for one record is halved until that record is alone; all others are stored.
func TestOutboxFindsTheFaultyRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newOutboxMachine()
		n := rapid.IntRange(1, 500).Draw(t, "n")
		faulty := s.add("", 1)
		at := rapid.IntRange(0, n-1).Draw(t, "at")
		for i := range n {
			p := s.add(fmt.Sprint(i), 1)
			if i == at {
				faulty = p
			}
		}
		requests := 0
		found := false
		for !s.o.empty() {
			requests++
			batch := s.take(t, 500, 1<<20)
			refused := false
			for _, p := range batch {
				refused = refused || p == faulty
			}
			switch {
			case refused && len(batch) > 1:
				s.halve(batch)
				if rapid.IntRange(0, 5).Draw(t, "another") == 0 {
					s.add(batch[0].key, 1) // a later record of a key under way waits
				}
			case refused:
				found = true
				s.finish(t, faulty)
			default:
				for _, p := range batch {
					s.finish(t, p)
				}
			}
			s.check(t)
		}
		require.True(t, found)
		require.Len(t, s.done, s.total)
		require.LessOrEqual(t, requests, 2*bits.Len(500)+4+s.total-n, "halving, not trying each")
	})
}

// The queue inside is compacted, and what was sent is not kept.
func TestOutboxOfManyKeys(t *testing.T) {
	s := newOutboxMachine()
	for round := range 3 {
		for i := range 4000 {
			s.add(fmt.Sprint(i), round)
		}
	}
	for !s.o.empty() {
		batch := s.take(t, 500, 1<<20)
		var failed []*outgoing
		for i, p := range batch {
			if i%7 == 0 && p.failures == 0 {
				p.failures++
				failed = append(failed, p)
				continue
			}
			s.finish(t, p)
		}
		s.again(failed)
	}
	s.check(t)
	require.Len(t, s.done, 12_000)
	require.LessOrEqual(t, cap(s.o.ready), 20_000)
}
