package actors

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/protokinesis/protokinesis/leasestore"
)

// simStream is a small Kinesis stream and the reading of it, one step of the decide loop at a time. Every step begins with what is
// stored, so that between any two the process may as well have been restarted.
type simStream struct {
	t      *rapid.T
	now    int64
	shards []*simShard
	leases map[string]leasestore.Lease
	state  leasestore.StreamState

	// must: records from here on are to be read exactly once; before: those before this are not to be read.
	must, before int64
	strict       bool
	// relaxed: the order between shards is not kept; disordered: nor can it be, as a listing lacked a shard that is there.
	relaxed, disordered bool
	tips                map[string]bool // shards for which LATEST was asked since the last seek
}

type simShard struct {
	shard
	records []*simRecord
	hidden  bool // not listed yet
	gone    bool // listed no more
}

type simRecord struct {
	at    int64 // arrival, and its sequence number: unique
	reads int
	lost  bool // trimmed away
}

func newSimStream(t *rapid.T, strict bool) *simStream {
	s := &simStream{t: t, now: 1000, leases: make(map[string]leasestore.Lease), strict: strict, relaxed: rapid.Bool().Draw(t, "relaxed")}
	s.tips = make(map[string]bool)
	for range rapid.IntRange(1, 3).Draw(t, "shards") {
		s.create()
	}
	return s
}

func (s *simStream) create(parents ...*simShard) {
	n := &simShard{shard: shard{id: fmt.Sprintf("shard-%03d", len(s.shards))}}
	for _, p := range parents {
		p.closed = true
		n.parents = append(n.parents, p.id)
	}
	if !s.strict && len(parents) > 0 {
		n.hidden = rapid.Bool().Draw(s.t, "hidden") || slices.ContainsFunc(parents, isHidden)
	}
	s.shards = append(s.shards, n)
}

// isHidden: a listing that lags behind shows no child before its parents.
func isHidden(sh *simShard) bool { return sh.hidden }

func (s *simStream) open() (open []*simShard) {
	for _, sh := range s.shards {
		if !sh.closed {
			open = append(open, sh)
		}
	}
	return open
}

// history lets something happen to the stream.
func (s *simStream) history() {
	for range rapid.IntRange(0, 6).Draw(s.t, "events") {
		s.now += 10
		open := s.open()
		a := open[rapid.IntRange(0, len(open)-1).Draw(s.t, "a")]
		switch rapid.SampledFrom([]string{"put", "put", "put", "split", "merge", "show"}).Draw(s.t, "event") {
		case "put":
			a.records = append(a.records, &simRecord{at: s.now})
		case "split":
			if len(s.shards) < 16 {
				s.create(a)
				s.create(a)
			}
		case "merge":
			if b := open[rapid.IntRange(0, len(open)-1).Draw(s.t, "b")]; b != a {
				s.create(a, b)
			}
		case "show":
			a.hidden = slices.ContainsFunc(a.parents, func(id string) bool { return s.byID(id).hidden })
		}
	}
	s.now += 10
}

// trim lets the oldest shard pass the retention, if it is closed.
func (s *simStream) trim() {
	for _, sh := range s.shards {
		if sh.gone {
			continue
		}
		if sh.closed && !sh.hidden {
			sh.gone = true
			for _, r := range sh.records {
				r.lost = true
			}
		}
		return
	}
}

// age lets the oldest records of a shard pass the retention.
func (s *simStream) age() {
	sh := s.shards[rapid.IntRange(0, len(s.shards)-1).Draw(s.t, "aged")]
	for _, r := range sh.records[:rapid.IntRange(0, len(sh.records)).Draw(s.t, "records")] {
		r.lost = true
	}
}

func (s *simStream) byID(id string) *simShard {
	n, _ := strconv.Atoi(id[len("shard-"):])
	return s.shards[n]
}

func (s *simStream) decide(opening bool) map[string]decision {
	return s.lineage(opening, func(sh *simShard) bool { return !sh.hidden && !sh.gone }).decide()
}

func (s *simStream) lineage(opening bool, listed func(*simShard) bool) *lineage {
	var shards []shard
	for _, sh := range s.shards {
		if listed(sh) {
			shards = append(shards, sh.shard)
		}
	}
	leases := make([]leasestore.Lease, 0, len(s.leases))
	for _, l := range s.leases {
		leases = append(leases, l)
	}
	l := newLineage(shards, leases, s.state, opening)
	l.relaxed = s.relaxed
	return l
}

// started are the shards to be read by a set of decisions, in some order.
func (s *simStream) started(decisions map[string]decision) (ids []string) {
	for _, sh := range s.shards {
		if d, ok := decisions[sh.id]; ok && d.verdict == verdictStart {
			ids = append(ids, sh.id)
		}
	}
	if len(ids) > 1 {
		ids = rapid.Permutation(ids).Draw(s.t, "order")
	}
	return ids
}

// take writes the lease as a reader does: a new one, or a void one moved.
func (s *simStream) take(id string, d decision) {
	lease, ok := s.leases[id]
	if !ok {
		lease = leasestore.Lease{Key: leasestore.Key{Shard: id}, Checkpoint: d.start, Seek: s.state.Seek, Parents: s.byID(id).parents}
	}
	if lease.Seek != s.state.Seek || lease.Checkpoint.IsZero() {
		lease.Checkpoint, lease.Seek = d.start, s.state.Seek
	}
	lease.Counter++
	s.leases[id] = lease
}

// read takes a shard's lease and reads up to n records of it; to its end, if it is closed and n is enough.
func (s *simStream) read(id string, d decision, n int) (progress bool) {
	_, had := s.leases[id]
	s.take(id, d)
	require.False(s.t, d.tip && s.tips[id], "LATEST is asked for twice for %s", id)
	s.tips[id] = s.tips[id] || d.tip
	sh, lease := s.byID(id), s.leases[id]
	left := s.after(sh, d)
	for len(left) > 0 && n > 0 {
		s.readOne(sh, left[0])
		lease.Checkpoint = leasestore.AtSequence(strconv.FormatInt(left[0].at, 10), 0)
		left, n, progress = left[1:], n-1, true
	}
	if sh.closed && len(left) == 0 && n > 0 {
		lease.Checkpoint, progress = leasestore.ShardEnd(), true
	}
	s.leases[id] = lease
	return progress || !had
}

// after are the records of a shard at and behind a position.
func (s *simStream) after(sh *simShard, d decision) (records []*simRecord) {
	for _, r := range sh.records {
		include := false
		switch d.start.Kind() {
		case leasestore.KindTrimHorizon:
			include = true
		case leasestore.KindTimestamp:
			include = r.at >= d.start.Time().UnixMilli()
		case leasestore.KindSequence:
			sequence, _ := d.start.Sequence()
			include = leasestore.CompareSequence(strconv.FormatInt(r.at, 10), sequence) > 0
		case leasestore.KindNone, leasestore.KindBefore, leasestore.KindShardEnd:
			require.Fail(s.t, "not a place to start", "%s at %s", sh.id, d.start)
		}
		if d.tip {
			include = r.at >= s.now
		}
		if include && !r.lost {
			records = append(records, r)
		}
	}
	return records
}

func (s *simStream) readOne(sh *simShard, r *simRecord) {
	r.reads++
	if r.at >= s.must {
		require.Equal(s.t, 1, r.reads, "record %d of %s is read again", r.at, sh.id)
	}
	if s.strict {
		require.GreaterOrEqual(s.t, r.at, s.before, "a record of %s is out of scope, and read", sh.id)
	}
	if s.relaxed || s.disordered {
		return
	}
	s.ancestors(sh, func(a *simShard) {
		for _, older := range a.records {
			require.True(s.t, older.at < s.must || older.lost || older.reads > 0,
				"record %d of %s is read before %d of its ancestor %s", r.at, sh.id, older.at, a.id)
		}
	})
}

func (s *simStream) ancestors(sh *simShard, visit func(a *simShard)) {
	for _, id := range sh.parents {
		visit(s.byID(id))
		s.ancestors(s.byID(id), visit)
	}
}

// first opens the stream at the tip for the first time; crashes are allowed before the state is stored.
func (s *simStream) first() {
	s.before = s.now
	crashes := 0
	if !s.strict {
		crashes = rapid.IntRange(0, 2).Draw(s.t, "crashes")
	}
	for n := crashes; ; n-- {
		s.state = leasestore.StreamState{Start: atMillis(s.now), Tip: true}
		s.must = s.now
		s.open1(n > 0)
		if n == 0 {
			s.state.Version = 1
			return
		}
		s.history()
	}
}

// open1 is a pass of an opening or a seek: what may start takes its lease at once. It may stop half way.
func (s *simStream) open1(crash bool) {
	decisions := s.decide(s.state.Tip)
	for _, id := range s.started(decisions) {
		if crash && rapid.Bool().Draw(s.t, "crash") {
			return
		}
		if !s.strict && rapid.IntRange(0, 4).Draw(s.t, "lease fails") == 0 {
			continue
		}
		s.read(id, decisions[id], 0)
	}
}

// seek moves the whole stream.
func (s *simStream) seek(kind string) {
	s.state.Version++
	s.state.Seek++
	s.state.Tip = false
	switch kind {
	case "horizon":
		s.state.Start, s.must = leasestore.TrimHorizon(), 0
	case "timestamp":
		s.must = s.now - int64(rapid.IntRange(0, 300).Draw(s.t, "ago"))
		s.state.Start = atMillis(s.must)
	case "tip":
		s.must = s.now
		s.state.Start, s.state.Tip = atMillis(s.now), true
	}
	s.before, s.disordered = s.must, false
	clear(s.tips)
	for _, sh := range s.shards {
		for _, r := range sh.records {
			r.reads = 0
		}
	}
	s.open1(!s.strict && rapid.Bool().Draw(s.t, "crash in the seek"))
}

// some reads a little of this and that.
func (s *simStream) some() {
	s.someOf(s.decide(false))
}

func (s *simStream) someOf(decisions map[string]decision) {
	for _, id := range s.started(decisions) {
		if rapid.Bool().Draw(s.t, "read") {
			s.read(id, decisions[id], rapid.IntRange(0, 3).Draw(s.t, "n"))
		}
	}
}

// drain reads everything to its end and checks that nothing is left.
func (s *simStream) drain() {
	for _, sh := range s.shards {
		sh.hidden = false
	}
	for rounds := 0; ; rounds++ {
		require.LessOrEqual(s.t, rounds, 2*len(s.shards)+2, "reading never ends")
		decisions := s.decide(false)
		progress := false
		for _, id := range s.started(decisions) {
			progress = s.read(id, decisions[id], 1000) || progress
		}
		if !progress {
			break
		}
	}
	for id, d := range s.decide(false) {
		require.NotEqual(s.t, verdictWait, d.verdict, "%s waits for ever", id)
		if d.verdict == verdictStart {
			require.False(s.t, s.byID(id).closed, "%s is closed, read and not finished", id)
		}
	}
	for _, sh := range s.shards {
		for _, r := range sh.records {
			if r.at >= s.must && !r.lost {
				require.Equal(s.t, 1, r.reads, "record %d of %s", r.at, sh.id)
			}
		}
	}
}

func (s *simStream) start() {
	kind := rapid.SampledFrom([]string{"first", "horizon", "timestamp", "tip"}).Draw(s.t, "start")
	if kind == "first" {
		s.first()
	} else {
		s.seek(kind) // start_at is a seek at the first opening
	}
}

// stale reads by a listing of before: shards that were trimmed away since are in it.
func (s *simStream) stale() {
	s.someOf(s.lineage(false, func(sh *simShard) bool { return !sh.hidden }).decide())
}

// gaps reads by a listing that lacks any shards. Children of what it lacks do not wait then; all is read all the same, unless the tip decides
// what is in scope.
func (s *simStream) gaps() {
	if s.strict || s.state.Tip {
		return
	}
	s.disordered = true
	s.someOf(s.lineage(false, func(sh *simShard) bool { return !sh.hidden && !sh.gone && rapid.Bool().Draw(s.t, "listed") }).decide())
}

// retire removes the leases that nobody needs, by a listing that lacks nothing.
func (s *simStream) retire() {
	if slices.ContainsFunc(s.shards, isHidden) {
		return
	}
	l := s.lineage(false, func(sh *simShard) bool { return !sh.gone })
	lost := make(map[string]bool)
	for id, lease := range s.leases {
		lost[id] = s.byID(id).gone && l.isLost(lease)
	}
	for _, lease := range l.retirable(lost) {
		require.True(s.t, s.byID(lease.Shard).gone, "%s is there still", lease.Shard)
		delete(s.leases, lease.Shard)
	}
}

func (s *simStream) step() {
	s.history()
	switch rapid.SampledFrom([]string{"read", "read", "read", "trim", "age", "retire", "stale", "gaps", "seek", "drain"}).Draw(s.t, "step") {
	case "read":
		s.some()
	case "trim":
		s.trim()
	case "age":
		s.age()
	case "retire":
		s.retire()
	case "stale":
		s.stale()
	case "gaps":
		s.gaps()
	case "seek":
		s.seek(rapid.SampledFrom([]string{"horizon", "timestamp", "tip"}).Draw(s.t, "to"))
	case "drain":
		s.drain()
	}
}

func (s *simStream) run() {
	s.history()
	for range rapid.IntRange(0, 2).Draw(s.t, "trimmed before") {
		s.trim()
	}
	s.start()
	for range rapid.IntRange(1, 10).Draw(s.t, "steps") {
		s.step()
	}
	s.drain()
}

// Whatever happens to the stream and to the process, every record in scope is read exactly once, and (strict) after those of
// its shard's ancestors; LATEST is asked for at most once per shard, and the reading comes to an end. Here processes crash between any two
// writes, listings lag behind, are old or lack shards, leases that nobody needs are removed, and shards pass the retention. R19, R26.
func TestLineageReadsEverythingOnceInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { newSimStream(t, false).run() })
}

// Without crashes and lagging listings, nothing that is out of scope is read either.
func TestLineageReadsNothingOutOfScope(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { newSimStream(t, true).run() })
}
