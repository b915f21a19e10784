package main

import (
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/test/kinesistest"
)

// benched is what a benchmark printed as JSON.
func benched(t *testing.T, r result) benchResult {
	t.Helper()
	require.Equal(t, exitDone, r.code, r.stderr)
	var got benchResult
	in := json.NewDecoder(strings.NewReader(r.stdout))
	in.DisallowUnknownFields()
	require.NoError(t, in.Decode(&got))
	require.Zero(t, got.Failed)
	if got.Records > 0 {
		for what, v := range map[string]float64{
			"rate": got.RecordsPerSecond, "MB": got.MBPerSecond, "allocations": got.AllocsPerRecord, "bytes": got.AllocatedPerRecord,
		} {
			require.Positive(t, v, what)
		}
	}
	return got
}

// streams are the names of all streams of the service.
func (s *service) streams() []string {
	s.t.Helper()
	out, err := kinesis.NewFromConfig(s.Config()).ListStreams(s.t.Context(), &kinesis.ListStreamsInput{})
	require.NoError(s.t, err)
	return out.StreamNames
}

// Without an endpoint the service is a process that ends with the benchmark.
func TestBenchOnTheEmbeddedService(t *testing.T) {
	t.Setenv(asProgram, "1")
	got := benched(t, cliRun(t, "", "bench", "publish", "--json", "--records", "3000", "--keys", "100"))
	require.Equal(t, "publish", got.Command)
	require.Equal(t, 3000, got.Records)
	require.Equal(t, 512, got.RecordSize)
	require.Positive(t, *got.LatencyP50)
	require.GreaterOrEqual(t, *got.LatencyP99, *got.LatencyP50)
	require.Positive(t, *got.CPUPerMillion)

	got = benched(t, cliRun(t, "", "bench", "consume", "--json", "--records", "3000", "--live", "5", "--poll-interval", "20ms"))
	require.Equal(t, "consume", got.Command)
	require.Equal(t, 3000, got.Records)
	require.Equal(t, 512, got.RecordSize)
	require.Positive(t, *got.LatencyP50)
}

// A comparison has the plain loop beside ours: both did all of it.
func TestBenchCompares(t *testing.T) {
	s := newService(t)
	for _, args := range [][]string{
		{"publish"}, {"consume", "--poll-interval", "20ms"}, {"consume", "--poll-interval", "20ms", "--deliver", "singly"},
	} {
		got := benched(t, s.run("", append(append([]string{"bench"}, args...), "--json", "--records", "700", "--shards", "2", "--compare", "sdk")...))
		require.Equal(t, 700, got.Records)
		require.Positive(t, *got.Ratio)
		require.Positive(t, *got.CPURatio)
		require.Positive(t, *got.SDKRecordsPerSecond)
	}
	alone := benched(t, s.run("", "bench", "publish", "--json", "--records", "10"))
	require.Nil(t, alone.Ratio)
}

// The ratios are medians of pairs, not ratios of medians; the rest is the run in the middle.
func TestComparison(t *testing.T) {
	c := &comparison{}
	for _, pair := range [][2]float64{{100, 300}, {400, 400}, {100, 200}} {
		c.bare = append(c.bare, &benchResult{RecordsPerSecond: pair[0]})
		c.ours = append(c.ours, &benchResult{RecordsPerSecond: pair[1]})
	}
	r := c.result()
	require.InDelta(t, 2, *r.Ratio, 0)
	require.InDelta(t, 100, *r.SDKRecordsPerSecond, 0)
	require.InDelta(t, 300, r.RecordsPerSecond, 0)
	require.Nil(t, r.CPURatio)
}

func TestBenchAsTable(t *testing.T) {
	s := newService(t)
	r := s.run("", "bench", "publish", "--records", "500")
	require.Equal(t, exitDone, r.code, r.stderr)
	require.Regexp(t, `^publish: 500 records of 512 bytes in \d+\.\d{3} s, 0 failed, 0 possible duplicates\n`, r.stdout)
	for _, figure := range []string{"records/s", "MB/s", "latency p50", "latency p99", "CPU s per million records", "allocations per record"} {
		require.Contains(t, r.stdout, figure)
	}
}

// The stream that is made has what was asked for in it, and is deleted at the end.
func TestBenchMakesAStream(t *testing.T) {
	s := newService(t)
	made := s.Fault("DeleteStream", kinesistest.Match{}, -1, kinesistest.Error("LimitExceededException", "not now"))
	r := s.run("", "bench", "publish", "--json", "--records", "800", "--keys", "8", "--record-size", "33", "--shards", "3")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "can't be deleted")
	made.Clear()
	names := s.streams()
	require.Len(t, names, 1)
	require.Len(t, s.Shards(names[0]), 3)
	keys := make(map[string]int)
	for _, record := range s.Records(names[0]) {
		require.Len(t, record.Data, 33)
		keys[record.PartitionKey]++
	}
	require.Len(t, keys, 8)
	keys[benchKey(0)]-- // one is not measured
	for key, n := range keys {
		require.Equal(t, 100, n, key)
	}
	benched(t, s.run("", "bench", "publish", "--json", "--records", "10"))
	benched(t, s.run("", "bench", "consume", "--json", "--records", "10", "--live", "0"))
	require.Equal(t, names, s.streams())
}

func TestBenchPublishAggregated(t *testing.T) {
	s := newService(t)
	require.NoError(t, s.CreateStream("s", 2))
	got := benched(t, s.run("", "bench", "publish", "--stream", "s", "--json", "--records", "2000", "--aggregate", "--linger", "5ms", "--outstanding", "500"))
	require.Equal(t, 2000, got.Records)
	require.Less(t, len(s.Records("s")), 1000)
}

// A service that refuses records makes the exit code 1, and what was stored is counted.
func TestBenchPublishThatFails(t *testing.T) {
	s := newService(t)
	require.NoError(t, s.CreateStream("s", 1))
	s.Fault("PutRecords", kinesistest.Match{PartitionKey: benchKey(999)}, -1, kinesistest.Error("AccessDeniedException", "no"))
	r := s.run("", "bench", "publish", "--stream", "s", "--json", "--records", "1000", "--outstanding", "100")
	require.Equal(t, exitFailed, r.code)
	require.Regexp(t, `\d+ of 1000 records were not published`, r.stderr)
	var got benchResult
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &got))
	require.Positive(t, got.Failed)
	require.Equal(t, 1000, got.Records+got.Failed)
	require.Len(t, s.Records("s"), got.Records+1, "one is not measured")
}

func TestBenchConsumeDelivers(t *testing.T) {
	for _, how := range []string{"batches", "singly", "handler"} {
		s := newService(t)
		got := benched(t, s.run("", "bench", "consume", "--json", "--records", "2500", "--deliver", how, "--live", "3", "--poll-interval", "20ms"))
		require.Equal(t, 2500, got.Records, how)
		require.Positive(t, *got.LatencyP50, how)
	}
	s := newService(t)
	got := benched(t, s.run("", "bench", "consume", "--json", "--records", "2500", "--aggregate", "--live", "0"))
	require.Equal(t, 2500, got.Records)
	require.Nil(t, got.LatencyP50)
}

// A stream that is named is read, and nothing is written to it.
func TestBenchConsumeOfANamedStream(t *testing.T) {
	s := newService(t)
	s.fill(2, 150, 10)
	got := benched(t, s.run("", "bench", "consume", "--json", "--stream", "s", "--poll-interval", "20ms"))
	require.Equal(t, 150, got.Records)
	require.Equal(t, 2, got.RecordSize, "on average")
	require.Nil(t, got.LatencyP50)
	got = benched(t, s.run("", "bench", "consume", "--json", "--stream", "s", "--records", "50", "--poll-interval", "20ms"))
	require.GreaterOrEqual(t, got.Records, 50)
	require.Len(t, s.Records("s"), 150)

	require.NoError(t, s.CreateStream("empty", 1))
	got = benched(t, s.run("", "bench", "consume", "--json", "--stream", "empty", "--poll-interval", "20ms"))
	require.Zero(t, got.Records)
	r := s.run("", "bench", "consume", "--stream", "nowhere")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "nowhere")
}

// Interrupted, a benchmark leaves no stream behind.
func TestBenchInterrupted(t *testing.T) {
	for _, command := range []string{"publish", "consume"} {
		s := newService(t)
		begun := s.Fault("PutRecords", kinesistest.Match{}, -1, kinesistest.Hang())
		p := s.start("bench", command, "--records", "100000")
		require.Eventually(t, func() bool { return begun.Count() > 0 }, patience, time.Millisecond)
		begun.Clear()
		require.Equal(t, exitFailed, p.end(os.Interrupt), p.stderr)
		require.Empty(t, s.streams(), command)
	}
}

func TestPart(t *testing.T) {
	for _, c := range [][]int{{10, 4, 3, 3, 2, 2}, {4, 4, 1, 1, 1, 1}, {3, 3, 1, 1, 1}, {1, 1, 1}} {
		for number, want := range c[2:] {
			assert.Equal(t, want, part(c[0], c[1], number), "%v", c)
		}
	}
}

func TestPublishAggregatedAndRelaxed(t *testing.T) {
	s := newService(t)
	require.NoError(t, s.CreateStream("s", 1))
	in := strings.Join(numbers(500), "\n")
	r := s.run(in, "publish", "s", "--partition-key", "k", "--aggregate", "--linger", "20ms")
	require.Equal(t, exitDone, r.code, r.stderr)
	require.Contains(t, r.stdout, "500 records published")
	require.Less(t, len(s.Records("s")), 100)
	got := s.run("", eager("consume", "s", "--from", "horizon", "--output", "raw", "--count", "500")...)
	require.Equal(t, numbers(500), got.lines())

	require.NoError(t, s.CreateStream("relaxed", 1))
	r = s.run(in, "publish", "relaxed", "--partition-key", "k", "--ordering", "relaxed")
	require.Equal(t, exitDone, r.code, r.stderr)
	var stored []int
	for _, record := range s.Records("relaxed") {
		n, err := strconv.Atoi(string(record.Data))
		require.NoError(t, err)
		stored = append(stored, n)
	}
	slices.Sort(stored)
	require.Len(t, slices.Compact(stored), 500)
	require.Less(t, s.CallCount("PutRecords"), 250, "records of one key share requests")
}
