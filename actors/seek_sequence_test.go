package actors

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// Seeks to a sequence, and seeks that are refused: those move nothing.

// refusedSeeks are of a subscription as startSeekRun leaves it.
var refusedSeeks = map[string]struct {
	before func(r *seekRun)
	to     func(r *seekRun) *messages.Position
	kind   messages.ErrorKind
	field  string
}{
	"a finished shard": {
		to:   func(r *seekRun) *messages.Position { return seqSeek(shardName(0), r.record("low 1").SequenceNumber) },
		kind: messages.ErrorKind_ERROR_KIND_INVALID, field: "to.sequence.shard_id",
	},
	"a shard that is not there": {
		to:   func(r *seekRun) *messages.Position { return seqSeek(shardName(9), r.record("low 2").SequenceNumber) },
		kind: messages.ErrorKind_ERROR_KIND_INVALID, field: "to.sequence.shard_id",
	},
	"a sequence number of another shard": {
		to:   func(r *seekRun) *messages.Position { return seqSeek(shardName(1), r.record("high 2").SequenceNumber) },
		kind: messages.ErrorKind_ERROR_KIND_INVALID, field: "to.sequence.sequence_number",
	},
	"a sequence number of the parent": {
		to:   func(r *seekRun) *messages.Position { return seqSeek(shardName(1), r.record("low 1").SequenceNumber) },
		kind: messages.ErrorKind_ERROR_KIND_INVALID, field: "to.sequence.sequence_number",
	},
	"a sequence number of the future": {
		to: func(r *seekRun) *messages.Position {
			n := []byte(r.record("low 3").SequenceNumber)
			n[len(n)-25]++ // in what counts the records
			return seqSeek(shardName(1), string(n))
		},
		kind: messages.ErrorKind_ERROR_KIND_INVALID, field: "to.sequence.sequence_number",
	},
	"the service fails": {
		before: func(r *seekRun) {
			r.service.Fault("GetShardIterator", kinesistest.Match{}, 1, kinesistest.Error("InternalFailure", "no"))
		},
		to:   func(r *seekRun) *messages.Position { return seqSeek(shardName(1), r.record("low 2").SequenceNumber) },
		kind: messages.ErrorKind_ERROR_KIND_READ,
	},
	"the listing fails": {
		before: func(r *seekRun) {
			r.service.Fault("ListShards", kinesistest.Match{}, 3, kinesistest.Error("AccessDeniedException", "no"))
		},
		to:   func(*seekRun) *messages.Position { return toHorizon() },
		kind: messages.ErrorKind_ERROR_KIND_STREAM,
	},
	"the position can't be stored": {
		before: func(r *seekRun) { r.cfg.Store.(*stateStore).fails.Store(true) },
		to:     func(*seekRun) *messages.Position { return toTip() },
		kind:   messages.ErrorKind_ERROR_KIND_LEASE,
	},
	"nowhere": {to: func(*seekRun) *messages.Position { return nil }, kind: messages.ErrorKind_ERROR_KIND_INVALID, field: "to"},
}

// stateStore fails to save the state of a stream while told so.
type stateStore struct {
	leasestore.Store
	fails atomic.Bool
}

func (s *stateStore) SaveState(ctx context.Context, state leasestore.StreamState) (leasestore.StreamState, error) {
	if s.fails.Load() {
		return leasestore.StreamState{}, errOutage
	}
	return s.Store.SaveState(ctx, state)
}

// TestRefusedSeekMovesNothing: what is in flight stays valid, nothing comes again, and each shard goes on with the iterator it has.
func TestRefusedSeekMovesNothing(t *testing.T) {
	for name, c := range refusedSeeks {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(w *world) {
				r := startSeekRun(w, &script{}, &panicker{}, false)
				state, opened := r.state(), len(iteratorKinds(w, shardName(2)))
				if c.before != nil {
					c.before(r)
				}
				w.me.Request(r.sub, &messages.Seek{To: c.to(r), Correlation: 8})
				e := probe.Expect[*messages.Error](w.me)
				require.Equal(w.t, c.kind, e.GetKind(), "%v", e)
				require.EqualValues(w.t, 8, e.GetCorrelation())
				if c.field != "" {
					require.Equal(w.t, c.field, e.GetField())
				}
				require.Equal(w.t, state, r.state())
				require.Len(w.t, iteratorKinds(w, shardName(2)), opened)
				seen := len(r.got)
				time.Sleep(3 * time.Second)
				r.collect()
				require.Len(w.t, r.got, seen, "nothing comes again")
				for _, d := range r.got {
					r.ack(d)
				}
				time.Sleep(3 * time.Second)
				require.Equal(w.t, r.record("low 3").SequenceNumber, w.lease(shardName(1)).Checkpoint.String(), "what was in flight is valid")
				require.Equal(w.t, r.record("high 3").SequenceNumber, w.lease(shardName(2)).Checkpoint.String())
				r.putBoth(1)
				time.Sleep(time.Second)
				r.collect()
				require.Len(w.t, r.got, seen+2)
			}, func(c *Config) { c.Store = &stateStore{Store: c.Store} })
		})
	}
}

// A shard at its end, read and not settled, has nothing to seek in; its unsettled records stay valid and end it.
func TestSeekToASequenceOfAShardAtItsEnd(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		r := startSeekRun(w, &script{}, &panicker{}, true)
		w.me.Request(r.sub, &messages.Seek{To: seqSeek(shardName(0), r.record("low 1").SequenceNumber)})
		require.Equal(w.t, messages.ErrorKind_ERROR_KIND_INVALID, probe.Expect[*messages.Error](w.me).GetKind())
		r.pump()
		require.True(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
		require.Len(w.t, r.got, 8, "each record once")
	})
}

// A shard may be moved anywhere within itself: back to its first record, forward over what is not read yet, and to where it was trimmed.
func TestSeekWithinAShard(t *testing.T) {
	for name, c := range map[string]struct {
		to   string
		trim int
		want []string
	}{
		"back":            {to: "b", want: []string{"b", "c", "d", "e", "f"}},
		"to the first":    {to: "a", want: []string{"a", "b", "c", "d", "e", "f"}},
		"to the last":     {to: "f", want: []string{"f"}},
		"forward":         {to: "e", want: []string{"e", "f"}},
		"trimmed by then": {to: "b", trim: 3, want: []string{"d", "e", "f"}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(w *world) {
				opened := w.open(horizon, func(d *messages.StreamDescriptor) { d.WindowRecords = new(int32(2)) })
				for _, data := range []string{"a", "b", "c", "d", "e", "f"} {
					w.put("k", data)
				}
				w.takeAll(1)
				b, x := w.next(false), w.next(false)
				reader := w.sub.Sender()
				to := w.service.Records(testStream)[c.to[0]-'a']
				w.service.Trim(testStream, shardName(0), c.trim)
				w.me.Request(opened.GetSubscription(), &messages.Seek{To: seqSeek(shardName(0), to.SequenceNumber)})
				require.Equal(w.t, []string{shardName(0)}, probe.Expect[*messages.Sought](w.me).GetShards())
				require.Equal(w.t, leasestore.Before(to.SequenceNumber, 0), w.lease(shardName(0)).Checkpoint)
				w.sub.Send(reader, b.Ack()) // void
				w.sub.Send(reader, x.Ack())
				time.Sleep(3 * time.Second)
				require.Equal(w.t, leasestore.Before(to.SequenceNumber, 0), w.lease(shardName(0)).Checkpoint)
				require.Equal(w.t, c.want, w.takeAll(len(c.want)))
				nothingMore(w, 10*time.Second)
				require.Equal(w.t, "AT_SEQUENCE_NUMBER", iteratorKinds(w, shardName(0))[2], "after the first, and the look whether it is accepted")
			})
		})
	}
}

// A position within a shard outlives the reader that was moved there, and the process.
func TestSequenceSeekOutlivesARestart(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		r := startSeekRun(w, &script{}, &panicker{}, false)
		w.me.Request(r.sub, &messages.Seek{To: seqSeek(shardName(1), r.record("low 2").SequenceNumber)})
		probe.Expect[*messages.Sought](w.me)
		restart(w, func() {})
		w.open()
		require.ElementsMatch(w.t, []string{"low 2", "low 3", "high 3"}, w.takeAll(3))
		nothingMore(w, 10*time.Second)
	})
}

// A shard that another node reads can't be moved from here by a sequence; a stream-wide seek moves it all the same, and what that
// node has in flight is void.
func TestSeekWithTwoNodes(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		w.connect()
		broker, other := second(w)
		subscription := w.subscribe(horizon).GetSubscription()
		require.Equal(w.t, []string{shardName(1)}, subscribeAt(w, broker, other).GetShards())
		keys := []string{keyFor(w, shardName(0), false), keyFor(w, shardName(1), false)}
		for _, key := range keys {
			w.put(key, "a")
			w.put(key, "b")
		}
		w.takeAll(2)
		a := probe.Fish(other, func(*messages.Delivery) bool { return true })
		late := probe.Fish(other, func(*messages.Delivery) bool { return true })
		reader := other.Sender()
		other.Reply(a.Ack())
		time.Sleep(2 * time.Second)

		w.me.Request(subscription, &messages.Seek{To: seqSeek(shardName(1), a.GetSequenceNumber())})
		e := probe.Fish(w.me, func(*messages.Error) bool { return true })
		require.Equal(w.t, messages.ErrorKind_ERROR_KIND_INVALID, e.GetKind())
		require.Equal(w.t, shardName(1), e.GetShardId())
		other.ExpectNone(20 * time.Second)

		w.me.Request(subscription, &messages.Seek{To: toHorizon()})
		sought := probe.Fish(w.me, func(*messages.Sought) bool { return true })
		require.Equal(w.t, []string{shardName(0)}, sought.GetShards(), "the shards of this node")
		require.Equal(w.t, []string{"a", "b"}, w.takeAll(2))
		again := probe.Fish(other, func(*messages.Delivery) bool { return true }, 11*time.Second)
		require.Equal(w.t, "a", string(again.GetData()), "the other follows at its next listing")
		other.Send(reader, late.Ack())
		time.Sleep(5 * time.Second)
		require.Equal(w.t, leasestore.TrimHorizon(), w.lease(shardName(1)).Checkpoint)
		shutDown(w, broker)
	}, failingToAcquire(shardName(1)))
}

// A seek to a subscription that is ending is refused, and moves nothing: what is in flight may still settle.
func TestSeekDuringADrain(t *testing.T) {
	for name, to := range map[string]func(r *seekRun) *messages.Position{
		"horizon":  func(*seekRun) *messages.Position { return toHorizon() },
		"tip":      func(*seekRun) *messages.Position { return toTip() },
		"sequence": seekKinds["sequence"].to,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(w *world) {
				r := startSeekRun(w, &script{}, &panicker{}, false)
				w.me.Request(r.sub, &messages.Unsubscribe{Timeout: durationOf(20 * time.Second)})
				w.me.Request(r.sub, &messages.Seek{To: to(r)})
				require.Equal(w.t, messages.ErrorKind_ERROR_KIND_NOT_CONNECTED, probe.Expect[*messages.Error](w.me).GetKind())
				for _, d := range r.got {
					r.ack(d)
				}
				require.Empty(w.t, probe.Expect[*messages.Unsubscribed](w.me).GetUnfinished())
				require.Equal(w.t, r.record("low 3").SequenceNumber, w.lease(shardName(1)).Checkpoint.String())
			})
		})
	}
}

// A seek that is under way when the subscription ends is answered, and a position that was stored holds for whoever reads next.
func TestSubscriptionEndsDuringASeek(t *testing.T) {
	s := &script{}
	inBubble(t, 1, func(w *world) {
		r := startSeekRun(w, s, &panicker{}, false)
		s.set(func(s *script) { s.open = func() { time.Sleep(5 * time.Second) } })
		w.me.Request(r.sub, &messages.Seek{To: toHorizon()})
		time.Sleep(time.Second)
		w.me.Request(r.sub, &messages.Unsubscribe{})
		require.Equal(w.t, messages.ErrorKind_ERROR_KIND_NOT_CONNECTED, probe.Expect[*messages.Error](w.me).GetKind())
		probe.Expect[*messages.Unsubscribed](w.me)
		s.set(func(s *script) { s.open = nil })
		r.collect()
		w.subscribe()
		var got []string
		for range 8 {
			got = append(got, string(w.next(true).GetData()))
		}
		require.ElementsMatch(w.t, []string{"low 0", "high 0", "low 1", "high 1"}, got[:4])
		require.ElementsMatch(w.t, []string{"low 2", "high 2", "low 3", "high 3"}, got[4:])
	}, s.install)
}
