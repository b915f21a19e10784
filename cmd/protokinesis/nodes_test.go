package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/leasestore/dynamodb"
	"github.com/protokinesis/protokinesis/test/emulators"
)

// tableArgs point to a table of the test's own, which does not exist yet.
func tableArgs(t *testing.T, more ...string) []string {
	t.Helper()
	name := strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	return append([]string{"--lease-store", dynamodbScheme + name, "--dynamodb-endpoint", emulators.Dynalite(t)}, more...)
}

// openTestTable opens the table that the arguments point to.
func openTestTable(t *testing.T, args []string, options ...dynamodb.Option) *dynamodb.Store {
	t.Helper()
	client := sdk.New(sdk.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(emulators.Dynalite(t)), Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	store, err := dynamodb.New(client, strings.TrimPrefix(args[1], dynamodbScheme), options...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	return store
}

// consumerNode is a consume that shares a stream with others.
type consumerNode struct {
	*process
	name string

	mu      sync.Mutex
	records []jsonRecord
	ended   chan struct{} // closed when all it had printed is here
}

func (s *service) startNode(name string, args ...string) *consumerNode {
	s.t.Helper()
	n := &consumerNode{name: name, ended: make(chan struct{})}
	n.process = s.start(eager(append([]string{
		"consume", "s", "--owner", name, "--output", "json", "--log-level", "info", "--lease-ttl", "6s", "--renew-every", "500ms",
	}, args...)...)...)
	go func() {
		defer close(n.ended)
		decoder := json.NewDecoder(n.stdout)
		for {
			var r jsonRecord
			if decoder.Decode(&r) != nil {
				return // the end, or a line that was cut short by a kill
			}
			n.mu.Lock()
			n.records = append(n.records, r)
			n.mu.Unlock()
		}
	}()
	s.t.Cleanup(func() {
		_ = n.cmd.Process.Kill()
		<-n.ended
		if s.t.Failed() {
			s.t.Logf("%s: %s", name, n.stderr)
		}
	})
	return n
}

// printed is what it has printed so far.
func (n *consumerNode) printed() []jsonRecord {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.records)
}

// poll waits until something holds of other processes.
func poll(t *testing.T, holds func() bool, state func() string) {
	t.Helper()
	for late := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		require.True(t, time.Now().Before(late), state())
	}
}

// allPrinted waits until the nodes have printed the records 1 to n, and returns how often each came.
func allPrinted(t *testing.T, n int, nodes ...*consumerNode) map[string]int {
	t.Helper()
	var times map[string]int
	poll(t, func() bool {
		times = make(map[string]int)
		for _, node := range nodes {
			for _, r := range node.printed() {
				times[r.Data]++
			}
		}
		return len(times) == n
	}, func() string { return fmt.Sprintf("%d of %d came", len(times), n) })
	return times
}

// owners waits until the nodes named own all shards of the stream, in shares that differ by no more than one, and nobody else anything.
func (s *service) owners(args []string, names ...string) leaseList {
	s.t.Helper()
	shards := len(s.Shards("s"))
	var list leaseList
	var shares map[string]int
	poll(s.t, func() bool {
		list, _ = s.tryLeases(args...)
		shares = make(map[string]int)
		for _, name := range names {
			shares[name] = 0
		}
		least, most := shards, 0
		for _, row := range list.Leases {
			shares[nodeOf(row.Owner)]++
		}
		for _, share := range shares {
			least, most = min(least, share), max(most, share)
		}
		return len(list.Leases) == shards && len(shares) == len(names) && most-least <= 1
	}, func() string { return fmt.Sprintf("%v", shares) })
	return list
}

// Processes share a stream through a table: one that is told to end hands its shards over, and nothing comes twice; those of one that is killed
// are read by the others.
func TestConsumersShareATable(t *testing.T) {
	for name, how := range map[string][]string{"with hints": {"--remote", "127.0.0.1:0"}, "without": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t)
			require.NoError(t, s.CreateStream("s", 6))
			table := tableArgs(t)
			args := append(slices.Clone(table), how...)
			a, b, c := s.startNode("a", args...), s.startNode("b", args...), s.startNode("c", args...)
			list := s.owners(table, "a", "b", "c")
			require.Len(t, list.Nodes, 3)
			for _, node := range list.Nodes {
				require.Equal(t, how != nil, strings.HasPrefix(node.Address, "127.0.0.1:"), node.Address)
			}
			s.put(1, 300, 30)
			for data, times := range allPrinted(t, 300, a, b, c) {
				require.Equal(t, 1, times, data)
			}

			require.Equal(t, exitDone, a.end(syscall.SIGTERM), a.stderr)
			s.owners(table, "b", "c")
			s.put(301, 600, 30)
			for data, times := range allPrinted(t, 600, a, b, c) {
				require.Equal(t, 1, times, data)
			}
			<-a.ended

			d := s.startNode("d", args...)
			s.owners(table, "b", "c", "d")
			require.Equal(t, -1, b.end(syscall.SIGKILL))
			s.put(601, 900, 30)
			allPrinted(t, 900, a, b, c, d)
			s.owners(table, "c", "d")
			require.Equal(t, exitDone, c.end(syscall.SIGINT), c.stderr)
			require.Equal(t, exitDone, d.end(syscall.SIGINT), d.stderr)
			require.NotContains(t, c.stderr.String(), "connection is closing", "that a node ends in order is no error for others")
			list = s.listLeases(table...)
			require.Len(t, list.Leases, 6)
			for _, row := range list.Leases {
				require.Empty(t, row.Owner, row.Shard)
			}
		})
	}
}

func TestConsumeRemoteTroubles(t *testing.T) {
	s := newService(t)
	s.fill(1, 1, 1)
	taken := strings.TrimPrefix(s.URL(), "http://")
	r := s.run("", append([]string{"consume", "s", "--remote", taken}, tableArgs(t)...)...)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "--remote: can't listen on "+taken)
}

func TestConsumeTableThatMustNotBeCreated(t *testing.T) {
	s := newService(t)
	s.fill(1, 3, 1)
	table := tableArgs(t)
	for _, args := range [][]string{{"consume", "s", "--never-create-table"}, {"leases"}} {
		r := s.run("", append(append(args, "--log-level", "error"), table...)...)
		require.Equal(t, exitFailed, r.code)
		require.Contains(t, r.stderr, strings.TrimPrefix(table[1], dynamodbScheme))
		require.Contains(t, r.stderr, "does not exist")
		require.Len(t, splitLines(r.stderr), 1)
		require.NotContains(t, r.stderr, "RequestID")
	}
	r := s.run("", eager(append([]string{"consume", "s", "--from", "horizon", "--count", "3", "--output", "raw", "--gather", "0s"}, table...)...)...)
	require.Equal(t, exitDone, r.code, r.stderr)
	require.Equal(t, numbers(3), r.lines())
	s.put(4, 5, 1)
	r = s.run("", eager(append([]string{"consume", "s", "--never-create-table", "--count", "2", "--output", "raw", "--gather", "0s"}, table...)...)...)
	require.Equal(t, exitDone, r.code, r.stderr)
	require.Equal(t, []string{"4", "5"}, r.lines())
}

// Applications that share a table do not see each other, and a table of bare shard ids can be listed as well.
func TestLeasesOfATable(t *testing.T) {
	s := newService(t)
	require.NoError(t, s.CreateStream("s", 1))
	require.NoError(t, s.CreateStream("other", 1))
	id, err := identify(t.Context(), s.Client(), "s")
	require.NoError(t, err)
	other, err := identify(t.Context(), s.Client(), "other")
	require.NoError(t, err)
	table := tableArgs(t)
	store := openTestTable(t, table)
	sequence := leasestore.AtSequence("49680683653316889566105450994762167740387483081924149250", 0)
	keep(t, store, id,
		storedLease{shard: "shardId-000000000000", owner: "a-1", next: "b-2", checkpoint: sequence},
		storedLease{shard: "shardId-000000000001", owner: "b-2", checkpoint: leasestore.ShardEnd()})
	keep(t, store, other, storedLease{shard: "shardId-000000000000", owner: "b-2", checkpoint: leasestore.TrimHorizon()})
	for _, m := range []leasestore.Member{
		{ID: "a-1", Leaving: true, Streams: []leasestore.StreamID{id}},
		{ID: "b-2", Address: "10.0.0.7:8090", Broker: "protokinesis", Streams: []leasestore.StreamID{id, other}},
	} {
		_, err := store.Beat(t.Context(), m)
		require.NoError(t, err)
	}

	list := s.listLeases(table...)
	require.Len(t, list.Leases, 3)
	for _, row := range list.Leases {
		require.NotNil(t, row.Age)
		require.Less(t, *row.Age, patience.Seconds())
	}
	require.Equal(t, []nodeRow{
		{ID: "a-1", Leaving: true, Streams: []string{id.Name}}, {ID: "b-2", Address: "10.0.0.7:8090", Streams: []string{id.Name, other.Name}},
	}, list.Nodes)
	one := s.listLeases(append(table, "--stream", "s")...)
	require.Len(t, one.Leases, 2)
	require.Equal(t, "a-1", one.Leases[0].Owner)
	require.Equal(t, "b-2", one.Leases[0].Next)
	require.Equal(t, list.Nodes, one.Nodes)
	require.Empty(t, s.listLeases(append(table, "--application", "x")...).Leases)

	for i := range one.Leases { // what differs between runs
		one.Leases[i].Age = new(1.5)
		one.Leases[i].Lag = new(int64(90_000))
	}
	var text strings.Builder
	require.NoError(t, one.print(&text))
	golden(t, "leases-nodes", text.String())
	r := s.run("", append([]string{"leases", "--lag"}, table...)...)
	require.Equal(t, exitDone, r.code, r.stderr)
	require.Contains(t, r.stdout, "a-1 → b-2")

	single := tableArgs(t, "--single-stream")
	bare := openTestTable(t, single, dynamodb.SingleStream())
	keep(t, bare, id, storedLease{shard: "shardId-000000000000", owner: "a-1", checkpoint: sequence})
	require.Len(t, s.listLeases(append(single, "--stream", "s")...).Leases, 1)
}

// A table that Kinesis is not asked about needs no Kinesis.
func TestLeasesOfAnApplication(t *testing.T) {
	table := tableArgs(t, "--application", "orders")
	store := openTestTable(t, table, dynamodb.Application("orders"))
	keep(t, store, leasestore.StreamID{Name: "s", CreatedMillis: 1000}, storedLease{shard: "shardId-000000000000", owner: "a"})
	args := append([]string{"leases", "--test-credentials", "--endpoint", "http://127.0.0.1:1", "--output", "json"}, table...)
	r := cliRun(t, "", args...)
	require.Equal(t, exitDone, r.code, r.stderr)
	require.Contains(t, r.stdout, fmt.Sprintf(`"shard":%q,"owner":"a"`, "shardId-000000000000"))
}
