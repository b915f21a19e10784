package failover_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/protokinesis/protokinesis/test/failover"
)

// published: the shard s has s0 to s5, of the keys x, y, x, y, x, y; record n was sent at second n.
func published() []failover.Record {
	var records []failover.Record
	for i, sequence := range []string{"s0", "s1", "s2", "s3", "s4", "s5"} {
		records = append(records, failover.Record{
			Shard: "s", Sequence: sequence, Key: []string{"x", "y"}[i%2], Number: i / 2, Sent: time.Duration(i) * time.Second,
		})
	}
	return records
}

// at makes an entry one of that second.
func at(second int, e failover.Event) failover.Event {
	e.At = time.Duration(second) * time.Second
	e.Began = e.At
	return e
}

func line(node, sequence string) failover.Event {
	return failover.Event{What: failover.Line, Node: node, Shard: "s", Sequence: sequence}
}

// wrote: a node left the lease with an owner and a checkpoint.
func wrote(node, owner, checkpoint string) failover.Event {
	return failover.Event{What: failover.Write, Node: node, Shard: "s", Row: failover.Row{Owner: owner, Counter: 1, Checkpoint: checkpoint}}
}

func mark(what failover.What) failover.Event {
	return failover.Event{What: what, Node: "a"}
}

func lines(second int, node string, sequences ...string) []failover.Event {
	var events []failover.Event
	for _, s := range sequences {
		events = append(events, at(second, line(node, s)))
	}
	return events
}

func logOf(events ...[]failover.Event) *failover.Log {
	return &failover.Log{TTL: 10 * time.Second, Records: published(), Events: slices.Concat(events...)}
}

func one(second int, e failover.Event) []failover.Event { return []failover.Event{at(second, e)} }

// Each rule passes one log and fails another.
func TestRules(t *testing.T) {
	t.Parallel()
	taken := one(0, wrote("a", "a", "TRIM_HORIZON"))
	cases := []struct {
		name string
		rule string // "": the log is right
		text string
		log  *failover.Log
		late int
		dups int
	}{
		{name: "one node", log: logOf(taken, lines(6, "a", "s0", "s1", "s2", "s3", "s4", "s5"), one(6, wrote("a", "a", "s5")))},
		{name: "a record is lost", rule: failover.RuleLost, text: "s5", log: logOf(taken, lines(6, "a", "s0", "s1", "s2", "s3", "s4"))},
		{name: "a record that is not there", rule: failover.RuleLost, text: "s9", log: logOf(taken, lines(6, "a", "s0", "s1", "s2", "s3", "s4", "s5", "s9"))},
		{name: "out of order", rule: failover.RuleOrder, text: "record 1 of key x", log: logOf(taken, lines(6, "a", "s2", "s0", "s1", "s3", "s4", "s5"))},
		{name: "other keys may overtake", log: logOf(taken, lines(6, "a", "s1", "s0", "s3", "s2", "s4", "s5"))},

		{
			name: "given away in order",
			log: logOf(taken, lines(3, "a", "s0", "s1", "s2"), one(3, wrote("a", "a", "s2")), one(4, wrote("a", "b", "s2")),
				lines(6, "b", "s3", "s4", "s5")),
		},
		{
			name: "given back, then taken", log: logOf(taken, lines(3, "a", "s0", "s1", "s2"), one(3, wrote("a", "", "s2")), one(4, wrote("b", "b", "s2")),
				lines(6, "b", "s3", "s4", "s5")),
		},
		{
			name: "given to one that did not take it up",
			log: logOf(taken, lines(3, "a", "s0", "s1", "s2"), one(3, wrote("a", "a", "s2")), one(4, wrote("a", "b", "s2")), one(5, wrote("a", "", "s2")),
				one(5, wrote("c", "c", "s2")), lines(6, "c", "s3", "s4", "s5")),
		},
		{
			name: "taken back from one that did", rule: failover.RuleFence, text: "node a wrote the lease of s, which node b has",
			log: logOf(taken, lines(3, "a", "s0", "s1", "s2"), one(3, wrote("a", "a", "s2")), one(4, wrote("a", "b", "s2")), one(4, wrote("b", "b", "s2")),
				one(5, wrote("a", "", "s2")), one(5, wrote("c", "c", "s2")), lines(6, "c", "s3", "s4", "s5")),
		},
		{
			name: "given away without the last checkpoint", rule: failover.RuleHandover, text: "2 records beyond it", dups: 2,
			log: logOf(taken, lines(3, "a", "s0", "s1", "s2"), one(4, wrote("a", "b", "s0")), lines(6, "b", "s1", "s2", "s3", "s4", "s5")),
		},
		{
			name: "read on after giving it away", rule: failover.RuleReader, text: "after it had given",
			log: logOf(taken, lines(3, "a", "s0", "s1", "s2"), one(3, wrote("a", "b", "s2")), lines(3, "a", "s3"), lines(6, "b", "s4", "s5")),
		},
		{
			name: "taken too early", rule: failover.RuleFence, text: "took s from node a", dups: 1,
			log: logOf(taken, lines(2, "a", "s0", "s1"), one(2, wrote("a", "a", "s0")), one(11, wrote("b", "b", "s0")),
				lines(12, "b", "s1", "s2", "s3", "s4", "s5")),
		},
		{
			name: "taken after the ttl", dups: 1,
			log: logOf(taken, lines(2, "a", "s0", "s1"), one(2, wrote("a", "a", "s0")), one(12, wrote("b", "b", "s0")),
				lines(12, "b", "s1", "s2", "s3", "s4", "s5")),
		},
		{
			name: "read again from before the checkpoint", rule: failover.RuleDuplicate, text: "below the checkpoint", dups: 2,
			log: logOf(taken, lines(2, "a", "s0", "s1"), one(2, wrote("a", "a", "s0")), one(12, wrote("b", "b", "s0")),
				lines(12, "b", "s0", "s1", "s2", "s3", "s4", "s5")),
		},
		{name: "printed twice", rule: failover.RuleDuplicate, text: "twice", dups: 1, log: logOf(taken, lines(6, "a", "s0", "s1", "s1", "s2", "s3", "s4", "s5"))},

		{
			name: "a zombie ends what it was at", late: 1, dups: 1,
			log: logOf(taken, lines(2, "a", "s0"), one(2, wrote("a", "a", "s0")), one(2, mark(failover.Stopped)), one(12, wrote("b", "b", "s0")),
				lines(12, "b", "s1", "s2", "s3", "s4", "s5"), one(30, mark(failover.Continued)), lines(30, "a", "s1")),
		},
		{
			name: "a zombie reads on", late: 0, dups: 1, rule: failover.RuleReader, text: "which was published at 3s",
			log: logOf(taken, lines(2, "a", "s0"), one(2, wrote("a", "a", "s0")), one(2, mark(failover.Stopped)), one(12, wrote("b", "b", "s0")),
				lines(12, "b", "s1", "s2", "s3", "s4", "s5"), one(30, mark(failover.Continued)), lines(30, "a", "s3")),
		},
		{
			name: "a node that is cut off reads on beyond its ttl", rule: failover.RuleReader, text: "last write of the lease was at -8s",
			log: logOf(one(-9, wrote("a", "a", "TRIM_HORIZON")), one(-8, wrote("a", "a", "")), lines(5, "a", "s0", "s1", "s2", "s3")),
		},
		{
			name: "but not before", log: logOf(one(-5, wrote("a", "a", "TRIM_HORIZON")), lines(5, "a", "s0", "s1", "s2", "s3", "s4", "s5")),
		},
		{
			name: "a zombie writes", rule: failover.RuleFence, text: "wrote the lease of s, which node b has", dups: 1,
			log: logOf(taken, lines(2, "a", "s0", "s1"), one(2, wrote("a", "a", "s0")), one(12, wrote("b", "b", "s0")),
				lines(12, "b", "s1", "s2", "s3", "s4", "s5"), one(13, wrote("a", "b", "s1"))),
		},
		{name: "without a lease", rule: failover.RuleReader, text: "never had", log: logOf(taken, lines(1, "b", "s0"), lines(6, "a", "s1", "s2", "s3", "s4", "s5"))},
		{name: "a checkpoint ahead", rule: failover.RuleCheckpoint, text: "record 1 below it", log: logOf(taken, lines(1, "a", "s0"), one(1, wrote("a", "a", "s1")), lines(6, "a", "s1", "s2", "s3", "s4", "s5"))},
		{
			name: "a checkpoint that goes back", rule: failover.RuleCheckpoint, text: "back from",
			log: logOf(taken, lines(6, "a", "s0", "s1", "s2", "s3", "s4", "s5"), one(6, wrote("a", "a", "s5")), one(6, wrote("a", "a", "s4"))),
		},
		{name: "a checkpoint of nothing", rule: failover.RuleCheckpoint, text: "of no record", log: logOf(taken, lines(6, "a", "s0", "s1", "s2", "s3", "s4", "s5"), one(6, wrote("a", "a", "77")))},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			report := failover.Check(c.log)
			var found []string
			for _, v := range report.Violations {
				found = append(found, v.Rule)
				if v.Rule == c.rule {
					assert.Contains(t, v.Text, c.text)
				}
			}
			if c.rule == "" {
				assert.Empty(t, report.Violations)
			} else {
				assert.Contains(t, found, c.rule, "%v", report.Violations)
			}
			assert.Equal(t, c.late, report.Late, "late")
			assert.Equal(t, c.dups, report.Duplicates, "duplicates")
		})
	}
}
