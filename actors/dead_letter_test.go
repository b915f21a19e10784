package actors

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

const deadStream = "dead"

// spendOne opens the stream with two attempts and a dead-letter stream, and has a record spend them.
func (w *world) spendOne(change ...func(*messages.StreamDescriptor)) *messages.Delivery {
	w.t.Helper()
	w.open(append(change, horizon, func(d *messages.StreamDescriptor) { d.MaxAttempts, d.DeadLetter = 2, deadStream })...)
	w.put("key", "poison")
	w.sub.Reply(w.next(false).Retry())
	last := w.next(false)
	w.sub.Reply(last.Retry())
	return last
}

// While the dead-letter stream can't take a record, the record is neither lost nor skipped: it holds the checkpoint, others flow past it, it is
// not delivered again, and it arrives once the stream can take it.
func TestDeadLetterStreamInTrouble(t *testing.T) {
	for name, trouble := range map[string]func(w *world) (end func()){
		"missing": func(w *world) func() {
			return func() { require.NoError(w.t, w.service.CreateStream(deadStream, 1)) }
		},
		"throttled": func(w *world) func() {
			return w.deadStreamWith(kinesistest.Partial("ProvisionedThroughputExceededException")).Clear
		},
		"throttled as a whole": func(w *world) func() {
			return w.deadStreamWith(kinesistest.Error("LimitExceededException", "slow down")).Clear
		},
		"failing": func(w *world) func() {
			return w.deadStreamWith(kinesistest.Error("InternalFailure", "no")).Clear
		},
		"denied": func(w *world) func() {
			return w.deadStreamWith(kinesistest.Error("AccessDeniedException", "no")).Clear
		},
		"silent": func(w *world) func() { return w.deadStreamWith(kinesistest.Hang()).Clear },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(w *world) {
				end := trouble(w)
				w.spendOne()
				told := 0
				for range 5 {
					w.put("key", "fine")
					time.Sleep(time.Minute)
					told += w.ackFine()
				}
				require.Equal(w.t, 1, told, "the subscriber is told once")
				require.Equal(w.t, "TRIM_HORIZON", w.lease(shardName(0)).Checkpoint.String())
				require.Empty(w.t, w.service.Records(deadStream))
				end()
				time.Sleep(3 * time.Minute)
				dead := w.service.Records(deadStream)
				require.Len(w.t, dead, 1)
				headers, data := openEnvelope(dead[0].Data)
				require.Equal(w.t, "poison", string(data))
				require.Equal(w.t, "2", headers["pk-attempts"])
				w.checkpointIs(w.service.Records(testStream)[5].SequenceNumber)
				_, more := w.sub.TryReceive()
				require.False(w.t, more)
			})
		})
	}
}

// deadStreamWith makes the dead-letter stream, and puts to it have an effect.
func (w *world) deadStreamWith(e kinesistest.Effect) *kinesistest.Fault {
	w.t.Helper()
	require.NoError(w.t, w.service.CreateStream(deadStream, 1))
	return w.service.Fault("PutRecords", kinesistest.Match{Stream: deadStream}, -1, e)
}

// A dead letter whose reply is lost is sent again: twice rather than never, and the shard advances.
func TestDeadLetterWhoseReplyIsLost(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		f := w.deadStreamWith(kinesistest.StoredThenReset())
		last := w.spendOne()
		time.Sleep(3 * time.Second)
		f.Clear()
		time.Sleep(2 * time.Minute)
		require.Greater(w.t, len(w.service.Records(deadStream)), 1)
		w.checkpointIs(last.GetSequenceNumber())
	})
}

// With per_key_order a spent record holds back its key until its dead letter is stored, or its successors would overtake it.
func TestSpentRecordHoldsBackItsKey(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		f := w.deadStreamWith(kinesistest.Error("InternalFailure", "no"))
		w.spendOne(perKey)
		w.put("key", "behind")
		w.put("other", "free")
		require.Equal(w.t, []string{"free"}, w.takeAll(1))
		require.Equal(w.t, messages.ErrorKind_ERROR_KIND_PUBLISH, probe.Expect[*messages.SubscriptionError](w.sub, time.Minute).GetError().GetKind())
		w.sub.ExpectNone(5 * time.Minute)
		f.Clear()
		require.Equal(w.t, []string{"behind"}, w.takeAll(1))
	})
}

// A record that only just fits into a stream fits into the dead-letter stream, too.
func TestDeadLetterOfTheLargestRecord(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		require.NoError(w.t, w.service.CreateStream(deadStream, 1))
		w.open(horizon, func(d *messages.StreamDescriptor) { d.MaxAttempts, d.DeadLetter = 1, deadStream })
		data := strings.Repeat("x", 1<<20-1)
		w.put("k", data)
		d := w.next(false)
		w.sub.Reply(d.Retry())
		time.Sleep(5 * time.Second)
		dead := w.service.Records(deadStream)
		require.Len(w.t, dead, 1)
		require.Equal(w.t, data, string(dead[0].Data))
		w.checkpointIs(d.GetSequenceNumber())
	})
}

// A drain waits for a dead letter under way and saves what it settles.
func TestDrainWaitsForADeadLetter(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.deadStreamWith(kinesistest.Delay(5 * time.Second))
		last := w.spendOne()
		time.Sleep(time.Second)
		w.me.Request(w.broker, &messages.Shutdown{})
		require.Empty(w.t, probe.Expect[*messages.Closed](w.me).GetUnfinished())
		require.Len(w.t, w.service.Records(deadStream), 1)
		require.Equal(w.t, last.GetSequenceNumber(), w.lease(shardName(0)).Checkpoint.String())
	})
}

// A dead letter that can't be stored before the drain's deadline keeps nobody: the record is named, and comes again.
func TestDrainEndsWithoutADeadLetter(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		f := w.deadStreamWith(kinesistest.Hang())
		w.spendOne()
		time.Sleep(time.Second)
		start := time.Now()
		w.me.Request(w.broker, &messages.Shutdown{Timeout: durationOf(5 * time.Second)})
		unfinished := probe.Expect[*messages.Closed](w.me).GetUnfinished()
		require.Equal(w.t, 5*time.Second, time.Since(start))
		require.Contains(w.t, strings.Join(unfinished, "\n"), "1 dead letters not stored")
		require.Equal(w.t, "TRIM_HORIZON", w.lease(shardName(0)).Checkpoint.String())
		require.Empty(w.t, w.lease(shardName(0)).Owner)
		f.Clear()
		w.again()
		w.subscribe()
		require.Equal(w.t, []string{"poison"}, w.takeAll(1))
	})
}

// ackFine acks what has come, none of it poison, and returns how many errors came with it.
func (w *world) ackFine() (told int) {
	w.t.Helper()
	synctest.Wait()
	for e, more := w.sub.TryReceive(); more; e, more = w.sub.TryReceive() {
		switch m := e.Message.(type) {
		case *messages.SubscriptionError:
			told++
		case *messages.Delivery:
			require.Equal(w.t, "fine", string(m.GetData()))
			w.sub.Reply(m.Ack())
		}
	}
	return told
}
