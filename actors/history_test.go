package actors

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// step is something that happens in a history; n and m choose what it happens to.
type step struct {
	what string
	n, m int
}

// steps are what may happen, the frequent more than once.
var steps = []string{
	"put", "put", "put", "put", "settle", "settle", "settle", "wait", "wait", "split", "split", "merge",
	"seek horizon", "seek tip", "seek timestamp", "seek sequence", "reader panics", "coordinator panics", "restart", "death",
}

func drawHistory(t *rapid.T) (history []step) {
	for range rapid.IntRange(5, 20).Draw(t, "steps") {
		history = append(history, step{
			what: rapid.SampledFrom(steps).Draw(t, "step"), n: rapid.IntRange(0, 5).Draw(t, "n"), m: rapid.IntRange(0, 5).Draw(t, "m"),
		})
	}
	return history
}

// R1, R4, R5, R8, R11, R22: whatever happens, nothing is lost, the first deliveries of each key are in order, and no child is
// delivered before all of its parents is settled. A seek begins anew with the records in its range.
func TestAnyHistory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		history := drawHistory(rt)
		var wrong []string
		panics := &panicker{}
		inBubble(t, 2, func(w *world) {
			h := &historyRun{world: w, panics: panics, model: newHistoryModel(), clerk: probe.New(w.t, w.system, "clerk")}
			h.sub = w.open(horizon).GetSubscription()
			for i, s := range history {
				h.log = append(h.log, fmt.Sprintf("%d: %v at %v", i, s, time.Now().UnixMilli()))
				h.do(s)
			}
			h.end()
			wrong = h.model.wrong
			if len(wrong) > 0 {
				wrong = append(wrong, h.log...)
			}
		}, panics.install, func(c *Config) { c.Timings.PollInterval = 3 * time.Second })
		if len(wrong) > 0 {
			rt.Fatalf("%s", strings.Join(wrong, "\n"))
		}
	})
}

// historyRun carries a history out, and shows the model what it sees.
type historyRun struct {
	*world
	panics *panicker
	model  *historyModel
	sub    *pidOf       // subscription
	clerk  *probe.Probe // asks for seeks
	out    []*received
	named  int
	puts   int
	last   time.Time // when a panic was last asked for
	log    []string
}

func (h *historyRun) do(s step) {
	switch s.what {
	case "put":
		h.puts++
		h.put(fmt.Sprintf("key-%d", s.n), fmt.Sprint(h.puts))
		h.model.stored(h.service.Records(testStream))
		time.Sleep(50 * time.Millisecond)
	case "settle":
		h.collect()
		for range min(len(h.out), 2*s.n) {
			h.settle(s.m % len(h.out))
		}
	case "wait":
		time.Sleep(time.Duration(1+s.n*s.m) * time.Second / 2)
		h.collect()
	case "split", "merge":
		h.reshard(s)
	case "reader panics":
		h.panics.arm(roleReader, 1+s.n)
		h.last = time.Now()
		time.Sleep(time.Duration(s.m) * 400 * time.Millisecond)
	case "coordinator panics":
		h.panics.arm(roleCoordinator, 1)
		h.last = time.Now()
		h.me.Send(h.broker, &messages.StatusRequest{})
		time.Sleep(time.Duration(s.m) * 400 * time.Millisecond)
	case "restart", "death":
		h.restart(s.what == "death")
	default:
		h.seek(s)
	}
}

// reshard splits or merges, but keeps the stream small.
func (h *historyRun) reshard(s step) {
	open := openShards(h.world)
	i := s.n % len(open)
	switch {
	case s.what == "split" && len(open) < 5:
		split(h.world, open[i])
	case s.what == "merge" && i+1 < len(open):
		merge(h.world, open[i], open[i+1])
	}
	h.model.shards(h.service.Shards(testStream))
}

// openShards are the shards that take records, in the order of their hash keys: adjacent ones are next to each other.
func openShards(w *world) (ids []string) {
	var open []kinesistest.Shard
	for _, sh := range w.service.Shards(testStream) {
		if sh.EndSequence == "" {
			open = append(open, sh)
		}
	}
	slices.SortFunc(open, func(a, b kinesistest.Shard) int {
		if len(a.StartHash) != len(b.StartHash) {
			return len(a.StartHash) - len(b.StartHash)
		}
		return strings.Compare(a.StartHash, b.StartHash)
	})
	for _, sh := range open {
		ids = append(ids, sh.ID)
	}
	return ids
}

// restart ends the broker, in order or by force, and opens another on the same store.
func (h *historyRun) restart(death bool) {
	h.panics.arm(roleReader, 0)
	if death {
		h.system.Root.Stop(h.broker)
		time.Sleep(100 * time.Millisecond)
	} else {
		shutDown(h.world, h.broker)
	}
	h.collect()
	h.named++
	h.cfg.Name = fmt.Sprint("life-", h.named)
	h.broker = h.spawnBroker()
	h.sub = h.open().GetSubscription()
}

// seek asks until it is answered by Sought, or refused for good.
func (h *historyRun) seek(s step) {
	h.panics.arm(roleReader, 0)
	records := h.service.Records(testStream)
	var to *messages.Position
	in, shard := func(kinesistest.Record) bool { return true }, ""
	switch {
	case s.what == "seek horizon":
		to = toHorizon()
	case s.what == "seek tip":
		time.Sleep(1100 * time.Millisecond) // if LATEST fails, the tip is the second that it is in
		to, in = toTip(), func(kinesistest.Record) bool { return false }
	case len(records) == 0:
		return
	default:
		at := records[(s.n*6+s.m)%len(records)]
		if s.what == "seek timestamp" {
			to = &messages.Position{At: &messages.Position_Timestamp{Timestamp: &messages.Timestamp{UnixMillis: at.Arrival.UnixMilli()}}}
			in = func(r kinesistest.Record) bool { return !r.Arrival.Before(at.Arrival) }
			break
		}
		to, shard = seqSeek(at.Shard, at.SequenceNumber), at.Shard
		in = func(r kinesistest.Record) bool { return r.SequenceNumber >= at.SequenceNumber }
	}
	// A reader that begins, and delivers, between the question and the answer would be taken for one that the seek has moved. Seeks
	// during restarts are among those of TestSeekInAnySituation.
	time.Sleep(time.Until(h.last.Add(5 * time.Second)))
	for range 5 {
		h.collect()
		old := h.model.generations()
		h.clerk.Request(h.sub, &messages.Seek{To: to})
		if sought := h.sought(); sought != nil {
			h.model.moved(records, shard, in, old)
			if shard == "" {
				h.model.strict = h.allMoved(sought)
			}
			h.collect()
			return
		}
		if shard != "" {
			return // it is not read here now
		}
		time.Sleep(2 * time.Second)
	}
	require.Fail(h.t, "a seek failed five times")
}

// allMoved reports whether every open shard was moved at once. Where no node read a shard, its parents may be read first, from the new
// position; and what is left of a parent at the tip does not tell when its children were made, so they are read from their first record.
func (h *historyRun) allMoved(sought *messages.Sought) bool {
	for _, s := range h.service.Shards(testStream) {
		if s.EndSequence == "" && !slices.Contains(sought.GetShards(), s.ID) {
			return false
		}
	}
	return true
}

func (h *historyRun) sought() *messages.Sought {
	h.t.Helper()
	for range 3 * 60 * 100 {
		synctest.Wait()
		for e, more := h.clerk.TryReceive(); more; e, more = h.clerk.TryReceive() {
			switch m := e.Message.(type) {
			case *messages.Sought:
				return m
			case *messages.Error:
				return nil
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	require.Fail(h.t, "a seek was not answered")
	return nil
}

func (h *historyRun) collect() {
	synctest.Wait()
	for e, more := h.world.sub.TryReceive(); more; e, more = h.world.sub.TryReceive() {
		if d, ok := e.Message.(*messages.Delivery); ok {
			h.out = append(h.out, &received{Delivery: d, reader: e.Sender})
			h.model.delivered(d)
		}
	}
}

func (h *historyRun) settle(i int) {
	d := h.out[i]
	h.out = slices.Delete(h.out, i, i+1)
	h.world.sub.Send(d.reader, d.Ack())
	h.model.settled(d.Delivery)
}

// end settles all that comes until nothing more does, and sees that all is stored.
func (h *historyRun) end() {
	h.panics.arm(roleReader, 0)
	for quiet := 0; quiet < 25; quiet++ {
		time.Sleep(time.Second)
		h.collect()
		for len(h.out) > 0 {
			h.settle(0)
			quiet = 0
		}
	}
	h.model.ended()
	for _, s := range h.service.Shards(testStream) {
		lease := h.lease(s.ID)
		if s.EndSequence != "" && lease.Counter > 0 && lease.Seek == h.seekNumber() && !lease.Checkpoint.IsShardEnd() {
			h.model.fail("%s is closed and settled, and its lease is at %v", s.ID, lease.Checkpoint)
		}
	}
}

func (h *historyRun) seekNumber() int64 {
	all, err := h.store.Streams(h.t.Context())
	require.NoError(h.t, err)
	return all[0].Seek
}
