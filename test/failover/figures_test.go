package failover_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/protokinesis/protokinesis/test/failover"
)

// of makes a write, or a line, one of another shard.
func of(shard string, events []failover.Event) []failover.Event {
	for i := range events {
		events[i].Shard = shard
	}
	return events
}

func span(from, to int) failover.Span {
	return failover.Span{From: time.Duration(from) * time.Second, To: time.Duration(to) * time.Second}
}

// given is who has two shards in the course of time: a takes both, gives t to b at 5, and b gives it back at 8, after which a takes it.
func given() *failover.Log {
	return logOf(
		of("s", one(1, wrote("a", "a", ""))), of("t", one(2, wrote("a", "a", ""))), of("t", one(5, wrote("a", "b", ""))),
		of("t", one(8, wrote("b", "", ""))), of("t", one(9, wrote("a", "a", ""))),
	)
}

func TestBalanced(t *testing.T) {
	t.Parallel()
	both := []string{"a", "b"}
	took, ok := given().Balanced(both, 2, span(3, 7))
	assert.True(t, ok)
	assert.Equal(t, 2*time.Second, took)
	_, ok = given().Balanced(both, 2, span(3, 10))
	assert.False(t, ok, "it is not kept to the end")
	took, ok = given().Balanced(both, 2, span(6, 7))
	assert.True(t, ok)
	assert.Zero(t, took, "it was from the beginning")
	_, ok = given().Balanced(both, 3, span(3, 7))
	assert.False(t, ok, "a shard is nobody's")
	_, ok = given().Balanced([]string{"a", "c"}, 2, span(3, 7))
	assert.False(t, ok, "a shard is another's")
	took, ok = given().Balanced([]string{"a"}, 2, span(0, 4))
	assert.True(t, ok)
	assert.Equal(t, 2*time.Second, took)
}

func TestMovesAndTakes(t *testing.T) {
	t.Parallel()
	l := given()
	assert.Len(t, l.Moves(span(0, 10)), 2)
	assert.Equal(t, []failover.Move{{Shard: "t", From: "b", To: "a", At: 9 * time.Second}}, l.Moves(span(6, 10)))
	assert.Equal(t, 3, l.Takes(span(0, 10)))
	assert.Equal(t, 1, l.Takes(span(2, 8)), "what was given was not taken")
	assert.Equal(t, []string{"s"}, l.Held("a", 6*time.Second))
	assert.Equal(t, 5, l.Writes(span(0, 10)))
	back := logOf(of("s", one(1, wrote("a", "a", ""))), of("s", one(2, wrote("a", "", ""))), of("s", one(3, wrote("a", "a", ""))))
	assert.Empty(t, back.Moves(span(0, 10)), "taken back")
}

func TestReadAgain(t *testing.T) {
	t.Parallel()
	l := logOf(of("s", one(1, wrote("a", "a", ""))), of("t", one(1, wrote("a", "a", ""))), of("u", one(1, wrote("b", "b", ""))),
		of("s", lines(2, "b", "s0")), of("s", lines(6, "a", "s1")), of("s", lines(7, "b", "s1")), of("t", lines(9, "b", "t0")))
	took, missing := l.ReadAgain("a", span(5, 20))
	assert.Equal(t, 4*time.Second, took)
	assert.Empty(t, missing)
	_, missing = l.ReadAgain("a", span(5, 8))
	assert.Equal(t, []string{"t"}, missing)
	took, unread := l.AllRead(3, span(5, 20))
	assert.Equal(t, 4*time.Second, took)
	assert.Equal(t, 1, unread)
}

func TestGap(t *testing.T) {
	t.Parallel()
	l := logOf(lines(1, "a", "s0"), lines(4, "b", "s1"), lines(9, "b", "s2"))
	gap, shard := l.Gap(span(0, 10))
	assert.Equal(t, 5*time.Second, gap)
	assert.Equal(t, "s", shard)
	gap, _ = l.Gap(span(0, 20))
	assert.Equal(t, 11*time.Second, gap, "to the end")
	gap, _ = l.Gap(span(5, 9))
	assert.Equal(t, 4*time.Second, gap, "from the beginning")
}

func TestDuplicatesAndWhatMayComeAgain(t *testing.T) {
	t.Parallel()
	l := logOf(one(0, wrote("a", "a", "")), lines(1, "a", "s0", "s1", "s2"), one(2, wrote("a", "a", "s0")), one(12, wrote("b", "b", "s0")), lines(12, "b", "s1", "s2", "s3"))
	assert.Equal(t, 2, l.Duplicates(span(10, 20)))
	assert.Zero(t, l.Duplicates(span(0, 10)))
	assert.Equal(t, 2, l.Unsettled("a", 5*time.Second))
	assert.Equal(t, 3, l.Unsettled("a", time.Second))
	assert.Zero(t, l.Unsettled("b", 5*time.Second))
	assert.Equal(t, 2, l.Missing())
}

func TestSpread(t *testing.T) {
	t.Parallel()
	spread, all := failover.Spread(map[string]string{"s": "a", "t": "a", "u": "b"}, []string{"a", "b", "c"}, 3)
	assert.Equal(t, 2, spread)
	assert.True(t, all)
	_, all = failover.Spread(map[string]string{"s": "a", "t": ""}, []string{"a"}, 2)
	assert.False(t, all)
}
