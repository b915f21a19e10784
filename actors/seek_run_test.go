package actors

import (
	"fmt"
	"slices"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
)

// seekRun is a subscription that is about to be moved, and what it was delivered:
//
//	shard 0, closed:  low 0, high 0, low 1, high 1
//	shard 1, open:    low 2, low 3          shard 2, open: high 2, high 3
//
// Flowing, all is delivered and settled but low 3 and high 3. At its end, shard 0 is read, and low 1 and high 1 are not settled.
type seekRun struct {
	*world
	script    *script
	panics    *panicker
	sub       *pidOf // subscription
	low, high string
	next      int // number of the next record of each key

	got    []*received
	before int // how many deliveries came before the seek was asked for
	sought int // and before the answer
	round  int
	asked  time.Time
	failed []*messages.Error
}

// received is a delivery and whom to settle it with.
type received struct {
	*messages.Delivery
	reader *pidOf
	round  int
	acked  bool
}

func startSeekRun(w *world, s *script, p *panicker, atEnd bool) *seekRun {
	w.t.Helper()
	r := &seekRun{world: w, script: s, panics: p, low: keyFor(w, shardName(0), false), high: keyFor(w, shardName(0), true)}
	r.sub = w.open(horizon).GetSubscription()
	r.putBoth(2)
	split(w, shardName(0))
	r.putBoth(2)
	acked := map[bool]int{true: 1, false: 3}[atEnd]
	for range 4 {
		r.collect()
		for _, d := range r.got {
			if d.number() < acked {
				r.ack(d)
			}
		}
		time.Sleep(time.Second)
	}
	r.collect()
	require.Len(w.t, r.got, map[bool]int{true: 4, false: 8}[atEnd])
	return r
}

// putBoth puts so many records of each key, a second after one another.
func (r *seekRun) putBoth(n int) {
	for range n {
		r.put(r.low, fmt.Sprint("low ", r.next))
		r.put(r.high, fmt.Sprint("high ", r.next))
		r.next++
		time.Sleep(time.Second)
	}
}

// number is the number of a record among those of its key.
func (d *received) number() (n int) {
	var key string
	_, _ = fmt.Sscan(string(d.GetData()), &key, &n)
	return n
}

func (r *seekRun) record(data string) kinesistest.Record {
	r.t.Helper()
	for _, rec := range r.service.Records(testStream) {
		if string(rec.Data) == data {
			return rec
		}
	}
	r.t.Fatalf("no record %q", data)
	return kinesistest.Record{}
}

func (r *seekRun) ack(d *received) {
	if !d.acked {
		d.acked = true
		r.world.sub.Send(d.reader, d.Ack())
	}
}

// collect takes what is there, and returns the answer to a seek if it is among it.
func (r *seekRun) collect() (answer any) {
	synctest.Wait()
	r.round++
	for e, more := r.world.sub.TryReceive(); more; e, more = r.world.sub.TryReceive() {
		switch m := e.Message.(type) {
		case *messages.Delivery:
			r.got = append(r.got, &received{Delivery: m, reader: e.Sender, round: r.round})
		case *messages.Sought, *messages.Error:
			r.sought = len(r.got)
			answer = m
		}
	}
	return answer
}

// seek asks until it is answered by Sought, as a user would; so many errors are allowed before that. meanwhile happens once it is asked.
func (r *seekRun) seek(kind *seekKind, errors int, meanwhile func(r *seekRun)) *messages.Sought {
	r.t.Helper()
	r.before = len(r.got)
	for {
		r.asked = time.Now()
		mark := len(r.service.Calls())
		r.world.sub.Request(r.sub, &messages.Seek{To: kind.to(r), Correlation: 5})
		if meanwhile != nil {
			meanwhile(r)
			meanwhile = nil
		}
		switch m := r.awaitAnswer().(type) {
		case *messages.Sought:
			require.EqualValues(r.t, 5, m.GetCorrelation())
			for _, shard := range m.GetShards() {
				gone := !slices.ContainsFunc(r.service.Shards(testStream), func(s kinesistest.Shard) bool { return s.ID == shard })
				require.True(r.t, gone || r.opened(mark, shard, kind), "the iterator of %s is not held yet", shard)
			}
			return m
		case *messages.Error:
			r.failed = append(r.failed, m)
			require.LessOrEqual(r.t, len(r.failed), errors, "%v", r.failed)
		}
		time.Sleep(2 * time.Second)
	}
}

func (r *seekRun) awaitAnswer() any {
	r.t.Helper()
	for range 3 * 60 * 100 {
		if answer := r.collect(); answer != nil {
			return answer
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.t.Fatal("the seek was not answered within 3 min")
	return nil
}

// opened reports whether an iterator of the shard has been got since there were mark calls.
func (r *seekRun) opened(mark int, shard string, kind *seekKind) bool {
	return slices.ContainsFunc(r.service.Calls()[mark:], func(c kinesistest.Call) bool {
		return c.Op == "GetShardIterator" && c.Shard == shard && c.ErrorCode == "" && slices.Contains(kind.iterators, c.IteratorType)
	})
}

// settleLate settles what was delivered before the seek, which must store nothing.
func (r *seekRun) settleLate(kind *seekKind, moved []string) {
	r.t.Helper()
	time.Sleep(2 * time.Second)
	r.collect()
	for _, d := range r.got[:r.before] {
		r.ack(d)
	}
	time.Sleep(3 * time.Second)
	for _, shard := range moved {
		lease := r.lease(shard)
		if lease.Checkpoint.IsShardEnd() {
			require.Empty(r.t, r.expected(kind, shard), "%s has ended with records left", shard)
			continue
		}
		require.Equal(r.t, kind.start(r), lease.Checkpoint, shard)
	}
}

// generationOf is the last generation that the shard was delivered by.
func (r *seekRun) generationOf(shard string) (last uint64) {
	for _, d := range r.got {
		if d.GetShardId() == shard {
			last = d.GetGeneration()
		}
	}
	return last
}

// pump settles all that comes until nothing has come for a while.
func (r *seekRun) pump() {
	for quiet := 0; quiet < 15; quiet++ {
		before := len(r.got)
		r.collect()
		for _, d := range r.got {
			r.ack(d)
		}
		if len(r.got) > before {
			quiet = 0
		}
		time.Sleep(time.Second)
	}
}

// expected are the shard's records in the range of the seek.
func (r *seekRun) expected(kind *seekKind, shard string) (data []string) {
	for _, rec := range r.service.Records(testStream) {
		if rec.Shard == shard && kind.inRange(r, rec) {
			data = append(data, string(rec.Data))
		}
	}
	return data
}

// check is the rule for every seek: each shard's last generation has delivered exactly the records in range, in their order; after
// the answer nothing else came; and nothing of a child came before its parents were settled.
func (r *seekRun) check(kind *seekKind) {
	r.t.Helper()
	first, last := make(map[string]int), make(map[string]int)
	for _, s := range r.service.Shards(testStream) {
		want := r.expected(kind, s.ID)
		generation := r.generationOf(s.ID)
		var got []string
		for i, d := range r.got {
			if d.GetShardId() != s.ID {
				continue
			}
			if d.GetGeneration() != generation || len(want) == 0 {
				require.Less(r.t, i, r.sought, "%s of before the seek was delivered after it", d.GetData())
				continue
			}
			got = append(got, string(d.GetData()))
			last[s.ID] = d.round
			if len(got) == 1 {
				first[s.ID] = d.round
			}
		}
		if kind.shard != "" && kind.shard != s.ID { // it goes on where it was
			require.Subset(r.t, got, want, "%s", s.ID)
			continue
		}
		require.Equal(r.t, want, got, "%s", s.ID)
		for _, parent := range []string{s.Parent, s.AdjacentParent} {
			if _, read := first[parent]; read && len(got) > 0 {
				require.Greater(r.t, first[s.ID], last[parent], "%s began before %s was settled", s.ID, parent)
			}
		}
	}
}

// seekKind is a position, and what it means.
type seekKind struct {
	to        func(r *seekRun) *messages.Position
	shard     string // the only one that moves
	iterators []string
	start     func(r *seekRun) leasestore.Checkpoint
	inRange   func(r *seekRun, rec kinesistest.Record) bool
}

// seekKinds are the positions of the tables.
var seekKinds = map[string]*seekKind{
	"horizon": {
		to:        func(*seekRun) *messages.Position { return toHorizon() },
		iterators: []string{"TRIM_HORIZON"},
		start:     func(*seekRun) leasestore.Checkpoint { return leasestore.TrimHorizon() },
		inRange:   func(*seekRun, kinesistest.Record) bool { return true },
	},
	"timestamp in the parent":   timestampKind("low 1"),
	"timestamp in the children": timestampKind("low 3"),
	"tip": {
		to:        func(*seekRun) *messages.Position { return &messages.Position{At: &messages.Position_Latest{}} },
		iterators: []string{"LATEST", "AT_TIMESTAMP"},
		start:     func(r *seekRun) leasestore.Checkpoint { return r.state().Start },
		inRange:   func(r *seekRun, rec kinesistest.Record) bool { return rec.Arrival.After(r.asked) },
	},
	"sequence": {
		to:        func(r *seekRun) *messages.Position { return seqSeek(shardName(1), r.record("low 2").SequenceNumber) },
		shard:     shardName(1),
		iterators: []string{"AT_SEQUENCE_NUMBER"},
		start: func(r *seekRun) leasestore.Checkpoint {
			return leasestore.Before(r.record("low 2").SequenceNumber, 0)
		},
		inRange: func(r *seekRun, rec kinesistest.Record) bool {
			return rec.Shard == shardName(1) || rec.Arrival.After(r.asked)
		},
	},
}

func timestampKind(data string) *seekKind {
	at := func(r *seekRun) time.Time { return r.record(data).Arrival }
	return &seekKind{
		to: func(r *seekRun) *messages.Position {
			return &messages.Position{At: &messages.Position_Timestamp{Timestamp: &messages.Timestamp{UnixMillis: at(r).UnixMilli()}}}
		},
		iterators: []string{"AT_TIMESTAMP"},
		start:     func(r *seekRun) leasestore.Checkpoint { return leasestore.AtTimestamp(at(r)) },
		inRange:   func(r *seekRun, rec kinesistest.Record) bool { return !rec.Arrival.Before(at(r)) },
	}
}

func (r *seekRun) state() leasestore.StreamState {
	r.t.Helper()
	all, err := r.store.Streams(r.t.Context())
	require.NoError(r.t, err)
	require.Len(r.t, all, 1)
	return all[0]
}
