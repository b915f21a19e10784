package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/test/kinesistest"
)

func TestPublish(t *testing.T) {
	s := newService(t)
	long := strings.Repeat("x", 200_000)
	r := s.run("a\n\n"+long+"\nlast", "publish", "s", "--create-if-missing", "2", "--partition-key", "k")
	require.Equal(t, exitDone, r.code, r.stderr)
	require.Regexp(t, `^4 records published, 0 failed, in \d+\.\d{3} s\n$`, r.stdout)
	var got []string
	for _, record := range s.Records("s") {
		require.Equal(t, "k", record.PartitionKey)
		got = append(got, string(record.Data))
	}
	require.Equal(t, []string{"a", "", long, "last"}, got)
}

func TestPublishKeepsTheOrderOfKeys(t *testing.T) {
	s := newService(t)
	require.NoError(t, s.CreateStream("s", 3))
	var in strings.Builder
	const n, keys = 3000, 50
	for i := range n {
		fmt.Fprintf(&in, `{"k":%d,"n":%d}`+"\n", i%keys, i)
	}
	r := s.run(in.String(), "publish", "s", "--key-field", "k", "--output", "json")
	require.Equal(t, exitDone, r.code, r.stderr)
	var summary publishResult
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &summary))
	require.Equal(t, n, summary.Published)
	last := make(map[string]int)
	for _, record := range s.Records("s") {
		var line struct{ K, N int }
		require.NoError(t, json.Unmarshal(record.Data, &line))
		require.Equal(t, strconv.Itoa(line.K), record.PartitionKey)
		if before, ok := last[record.PartitionKey]; ok {
			require.Greater(t, line.N, before)
		}
		last[record.PartitionKey] = line.N
	}
	require.Len(t, last, keys)
}

func TestPublishNamesFailingLines(t *testing.T) {
	s := newService(t)
	require.NoError(t, s.CreateStream("s", 1))
	in := strings.Join([]string{
		`{"k":"a"}`, `no json`, `{"k":""}`, `{"k":null}`, `{"x":1}`, `{"x":2}`, `{"x":3}`, `{"k":1.50}`,
		`{"k":"` + strings.Repeat("k", 257) + `"}`, `{"k":"a","x":"` + strings.Repeat("x", maxLine) + `"}`, `{"k":"a","last":true}`,
	}, "\n")
	r := s.run(in, "publish", "s", "--key-field", "k")
	require.Equal(t, exitFailed, r.code)
	require.Regexp(t, `^3 records published, 8 failed`, r.stdout)
	for _, want := range []string{
		"line 2: it is not a JSON object", "line 3: its field k is empty", "line 4: its field k is neither a string nor a number",
		"line 5: it has no field k", "lines 6 to 7: it has no field k", "line 9: .*partition_key.*257 characters",
		`line 10: it has 1048592 bytes: a record can have 1048576`, "protokinesis: 8 of 11 lines were not published",
	} {
		assert.True(t, slices.ContainsFunc(splitLines(r.stderr), regexp.MustCompile("^"+want).MatchString), "%s in:\n%s", want, r.stderr)
	}
	keys := make([]string, 0, 3)
	for _, record := range s.Records("s") {
		keys = append(keys, record.PartitionKey)
	}
	require.ElementsMatch(t, []string{"a", "1.50", "a"}, keys) // there is no order between keys
}

func TestPublishStopsWhenItIsHopeless(t *testing.T) {
	s := newService(t)
	read, write := io.Pipe()
	go func() { // an input without end
		for {
			if _, err := io.WriteString(write, "line\n"); err != nil {
				return
			}
		}
	}()
	defer func() { _ = read.Close() }()
	var stdout strings.Builder
	stderr := &buffer{}
	code := run(t.Context(), s.args([]string{"publish", "nowhere"}), read, &stdout, stderr)
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr.String(), "line 1: ")
	require.Less(t, len(splitLines(stderr.String())), 10, stderr.String())
}

// However the requests fail that are under way when it ends, their lines are told of in order, neighbours together.
func TestWhatFailsAtTheEndIsToldTogether(t *testing.T) {
	var told strings.Builder
	f := failures{to: &told}
	f.add(5, "gone")
	f.ending = "gone"
	for _, number := range []uint64{8, 21, 6, 9, 7, 3} {
		f.add(number, "gone")
	}
	f.add(22, "another")
	f.end()
	require.Equal(t, []string{
		"line 5: gone", "line 22: another", "line 3: gone", "line 6: gone", "lines 7 to 9: gone", "line 21: gone",
	}, splitLines(told.String()))
}

func TestPublishInterrupted(t *testing.T) {
	s := newService(t)
	require.NoError(t, s.CreateStream("s", 1))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	fault := s.Fault("PutRecords", kinesistest.Match{}, 1, kinesistest.Error("ProvisionedThroughputExceededException", "slow down"))
	read, write := io.Pipe()
	defer func() { _ = read.Close() }()
	go func() {
		_, _ = io.WriteString(write, "one\n")
		for fault.Count() == 0 { // until the record is on its way, and is to be sent again
			runtime.Gosched()
		}
		cancel()
	}()
	var stdout strings.Builder
	stderr := &buffer{}
	code := run(ctx, s.args([]string{"publish", "s", "--header", "a=b=c"}), read, &stdout, stderr)
	require.Equal(t, exitDone, code, stderr.String())
	require.Contains(t, stdout.String(), "1 records published, 0 failed")
	require.Len(t, s.Records("s"), 1)
}
