package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore/file"
	"github.com/protokinesis/protokinesis/test/kinesistest"
)

// newStore is a --lease-store in a file that does not exist yet.
func newStore(t *testing.T) string {
	t.Helper()
	return fileScheme + filepath.Join(t.TempDir(), "leases.db")
}

// eager reads without the pauses that the real service wants.
func eager(args ...string) []string {
	return append(args, "--poll-interval", "10ms", "--read-rate", "off")
}

func TestConsumeForms(t *testing.T) {
	s := newService(t)
	require.NoError(t, s.CreateStream("s", 1))
	for _, data := range []string{"plain <&> text", "two\nlines", "\xff\xfe", ""} {
		_, _, err := s.Put("s", "a key", []byte(data))
		require.NoError(t, err)
	}
	published := s.run("with headers", "publish", "s", "--partition-key", "k", "--header", "h=1", "--header", "e=")
	require.Equal(t, exitDone, published.code, published.stderr)
	records := s.Records("s")

	r := s.run("", "consume", "s", "--from", "horizon", "--count", "5", "--output", "json")
	require.Equal(t, exitDone, r.code, r.stderr)
	require.Empty(t, r.stderr)
	require.Len(t, r.lines(), 5)
	var first map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.lines()[0]), &first))
	require.Equal(t, map[string]any{
		"stream": "s", "shard": "shardId-000000000000", "sequence": records[0].SequenceNumber, "sub_sequence": 0.0,
		"partition_key": "a key", "arrival": records[0].Arrival.UTC().Format("2006-01-02T15:04:05.000Z"), "attempt": 1.0,
		"headers": map[string]any{}, "data": "plain <&> text", "encoding": "utf8",
	}, first)
	require.Contains(t, r.lines()[0], `"plain <&> text"`)
	require.Contains(t, r.lines()[1], `"data":"two\nlines","encoding":"utf8"`)
	require.Contains(t, r.lines()[2], `"data":"//4=","encoding":"base64"`)
	require.Contains(t, r.lines()[3], `"data":"","encoding":"utf8"`)
	require.Contains(t, r.lines()[4], `"headers":{"e":"","h":"1"},"data":"with headers"`)

	r = s.run("", "consume", "s", "--from", "horizon", "--count", "5", "--output", "raw")
	require.Equal(t, "plain <&> text\ntwo\nlines\n\xff\xfe\n\nwith headers\n", r.stdout)

	r = s.run("", "consume", "s", "--from", "horizon", "--count", "5")
	require.Len(t, r.lines(), 5)
	for i, want := range []string{`"a key" plain <&> text`, `"a key" "two\nlines"`, `"a key" "\xff\xfe"`, `"a key" `, `k with headers`} {
		require.Equal(t, fmt.Sprintf("%s shardId-000000000000 %s %s",
			records[i].Arrival.UTC().Format("2006-01-02T15:04:05.000Z"), records[i].SequenceNumber, want), r.lines()[i])
	}
}

func TestConsumeFrom(t *testing.T) {
	s := newService(t)
	s.fill(1, 3, 1)
	s.Clock().Advance(time.Hour)
	later := s.Clock().Now()
	s.Clock().Advance(time.Second)
	s.put(4, 6, 1)
	records := s.Records("s")
	for from, want := range map[string]string{
		"horizon":                            "1\n2\n",
		later.UTC().Format(time.RFC3339Nano): "4\n5\n",
		records[1].Shard + "@" + records[1].SequenceNumber: "2\n3\n",
	} {
		r := s.run("", eager("consume", "s", "--from", from, "--count", "2", "--output", "raw")...)
		assert.Equal(t, exitDone, r.code, r.stderr)
		assert.Equal(t, want, r.stdout, from)
	}
	r := s.run("", "consume", "s", "--from", "shardId-000000000009@1")
	require.NotEqual(t, exitDone, r.code)
	require.Contains(t, r.stderr, "shardId-000000000009")
}

func TestConsumeCountGoesOnWhereItEnded(t *testing.T) {
	s := newService(t)
	s.fill(3, 1000, 25)
	for name, how := range map[string][]string{"print": {"--output", "raw"}, "exec": {"--exec", "cat; echo", "--parallel", "4"}} {
		t.Run(name, func(t *testing.T) {
			store := newStore(t)
			counts := []int{1, 7, 500, 492}
			if name == "exec" {
				counts = []int{1, 7, 50}
			}
			var all []string
			from := []string{"--from", "horizon"}
			for _, n := range counts {
				args := append(eager("consume", "s", "--lease-store", store, "--count", strconv.Itoa(n)), how...)
				r := s.run("", append(args, from...)...)
				require.Equal(t, exitDone, r.code, r.stderr)
				require.Len(t, r.lines(), n)
				all = append(all, r.lines()...)
				from = nil
			}
			requirePrefixes(t, s, all)
		})
	}
}

// requirePrefixes checks that the data are, of each shard, all records up to some record, each once.
func requirePrefixes(t *testing.T, s *service, data []string) {
	t.Helper()
	missing := make(map[string]bool)
	got := make(map[string]bool, len(data))
	for _, d := range data {
		require.False(t, got[d], "%s came twice", d)
		got[d] = true
	}
	for _, record := range s.Records("s") {
		d := string(record.Data)
		if !got[d] {
			missing[record.Shard] = true
			continue
		}
		require.False(t, missing[record.Shard], "%s came, but one before it in %s did not", d, record.Shard)
		delete(got, d)
	}
	require.Empty(t, got, "never published")
}

func TestConsumeFor(t *testing.T) {
	s := newService(t)
	s.fill(1, 3, 1)
	r := s.run("", "consume", "s", "--from", "horizon", "--for", "300ms", "--output", "raw")
	require.Equal(t, exitDone, r.code, r.stderr)
	require.Equal(t, "1\n2\n3\n", r.stdout)
}

func TestConsumeInterruptedWhileOpening(t *testing.T) {
	s := newService(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code := run(ctx, s.args([]string{"consume", "nowhere"}), strings.NewReader(""), io.Discard, io.Discard)
	require.Equal(t, exitDone, code)
}

func TestConsumeSurvivesReshard(t *testing.T) {
	s := newService(t)
	s.fill(1, 100, 10)
	_, err := s.Client().SplitShard(t.Context(), &kinesis.SplitShardInput{
		StreamName: aws.String("s"), ShardToSplit: aws.String("shardId-000000000000"),
		NewStartingHashKey: aws.String("170141183460469231731687303715884105728"),
	})
	require.NoError(t, err)
	s.put(101, 200, 10)
	store := newStore(t)
	r := s.run("", eager("consume", "s", "--from", "horizon", "--lease-store", store, "--count", "150", "--output", "raw")...)
	require.Equal(t, exitDone, r.code, r.stderr)
	all := r.lines()
	r = s.run("", eager("consume", "s", "--lease-store", store, "--count", "50", "--output", "raw")...)
	require.Equal(t, exitDone, r.code, r.stderr)
	require.ElementsMatch(t, numbers(200), append(all, r.lines()...))
}

func TestConsumeEndsWithItsStream(t *testing.T) {
	s := newService(t)
	s.fill(1, 1, 1)
	p := s.start(eager("consume", "s", "--from", "horizon", "--output", "raw", "--list-every", "50ms")...)
	p.readLines(1)
	_, err := s.Client().DeleteStream(t.Context(), &kinesis.DeleteStreamInput{StreamName: aws.String("s")})
	require.NoError(t, err)
	require.Equal(t, exitFailed, p.wait())
	require.Contains(t, p.stderr.String(), `protokinesis: stream: stream "s"`)
}

func TestConsumeLeaseFileTroubles(t *testing.T) {
	s := newService(t)
	s.fill(1, 1, 1)
	path := filepath.Join(t.TempDir(), "leases.db")
	held, err := file.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, held.Close()) }()
	damaged := filepath.Join(t.TempDir(), "damaged.db")
	require.NoError(t, os.WriteFile(damaged, []byte(strings.Repeat("damage", 2000)), 0o600))
	for path, want := range map[string]string{path: "locked", damaged: "corrupt", "/nowhere/leases.db": "create the directory"} {
		for _, args := range [][]string{{"consume", "s"}, {"leases"}} {
			if args[0] == "leases" && path == "/nowhere/leases.db" {
				want = "no such file"
			}
			r := s.run("", append(args, "--lease-store", fileScheme+path)...)
			assert.Equal(t, exitFailed, r.code)
			assert.Contains(t, r.stderr, want)
			assert.Contains(t, r.stderr, path)
			assert.Len(t, splitLines(r.stderr), 1)
		}
	}
}

func TestExec(t *testing.T) {
	s := newService(t)
	require.NoError(t, s.CreateStream("s", 1))
	published := s.run("the data", "publish", "s", "--partition-key", "a key", "--header", "h=1")
	require.Equal(t, exitDone, published.code, published.stderr)
	record := s.Records("s")[0]
	r := s.run("", "consume", "s", "--from", "horizon", "--count", "1", "--exec",
		`cat; echo; echo "$PK_STREAM|$PK_SHARD|$PK_SEQUENCE|$PK_SUB_SEQUENCE|$PK_PARTITION_KEY|$PK_ATTEMPT|$PK_ARRIVAL|$PK_HEADERS"; echo to stderr >&2`)
	require.Equal(t, exitDone, r.code, r.stderr)
	require.Equal(t, []string{
		"the data",
		"s|" + record.Shard + "|" + record.SequenceNumber + "|0|a key|1|" + record.Arrival.UTC().Format(arrivalLayout) + `|{"h":"1"}`,
	}, r.lines())
	require.Equal(t, "to stderr\n", r.stderr)
}

func TestExecRetries(t *testing.T) {
	s := newService(t)
	s.fill(1, 6, 2)
	for _, parallel := range []string{"1", "4"} {
		t.Chdir(t.TempDir())
		r := s.run("", "consume", "s", "--from", "horizon", "--count", "6", "--parallel", parallel, "--exec",
			`n=$(cat); echo "$n $PK_ATTEMPT"; if [ $n = 2 ] && [ $PK_ATTEMPT -lt 3 ]; then exit 1; fi`)
		require.Equal(t, exitDone, r.code, r.stderr)
		want := []string{"1 1", "2 3", "3 1", "4 1", "5 1", "6 1"}
		require.ElementsMatch(t, want, r.lines(), "a failed attempt prints nothing")
		of := func(even int) []string {
			return slices.DeleteFunc(slices.Clone(r.lines()), func(l string) bool { return int(l[0]-'0')%2 != even })
		}
		require.Equal(t, []string{"2 3", "4 1", "6 1"}, of(0), "the order of the key")
		require.Equal(t, []string{"1 1", "3 1", "5 1"}, of(1), "the order of the key")
		if parallel == "1" {
			require.Equal(t, want, r.lines(), "the order of the shard")
		} else {
			require.NotEqual(t, want, r.lines(), "another key does not wait")
		}
		require.Contains(t, r.stderr, "exit status 1")
	}
}

// TestTerminated ends consumers by a signal while they work; the next one goes on with the next record.
func TestTerminated(t *testing.T) {
	s := newService(t)
	s.fill(2, 300, 20)
	for name, how := range map[string][]string{
		"print":    {"--output", "raw", "--window", "5"},
		"exec":     {"--exec", "cat; echo"},
		"parallel": {"--exec", "cat; echo", "--parallel", "3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := newStore(t)
			var all []string
			for run := range 3 {
				args := append(eager("consume", "s", "--lease-store", store), how...)
				if run == 0 {
					args = append(args, "--from", "horizon")
				}
				p := s.start(args...)
				all = append(all, p.readLines(5+run)...)
				require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
				all = append(all, p.rest()...)
				require.Equal(t, exitDone, p.wait(), p.stderr.String())
				if len(all) == 300 {
					break
				}
			}
			requirePrefixes(t, s, all)
		})
	}
}

// TestKilled kills consumers while they work: nothing is missing.
func TestKilled(t *testing.T) {
	s := newService(t)
	s.fill(2, 200, 10)
	store := newStore(t)
	var all []string
	from := []string{"--from", "horizon"}
	for range 3 {
		p := s.start(append(eager("consume", "s", "--lease-store", store, "--exec", "cat; echo"), from...)...)
		all = append(all, p.readLines(20)...)
		require.NoError(t, p.cmd.Process.Kill())
		all = append(all, p.rest()...)
		require.Equal(t, -1, p.wait())
		from = nil
	}
	p := s.start(eager("consume", "s", "--lease-store", store, "--output", "raw")...)
	seen := make(map[string]bool)
	for _, line := range all {
		seen[line] = true
	}
	for len(seen) < 200 {
		seen[p.readLines(1)[0]] = true
	}
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	require.Equal(t, exitDone, p.wait(), p.stderr.String())
	for _, n := range numbers(200) {
		require.True(t, seen[n], n)
	}
}

func TestShutdownTimeout(t *testing.T) {
	s := newService(t)
	s.fill(1, 2, 1)
	store := newStore(t)
	p := s.start(eager("consume", "s", "--from", "horizon", "--lease-store", store, "--shutdown-timeout", "500ms", "--exec",
		`n=$(cat); if [ $n = 2 ]; then echo hangs >&2; sleep 1000; fi; echo $n`)...)
	require.Equal(t, []string{"1"}, p.readLines(1))
	require.Eventually(t, func() bool { return strings.Contains(p.stderr.String(), "hangs") }, patience, time.Millisecond)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, exitFailed, p.wait())
	require.Contains(t, p.stderr.String(), "protokinesis: timeout: ")
	r := s.run("", eager("consume", "s", "--lease-store", store, "--count", "1", "--output", "raw")...)
	require.Equal(t, "2\n", r.stdout)
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	s := newService(t)
	s.fill(1, 1, 1)
	p := s.start(eager("consume", "s", "--from", "horizon", "--log-level", "info", "--exec", `echo hangs >&2; sleep 1000`)...)
	require.Eventually(t, func() bool { return strings.Contains(p.stderr.String(), "hangs") }, patience, time.Millisecond)
	require.Equal(t, -1, p.insist(syscall.SIGTERM))
}

func TestBrokenPipe(t *testing.T) {
	s := newService(t)
	s.fill(1, 100, 1)
	store := newStore(t)
	p := s.start(eager("consume", "s", "--from", "horizon", "--lease-store", store, "--output", "raw", "--window", "1")...)
	got := p.readLines(3)
	require.NoError(t, p.stdout.Close())
	require.Equal(t, exitFailed, p.wait())
	require.Empty(t, p.stderr.String())
	r := s.run("", eager("consume", "s", "--lease-store", store, "--count", "1", "--output", "raw")...)
	require.Equal(t, exitDone, r.code, r.stderr)
	next, err := strconv.Atoi(r.lines()[0])
	require.NoError(t, err)
	require.GreaterOrEqual(t, next, len(got), "what was printed is acked")
	require.Less(t, next, 101)
}

func TestFullOutput(t *testing.T) {
	s := newService(t)
	s.fill(1, 1, 1)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	defer func() { _ = full.Close() }()
	stderr := &buffer{}
	code := run(t.Context(), s.args([]string{"consume", "s", "--from", "horizon"}), strings.NewReader(""), full, stderr)
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr.String(), "no space left on device")
}

func TestConsumeLimits(t *testing.T) {
	server := kinesistest.Start(t, kinesistest.WithLimits())
	s := &service{server, t}
	s.fill(1, 500, 10)
	r := s.run("", "consume", "s", "--from", "horizon", "--count", "500", "--output", "raw", "--window", "200")
	require.Equal(t, exitDone, r.code, r.stderr)
	require.Empty(t, r.stderr, "no read is throttled")
	require.Equal(t, numbers(500), r.lines())
}
