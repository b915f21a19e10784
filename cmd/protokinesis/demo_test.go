package main

import (
	"bufio"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
)

func TestDemoJSON(t *testing.T) {
	for _, shards := range []string{"1", "4"} {
		r := cliRun(t, "", "demo", "--json", "--log-level", "error", "--records", "500", "--rate", "0", "--shards", shards)
		require.Equal(t, exitDone, r.code, r.stderr)
		require.Empty(t, r.stderr)
		require.Len(t, r.lines(), 1)
		var got demoResult
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &got))
		require.Positive(t, got.Seconds)
		got.Seconds = 0
		want := demoResult{Nodes: 1, Published: 500, Delivered: 500, Acked: 500, ShardsStart: 4, ShardsEnd: 4, Splits: 1, Merges: 1}
		if shards == "1" {
			want.ShardsStart, want.ShardsEnd = 1, 1
		}
		require.Equal(t, want, got)
	}
}

func TestDemoChaos(t *testing.T) {
	t.Setenv(asProgram, "1") // for the consumer, which is a process of its own
	r := cliRun(t, "", "demo", "--chaos", "--json", "--seed", "7", "--log-level", "error", "--records", "600", "--rate", "300")
	require.Equal(t, exitDone, r.code, r.stderr)
	require.Len(t, r.lines(), 1)
	var got demoResult
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &got))
	require.Equal(t, 600, got.Published)
	require.Zero(t, got.Lost)
	require.Zero(t, got.OutOfOrder)
	require.Equal(t, got.Delivered, got.Published+got.Duplicates)
	require.NotNil(t, got.Chaos)
	require.EqualValues(t, 7, got.Chaos.Seed)
	require.Equal(t, 2, got.Chaos.Kills)
	require.Positive(t, got.Chaos.Throttles+got.Chaos.InternalErrors+got.Chaos.Resets+got.Chaos.ExpiredIterators)
}

// A consumer that has only just been started when everything has come is ended in order, too.
func TestDemoChaosOfOneRecord(t *testing.T) {
	t.Setenv(asProgram, "1")
	r := cliRun(t, "", "demo", "--chaos", "--json", "--log-level", "error", "--records", "1")
	require.Equal(t, exitDone, r.code, r.stderr)
	var got demoResult
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &got))
	require.Equal(t, 1, got.Published)
	require.Zero(t, got.Lost)
	require.Equal(t, 2, got.Chaos.Kills)
}

func TestLinesThatWereCutShortAreLeftOut(t *testing.T) {
	in := bufio.NewScanner(strings.NewReader("one\ntwo\r\n\nthr"))
	in.Split(wholeLines)
	var lines []string
	for in.Scan() {
		lines = append(lines, in.Text())
	}
	require.NoError(t, in.Err())
	require.Equal(t, []string{"one", "two", ""}, lines)
}

func TestDemoText(t *testing.T) {
	r := cliRun(t, "", "demo", "--records", "200", "--rate", "0")
	require.Equal(t, exitDone, r.code, r.stderr)
	require.Contains(t, r.stdout, "200 delivered, 200 acked\n0 lost, 0 duplicates, 0 out of order\n")
	require.Contains(t, r.stdout, "4 open at the end: 1 split, 1 merge")
	require.Contains(t, r.stderr, "200 of 200 records published, 200 acked")
}

func TestDemoInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout strings.Builder
	stderr := &onWrite{then: cancel} // the first line of progress
	code := run(ctx, []string{"demo", "--records", "1000000", "--rate", "100"}, strings.NewReader(""), &stdout, stderr)
	require.Equal(t, exitDone, code, stderr.String())
	require.Contains(t, stdout.String(), "0 lost")
}

// onWrite does something with each write.
type onWrite struct {
	buffer
	then func()
}

func (w *onWrite) Write(p []byte) (int, error) {
	w.then()
	return w.buffer.Write(p)
}

func TestLedger(t *testing.T) {
	l := newLedger(7, 2)
	check := func(want tally) {
		t.Helper()
		got, _ := l.now()
		require.Equal(t, want, got)
	}
	l.isPublished(0)
	check(tally{published: 1, lost: 1})
	l.isDelivered("key-0", l.payload(0, 2)) // before its receipt
	l.isPublished(0)
	check(tally{published: 2, delivered: 1, first: 1, lost: 1})
	l.isDelivered("key-0", l.payload(0, 1))
	check(tally{published: 2, delivered: 2, first: 2, outOfOrder: 1})
	l.isDelivered("key-0", l.payload(0, 2))
	check(tally{published: 2, delivered: 3, first: 2, outOfOrder: 1})
	for _, wrong := range []string{"", "key-0/3", "key-0/3/0011223344556677", "key-9/1/x", string(l.payload(1, 1))} {
		l.isDelivered("key-0", []byte(wrong))
	}
	check(tally{published: 2, delivered: 8, first: 2, outOfOrder: 1, damaged: 5})
}

func TestFrame(t *testing.T) {
	shards := []*messages.ShardStatus{
		{
			ShardId: "shardId-000000000000", StartingHashKey: "0", EndingHashKey: "170141183460469231731687303715884105727",
			State: messages.ShardState_SHARD_STATE_FINISHED, Checkpoint: "SHARD_END", MillisBehindLatest: -1,
		},
		{
			ShardId:         "shardId-000000000001",
			StartingHashKey: "170141183460469231731687303715884105728", EndingHashKey: "340282366920938463463374607431768211455",
			State: messages.ShardState_SHARD_STATE_READING, Checkpoint: "49680683653316889566105450994762167740387483081924149250",
			MillisBehindLatest: 1500, InFlight: 12,
		},
		{ShardId: "shardId-000000000002", State: messages.ShardState_SHARD_STATE_OUT_OF_SCOPE},
	}
	numbers := tally{published: 50, acked: 25}
	golden(t, "frame", frame(shards, numbers, 100, 100, 24))
	low := frame(shards, numbers, 100, 40, 8)
	require.Contains(t, low, "1 older shards are not shown")
	require.NotContains(t, low, "shardId-000000000000")
	for _, line := range splitLines(low) {
		assert.LessOrEqual(t, len([]rune(line)), 40)
	}
}
