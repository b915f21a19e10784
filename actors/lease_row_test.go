package actors

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

// What is found in the rows of the store decides where shards start.

// tip is where a subscription without a position begins.
func tip(*messages.StreamDescriptor) {}

// L17: a row that is deleted under a reader ends its deliveries by the next renewal. The row is made anew by the ordinary acquisition, loudly,
// at what this process had settled: nothing is skipped, though the default is the tip, and nothing settled comes again.
func TestDeletedRowIsMadeAnewWhereItWas(t *testing.T) {
	for name, start := range map[string]func(*messages.StreamDescriptor){"tip": tip, "horizon": horizon} {
		t.Run(name, func(t *testing.T) {
			book := newLogBook()
			inBubble(t, 1, func(w *world) {
				w.open(start)
				for _, data := range []string{"a", "b", "c"} {
					w.put("k", data)
				}
				w.takeAll(1)
				time.Sleep(2 * time.Second)
				reader := w.sub.Sender()
				b := w.next(false) // delivered and, at the deletion, settled but not saved
				require.NoError(w.t, w.store.Delete(context.Background(), w.lease(shardName(0))))
				w.sub.Send(reader, b.Ack())
				w.me.Watch(reader)
				w.me.ExpectTerminated(reader, 3500*time.Millisecond)
				for {
					if _, more := w.sub.TryReceive(); !more {
						break
					}
				}
				w.put("k", "d")
				require.Equal(w.t, []string{"c", "d"}, w.takeAll(2), "from the local watermark on")
				require.NotEmpty(w.t, w.lease(shardName(0)).Owner)
				require.Len(w.t, book.all("ERROR", "row was deleted", shardName(0), b.GetSequenceNumber()), 1)
				require.Len(w.t, book.all("lease taken", "source="+sourceDeleted), 1)
			}, logged(book))
		})
	}
}

// L17: of a shard that another node reads, the last row seen counts; a row that is deleted twice, too.
func TestDeletedRowOfAnotherNode(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.put("k", "a")
		w.put("k", "b")
		w.connect()
		stream := w.rowsOf(func(leasestore.StreamID) map[string]leasestore.Checkpoint {
			return map[string]leasestore.Checkpoint{shardName(0): leasestore.AtSequence(w.service.Records(testStream)[0].SequenceNumber, 0)}
		}, "elsewhere")
		w.subscribe()
		for range 2 {
			row, err := w.store.Get(context.Background(), leasestore.Key{Stream: stream, Shard: shardName(0)})
			require.NoError(w.t, err)
			require.NoError(w.t, w.store.Delete(context.Background(), row))
			require.Equal(w.t, "b", string(w.next(false).GetData()))
		}
	})
}

// L17: a shard that was finished is not read again because its row is gone.
func TestDeletedRowOfAFinishedShard(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		split(w, shardName(0))
		w.put("k", "b")
		w.takeAll(2)
		time.Sleep(5 * time.Second)
		require.NoError(w.t, w.store.Delete(context.Background(), w.lease(shardName(0))))
		w.sub.ExpectNone(time.Minute)
		require.Equal(w.t, leasestore.Lease{}, w.lease(shardName(0)), "nor is the row made again")
	})
}

// rowsOf stores rows before the stream is opened, and a state as of an opening at the tip. With owner they are held, else free.
func (w *world) rowsOf(rows func(leasestore.StreamID) map[string]leasestore.Checkpoint, owner string) leasestore.StreamID {
	w.t.Helper()
	ctx := context.Background()
	found, err := findStream(ctx, w.cfg.Clients.Control, reading{stream: streamRef{name: testStream, spelling: testStream}})
	require.NoError(w.t, err)
	_, err = w.store.SaveState(ctx, leasestore.StreamState{Stream: found.id, Start: leasestore.AtTimestamp(found.openedAt), Tip: true})
	require.NoError(w.t, err)
	for shard, checkpoint := range rows(found.id) {
		row := leasestore.Lease{Key: leasestore.Key{Stream: found.id, Shard: shard}, Checkpoint: checkpoint}
		held, err := w.store.Acquire(ctx, row, "somebody")
		require.NoError(w.t, err)
		if owner == "" {
			_, err = w.store.Release(ctx, held)
			require.NoError(w.t, err)
		}
	}
	return found.id
}

// C7, L12: rows with every sentinel, an empty checkpoint, and no row at all. A sentinel is never sent as a sequence number, and an empty
// checkpoint is where the application starts.
func TestSentinelsAreNotSequenceNumbers(t *testing.T) {
	for _, owner := range []string{"", "somebody"} {
		inBubble(t, 7, func(w *world) {
			for i := range 40 {
				w.put(strings.Repeat("k", i+1), "x")
			}
			last := w.service.Records(testStream)[39]
			require.Equal(w.t, shardName(6), last.Shard)
			sequence := last.SequenceNumber
			w.connect()
			instant := leasestore.AtTimestamp(time.Now().Add(-time.Hour))
			w.rowsOf(func(leasestore.StreamID) map[string]leasestore.Checkpoint {
				return map[string]leasestore.Checkpoint{
					shardName(0): {}, // the row of a lease that was stolen before anything was settled
					// 1: no row
					shardName(2): leasestore.TrimHorizon(),
					shardName(3): instant, // how the tip is stored
					shardName(4): leasestore.ShardEnd(),
					shardName(5): leasestore.AtTimestamp(time.Now()),
					shardName(6): leasestore.AtSequence(sequence, 0),
				}
			}, owner)
			w.subscribe()
			time.Sleep(time.Minute)
			want := map[string][]string{
				shardName(0): {"AT_TIMESTAMP"}, shardName(1): {"AT_TIMESTAMP"}, shardName(2): {"TRIM_HORIZON"}, shardName(3): {"AT_TIMESTAMP"},
				shardName(4): nil, shardName(5): {"AT_TIMESTAMP"}, shardName(6): {"AT_SEQUENCE_NUMBER"},
			}
			for shard, kinds := range want {
				require.Equal(w.t, kinds, iteratorKinds(w, shard), "%s, owner %q", shard, owner)
			}
			for _, c := range w.service.Calls() {
				if c.Op == "GetShardIterator" && c.IteratorType != "AT_SEQUENCE_NUMBER" {
					require.Empty(w.t, c.SequenceNumber)
				}
				if c.IteratorType == "AT_SEQUENCE_NUMBER" {
					require.Equal(w.t, sequence, c.SequenceNumber)
				}
			}
		})
	}
}

// C10: one line per shard says what decided where it starts; start_at is the explicit reset of a checkpoint, which otherwise comes first.
func TestTheLogSaysWhatDecidedTheStart(t *testing.T) {
	book := newLogBook()
	inBubble(t, 2, func(w *world) {
		taken := func(shard, source string) int { return len(book.all("lease taken", shard, "source="+source)) }
		opened := w.open()
		require.Equal(w.t, 1, taken(shardName(0), sourceDefault))
		require.Equal(w.t, 1, taken(shardName(1), sourceDefault))
		for i := range 20 {
			w.put(strings.Repeat("k", i+1), "x")
		}
		w.takeAll(20)
		again := func(change func(*messages.StreamDescriptor)) {
			w.me.Request(opened.GetSubscription(), &messages.Unsubscribe{})
			synctest.Wait()
			opened = w.subscribe(change)
		}
		again(tip)
		require.Equal(w.t, 1, taken(shardName(0), sourceCheckpoint), "the configured tip gives way to what is stored")
		for _, line := range book.all("lease taken", sourceCheckpoint, shardName(0)) {
			require.Contains(w.t, line, "position="+w.lease(shardName(0)).Checkpoint.String())
		}
		w.sub.ExpectNone(5 * time.Second)
		again(horizon)
		require.Equal(w.t, 1, taken(shardName(1), sourceStartAt))
		w.takeAll(20)
		split(w, shardName(0))
		time.Sleep(15 * time.Second)
		require.Equal(w.t, 1, taken(shardName(2), sourceInherited))
		again(func(d *messages.StreamDescriptor) {
			d.StartAt = seqSeek(shardName(1), w.lease(shardName(1)).Checkpoint.String())
		})
		require.Equal(w.t, 2, taken(shardName(1), sourceStartAt))
		require.Equal(w.t, 1, taken(shardName(2), sourceCheckpoint))
	}, logged(book))
	book = newLogBook()
	inBubble(t, 1, func(w *world) {
		w.open()
		split(w, shardName(0))
		time.Sleep(15 * time.Second)
		require.Len(w.t, book.all("lease taken", shardName(1), sourceInherited), 1)
	}, logged(book))
}
