package actors

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// readerModel is what a subscriber may see of one shard's reader, and what must be stored, whatever it answers: written from the subscriber's
// side, without a window, a mailbox or a lease.
type readerModel struct {
	w      *world
	stream string
	sub    *probe.Probe
	reader *pidOf
	owner  *messages.Subscribed

	window      int32
	perKeyOrder bool
	maxAttempts int32

	records   []*seenRecord // as stored; delivery id 1 first
	batches   []*messages.DeliveryBatch
	delivered uint64 // records that were delivered at least once
	moved     time.Time

	mu   sync.Mutex
	came []arrival
}

// seenRecord is a record as the subscriber knows it.
type seenRecord struct {
	key, sequence string
	attempt       int32
	out, settled  bool
	retryAt       time.Time // while it waits for its next attempt
	delivery      *messages.Delivery
}

// arrival is a message with the instant it came at.
type arrival struct {
	at         time.Time
	deliveries []*messages.Delivery
	reader     *pidOf
}

// TestReaderIsItsModel settles at random, through the broker, the reader and the store: nothing comes twice but after a retry, at its time; the
// order holds; no more than the window is out; and the checkpoint is all that is settled without a gap, within the interval.
func TestReaderIsItsModel(t *testing.T) {
	inBubble(t, 0, func(w *world) {
		w.connect()
		runs := 0
		rapid.Check(bubbleTB{w.t}, func(t *rapid.T) {
			runs++
			m := newReaderModel(t, w, fmt.Sprintf("model-%d", runs))
			defer m.end(t)
			t.Repeat(map[string]func(*rapid.T){
				"put": m.put, "settle one": m.settleOne, "settle another": m.settleOne, "settle a range": m.settleRange, "settle a batch": m.settleBatch,
				"time passes": m.pass, "": m.check,
			})
			m.finish(t)
		})
	})
}

// bubbleTB hides the deadline of the test from rapid: it means nothing in a bubble.
type bubbleTB struct{ rapid.TB }

func newReaderModel(t *rapid.T, w *world, stream string) *readerModel {
	m := &readerModel{
		w: w, stream: stream, window: rapid.SampledFrom([]int32{1, 3, 500}).Draw(t, "window"),
		perKeyOrder: rapid.Bool().Draw(t, "perKeyOrder"), maxAttempts: rapid.SampledFrom([]int32{0, 0, 1, 3}).Draw(t, "maxAttempts"),
	}
	require.NoError(t, w.service.CreateStream(stream, 1))
	m.sub = probe.New(w.t, w.system, "subscriber-of-"+stream)
	m.sub.SetAutoPilot(m.receive)
	d := &messages.StreamDescriptor{
		Name: stream, StartAt: toHorizon(), PerKeyOrder: m.perKeyOrder, MaxAttempts: m.maxAttempts, WindowRecords: &m.window,
	}
	if batch := rapid.SampledFrom([]int32{0, 1, 4}).Draw(t, "batch"); batch > 0 {
		d.BatchSize = &batch
	}
	w.me.Request(w.broker, &messages.Subscribe{Stream: d, Subscriber: m.sub.PID()})
	m.owner = probe.Fish(w.me, func(*messages.Subscribed) bool { return true })
	m.reader = childPID(m.owner.GetSubscription(), shardName(0))
	return m
}

func (m *readerModel) receive(e probe.Envelope) any {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch got := e.Message.(type) {
	case *messages.Delivery:
		m.came = append(m.came, arrival{at: time.Now(), deliveries: []*messages.Delivery{got}, reader: e.Sender})
	case *messages.DeliveryBatch:
		m.came = append(m.came, arrival{at: time.Now(), deliveries: got.GetDeliveries(), reader: e.Sender})
		m.batches = append(m.batches, got)
	}
	return nil
}

// look takes in what has come since the last time.
func (m *readerModel) look(t *rapid.T) {
	synctest.Wait()
	m.mu.Lock()
	came := m.came
	m.came = nil
	m.mu.Unlock()
	for _, a := range came {
		require.True(t, a.reader.Equal(m.reader))
		m.spend(a.at)
		for _, d := range a.deliveries {
			m.deliveredOne(t, a.at, d)
		}
	}
	m.spend(time.Now())
}

func (m *readerModel) deliveredOne(t *rapid.T, at time.Time, d *messages.Delivery) {
	require.LessOrEqual(t, d.GetDeliveryId(), uint64(len(m.records)))
	r := m.records[d.GetDeliveryId()-1]
	require.Equal(t, r.sequence, d.GetSequenceNumber())
	require.False(t, r.settled, "%s: delivered after it was settled", r.sequence)
	require.False(t, r.out, "%s: delivered twice without a retry", r.sequence)
	r.attempt++
	require.Equal(t, r.attempt, d.GetAttempt())
	if r.attempt == 1 {
		m.delivered++
		require.True(t, m.perKeyOrder || d.GetDeliveryId() == m.delivered, "out of order")
	} else {
		require.False(t, at.Before(r.retryAt), "%v before its time", r.retryAt.Sub(at))
		require.True(t, m.window < 500 || at.Equal(r.retryAt), "%v after its time", at.Sub(r.retryAt))
	}
	out := 0
	for _, other := range m.records {
		out += in(other.out, 1)
		if m.perKeyOrder && other.key == r.key && other != r {
			require.False(t, other.out, "two of a key are out")
			require.True(t, other.settled || other.attempt == 0, "it overtook one of its key")
		}
	}
	require.Less(t, out, int(m.window))
	r.out, r.delivery = true, d
}

// spend settles what has had its attempts when its last pause is over.
func (m *readerModel) spend(now time.Time) {
	for _, r := range m.records {
		if m.spends(r) && !r.settled && !r.out && r.attempt > 0 && !r.retryAt.After(now) {
			r.settled = true
			m.movedAt(r.retryAt)
		}
	}
}

func (m *readerModel) spends(r *seenRecord) bool {
	return m.maxAttempts > 0 && r.attempt >= m.maxAttempts
}

func (m *readerModel) movedAt(at time.Time) {
	if at.After(m.moved) {
		m.moved = at
	}
}

func (m *readerModel) put(t *rapid.T) {
	for range rapid.IntRange(1, 6).Draw(t, "records") {
		key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key")
		_, sequence, err := m.w.service.Put(m.stream, key, []byte(key))
		require.NoError(t, err)
		m.records = append(m.records, &seenRecord{key: key, sequence: sequence})
	}
}

// settleOne answers a delivery, perhaps once more, perhaps one of an attempt before.
func (m *readerModel) settleOne(t *rapid.T) {
	known := []*messages.Delivery{}
	for _, r := range m.records {
		if r.delivery != nil {
			known = append(known, r.delivery)
		}
	}
	if len(known) == 0 {
		t.Skip("nothing was delivered")
	}
	d := rapid.SampledFrom(known).Draw(t, "delivery")
	m.settle(t, []func() *messages.Settle{d.Ack, d.Ack, d.Drop, d.Retry, func() *messages.Settle {
		return d.RetryAfter(m.pause(t))
	}}[rapid.IntRange(0, 4).Draw(t, "how")]())
}

func (m *readerModel) pause(t *rapid.T) time.Duration {
	return time.Duration(rapid.IntRange(1, 5000).Draw(t, "pause")) * time.Millisecond
}

func (m *readerModel) settleRange(t *rapid.T) {
	ids := rapid.Uint64Range(0, 20)
	first := ids.Draw(t, "first")
	s := &messages.Settle{ShardId: shardName(0), First: first, Last: first + ids.Draw(t, "more")/3, Outcome: messages.Outcome_OUTCOME_ACK}
	for _, r := range m.records {
		if r.delivery != nil {
			s.Generation = r.delivery.GetGeneration()
		}
	}
	if rapid.Bool().Draw(t, "retry") {
		s.Outcome, s.DelayMillis = messages.Outcome_OUTCOME_RETRY, m.pause(t).Milliseconds()
	}
	m.settle(t, s)
}

func (m *readerModel) settleBatch(t *rapid.T) {
	m.mu.Lock()
	batches := m.batches
	m.mu.Unlock()
	if len(batches) == 0 {
		t.Skip("no batch has come")
	}
	b := rapid.SampledFrom(batches).Draw(t, "batch")
	m.settle(t, []func() *messages.Settle{b.Ack, b.Drop, b.Retry}[rapid.IntRange(0, 2).Draw(t, "how")]())
}

// settle sends a settlement and does to the model what it should do to the reader: it settles what it names and is out.
func (m *readerModel) settle(t *rapid.T, s *messages.Settle) {
	now := time.Now()
	s.EachRange(func(first, last uint64) {
		for id := max(first, 1); id <= min(last, uint64(len(m.records))); id++ {
			r := m.records[id-1]
			if !r.out {
				continue
			}
			r.out = false
			if s.GetOutcome() != messages.Outcome_OUTCOME_RETRY {
				r.settled = true
				m.movedAt(now)
				continue
			}
			pause := time.Duration(s.GetDelayMillis()) * time.Millisecond
			if pause == 0 {
				pause = min(200*time.Millisecond<<(r.attempt-1), 30*time.Second)
			}
			r.retryAt = now.Add(pause)
		}
	})
	m.w.system.Root.Send(m.reader, s)
	m.look(t)
}

func (m *readerModel) pass(t *rapid.T) {
	time.Sleep(time.Duration(rapid.OneOf(rapid.IntRange(0, 1000), rapid.IntRange(0, 8000)).Draw(t, "ms")) * time.Millisecond)
}

// watermark is the last record with nothing unsettled at or below it.
func (m *readerModel) watermark() leasestore.Checkpoint {
	at := leasestore.TrimHorizon()
	for _, r := range m.records {
		if !r.settled {
			break
		}
		at = leasestore.AtSequence(r.sequence, 0)
	}
	return at
}

func (m *readerModel) check(t *rapid.T) {
	m.look(t)
	stored := m.stored(t)
	require.LessOrEqual(t, stored.Compare(m.watermark()), 0, "the checkpoint is beyond what is settled")
	if time.Since(m.moved) > time.Second {
		require.Equal(t, m.watermark(), stored, "what is settled was not saved within the interval")
	}
}

func (m *readerModel) stored(t *rapid.T) leasestore.Checkpoint {
	streams, err := m.w.store.Streams(context.Background())
	require.NoError(t, err)
	for _, s := range streams {
		if s.Stream.Name == m.owner.GetStreamArn() || s.Stream.Name == m.stream {
			row, err := m.w.store.Get(context.Background(), leasestore.Key{Stream: s.Stream, Shard: shardName(0)})
			require.NoError(t, err)
			return row.Checkpoint
		}
	}
	t.Fatalf("no rows of %s", m.stream)
	return leasestore.Checkpoint{}
}

// finish acks whatever comes: nothing may be stuck.
func (m *readerModel) finish(t *rapid.T) {
	for range 10 * (len(m.records) + 1) {
		m.look(t)
		settled := true
		for _, r := range m.records {
			settled = settled && r.settled
			if r.out {
				m.settle(t, r.delivery.Ack())
			}
		}
		if settled {
			break
		}
		time.Sleep(1500 * time.Millisecond)
	}
	time.Sleep(1001 * time.Millisecond)
	for _, r := range m.records {
		require.True(t, r.settled, "%s is stuck", r.sequence)
	}
	m.check(t)
	require.EqualValues(t, len(m.records), m.w.statusOf(m.owner, shardName(0)).GetSettled())
}

func (m *readerModel) end(t *rapid.T) {
	m.w.me.Request(m.owner.GetSubscription(), &messages.Unsubscribe{Timeout: durationOf(0)})
	probe.Fish(m.w.me, func(*messages.Unsubscribed) bool { return true })
	if !t.Failed() {
		require.Equal(t, m.watermark(), m.stored(t), "and at the end")
	}
}
