package actors

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shardModel takes so many records a second, as the service does: in whole seconds.
type shardModel struct {
	perSecond int
	second    int64
	used      int
}

func (s *shardModel) take(n int, now time.Time) (stored int) {
	if now.Unix() != s.second {
		s.second, s.used = now.Unix(), 0
	}
	stored = min(n, s.perSecond-s.used)
	s.used += stored
	return stored
}

// paceRun sends to a shard as fast as its pace allows, and what it stored and was sent of each second.
type paceRun struct {
	pace  pace
	shard shardModel
	now   time.Time
}

func (r *paceRun) second() (sent, stored int) {
	for end := r.now.Add(time.Second); r.now.Before(end); r.now = r.now.Add(5 * time.Millisecond) {
		if r.pace.opens(r.now).After(r.now) {
			continue
		}
		n := 0
		for {
			n++
			if more := r.pace.spend(paceCost(100), r.now); !more || n == 100 {
				break
			}
		}
		taken := r.shard.take(n, r.now)
		r.pace.answered(laneAnswer{
			storedCount: taken, stored: float64(taken) * paceCost(100),
			refusedCount: n - taken, refused: float64(n-taken) * paceCost(100),
		}, r.now)
		sent, stored = sent+n, stored+taken
	}
	return sent, stored
}

func (r *paceRun) seconds(n int) (sent, stored int) {
	for range n {
		more, taken := r.second()
		sent, stored = sent+more, stored+taken
	}
	return sent, stored
}

func newPaceRun(perSecond int) *paceRun {
	return &paceRun{shard: shardModel{perSecond: perSecond}, now: time.Unix(1_000_000, 0)}
}

// A pace finds the rate of its shard, whatever it is, uses most of it, and wastes little.
func TestPaceFindsTheRateOfItsShard(t *testing.T) {
	for _, rate := range []int{1000, 700, 300, 40} {
		r := newPaceRun(rate)
		r.seconds(10)
		sent, stored := r.seconds(60)
		assert.Greater(t, float64(stored), 0.75*float64(60*rate), "of a shard with %d a second", rate)
		assert.Less(t, float64(sent), 1.25*float64(stored), "of a shard with %d a second", rate)
	}
}

// A shard that takes nothing is asked now and then; when it takes something again it soon has all its rate.
func TestPaceOfAShardThatTakesNothing(t *testing.T) {
	r := newPaceRun(0)
	r.seconds(2)
	sent, _ := r.seconds(30)
	require.Less(t, sent, 30)
	require.Positive(t, sent)
	r.shard.perSecond = 1000
	r.seconds(15)
	_, stored := r.seconds(5)
	require.Greater(t, stored, 3500)
}

// Without refusals for a while there is no bound any more.
func TestPaceIsForgotten(t *testing.T) {
	r := newPaceRun(1000)
	r.pace.answered(laneAnswer{refusedCount: 1}, r.now)
	require.True(t, r.pace.limited())
	r.shard.perSecond = 1_000_000
	r.seconds(11)
	require.False(t, r.pace.limited())
	require.False(t, r.pace.opens(r.now).After(r.now))
}

// What is refused at random, whatever the rate, does not bring the rate down to nothing; also where little is sent.
func TestPaceOfRandomRefusals(t *testing.T) {
	for _, demand := range []int{10_000, 50} {
		rnd := rand.New(rand.NewPCG(3, 3))
		r := newPaceRun(0)
		for range 30 {
			left := demand
			for end := r.now.Add(time.Second); r.now.Before(end); r.now = r.now.Add(5 * time.Millisecond) {
				var a laneAnswer
				for left > 0 && !r.pace.opens(r.now).After(r.now) {
					if left--; rnd.IntN(100) < 30 {
						a.refusedCount++
						a.refused += paceCost(1)
					} else {
						a.storedCount++
						a.stored += paceCost(1)
					}
					if !r.pace.spend(paceCost(1), r.now) {
						break
					}
				}
				r.pace.answered(a, r.now)
			}
			require.Less(t, left, max(demand/3, demand-200), "%d were to be sent", demand)
		}
	}
}

// Bytes count as well: a record of 10 MiB takes ten seconds.
func TestPaceCountsBytes(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	p := pace{rate: 1, counted: now, windowFrom: now, refusedAt: now, tokens: 0.1}
	require.False(t, p.spend(paceCost(10<<20), now))
	require.InDelta(t, 10, p.opens(now).Sub(now).Seconds(), 0.2)
	require.InDelta(t, 0.001, paceCost(10), 1e-9)
	require.InDelta(t, 0.5, paceCost(1<<19), 1e-9)
}

// A large record leaves a debt that may take minutes to pay at a low rate. It is let off when nothing has been refused for a while.
func TestPaceIsForgottenWithADebt(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	p := pace{rate: 0.05, counted: now, windowFrom: now, refusedAt: now, tokens: 0.01}
	require.False(t, p.spend(paceCost(10<<20), now))
	p.answered(laneAnswer{storedCount: 1, stored: paceCost(10 << 20)}, now.Add(time.Second))
	require.Greater(t, p.opens(now.Add(5*time.Second)).Sub(now), 5*time.Second)
	require.False(t, p.opens(now.Add(5*time.Second)).After(now.Add(paceForget)))
	later := now.Add(paceForget)
	require.False(t, p.opens(later).After(later))
}
