package storetest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/protokinesis/protokinesis/leasestore"
)

// testModel does random writes by several writers, who may be stale, and compares the store with a map after each of them.
// All runs share one store, each in streams of its own.
func testModel(t *testing.T, s *subject) {
	rapid.Check(t, func(t *rapid.T) {
		name := newStream()
		reborn := name
		reborn.CreatedMillis++
		m := &model{
			s:       s,
			streams: []leasestore.StreamID{name, reborn},
			leases:  map[leasestore.Key]leasestore.Lease{},
			states:  map[leasestore.StreamID]leasestore.StreamState{},
			views:   map[string]map[leasestore.Key]leasestore.Lease{"a": {}, "b": {}, "c": {}},
			members: map[string]leasestore.Member{},
		}
		for _, left := range s.members() { // by the run before
			require.NoError(t, s.Forget(s.ctx, left))
		}
		t.Repeat(map[string]func(*rapid.T){
			"Acquire":    m.acquire,
			"Offer":      m.offer,
			"Renew":      m.renew,
			"Checkpoint": m.checkpoint,
			"Move":       m.move,
			"Release":    m.release,
			"Delete":     m.delete,
			"Read":       m.read,
			"SaveState":  m.saveState,
			"Beat":       m.beat,
			"Forget":     m.forget,
			"":           m.check,
		})
	})
}

// model is what the store must hold. Each writer has its own view of the leases: what it last saw.
type model struct {
	s       *subject
	streams []leasestore.StreamID
	leases  map[leasestore.Key]leasestore.Lease
	states  map[leasestore.StreamID]leasestore.StreamState
	views   map[string]map[leasestore.Key]leasestore.Lease
	members map[string]leasestore.Member
}

// draw picks a writer and a lease as that writer last saw it.
func (m *model) draw(t *rapid.T) (writer string, lease leasestore.Lease) {
	writer = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "writer")
	key := leasestore.Key{
		Stream: rapid.SampledFrom(m.streams).Draw(t, "stream"),
		Shard:  rapid.SampledFrom([]string{"shard-1", "shard-2"}).Draw(t, "shard"),
	}
	lease, ok := m.views[writer][key]
	if !ok {
		lease = leasestore.Lease{Key: key}
	}
	return writer, lease
}

// condition is the condition of all writes but Acquire. A row that was deleted and made anew has other owners at the same counters.
func (m *model) condition(saw leasestore.Lease) (stored leasestore.Lease, holds bool) {
	stored, exists := m.leases[saw.Key]
	return stored, exists && stored.Counter == saw.Counter && stored.Owner == saw.Owner
}

// settle checks a write's answer. want is the row if the write's condition holds.
func (m *model) settle(t *rapid.T, writer string, saw, got leasestore.Lease, err error, want func(stored leasestore.Lease) leasestore.Lease) {
	stored, holds := m.condition(saw)
	if !holds {
		require.ErrorIs(t, err, leasestore.ErrFenced)
		return
	}
	require.NoError(t, err)
	next := want(stored)
	next.Counter = stored.Counter + 1
	equal(t, next, got)
	m.leases[saw.Key] = next
	m.views[writer][saw.Key] = next
}

func (m *model) acquire(t *rapid.T) {
	writer, saw := m.draw(t)
	if saw.Counter == 0 {
		saw.Checkpoint, saw.Seek = drawCheckpoint(t), rapid.Int64Range(0, 3).Draw(t, "seek")
		saw.Parents = rapid.SliceOfN(rapid.SampledFrom([]string{"p", "q"}), 0, 2).Draw(t, "parents")
	}
	got, err := m.s.Acquire(m.s.ctx, saw, writer)
	if _, exists := m.leases[saw.Key]; !exists && saw.Counter == 0 {
		require.NoError(t, err)
		want := saw
		want.Owner, want.Counter = writer, 1
		equal(t, want, got)
		m.leases[saw.Key], m.views[writer][saw.Key] = want, want
		return
	}
	if stored, exists := m.leases[saw.Key]; exists { // whoever owns it
		saw.Owner = stored.Owner
	}
	m.settle(t, writer, saw, got, err, func(l leasestore.Lease) leasestore.Lease {
		l.Owner, l.Next = writer, ""
		return l
	})
}

// offer names a next owner, the owner itself and nobody among them.
func (m *model) offer(t *rapid.T) {
	writer, saw := m.draw(t)
	next := rapid.SampledFrom([]string{"a", "b", "c", "d", ""}).Draw(t, "next")
	got, err := m.s.Offer(m.s.ctx, saw, next)
	stored, holds := m.condition(saw)
	if holds && next != "" && (stored.Owner == "" || stored.Owner == next) {
		require.ErrorIs(t, err, leasestore.ErrInvalid)
		return
	}
	m.settle(t, writer, saw, got, err, func(l leasestore.Lease) leasestore.Lease { l.Next = next; return l })
}

func (m *model) renew(t *rapid.T) {
	writer, saw := m.draw(t)
	got, err := m.s.Renew(m.s.ctx, saw)
	m.settle(t, writer, saw, got, err, func(l leasestore.Lease) leasestore.Lease { return l })
}

func (m *model) checkpoint(t *rapid.T) {
	writer, saw := m.draw(t)
	c := drawCheckpoint(t)
	got, err := m.s.Checkpoint(m.s.ctx, saw, c)
	if stored, holds := m.condition(saw); holds && c.Compare(stored.Checkpoint) < 0 {
		require.ErrorIs(t, err, leasestore.ErrBackwards)
		return
	}
	m.settle(t, writer, saw, got, err, func(l leasestore.Lease) leasestore.Lease { l.Checkpoint = c; return l })
}

func (m *model) move(t *rapid.T) {
	writer, saw := m.draw(t)
	c, seek := drawCheckpoint(t), rapid.Int64Range(0, 9).Draw(t, "seek")
	got, err := m.s.Move(m.s.ctx, saw, c, seek)
	m.settle(t, writer, saw, got, err, func(l leasestore.Lease) leasestore.Lease { l.Checkpoint, l.Seek = c, seek; return l })
}

func (m *model) release(t *rapid.T) {
	writer, saw := m.draw(t)
	got, err := m.s.Release(m.s.ctx, saw)
	m.settle(t, writer, saw, got, err, func(l leasestore.Lease) leasestore.Lease { l.Owner, l.Next = "", ""; return l })
}

func (m *model) delete(t *rapid.T) {
	writer, saw := m.draw(t)
	err := m.s.Delete(m.s.ctx, saw)
	if _, holds := m.condition(saw); !holds {
		require.ErrorIs(t, err, leasestore.ErrFenced)
		return
	}
	require.NoError(t, err)
	delete(m.leases, saw.Key)
	delete(m.views[writer], saw.Key)
}

// read brings a writer's view up to date.
func (m *model) read(t *rapid.T) {
	writer, saw := m.draw(t)
	got, err := m.s.Get(m.s.ctx, saw.Key)
	stored, exists := m.leases[saw.Key]
	if !exists {
		require.ErrorIs(t, err, leasestore.ErrNotFound)
		delete(m.views[writer], saw.Key)
		return
	}
	require.NoError(t, err)
	equal(t, stored, got)
	m.views[writer][saw.Key] = got
}

func (m *model) saveState(t *rapid.T) {
	state := leasestore.StreamState{
		Stream:  rapid.SampledFrom(m.streams).Draw(t, "stream"),
		Version: rapid.Int64Range(0, 3).Draw(t, "version"),
		Seek:    rapid.Int64Range(0, 9).Draw(t, "seek"),
		Start:   drawCheckpoint(t),
		Tip:     rapid.Bool().Draw(t, "tip"),
	}
	got, err := m.s.SaveState(m.s.ctx, state)
	if m.states[state.Stream].Version != state.Version {
		require.ErrorIs(t, err, leasestore.ErrFenced)
		return
	}
	require.NoError(t, err)
	state.Version++
	require.Equal(t, state, got)
	m.states[state.Stream] = state
}

// check compares everything the store holds with the model.
func (m *model) check(t *rapid.T) {
	for _, stream := range m.streams {
		want := slices.SortedFunc(maps.Values(m.leases), func(a, b leasestore.Lease) int { return cmp.Compare(a.Shard, b.Shard) })
		want = slices.DeleteFunc(want, func(l leasestore.Lease) bool { return l.Stream != stream })
		got, err := m.s.List(m.s.ctx, stream)
		require.NoError(t, err)
		view, err := m.s.View(m.s.ctx, stream)
		require.NoError(t, err)
		for _, leases := range [][]leasestore.Lease{got, view.Leases} {
			require.Len(t, leases, len(want))
			for n := range want {
				equal(t, want[n], leases[n])
			}
		}
		m.checkMembers(t, view.Members)
		state, err := m.s.State(m.s.ctx, stream)
		if saved, ok := m.states[stream]; ok {
			require.NoError(t, err)
			require.Equal(t, saved, state)
			require.Equal(t, saved, view.State)
		} else {
			require.ErrorIs(t, err, leasestore.ErrNotFound)
			require.Equal(t, leasestore.StreamState{Stream: stream}, view.State)
		}
	}
}

func (m *model) checkMembers(t *rapid.T, got []leasestore.Member) {
	require.Len(t, got, len(m.members))
	for n, id := range slices.Sorted(maps.Keys(m.members)) {
		require.Equal(t, m.members[id], got[n])
	}
}

func (m *model) beat(t *rapid.T) {
	member := leasestore.Member{
		ID:      rapid.SampledFrom([]string{"a", "b"}).Draw(t, "member"),
		Beat:    rapid.Int64Range(0, 9).Draw(t, "beat"),
		Leaving: rapid.Bool().Draw(t, "leaving"),
		Address: rapid.SampledFrom([]string{"", "nonhost", "10.0.0.7:8090"}).Draw(t, "address"),
	}
	if n := rapid.IntRange(0, len(m.streams)).Draw(t, "streams"); n > 0 {
		member.Streams = m.streams[:n]
	}
	got, err := m.s.Beat(m.s.ctx, member)
	require.NoError(t, err)
	member.Beat++
	require.Equal(t, member, got)
	m.members[member.ID] = member
}

func (m *model) forget(t *rapid.T) {
	id := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "member")
	beat := rapid.SampledFrom([]int64{m.members[id].Beat, 0, 1, 2}).Draw(t, "beat")
	err := m.s.Forget(m.s.ctx, leasestore.Member{ID: id, Beat: beat})
	if stored, exists := m.members[id]; exists && stored.Beat != beat {
		require.ErrorIs(t, err, leasestore.ErrFenced)
		return
	}
	require.NoError(t, err)
	delete(m.members, id)
}

func drawCheckpoint(t *rapid.T) leasestore.Checkpoint {
	switch rapid.SampledFrom([]leasestore.Kind{
		leasestore.KindNone, leasestore.KindTrimHorizon, leasestore.KindTimestamp, leasestore.KindBefore,
		leasestore.KindSequence, leasestore.KindSequence, leasestore.KindSequence, leasestore.KindShardEnd,
	}).Draw(t, "kind") {
	case leasestore.KindTrimHorizon:
		return leasestore.TrimHorizon()
	case leasestore.KindTimestamp:
		return leasestore.AtTimestamp(time.UnixMilli(rapid.Int64Range(0, 20).Draw(t, "millis")))
	case leasestore.KindBefore:
		return leasestore.Before(drawRecord(t))
	case leasestore.KindSequence:
		return leasestore.AtSequence(drawRecord(t))
	case leasestore.KindShardEnd:
		return leasestore.ShardEnd()
	case leasestore.KindNone:
		return leasestore.Checkpoint{}
	default:
		return leasestore.Checkpoint{}
	}
}

func drawRecord(t *rapid.T) (sequence string, sub uint64) {
	return fmt.Sprint(rapid.Int64Range(0, 200).Draw(t, "sequence")), rapid.Uint64Range(0, 2).Draw(t, "sub")
}
