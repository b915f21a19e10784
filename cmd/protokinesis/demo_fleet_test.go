package main

import (
	"context"
	"encoding/json"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
)

// nodesDemo runs a demo with several nodes and checks what must hold however nodes come and go.
func nodesDemo(t *testing.T, args ...string) demoResult {
	t.Helper()
	r := cliRun(t, "", append([]string{"demo", "--json", "--log-level", "error"}, args...)...)
	require.Equal(t, exitDone, r.code, r.stderr)
	require.Empty(t, r.stderr)
	require.Len(t, r.lines(), 1)
	var got demoResult
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &got))
	require.Zero(t, got.Lost)
	require.Zero(t, got.OutOfOrder)
	require.Equal(t, got.Published+got.Duplicates, got.Delivered)
	require.NotNil(t, got.Balanced)
	require.LessOrEqual(t, *got.Balanced, 1)
	require.NotNil(t, got.Moves)
	return got
}

// A node that leaves hands over what it has, and one that joins gets its share: nothing comes twice.
func TestDemoOfSeveralNodes(t *testing.T) {
	t.Parallel()
	got := nodesDemo(t, "--nodes", "3", "--records", "1000", "--rate", "500", "--shards", "6")
	require.Equal(t, 3, got.Nodes)
	require.Equal(t, 1000, got.Published)
	require.Zero(t, got.Duplicates)
	require.NotNil(t, got.Handover)
	require.Nil(t, got.Failover)
	require.Nil(t, got.Unsaved)
	require.GreaterOrEqual(t, *got.Moves, 4, "two shards of the node that left, and two to that which joined")
}

// The shards of a node that was killed are read by the others, and no more comes again than it had handled since its checkpoints.
func TestDemoKill(t *testing.T) {
	t.Parallel()
	got := nodesDemo(t, "--nodes", "3", "--kill", "--records", "1000", "--rate", "500")
	require.NotNil(t, got.Failover)
	require.Nil(t, got.Handover)
	require.NotNil(t, got.Unsaved)
	require.LessOrEqual(t, got.Duplicates, *got.Unsaved)
	require.Positive(t, *got.Moves)
}

// More nodes than shards: one that has nothing may be left out of everything, and nothing depends on it.
func TestDemoOfMoreNodesThanShards(t *testing.T) {
	t.Parallel()
	got := nodesDemo(t, "--nodes", "4", "--shards", "1", "--records", "200", "--rate", "0")
	require.Equal(t, 200, got.Published)
	require.Zero(t, got.Duplicates)
}

func TestDemoOfSeveralNodesTellsWhoReadsWhat(t *testing.T) {
	t.Parallel()
	r := cliRun(t, "", "demo", "--nodes", "2", "--kill", "--records", "400", "--rate", "400", "--shards", "2")
	require.Equal(t, exitDone, r.code, r.stderr)
	require.Regexp(t, `(?m)^node-1: [01]   node-2: [01]$`, r.stderr)
	killed := regexp.MustCompile(`(?m)^(node-[12]) is killed$`).FindStringSubmatch(r.stderr)
	require.NotNil(t, killed, r.stderr)
	other := map[string]string{"node-1": "node-2", "node-2": "node-1"}[killed[1]]
	_, after, _ := strings.Cut(r.stderr, "all that "+killed[1]+" had is read again")
	require.Regexp(t, `(?m)^`+other+`: \d+ \d+$`, after, r.stderr)
	require.Regexp(t, `^2 nodes, one was killed, and its shards were read again after \d\.\d s; \d+ moves, 0 shards between`, r.stdout)
	require.Contains(t, r.stdout, "\n0 lost, ")
}

func TestDemoOfSeveralNodesTellsWhoJoins(t *testing.T) {
	t.Parallel()
	r := cliRun(t, "", "demo", "--nodes", "2", "--records", "400", "--rate", "400", "--shards", "4")
	require.Equal(t, exitDone, r.code, r.stderr)
	left := regexp.MustCompile(`(?m)^(node-[12]) leaves$`).FindStringSubmatch(r.stderr)
	require.NotNil(t, left, r.stderr)
	other := map[string]string{"node-1": "node-2", "node-2": "node-1"}[left[1]]
	_, after, _ := strings.Cut(r.stderr, "another node joins\n")
	require.Regexp(t, `(?m)^`+other+`: \d+ \d+   node-3: \d+ \d+$`, after, r.stderr)
	require.Regexp(t, `^2 nodes, one left, and its shards were read again after \d\.\d s; \d+ moves, 0 shards between`, r.stdout)
	require.Contains(t, r.stdout, "\n0 lost, 0 duplicates, ")
}

// Shares are fair when nodes that live have all open shards, and none has two more than another.
func TestFairShares(t *testing.T) {
	server := kinesistest.Start(t)
	require.NoError(t, server.CreateStream(demoStream, 3))
	f := &fleet{demo: &demo{server: server}, board: newBoard(), live: []*demoNode{{name: "node-1"}, {name: "node-2"}}}
	id := func(n int) string { return server.Shards(demoStream)[n].ID }
	for i, c := range []struct {
		shard  int
		node   string
		fair   bool
		spread int
	}{{0, "node-1", false, 1}, {1, "node-1", false, 2}, {2, "node-3", false, 2}, {2, "node-1", false, 3}, {2, "node-2", true, 1}, {2, "", false, 2}} {
		f.board.wrote(row(id(c.shard), int64(i+1), c.node))
		require.Equal(t, c.fair, f.isFair(), "after write %d", i+1)
		require.Equal(t, c.spread, f.spread(), "after write %d", i+1)
	}
}

func TestDemoOfSeveralNodesInterrupted(t *testing.T) {
	for name, at := range map[string]string{"before anything": "", "when the nodes have shards": "node-1: ", "when one is killed": "is killed"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			interrupted, interrupt := context.WithCancel(ctx)
			defer interrupt()
			var stdout buffer
			stderr := &onText{text: at, then: interrupt}
			args := []string{"demo", "--nodes", "3", "--kill", "--records", "2000", "--rate", "1000"}
			if at == "" {
				interrupt()
			}
			code := run(interrupted, args, strings.NewReader(""), &stdout, stderr)
			require.NoError(t, ctx.Err(), stderr.String())
			require.Equal(t, exitDone, code, stderr.String())
			if at != "" {
				require.Contains(t, stdout.String(), "\n0 lost, ")
			}
		})
	}
}

// onText does something when a text is written.
type onText struct {
	buffer
	text string
	then func()
}

func (w *onText) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.text) {
		w.then()
	}
	return w.buffer.Write(p)
}

// From the moment a node is killed nothing of it reaches the service, the lease store or the ledger, though it is still there.
func TestKilledNodeOfADemoIsCutOff(t *testing.T) {
	server := kinesistest.Start(t)
	require.NoError(t, server.CreateStream(demoStream, 1))
	d := &demo{demoCmd: &demoCmd{JSON: true}, server: server, ledger: newLedger(1, 1), app: &app{ctx: t.Context(), stderr: io.Discard}}
	f := &fleet{demo: d, store: leasestore.NewMemory(), board: newBoard()}
	n, err := f.newDemoNode(t.Context(), "node-1")
	require.NoError(t, err)
	record := &messages.Delivery{ShardId: "shardId-000000000000", SequenceNumber: "1", PartitionKey: keyName(0), Data: d.ledger.payload(0, 1)}
	require.NoError(t, n.handle(t.Context(), []*messages.Delivery{record}, 1))

	had, unsaved := n.kill()
	require.Len(t, had, 1)
	require.Equal(t, 1, unsaved, "its lease does not tell of it")
	_, err = n.consumption.node.Subscribe(t.Context(), protokinesis.Stream("other", protokinesis.CreateIfMissing(1)), protokinesis.Actor(n.consumption.pid))
	require.ErrorIs(t, err, errPulled)
	ended, end := context.WithCancel(t.Context())
	end()
	require.ErrorIs(t, n.handle(ended, []*messages.Delivery{record}, 1), errPulled)
	delivered, _ := d.ledger.now()
	require.Equal(t, 1, delivered.delivered)
	n.bury(t.Context())
	lease, err := f.store.Get(t.Context(), had[0].Key)
	require.NoError(t, err)
	require.Equal(t, had[0], lease, "it is neither renewed nor released")
}
