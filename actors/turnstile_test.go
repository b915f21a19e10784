package actors

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// told is a turn that counts how often it was told.
func (s *turnstile) told() (t *turn, count *int) {
	count = new(int)
	return s.newTurn(func() { *count++ }), count
}

func mustTake(t *testing.T, of *turn) (done func()) {
	t.Helper()
	done, ok := of.take()
	require.True(t, ok)
	return done
}

func TestTurnstileLetsInInTurn(t *testing.T) {
	s := newTurnstile(2)
	a, _ := s.told()
	b, _ := s.told()
	c, cTold := s.told()
	d, dTold := s.told()
	aDone, bDone := mustTake(t, a), mustTake(t, b)
	for range 3 { // asking again changes nothing
		_, ok := c.take()
		require.False(t, ok)
	}
	_, ok := d.take()
	require.False(t, ok)

	aDone()
	aDone() // a place is left once
	require.Equal(t, []int{1, 0}, []int{*cTold, *dTold}, "who came first")
	_, ok = a.take()
	require.False(t, ok, "the place is c's")
	cDone := mustTake(t, c)
	bDone()
	require.Equal(t, []int{1, 1}, []int{*cTold, *dTold})

	d.unused()
	aDone = mustTake(t, a)
	aDone()
	cDone()
	require.Zero(t, s.in)
	require.Empty(t, s.waiting)
}

// Word of a place may come when the place has been used and the turn waits again: it goes on waiting.
func TestTurnstileLateWord(t *testing.T) {
	s := newTurnstile(1)
	a, _ := s.told()
	b, bTold := s.told()
	aDone := mustTake(t, a)
	_, _ = b.take()
	aDone()
	bDone := mustTake(t, b) // before it has got the word
	bDone()
	aDone = mustTake(t, a)
	_, _ = b.take()
	b.unused() // the word
	aDone()
	require.Equal(t, 2, *bTold)
	mustTake(t, b)()
	require.Zero(t, s.in)
}

// Who leaves the queue, or goes with a place that was not used, holds up nobody.
func TestTurnstileDropped(t *testing.T) {
	s := newTurnstile(1)
	a, _ := s.told()
	b, bTold := s.told()
	c, _ := s.told()
	d, dTold := s.told()
	aDone := mustTake(t, a)
	for _, waits := range []*turn{b, c, d} {
		_, _ = waits.take()
	}
	b.drop()
	aDone()
	c.drop() // it was c's by now
	require.Equal(t, []int{0, 1}, []int{*bTold, *dTold})
	mustTake(t, d)()
	mustTake(t, b)()
	require.Zero(t, s.in)
}

// The queue takes no more memory than those that wait, however long it lasts.
func TestTurnstileQueueIsShort(t *testing.T) {
	s := newTurnstile(1)
	turns := make([]*turn, 10)
	for i := range turns {
		turns[i], _ = s.told()
	}
	done := mustTake(t, turns[0])
	for i := range 10_000 {
		_, _ = turns[(i+1)%10].take()
		done()
		done = mustTake(t, turns[(i+1)%10])
	}
	done()
	require.Less(t, cap(s.waiting), 100)
}

// Shards that the service leaves without an answer do not hold up the others, however few calls there may be.
func TestShardsWithoutAnswerHoldUpNobody(t *testing.T) {
	inBubble(t, 10, func(w *world) {
		for n := range 3 {
			w.service.Fault("GetRecords", kinesistest.Match{Shard: shardName(n)}, -1, kinesistest.Hang())
		}
		w.open()
		time.Sleep(time.Minute)
		reads := make(map[string]int)
		for _, c := range w.service.Calls() {
			if c.Op == "GetRecords" {
				reads[c.Shard]++
			}
		}
		for n := 3; n < 10; n++ {
			require.Greater(w.t, reads[shardName(n)], 45, shardName(n))
		}
	}, func(c *Config) { c.Limits = Limits{ReadCalls: 2} })
}

// An end does not wait for the turns of those that have not begun: their leases are not taken any more.
func TestReadersThatWaitForTheirTurnEndAtOnce(t *testing.T) {
	const shards = 5 * maxAcquisitions
	log := &writeLog{takes: time.Second}
	inBubble(t, shards, func(w *world) {
		w.connect()
		w.me.Request(w.broker, &messages.Subscribe{Stream: &messages.StreamDescriptor{Name: testStream}, Subscriber: w.sub.PID()})
		for len(log.times()) < maxAcquisitions {
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		w.me.Request(w.broker, &messages.Shutdown{Timeout: durationOf(10 * time.Second)})
		begun := time.Now()
		probe.Fish(w.me, func(*messages.Closed) bool { return true })
		require.LessOrEqual(w.t, time.Since(begun), 3*time.Second)
		acquired, _ := log.acquisitions()
		require.Equal(w.t, maxAcquisitions, acquired)
	}, noted(log))
}
