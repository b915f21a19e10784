package actors

import (
	"maps"
	"math/big"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/internal/kpl"
)

// outboxMachine plays the publisher to an outbox, and keeps what it should hold the slow way.
type outboxMachine struct {
	o       *outbox
	now     time.Time
	pending map[string][]*outgoing // by key, oldest first
	flying  map[*outgoing]bool
	done    map[*outgoing]bool
	total   int
	flights [][]putEntry
	parts   int // of halved requests that were not taken yet
}

func newOutboxMachine(spec outboxSpec) *outboxMachine {
	if spec.maxRecords == 0 {
		spec.maxRecords, spec.maxBytes = 1_000_000, 1<<40
	}
	if spec.aggregate && spec.aggregateBytes == 0 {
		spec.aggregateBytes, spec.aggregateRecords = 300, 1000
	}
	return &outboxMachine{
		o: newOutbox(spec), now: time.Unix(1_000_000, 0), pending: make(map[string][]*outgoing),
		flying: make(map[*outgoing]bool), done: make(map[*outgoing]bool),
	}
}

func (s *outboxMachine) add(key, data string) *outgoing {
	return s.addAt(key, "", data)
}

func (s *outboxMachine) addAt(key, hashKey, data string) *outgoing {
	r := &outgoing{key: key, hashKey: hashKey, data: []byte(data), size: len(key) + len(data), deadline: s.now.Add(time.Minute)}
	s.o.add(r, s.now)
	s.pending[key] = append(s.pending[key], r)
	s.total++
	return r
}

// take fills a request and checks it against the rules.
func (s *outboxMachine) take(t require.TestingT, maxEntries, maxBytes int) []putEntry {
	s.o.wake(s.now)
	sendable := s.o.sendable(s.now)
	f := request{maxEntries: maxEntries, maxBytes: maxBytes}
	s.o.fill(&f, s.now)
	if len(f.entries) > 0 {
		require.True(t, sendable, "sendable says whether fill finds something")
	}
	if s.parts > 0 && len(f.entries) > 0 {
		s.parts--
		s.flights = append(s.flights, f.entries)
		return f.entries
	}
	require.LessOrEqual(t, len(f.entries), maxEntries)
	require.True(t, len(f.entries) <= 1 || f.size <= maxBytes, "%d bytes in %d entries", f.size, len(f.entries))
	size := 0
	keys := make(map[string]bool)
	for i := range f.entries {
		e := &f.entries[i]
		size += e.size
		s.checkEntry(t, e, keys)
	}
	require.Equal(t, f.size, size)
	if len(f.entries) > 0 {
		s.flights = append(s.flights, f.entries)
	}
	return f.entries
}

func (s *outboxMachine) checkEntry(t require.TestingT, e *putEntry, keys map[string]bool) {
	var one [1]*outgoing
	records := e.records(&one)
	own := make(map[string]int)
	for _, r := range records {
		require.False(t, s.flying[r] || s.done[r], "sent while on its way, or settled")
		require.True(t, r.flying)
		s.flying[r] = true
		if !s.o.relaxed {
			require.False(t, keys[r.key], "key %q is in two entries", r.key)
			require.Same(t, s.pending[r.key][own[r.key]], r, "not the oldest record of key %q", r.key)
		}
		own[r.key]++
	}
	if !s.o.relaxed {
		for key, n := range own {
			for _, later := range s.pending[key][n:] {
				require.False(t, s.flying[later], "key %q is on its way already", key)
			}
		}
		for key := range own {
			keys[key] = true
		}
	}
	if e.bundle == nil {
		require.Equal(t, records[0].size, e.size)
		return
	}
	require.Greater(t, len(records), 1, "one alone goes as it is")
	data := e.bundle.builder.Bytes()
	require.Equal(t, len(data)+len(aggregateKey), e.size)
	require.LessOrEqual(t, e.size, s.o.aggregateBytes)
	require.LessOrEqual(t, len(records), s.o.aggregateRecords)
	got, ok := kpl.Split(data)
	require.True(t, ok)
	require.Len(t, got.Users, len(records))
	for i, r := range records {
		require.Equal(t, r.key, got.Users[i].PartitionKey)
		require.Equal(t, string(r.data), string(got.Users[i].Data))
		require.True(t, e.lane.shard.holds(got.Hash(i)), "a record of another shard")
		require.False(t, r.alone)
	}
}

// land settles a flight's records as fates says.
func (s *outboxMachine) land(t require.TestingT, flight int, fates func(r *outgoing) (stored bool, pause time.Duration)) {
	entries := s.flights[flight]
	s.flights = slices.Delete(s.flights, flight, flight+1)
	for i := range entries {
		var one [1]*outgoing
		for _, r := range entries[i].records(&one) {
			delete(s.flying, r)
			if stored, pause := fates(r); stored {
				s.finish(t, r)
			} else {
				s.o.again(r, s.now.Add(pause), s.now)
			}
		}
		s.o.release(entries[i].bundle)
	}
}

func stored(*outgoing) (bool, time.Duration)       { return true, 0 }
func failedAtOnce(*outgoing) (bool, time.Duration) { return false, 0 }

func (s *outboxMachine) finish(t require.TestingT, r *outgoing) {
	require.False(t, s.done[r], "settled twice")
	s.done[r] = true
	s.o.finish(r, s.now)
	s.forget(r)
}

func (s *outboxMachine) forget(r *outgoing) {
	left := slices.DeleteFunc(slices.Clone(s.pending[r.key]), func(other *outgoing) bool { return other == r })
	if s.pending[r.key] = left; len(left) == 0 {
		delete(s.pending, r.key)
	}
}

func (s *outboxMachine) halve(flight int) {
	s.o.halve(s.flights[flight])
	s.flights = slices.Delete(s.flights, flight, flight+1)
	s.parts += 2
}

// check compares every number that the outbox keeps with what it stands for.
func (s *outboxMachine) check(t require.TestingT) {
	o := s.o
	count, size := 0, int64(0)
	for _, queue := range s.pending {
		count += len(queue)
		for _, r := range queue {
			size += int64(r.size)
		}
	}
	require.Equal(t, count, o.count)
	require.Equal(t, size, o.bytes)
	require.Equal(t, count == 0, o.empty())
	n := 0
	queues := make(map[*keyQueue]bool)
	for r := o.oldest; r != nil; r = r.newer {
		require.False(t, s.done[r])
		queues[r.queue] = true
		n++
	}
	require.Equal(t, count, n, "the list has every record, on its way or not")
	if !o.relaxed {
		require.Len(t, o.keys, len(s.pending), "keys are forgotten with their last record")
	}
	s.checkLanes(t, queues)
}

func (s *outboxMachine) checkLanes(t require.TestingT, queues map[*keyQueue]bool) {
	o := s.o
	readyKeys, readyBytes, slowCount, parked := 0, 0, 0, 0
	lanes := make(map[*shardLane]int)
	ready := make(map[*shardLane]int)
	for q := range queues {
		lanes[q.lane] += q.count
		require.Equal(t, q.flying > 0, q.state == keyFlying)
		switch q.state {
		case keyReady:
			ready[q.lane]++
			if !q.lane.slow {
				readyKeys++
				readyBytes += q.weight
			}
			if o.aggregate {
				require.EqualValues(t, q.bytes, q.weight)
			} else {
				require.Equal(t, q.head.size, q.weight)
			}
		case keyParked:
			parked++
		case keyFlying, keyIdle:
			require.Equal(t, keyFlying, q.state)
		}
		if o.shards != nil && q.state != keyFlying {
			want, known := o.shards.find(q.hashOfHead())
			require.True(t, !known && q.lane == &o.rest || q.lane.shard == want)
		}
	}
	for _, l := range append(slices.Collect(maps.Values(o.lanes)), &o.rest) {
		require.Equal(t, lanes[l], l.count)
		require.Equal(t, ready[l], l.ready())
		require.Equal(t, l.slow, slices.Contains(o.slow, l))
		require.Equal(t, !l.slow && l.ready() > 0, l.turn)
		if l.slow && l != &o.rest {
			slowCount += l.count
		}
	}
	require.Equal(t, readyKeys, o.readyKeys)
	require.Equal(t, readyBytes, o.readyBytes)
	require.Equal(t, slowCount, o.slowCount)
	require.Len(t, o.parked, parked)
}

// shardsOf is a map of so many shards of one size, numbered from first.
func shardsOf(first, n int) *shardMap {
	listed := make([]shard, 0, n)
	for i := range n {
		listed = append(listed, shard{id: shardName(first + i), startingKey: hashAt(i, n), endingKey: hashBefore(i+1, n)})
	}
	return newShardMap(listed)
}

// drain sends everything, however the lanes are.
func (s *outboxMachine) drain(t require.TestingT, maxEntries, maxBytes int) {
	for n := 0; !s.o.empty(); n++ {
		require.LessOrEqual(t, n, 1000*(s.total+10), "records are stuck")
		for len(s.flights) > 0 {
			s.land(t, 0, stored)
		}
		if len(s.take(t, maxEntries, maxBytes)) == 0 && !s.o.empty() && len(s.flights) == 0 {
			next := s.o.next()
			require.False(t, next.IsZero(), "nothing will ever be ready")
			s.now = maxTime(s.now.Add(time.Millisecond), next)
		}
	}
	require.Len(t, s.done, s.total, "each exactly once")
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// hashAt is the first hash key of the i-th of n shards of one size.
func hashAt(i, n int) string { return hashKeyAt(i, n, 0) }

// hashBefore is the last hash key before it.
func hashBefore(i, n int) string { return hashKeyAt(i, n, 1) }

func hashKeyAt(i, n int, less int64) string {
	h := new(big.Int).Lsh(big.NewInt(int64(i)), 128)
	h.Div(h, big.NewInt(int64(n)))
	return h.Sub(h, big.NewInt(less)).String()
}
