package soak_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/test/soak"
)

// The service of the hand-made logs: shard p with the records p0, p1, p2 and p3, closed at 500 and split into c, with c0 and c1, and d, with d0. p0, p2,
// c0 and c1 are of key x, the others of key y. Record n of the service arrived at 100·n.
func service() ([]soak.Record, []soak.Shard) {
	var records []soak.Record
	for i, r := range []struct{ shard, sequence, key string }{
		{"p", "p0", "x"}, {"p", "p1", "y"}, {"p", "p2", "x"}, {"p", "p3", "y"}, {"c", "c0", "x"}, {"c", "c1", "x"}, {"d", "d0", "y"},
	} {
		records = append(records, soak.Record{Shard: r.shard, Sequence: r.sequence, Key: r.key, Arrival: int64(100 * (i + 1))})
	}
	return records, []soak.Shard{
		{ID: "p", Closed: 450}, {ID: "c", Parents: []string{"p"}}, {ID: "d", Parents: []string{"p"}},
	}
}

// logOf numbers events.
func logOf(events ...[]soak.Event) []soak.Event {
	var all []soak.Event
	for _, some := range events {
		for _, e := range some {
			e.Line = len(all) + 1
			all = append(all, e)
		}
	}
	return all
}

func one(e soak.Event) []soak.Event { return []soak.Event{e} }

func started() []soak.Event { return of("a", soak.Started) }

// of is something that happened to a node.
func of(node string, what soak.What) []soak.Event { return one(soak.Event{What: what, Node: node}) }

// write is a write of a shard's lease by a node.
func write(what soak.What, node, shard string, counter int64, checkpoint string) []soak.Event {
	return one(soak.Event{What: what, Node: node, Owner: node, Shard: shard, Counter: counter, Checkpoint: checkpoint})
}

// give is the fourth write of c, by which node a makes node b its owner.
func give(checkpoint string) []soak.Event {
	return one(soak.Event{What: soak.Give, Node: "a", Owner: "b", Shard: "c", Counter: 4, Checkpoint: checkpoint})
}

// began puts writes at a time of the run, in milliseconds.
func began(millis int64, events []soak.Event) []soak.Event {
	for i := range events {
		events[i].At = millis * 1000
	}
	return events
}

// inSeek makes lease writes those of the first seek.
func inSeek(events []soak.Event) []soak.Event {
	for i := range events {
		events[i].Seek = 1
	}
	return events
}

// fetched is a page of c that node a asked for when the log had so many lines.
func fetched(first, last string, begun int) []soak.Event {
	return one(soak.Event{What: soak.Fetched, Node: "a", Shard: "c", Sequence: first, Last: last, Begun: begun})
}

func delivered(node, record string) []soak.Event {
	return one(soak.Event{What: soak.Delivered, Node: node, Shard: record[:1], Sequence: record, Attempt: 1})
}

func done(node, record string) []soak.Event {
	return one(soak.Event{What: soak.Done, Node: node, Shard: record[:1], Sequence: record, Attempt: 1})
}

// handled are records that a node was given and has done, one after the other.
func handled(node string, records ...string) []soak.Event {
	var out []soak.Event
	for _, r := range records {
		out = append(append(out, delivered(node, r)...), done(node, r)...)
	}
	return out
}

// parent is all that is to be done with p by node a, up to its end.
func parent() []soak.Event {
	return logOf(started(), write(soak.Acquire, "a", "p", 1, "AT_TIMESTAMP@50"), handled("a", "p0", "p1", "p2", "p3"), write(soak.Checkpoint, "a", "p", 2, "SHARD_END"))
}

// children is all that is to be done with c and d by node a.
func children() []soak.Event {
	return logOf(write(soak.Acquire, "a", "c", 1, "TRIM_HORIZON"), write(soak.Acquire, "a", "d", 1, "TRIM_HORIZON"), handled("a", "c0", "c1", "d0"))
}

func seekOf(id, shard, record string) []soak.Event {
	return one(soak.Event{What: soak.Seek, ID: id, Shard: shard, Sequence: record})
}

func sought(id string) []soak.Event { return one(soak.Event{What: soak.Sought, ID: id}) }

// state is a stream-wide position that was stored.
func state(n int64, start string, tip bool) []soak.Event {
	return one(soak.Event{What: soak.State, Seek: n, Checkpoint: start, Tip: tip})
}

func check(events ...[]soak.Event) *soak.Report {
	records, shards := service()
	return soak.Check(records, shards, logOf(events...))
}

// rest is what is to be done with d and with c, or what is left of it, when p is done.
func restOfD() []soak.Event {
	return logOf(write(soak.Acquire, "a", "d", 1, "TRIM_HORIZON"), handled("a", "d0"))
}

// Each rule passes one log and fails another.
func TestRules(t *testing.T) {
	acquireC := write(soak.Acquire, "a", "c", 1, "TRIM_HORIZON")
	cases := []struct {
		name string
		rule string // "": the log is right
		text string // part of what is said
		log  []soak.Event
	}{
		{name: "all in order", log: logOf(parent(), children())},

		{name: "a record is lost", rule: soak.RuleLost, text: "c1 of key x was never handled", log: logOf(parent(), acquireC, handled("a", "c0"), restOfD())},
		{name: "a record that is not there", rule: soak.RuleLost, log: logOf(parent(), children(), handled("a", "c9"))},
		{
			name: "a seek to a time leaves records out",
			log: logOf(started(), seekOf("1", "", ""), state(1, "AT_TIMESTAMP@600", false), inSeek(write(soak.Acquire, "a", "p", 1, "AT_TIMESTAMP@600")),
				inSeek(write(soak.Checkpoint, "a", "p", 2, "SHARD_END")), sought("1"),
				inSeek(write(soak.Acquire, "a", "c", 1, "AT_TIMESTAMP@600")), inSeek(write(soak.Acquire, "a", "d", 1, "AT_TIMESTAMP@600")), handled("a", "c1", "d0")),
		},
		{
			name: "but not those after it", rule: soak.RuleLost, text: "c1",
			log: logOf(started(), seekOf("1", "", ""), state(1, "AT_TIMESTAMP@600", false), sought("1"), inSeek(write(soak.Acquire, "a", "p", 1, "AT_TIMESTAMP@600")),
				inSeek(write(soak.Checkpoint, "a", "p", 2, "SHARD_END")), inSeek(write(soak.Acquire, "a", "d", 1, "AT_TIMESTAMP@600")), handled("a", "d0")),
		},
		{
			name: "a later seek brings them back", rule: soak.RuleLost, text: "p0",
			log: logOf(started(), seekOf("1", "", ""), state(1, "AT_TIMESTAMP@800", false), sought("1"), seekOf("2", "", ""), state(2, "TRIM_HORIZON", false), sought("2")),
		},
		{
			name: "a seek to the tip leaves out what came before its answer",
			log: logOf(started(), seekOf("1", "", ""), state(1, "AT_TIMESTAMP@50", true), sought("1"), one(soak.Event{What: soak.Bound, ID: "1", Millis: 650}),
				inSeek(write(soak.Acquire, "a", "d", 1, "AT_TIMESTAMP@50")), handled("a", "d0")),
		},
		{
			name: "but not what came after", rule: soak.RuleLost, text: "c1",
			log: logOf(started(), seekOf("1", "", ""), state(1, "AT_TIMESTAMP@50", true), sought("1"), one(soak.Event{What: soak.Bound, ID: "1", Millis: 550}),
				inSeek(write(soak.Acquire, "a", "d", 1, "AT_TIMESTAMP@50")), handled("a", "d0")),
		},

		{
			name: "order within a shard", rule: soak.RuleOrder, text: "key x: p p2 was delivered before p p0 was done",
			log: logOf(started(), write(soak.Acquire, "a", "p", 1, ""), delivered("a", "p0"), handled("a", "p2"), done("a", "p0"), handled("a", "p1", "p3"),
				write(soak.Checkpoint, "a", "p", 2, "SHARD_END"), children()),
		},
		{
			name: "keys are free of each other",
			log: logOf(started(), write(soak.Acquire, "a", "p", 1, ""), delivered("a", "p0"), handled("a", "p1", "p3"), done("a", "p0"), handled("a", "p2"),
				write(soak.Checkpoint, "a", "p", 2, "SHARD_END"), children()),
		},
		{
			name: "order across a split", rule: soak.RuleOrder, text: "key x: c c0 was delivered before p p2 was done",
			log: logOf(started(), write(soak.Acquire, "a", "p", 1, ""), handled("a", "p0", "p1", "p3"), acquireC, handled("a", "c0", "c1"), handled("a", "p2"),
				write(soak.Checkpoint, "a", "p", 2, "SHARD_END"), restOfD()),
		},
		{
			name: "children begin when the parent's end is stored", rule: soak.RuleLineage, text: "c was delivered before the end of its parent p",
			log: logOf(started(), write(soak.Acquire, "a", "p", 1, ""), handled("a", "p0", "p1", "p2", "p3"), children(), write(soak.Checkpoint, "a", "p", 2, "SHARD_END")),
		},

		{
			name: "twice for nothing", rule: soak.RuleDuplicate, text: "c1 was delivered 2 times by node a, which has begun to read the shard at or before it 1 times",
			log: logOf(parent(), children(), handled("a", "c1")),
		},
		{
			name: "again after a failure",
			log: logOf(parent(), children(), one(soak.Event{What: soak.Failed, Node: "a", Shard: "c", Sequence: "c1", Attempt: 1}),
				one(soak.Event{What: soak.Delivered, Node: "a", Shard: "c", Sequence: "c1", Attempt: 2})),
		},
		{
			name: "again without a failure", rule: soak.RuleDuplicate, text: "attempt 2 of c c1, but the one before it did not fail",
			log: logOf(parent(), children(), one(soak.Event{What: soak.Delivered, Node: "a", Shard: "c", Sequence: "c1", Attempt: 2})),
		},
		{
			name: "again after a kill",
			log: logOf(parent(), children(), write(soak.Checkpoint, "a", "c", 2, "c0"), of("a", soak.Killed), started(),
				write(soak.Acquire, "b", "c", 4, "c0"), handled("b", "c1")),
		},
		{
			name: "below the checkpoint after a kill", rule: soak.RuleDuplicate, text: "c0 was delivered 1 times by node b",
			log: logOf(parent(), children(), write(soak.Checkpoint, "a", "c", 2, "c0"), of("a", soak.Killed), started(),
				write(soak.Acquire, "b", "c", 4, "c0"), handled("b", "c0")),
		},
		{
			name: "again after a seek",
			log:  logOf(parent(), children(), write(soak.Checkpoint, "a", "c", 2, "c1"), seekOf("1", "c", "c1"), write(soak.Move, "a", "c", 3, "<c1"), sought("1"), handled("a", "c1")),
		},
		{
			name: "before the seek's position", rule: soak.RuleDuplicate, text: "c0 was delivered 2 times",
			log: logOf(parent(), children(), write(soak.Checkpoint, "a", "c", 2, "c1"), seekOf("1", "c", "c1"), write(soak.Move, "a", "c", 3, "<c1"), sought("1"), handled("a", "c0")),
		},

		{
			name: "what was in the mailbox is handled after the shard was taken",
			log: logOf(parent(), restOfD(), acquireC, fetched("c0", "c0", 12), write(soak.Acquire, "b", "c", 2, "TRIM_HORIZON"), handled("a", "c0"),
				handled("b", "c0", "c1")),
		},
		{
			name: "two readers", rule: soak.RuleReader, text: "node a delivered c c1, which it asked for",
			log: logOf(parent(), restOfD(), acquireC, fetched("c0", "c0", 12), write(soak.Acquire, "b", "c", 2, "TRIM_HORIZON"), handled("a", "c0"),
				fetched("c1", "c1", 30), handled("a", "c1")),
		},
		{
			name: "a node that has taken the shard back reads it",
			log: logOf(parent(), restOfD(), acquireC, write(soak.Acquire, "b", "c", 2, "TRIM_HORIZON"), write(soak.Acquire, "a", "c", 3, "TRIM_HORIZON"),
				fetched("c0", "c1", 30), handled("a", "c0", "c1")),
		},
		{
			name: "a write without the lease", rule: soak.RuleReader, text: "node a wrote (checkpoint) the lease of c",
			log: logOf(parent(), children(), write(soak.Acquire, "b", "c", 2, "TRIM_HORIZON"), write(soak.Checkpoint, "a", "c", 3, "c0")),
		},

		{
			name: "a checkpoint ahead of what is done", rule: soak.RuleCheckpoint, text: `the checkpoint of c is "c1", and 1 records below it were not done before, the first is c1`,
			log: logOf(parent(), acquireC, handled("a", "c0"), delivered("a", "c1"), write(soak.Checkpoint, "a", "c", 2, "c1"), done("a", "c1"), restOfD()),
		},
		{name: "a checkpoint of what is done", log: logOf(parent(), children(), write(soak.Checkpoint, "a", "c", 2, "c1"))},
		{
			name: "back without a seek", rule: soak.RuleCheckpoint, text: `c went back from "c1" to "c0"`,
			log: logOf(parent(), children(), write(soak.Checkpoint, "a", "c", 2, "c1"), write(soak.Checkpoint, "a", "c", 3, "c0")),
		},
		{
			name: "moved without a seek", rule: soak.RuleCheckpoint, text: `c was moved to "<c1", but there was no such seek`,
			log: logOf(parent(), children(), write(soak.Checkpoint, "a", "c", 2, "c1"), write(soak.Move, "a", "c", 3, "<c1")),
		},
		{
			name: "the counter goes back", rule: soak.RuleCheckpoint, text: "counter",
			log: logOf(parent(), children(), write(soak.Renew, "a", "c", 1, "TRIM_HORIZON")),
		},
		{
			name: "the stream is moved without a seek", rule: soak.RuleCheckpoint, text: "there was no seek",
			log: logOf(parent(), children(), state(1, "TRIM_HORIZON", false)),
		},
		{
			name: "the end before all is done", rule: soak.RuleCheckpoint, text: `the checkpoint of p is "SHARD_END", and 2 records`,
			log: logOf(started(), write(soak.Acquire, "a", "p", 1, ""), handled("a", "p0", "p1"), write(soak.Checkpoint, "a", "p", 2, "SHARD_END"), handled("a", "p2", "p3"), children()),
		},
		{
			name: "the end of an open shard", rule: soak.RuleCheckpoint, text: "SHARD_END of c, which is open",
			log: logOf(parent(), children(), write(soak.Checkpoint, "a", "c", 2, "SHARD_END")),
		},
		{
			name: "a process that was killed before it had stored an end", rule: soak.RuleLineage,
			log: logOf(started(), write(soak.Acquire, "a", "p", 1, ""), handled("a", "p0", "p1", "p2", "p3"), of("a", soak.Killed), started(), children()),
		},
		{
			name: "a process that was killed has no leases", rule: soak.RuleReader, text: "which it does not hold",
			log: logOf(parent(), children(), of("a", soak.Killed), started(), write(soak.Renew, "a", "c", 2, "TRIM_HORIZON")),
		},

		{
			name: "given away in order",
			log: logOf(parent(), restOfD(), acquireC, handled("a", "c0"), write(soak.Offer, "a", "c", 2, "TRIM_HORIZON"), write(soak.Checkpoint, "a", "c", 3, "c0"),
				give("c0"), write(soak.Acquire, "b", "c", 5, "c0"), handled("b", "c1")),
		},
		{
			name: "given to one that did not take it up",
			log: logOf(parent(), restOfD(), began(100, acquireC), handled("a", "c0"), began(200, write(soak.Checkpoint, "a", "c", 3, "c0")), began(200, give("c0")),
				began(300, write(soak.Acquire, "a", "c", 5, "c0")), handled("a", "c1")),
		},
		{
			name: "taken back from one that did", rule: soak.RuleReader, text: "which it does not hold",
			log: logOf(parent(), restOfD(), acquireC, handled("a", "c0"), write(soak.Checkpoint, "a", "c", 3, "c0"), give("c0"),
				write(soak.Acquire, "b", "c", 5, "c0"), write(soak.Release, "a", "c", 6, "c0"), handled("b", "c1")),
		},
		{
			name: "given away without a checkpoint", rule: soak.RuleHandover, text: `with the checkpoint "TRIM_HORIZON", and had done c0`,
			log: logOf(parent(), restOfD(), acquireC, handled("a", "c0"), give("TRIM_HORIZON"), write(soak.Acquire, "b", "c", 5, "TRIM_HORIZON"),
				handled("b", "c0", "c1")),
		},
		{
			name: "given back without a checkpoint", rule: soak.RuleHandover, text: "had done c0 beyond it",
			log: logOf(parent(), restOfD(), acquireC, handled("a", "c0"), write(soak.Release, "a", "c", 4, "TRIM_HORIZON"), write(soak.Acquire, "b", "c", 5, "TRIM_HORIZON"),
				handled("b", "c0", "c1")),
		},
		{
			name: "given away with a record that has failed",
			log: logOf(parent(), restOfD(), acquireC, delivered("a", "c0"), one(soak.Event{What: soak.Failed, Node: "a", Shard: "c", Sequence: "c0", Attempt: 1}),
				give("TRIM_HORIZON"), write(soak.Acquire, "b", "c", 5, "TRIM_HORIZON"), handled("b", "c0", "c1")),
		},
		{
			name: "given away while it is handled", rule: soak.RuleHandover, text: "while 1 of its records were being handled",
			log: logOf(parent(), restOfD(), acquireC, delivered("a", "c0"), give("TRIM_HORIZON"), done("a", "c0"),
				write(soak.Acquire, "b", "c", 5, "TRIM_HORIZON"), handled("b", "c0", "c1")),
		},
		{
			name: "what a seek has voided may still be handled",
			log: logOf(parent(), restOfD(), acquireC, delivered("a", "c0"), seekOf("1", "c", "c0"), write(soak.Move, "a", "c", 2, "<c0"), sought("1"),
				give("<c0"), done("a", "c0"), write(soak.Acquire, "b", "c", 5, "<c0"), handled("b", "c0", "c1")),
		},
		{
			name: "delivered after it was given away", rule: soak.RuleHandover, text: "node a delivered c c0 after it had given the shard away",
			log: logOf(parent(), restOfD(), acquireC, give("TRIM_HORIZON"), handled("a", "c0"), write(soak.Acquire, "b", "c", 5, "TRIM_HORIZON"),
				handled("b", "c0", "c1")),
		},
		{
			name: "a store that was opened anew",
			log:  logOf(parent(), restOfD(), began(100, acquireC), of("", soak.Opened), began(200, write(soak.Acquire, "b", "c", 3, "TRIM_HORIZON")), handled("b", "c0", "c1")),
		},
		{
			name: "taken from one that was silent",
			log:  logOf(parent(), restOfD(), began(100, acquireC), began(1600, write(soak.Acquire, "b", "c", 2, "TRIM_HORIZON")), handled("b", "c0", "c1")),
		},
		{
			name: "taken from one that was not", rule: soak.RuleReader, text: "whose lease had been written 1499000 µs before",
			log: logOf(parent(), restOfD(), began(100, acquireC), began(1599, write(soak.Acquire, "b", "c", 2, "TRIM_HORIZON")), handled("b", "c0", "c1")),
		},

		{name: "a leak", rule: soak.RuleEnd, log: logOf(parent(), children(), one(soak.Event{What: soak.Leak, Text: "x"}))},
		{name: "a crash", rule: soak.RuleEnd, log: logOf(parent(), children(), of("a", soak.Crashed))},
		{name: "the heap", rule: soak.RuleEnd, log: logOf(parent(), children(), one(soak.Event{What: soak.Heap, Bytes: 1 << 30}))},
		{name: "a late Shutdown", rule: soak.RuleEnd, log: logOf(parent(), children(), one(soak.Event{What: soak.Down, Millis: 60_000}))},
		{name: "an unfinished Shutdown, when things are bad", log: logOf(parent(), children(), one(soak.Event{What: soak.Down, Text: "unfinished"}))},
		{
			name: "an unfinished Shutdown in calm", rule: soak.RuleEnd,
			log: logOf(parent(), children(), one(soak.Event{What: soak.Calm}), one(soak.Event{What: soak.Down, Text: "unfinished"})),
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			report := check(c.log)
			if c.rule == "" {
				require.Empty(t, report.Violations)
				return
			}
			require.NotEmpty(t, report.Violations)
			said := fmt.Sprintf("%v", report.Violations)
			rules := map[string]bool{}
			for _, v := range report.Violations {
				rules[v.Rule] = true
			}
			assert.Contains(t, rules, c.rule, said)
			assert.Contains(t, said, c.text)
		})
	}
}

// What comes again is counted by its cause.
func TestCauses(t *testing.T) {
	report := check(parent(), children(),
		write(soak.Acquire, "b", "c", 2, "TRIM_HORIZON"), delivered("b", "c0"), // taken over
		one(soak.Event{What: soak.Failed, Node: "b", Shard: "c", Sequence: "c0", Attempt: 1}),
		one(soak.Event{What: soak.Release, Node: "b", Shard: "c", Counter: 3, Checkpoint: "TRIM_HORIZON"}),
		write(soak.Acquire, "a", "c", 4, "TRIM_HORIZON"), handled("a", "c0"), // given back
		write(soak.Acquire, "a", "c", 5, "TRIM_HORIZON"), handled("a", "c0"),
		seekOf("1", "c", "c0"), write(soak.Move, "a", "c", 6, "<c0"), sought("1"), handled("a", "c0"),
		one(soak.Event{What: soak.Failed, Node: "a", Shard: "c", Sequence: "c0", Attempt: 1}),
		one(soak.Event{What: soak.Delivered, Node: "a", Shard: "c", Sequence: "c0", Attempt: 2}),
		of("a", soak.Killed), started(), write(soak.Acquire, "a", "c", 8, "<c0"), handled("a", "c0"),
		of("a", soak.Ended), started(), write(soak.Acquire, "a", "c", 10, "<c0"), handled("a", "c0"))
	require.Empty(t, report.Violations)
	assert.Equal(t, map[string]int{
		soak.CauseTakeover: 1, soak.CauseHandover: 1, soak.CauseAgain: 1, soak.CauseSeek: 1, soak.CauseRetry: 1, soak.CauseKill: 1, soak.CauseRestart: 1,
	}, report.Duplicates)
	assert.Equal(t, 1, report.Takeovers)
}

func TestMissing(t *testing.T) {
	records, shards := service()
	assert.Equal(t, 7, soak.Missing(records, shards, nil))
	assert.Equal(t, 3, soak.Missing(records, shards, parent()))
	assert.Equal(t, 0, soak.Missing(records, shards, logOf(parent(), children())))
	late := logOf(parent(), seekOf("1", "", ""), state(1, "AT_TIMESTAMP@700", false))
	assert.Equal(t, 1, soak.Missing(records, shards, late), "a seek has left two out")
}
