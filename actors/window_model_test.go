package actors

import (
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

// windowModel is what a window has to be, written the slow and obvious way: every record is kept for ever.
type windowModel struct {
	maxRecords, maxBytes int
	perKeyOrder          bool

	records []*modelRecord // id 1 first
	ready   []uint64
	sealed  bool   // giveUpUndelivered was called
	begun   uint64 // the last record that had been delivered or settled then

	now     time.Time
	resends int // how many may come again at once
	luck    bool
}

type modelRecord struct {
	id       uint64
	key      string
	bytes    int
	page     *arena // only its bytes are used
	position leasestore.Checkpoint
	state    entryState
	attempt  int32
	retryAt  time.Time

	lost           int32
	sent, answered time.Time
}

func (m *windowModel) of(id uint64) *modelRecord { return m.records[id-1] }

func (m *windowModel) add(d *messages.Delivery, page *arena) {
	r := &modelRecord{
		id: d.GetDeliveryId(), key: d.GetPartitionKey(), page: page,
		bytes:    len(d.GetData()) + envelopeSize(d.GetHeaders()) + len(d.GetPartitionKey()),
		position: leasestore.AtSequence(d.GetSequenceNumber(), d.GetSubSequenceNumber()), state: entryReady,
	}
	if m.perKeyOrder && m.unsettledOf(r.key) > 0 {
		r.state = entryBlocked
	} else {
		m.ready = append(m.ready, r.id)
	}
	m.records = append(m.records, r)
}

// pinned are the bytes of the pages of which a record is not settled.
func (m *windowModel) pinned() (n int) {
	seen := make(map[*arena]bool)
	for _, r := range m.records {
		if r.state != entrySettled && !seen[r.page] {
			seen[r.page] = true
			n += r.page.bytes
		}
	}
	return n
}

func (m *windowModel) unsettledOf(key string) (n int) {
	for _, r := range m.records {
		if r.key == key && r.state != entrySettled {
			n++
		}
	}
	return n
}

func (m *windowModel) sum(f func(r *modelRecord) int) (n int) {
	for _, r := range m.records {
		n += f(r)
	}
	return n
}

func (m *windowModel) out() int {
	return m.sum(func(r *modelRecord) int { return in(r.state == entryOut, 1) })
}

func (m *windowModel) outBytes() int {
	return m.sum(func(r *modelRecord) int { return in(r.state == entryOut, r.bytes) })
}

func (m *windowModel) held() int {
	return m.sum(func(r *modelRecord) int { return in(r.state != entrySettled, r.bytes) })
}

func in(counts bool, n int) int {
	if counts {
		return n
	}
	return 0
}

// next is the record to go out, or nil.
func (m *windowModel) next() *modelRecord {
	if len(m.ready) == 0 {
		return nil
	}
	r := m.of(m.ready[0])
	if m.out() >= m.maxRecords || (m.out() > 0 && m.outBytes()+r.bytes > m.maxBytes) {
		return nil
	}
	m.ready = m.ready[1:]
	r.state, r.sent = entryOut, m.now
	r.attempt++
	return r
}

func (m *windowModel) settle(first, last uint64, outcome messages.Outcome, retryAt func(int32) time.Time) (changed int) {
	if outcome != messages.Outcome_OUTCOME_ACK && outcome != messages.Outcome_OUTCOME_DROP && outcome != messages.Outcome_OUTCOME_RETRY {
		return 0
	}
	for _, r := range m.records {
		if r.id < first || r.id > last || r.state != entryOut {
			continue
		}
		changed++
		r.answered = m.now
		if r.lost > 0 {
			m.resends, m.luck = m.resends+1, true
		}
		if outcome == messages.Outcome_OUTCOME_RETRY {
			r.state, r.retryAt = entryWaiting, retryAt(r.attempt-r.lost)
			continue
		}
		m.finish(r)
	}
	return changed
}

func (m *windowModel) finish(r *modelRecord) {
	r.state = entrySettled
	if !m.perKeyOrder {
		return
	}
	for _, other := range m.records {
		if other.key == r.key && other.state == entryBlocked {
			if !m.sealed || other.id <= m.begun {
				other.state = entryReady
				m.ready = append(m.ready, other.id)
			}
			return
		}
	}
}

// giveUp leaves to be delivered what is ready, or waits behind its key, and lies before a record that has been delivered.
func (m *windowModel) giveUp() {
	for _, r := range m.records {
		if r.attempt > 0 || r.state == entrySettled {
			m.begun = r.id
		}
	}
	m.sealed = true
	m.ready = slices.DeleteFunc(m.ready, func(id uint64) bool { return id > m.begun })
}

func (m *windowModel) dueRetries(now time.Time, maxAttempts int32) (spent []uint64) {
	var due []*modelRecord
	for _, r := range m.records {
		if r.state == entryWaiting && !r.retryAt.After(now) {
			due = append(due, r)
		}
	}
	slices.SortStableFunc(due, func(a, b *modelRecord) int { return a.retryAt.Compare(b.retryAt) })
	for _, r := range due {
		if maxAttempts > 0 && r.attempt-r.lost >= maxAttempts {
			r.state = entrySpent
			spent = append(spent, r.id)
			continue
		}
		r.state = entryReady
		m.ready = append(m.ready, r.id)
	}
	return spent
}

func (m *windowModel) nextRetry() (at time.Time, ok bool) {
	for _, r := range m.records {
		if r.state == entryWaiting && (!ok || r.retryAt.Before(at)) {
			at, ok = r.retryAt, true
		}
	}
	return at, ok
}

// overdue are the records that are to come again.
func (m *windowModel) overdue(after time.Duration) (ids []uint64) {
	if !m.luck {
		m.resends = 1
	}
	m.luck = false
	var due []*modelRecord
	for i, r := range m.records {
		since := r.sent
		for _, before := range m.records[:i] {
			if before.lost == 0 && slices.Contains([]entryState{entrySettled, entryWaiting, entrySpent}, before.state) && before.answered.After(since) {
				since = before.answered
			}
		}
		if r.state == entryOut && m.now.Sub(since) >= after {
			due = append(due, r)
		}
	}
	for lost := int32(0); len(ids) < min(len(due), m.resends); lost++ {
		for _, r := range due {
			if r.lost == lost && r.sent.Before(m.now) && len(ids) < m.resends {
				r.lost, r.attempt, r.sent = r.lost+1, r.attempt+1, m.now
				ids = append(ids, r.id)
			}
		}
	}
	return ids
}

// prefix is how many records are settled without a gap.
func (m *windowModel) prefix() int {
	for i, r := range m.records {
		if r.state != entrySettled {
			return i
		}
	}
	return len(m.records)
}

// windowMachine runs window and model side by side.
type windowMachine struct {
	w         *window
	m         *windowModel
	now       time.Time
	retries   int
	watermark leasestore.Checkpoint
	sent      map[*messages.Delivery]*messages.Delivery // as sent → a clone made then
	ids       *rapid.Generator[uint64]
}

func newWindowMachine(t *rapid.T) *windowMachine {
	maxRecords := rapid.IntRange(1, 40).Draw(t, "maxRecords")
	maxBytes := rapid.IntRange(1, 120).Draw(t, "maxBytes")
	perKeyOrder := rapid.Bool().Draw(t, "perKeyOrder")
	s := &windowMachine{
		w:    newWindow(maxRecords, maxBytes, perKeyOrder),
		m:    &windowModel{maxRecords: maxRecords, maxBytes: maxBytes, perKeyOrder: perKeyOrder},
		sent: make(map[*messages.Delivery]*messages.Delivery),
		ids:  rapid.OneOf(rapid.Uint64Range(0, 60), rapid.Just(uint64(math.MaxUint64)), rapid.Uint64()),
	}
	s.clock(time.Unix(1_700_000_000, 0)) // any instant: the window knows no clock
	return s
}

func (s *windowMachine) clock(now time.Time) {
	s.now, s.m.now = now, now
	s.w.clock(now)
}

// redeliver looks for what may have been lost.
func (s *windowMachine) redeliver(t *rapid.T) {
	if s.m.sealed {
		t.Skip("nothing is delivered any more")
	}
	after := time.Duration(rapid.IntRange(1, 9000).Draw(t, "after ms")) * time.Millisecond
	want := s.m.overdue(after)
	s.w.newRound()
	again, next := s.w.overdue(after)
	require.Positive(t, next)
	require.LessOrEqual(t, next, after)
	var got []uint64
	for _, d := range again {
		require.Equal(t, s.m.of(d.GetDeliveryId()).attempt, d.GetAttempt())
		s.sent[d], _ = proto.Clone(d).(*messages.Delivery)
		got = append(got, d.GetDeliveryId())
	}
	require.Equal(t, want, got)
}

func (s *windowMachine) add(t *rapid.T) {
	if s.m.sealed {
		t.Skip("nothing is read any more")
	}
	page := s.w.newArena(rapid.IntRange(0, 200).Draw(t, "bytes of the page"))
	for range rapid.IntRange(1, 12).Draw(t, "page") {
		if s.w.room() == 0 {
			return
		}
		id := s.w.nextID()
		require.EqualValues(t, len(s.m.records)+1, id, "ids are consecutive")
		d := &messages.Delivery{
			// Positions go through 9 → 10 and 99 → 100 digits' boundaries, with sub-sequence numbers in between.
			SequenceNumber: strconv.FormatUint(8+id/2, 10), SubSequenceNumber: id % 2,
			PartitionKey: rapid.SampledFrom([]string{"", "a", "b", "long key"}).Draw(t, "key"),
			Data:         make([]byte, rapid.OneOf(rapid.IntRange(0, 8), rapid.IntRange(0, 100)).Draw(t, "size")),
			Attempt:      1, Generation: 7, DeliveryId: id,
		}
		if rapid.Bool().Draw(t, "headers") {
			d.Headers = map[string]string{"name": "value"}
		}
		s.w.add(d, page)
		s.m.add(d, page)
	}
}

func (s *windowMachine) deliver(t *rapid.T) {
	for range rapid.IntRange(1, 12).Draw(t, "deliveries") {
		got, want := s.w.next(), s.m.next()
		if want == nil {
			require.Nil(t, got, "nothing may go out now")
			return
		}
		require.NotNil(t, got, "record %d may go out", want.id)
		require.Equal(t, want.id, got.GetDeliveryId())
		require.Equal(t, want.attempt, got.GetAttempt())
		require.NotContains(t, s.sent, got, "a message is sent once; another attempt is a copy")
		s.sent[got], _ = proto.Clone(got).(*messages.Delivery)
		if s.m.perKeyOrder {
			for _, r := range s.m.records {
				if r.id != want.id && r.key == want.key && r.state != entrySettled {
					require.Greater(t, r.id, want.id, "an older record of the key is not settled")
					require.Equal(t, entryBlocked, r.state, "two records of a key are on their way")
				}
			}
		}
	}
}

func (s *windowMachine) settle(t *rapid.T) {
	first, last := s.ids.Draw(t, "first"), s.ids.Draw(t, "last")
	if rapid.Bool().Draw(t, "one") {
		last = first
	}
	outcome := rapid.SampledFrom([]messages.Outcome{
		messages.Outcome_OUTCOME_ACK, messages.Outcome_OUTCOME_DROP, messages.Outcome_OUTCOME_RETRY,
		messages.Outcome_OUTCOME_UNSPECIFIED, messages.Outcome(99),
	}).Draw(t, "outcome")
	pause := time.Duration(rapid.IntRange(0, 3000).Draw(t, "pause")) * time.Millisecond
	retries := s.retries
	retryAt := func(n *int) func(int32) time.Time {
		return func(attempt int32) time.Time {
			*n++
			return s.now.Add(pause*time.Duration(attempt) + time.Duration(*n/3)) // a few at the same instant
		}
	}
	want := s.m.settle(first, last, outcome, retryAt(&retries))
	require.Equal(t, want, s.w.settle(first, last, outcome, retryAt(&s.retries)))
}

func (s *windowMachine) pass(t *rapid.T) {
	if s.m.sealed {
		t.Skip("nothing is retried any more")
	}
	s.clock(s.now.Add(time.Duration(rapid.IntRange(0, 4000).Draw(t, "ms")) * time.Millisecond))
	limit := rapid.Int32Range(0, 3).Draw(t, "maxAttempts")
	want := s.m.dueRetries(s.now, limit)
	var got []uint64
	for _, d := range s.w.dueRetries(s.now, limit) {
		require.Equal(t, s.m.of(d.GetDeliveryId()).attempt, d.GetAttempt())
		got = append(got, d.GetDeliveryId())
	}
	require.Equal(t, want, got, "spent")
}

func (s *windowMachine) settleSpent(t *rapid.T) {
	id := s.ids.Draw(t, "id")
	s.w.settleSpent(id)
	if id >= 1 && id <= uint64(len(s.m.records)) && s.m.of(id).state == entrySpent {
		s.m.finish(s.m.of(id))
	}
}

func (s *windowMachine) respend(t *rapid.T) {
	id := s.ids.Draw(t, "id")
	at := s.now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
	s.w.respend(id, at)
	if id >= 1 && id <= uint64(len(s.m.records)) && s.m.of(id).state == entrySpent {
		s.m.of(id).state, s.m.of(id).retryAt = entryWaiting, at
	}
}

func (s *windowMachine) giveUp(t *rapid.T) {
	if rapid.IntRange(0, 19).Draw(t, "seldom") != 0 {
		t.Skip("a drain comes last")
	}
	s.w.giveUpUndelivered()
	s.m.giveUp()
	require.Empty(t, s.w.dueRetries(s.now.Add(24*time.Hour), 0), "nothing waits")
	_, ok := s.w.nextRetry()
	require.False(t, ok)
}

func (s *windowMachine) check(t *rapid.T) {
	w, m := s.w, s.m
	settled := m.prefix()
	require.Equal(t, m.out(), w.out, "in flight")
	require.Equal(t, m.outBytes(), w.outBytes, "bytes in flight")
	require.Equal(t, m.held(), w.held, "bytes held")
	require.Equal(t, m.pinned(), w.pinned, "bytes of the pages that are held")
	require.EqualValues(t, m.sum(func(r *modelRecord) int { return in(r.state == entrySettled, 1) }), w.settled, "settled")
	require.Equal(t, len(m.records)-settled, w.entries.len(), "what is settled without a gap is forgotten")
	require.Equal(t, len(m.records) == settled, w.empty())
	require.Equal(t, len(m.records)-settled-m.out(), w.buffered())
	require.Equal(t, len(m.ready), w.readyCount())

	require.LessOrEqual(t, w.out, w.maxRecords, "records in flight")
	require.LessOrEqual(t, w.entries.len(), 2*w.maxRecords, "records in flight and read ahead")
	require.True(t, w.outBytes <= w.maxBytes || w.out == 1, "%d bytes in flight in %d records", w.outBytes, w.out)
	ahead := len(m.records) - settled - m.out()
	room := max(0, m.maxRecords-ahead)
	full := m.out() >= m.maxRecords || m.outBytes() >= m.maxBytes
	if len(m.ready) > 0 && m.out() > 0 && m.outBytes()+m.of(m.ready[0]).bytes > m.maxBytes {
		full = true // what is next has to wait
	}
	if full && ahead > 0 || m.held()-m.outBytes() >= m.maxBytes {
		room = 0
	}
	require.Equal(t, room, w.room())
	if m.pinned()-m.outBytes() >= m.maxBytes {
		room = 0
	}
	require.Equal(t, room, w.readRoom())
	if w.empty() {
		require.True(t, w.worthReading(), "an empty window is always worth a read")
	}
	if room == 0 {
		require.False(t, w.worthReading())
	}

	var want leasestore.Checkpoint
	if settled > 0 {
		want = m.records[settled-1].position
	}
	require.Equal(t, want, w.watermark, "the watermark is the last record with nothing unsettled at or below it")
	require.GreaterOrEqual(t, w.watermark.Compare(s.watermark), 0, "the watermark never goes back")
	s.watermark = w.watermark

	if !m.sealed {
		at, ok := m.nextRetry()
		gotAt, gotOK := w.nextRetry()
		require.Equal(t, ok, gotOK)
		require.True(t, at.Equal(gotAt), "next retry: %v, want %v", gotAt, at)
	}
	for sent, then := range s.sent {
		require.True(t, proto.Equal(then, sent), "a message was changed after it was sent: %v, was %v", sent, then)
	}
}

func TestWindowIsItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newWindowMachine(t)
		t.Repeat(map[string]func(*rapid.T){
			"add": s.add, "deliver": s.deliver, "deliver more": s.deliver, "settle": s.settle, "settle more": s.settle,
			"time passes": s.pass, "redeliver": s.redeliver, "spent settled": s.settleSpent, "spent again": s.respend, "give up": s.giveUp, "": s.check,
		})
		if !s.m.sealed {
			s.finish(t)
		}
	})
}

// finish settles everything: nothing may be stuck.
func (s *windowMachine) finish(t *rapid.T) {
	for range 4 * (len(s.m.records) + 1) {
		s.now = s.now.Add(time.Hour)
		for _, d := range s.w.dueRetries(s.now, 3) {
			s.w.settleSpent(d.GetDeliveryId())
		}
		for id := range uint64(len(s.m.records)) {
			s.w.settleSpent(id + 1)
		}
		for d := s.w.next(); d != nil; d = s.w.next() {
			require.NotEqual(t, entrySettled, s.m.of(d.GetDeliveryId()).state, "delivered after it was settled")
		}
		s.w.settle(0, math.MaxUint64, messages.Outcome_OUTCOME_ACK, nil)
	}
	require.True(t, s.w.empty(), "%d records are stuck", s.w.entries.len())
	require.Zero(t, s.w.out)
	require.Zero(t, s.w.outBytes)
	require.Zero(t, s.w.held)
	require.Zero(t, s.w.pinned)
	if n := len(s.m.records); n > 0 {
		require.Equal(t, s.m.records[n-1].position, s.w.watermark)
	}
	require.Empty(t, s.w.keys, "keys are forgotten with their last record")
}

// windowOf is a window with records of the keys given; ids from 1, sequence numbers from 101.
