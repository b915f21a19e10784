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

// Which shards may start, and where, when the listing is late or has lost some.

// R1, R22: children that neither the last page nor the listing shows at first are read from their first record once a listing does, at
// the tip too. While the listing shows not even that the parent is closed, the parent has not ended.
func TestChildrenFoundLateAreReadFromTheirFirstRecord(t *testing.T) {
	for _, closedToo := range []bool{true, false} {
		s := &script{page: withoutChildren}
		inBubble(t, 1, func(w *world) {
			w.open()
			old, err := admin(w).ListShards(w.t.Context(), listInput())
			require.NoError(w.t, err)
			w.put("a", "parent")
			w.takeAll(1)
			split(w, shardName(0))
			for _, key := range []string{"a", "b", "c", "d"} {
				w.put(key, "child")
			}
			s.set(func(s *script) {
				s.list = without(shardName(1), shardName(2))
				if !closedToo {
					s.list = answering(old)
				}
			})
			nothingMore(w, 25*time.Second)
			require.Equal(w.t, closedToo, w.lease(shardName(0)).Checkpoint.IsShardEnd())
			s.set(func(s *script) { s.list = nil })
			found := time.Now()
			require.Equal(w.t, []string{"child", "child", "child", "child"}, w.takeAll(4))
			require.LessOrEqual(w.t, time.Since(found), 12*time.Second, "one discovery interval, a tenth more, and a poll")
			for _, id := range []string{shardName(1), shardName(2)} {
				require.Equal(w.t, []string{"TRIM_HORIZON"}, iteratorKinds(w, id))
			}
			require.Equal(w.t, "LATEST", iteratorKinds(w, shardName(0))[0])
			require.NotContains(w.t, iteratorKinds(w, shardName(0))[1:], "LATEST")
		}, s.install)
	}
}

// R4: newer records of a key wait in the child, though it is open, while the closed parent holds older ones and the subscriber is slow.
func TestRecordsOfAKeyStayInOrderAcrossASplit(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		var want []string
		for i := range 50 {
			want = append(want, "parent "+string(rune('A'+i)))
			w.put("k", want[i])
		}
		split(w, shardName(0))
		for i := range 10 {
			want = append(want, "child "+string(rune('A'+i)))
			w.put("k", want[50+i])
		}
		w.open(horizon, func(d *messages.StreamDescriptor) { d.WindowRecords = new(int32(7)) })
		var got []string
		for range want {
			got = append(got, string(w.next(false).GetData()))
			time.Sleep(300 * time.Millisecond)
			w.sub.Reply(w.sub.Last().Message.(*messages.Delivery).Ack())
		}
		require.Equal(w.t, want, got)
	})
}

// R6: a parent that is listed no more counts as finished. That what was left of it may be lost is said once.
func TestParentTrimmedOutOfTheListing(t *testing.T) {
	for name, start := range map[string]func(*messages.StreamDescriptor){"tip": func(*messages.StreamDescriptor) {}, "horizon": horizon} {
		t.Run(name, func(t *testing.T) {
			log := newLogBook()
			inBubble(t, 1, func(w *world) {
				w.open(start)
				w.put("k", "a")
				w.takeAll(1)
				restart(w, func() {
					w.put("k", "lost")
					split(w, shardName(0))
					w.put("k", "b")
					require.True(w.t, w.service.DropShard(testStream, shardName(0)))
				})
				w.open()
				require.Equal(w.t, []string{"b"}, w.takeAll(1))
				time.Sleep(time.Minute)
				require.Len(w.t, log.all("was not read to its end"), 1)
				require.Len(w.t, iteratorKinds(w, shardName(0)), 1, "nobody asks for the vanished shard")
			}, logged(log))
		})
	}
}

// R6 while it is read: the shard vanishes under its reader, whose children start when what is in flight has settled.
func TestShardVanishesUnderItsReader(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		a := w.next(false)
		split(w, shardName(0))
		w.put("k", "b")
		w.service.Fault("GetRecords", kinesistest.Match{}, 1, kinesistest.ExpireIterator()) // before the last page says that it is the last
		w.service.DropShard(testStream, shardName(0))
		told := probe.Expect[*messages.SubscriptionError](w.sub)
		require.Equal(w.t, shardName(0), told.GetError().GetShardId())
		require.Contains(w.t, told.GetError().GetText(), a.GetSequenceNumber())
		w.sub.ExpectNone(30 * time.Second)
		w.sub.Send(readersOf(w)[shardName(0)], a.Ack())
		require.Equal(w.t, []string{"b"}, w.takeAll(1))
		require.True(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
	})
}

// R7: of a shard that was being read only great-grandchildren are left; all of them are read from their first record.
func TestOnlyLaterGenerationsAreLeft(t *testing.T) {
	for name, start := range map[string]func(*messages.StreamDescriptor){"tip": func(*messages.StreamDescriptor) {}, "horizon": horizon} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(w *world) {
				w.open(start)
				w.put("k", "a")
				w.takeAll(1)
				keys := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
				restart(w, func() {
					split(w, shardName(0))
					split(w, shardName(1))
					split(w, shardName(2))
					merge(w, shardName(4), shardName(5))
					for _, key := range keys {
						w.put(key, key)
					}
					for _, n := range []int{0, 1, 2, 4, 5} {
						require.True(w.t, w.service.DropShard(testStream, shardName(n)))
					}
				})
				w.open()
				require.ElementsMatch(w.t, keys, w.takeAll(len(keys)))
				for _, n := range []int{3, 6, 7} {
					require.Equal(w.t, []string{"TRIM_HORIZON"}, iteratorKinds(w, shardName(n)))
				}
			})
		})
	}
}

// R8: a merged child whose second parent is listed no more waits for the first only; for that one, to its end.
func TestMergedChildWithAVanishedParent(t *testing.T) {
	for _, gone := range []int{0, 1} {
		inBubble(t, 2, func(w *world) {
			keys := []string{keyFor(w, shardName(0), false), keyFor(w, shardName(1), false)}
			for range 2 {
				w.put(keys[0], keys[0])
				w.put(keys[1], keys[1])
			}
			merge(w, shardName(0), shardName(1))
			w.put(keys[0], "merged")
			require.True(w.t, w.service.DropShard(testStream, shardName(gone)))
			w.open(horizon)
			left := keys[1-gone]
			require.Equal(w.t, left, string(w.next(true).GetData()))
			last := w.next(false)
			require.Equal(w.t, left, string(last.GetData()))
			w.sub.ExpectNone(30 * time.Second)
			w.sub.Send(w.sub.Sender(), last.Ack())
			require.Equal(w.t, []string{"merged"}, w.takeAll(1))
		})
	}
}

// R8: the parents of a merged child are read by two nodes. Whoever reads the child does so after both, and once.
func TestMergedChildOfParentsOnTwoNodes(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		w.connect()
		broker, other := second(w)
		w.subscribe(horizon) // fails to take shard 1 once, which is enough for the second
		require.Equal(w.t, []string{shardName(1)}, subscribeAt(w, broker, other).GetShards())
		keys := []string{keyFor(w, shardName(0), false), keyFor(w, shardName(1), false)}
		w.put(keys[0], "a")
		w.put(keys[1], "b")
		a := w.next(false)
		b := probe.Fish(other, func(*messages.Delivery) bool { return true })
		require.Equal(w.t, "a", string(a.GetData()))
		require.Equal(w.t, "b", string(b.GetData()))
		merge(w, shardName(0), shardName(1))
		w.put(keys[0], "merged")
		w.sub.Send(w.sub.Sender(), a.Ack())
		w.sub.ExpectNone(30 * time.Second)
		other.ExpectNone(0)
		require.True(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
		require.Empty(w.t, iteratorKinds(w, shardName(2)))

		settled := time.Now()
		other.Send(other.Sender(), b.Ack())
		first := fishEither(w, other)
		require.Equal(w.t, "merged", string(first.GetData()))
		require.Less(w.t, time.Since(settled), time.Second, "whose shard ended last starts the child at once")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(w.t, iteratorKinds(w, shardName(2)), 1, "one of them reads it")
		shutDown(w, broker)
	}, failingToAcquire(shardName(1)))
}

// R23: what is known of a shard changes when it closes; it is the same shard all the same, and goes on at its checkpoint.
func TestShardThatClosedMeanwhileGoesOnAtItsCheckpoint(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		w.put("k", "b")
		w.takeAll(1)
		time.Sleep(2 * time.Second)
		restart(w, func() {
			split(w, shardName(0))
			w.put("k", "c")
		})
		w.open()
		require.Equal(w.t, []string{"b", "c"}, w.takeAll(2))
		require.Equal(w.t, []string{"TRIM_HORIZON", "AT_SEQUENCE_NUMBER"}, iteratorKinds(w, shardName(0)))
	})
}

// R8: a merged child is told of by the parent that ends first, before any listing has shown the other one, which is a child itself. It waits
// for that one all the same: what is not listed yet is not what is listed no more.
func TestMergedChildWaitsForAParentThatIsNotListedYet(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		key := keyFor(w, shardName(0), true)
		w.open(horizon)
		w.put(key, "grandparent")
		d := w.next(false)
		reader := w.sub.Sender()
		split(w, shardName(0))
		w.put(key, "parent")
		merge(w, shardName(3), shardName(1))
		w.put(key, "merged")
		w.sub.ExpectNone(30 * time.Second)
		require.True(w.t, w.lease(shardName(1)).Checkpoint.IsShardEnd())
		require.Empty(w.t, iteratorKinds(w, shardName(4)))
		settled := time.Now()
		w.sub.Send(reader, d.Ack())
		require.Equal(w.t, []string{"parent", "merged"}, w.takeAll(2))
		require.Less(w.t, time.Since(settled), time.Second)
	})
}
