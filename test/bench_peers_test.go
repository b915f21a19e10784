package test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	peerStream  = "peers"
	peerShards  = 8
	peerEach    = 25_000 // records of a shard
	peerRecords = peerShards * peerEach
	peerRounds  = 5
	peerTimeout = 2 * time.Minute
)

// contestant is a program of the folder peers, with its settings.
type contestant struct {
	name, program string
	args          []string
}

// BenchmarkPeers runs this library and other Go consumers in turn, each in a process of its own, over the same stream of the embedded service in another
// one: 8 shards × 25,000 records of 512 bytes, checkpoints in memory, from before the consumer is started to its last record. The service
// has no limits. The others are github.com/harlow/kinesis-consumer v0.3.5 and github.com/vmware/vmware-go-kcl-v2 v1.0.0; what they are
// given, and why, is said in their programs. Run it with
//
//	go test ./test -run '^$' -bench 'Peers$' -benchtime 1x
//
// Medians of 5 on two cores, November 2026, go 1.26.8; x is our rate over the other's (above 1 is faster), x-cpu our processor time over its (below 1 is
// less):
//
//	Fastest      records/s   µs of CPU per record   x      x-cpu
//	ours         558,000      2.6
//	harlow       107,000     17.8                   5.2    0.15
//	vmware       186,000      9.4                   3.1    0.27
//
//	Defaults     records/s   µs of CPU per record   x      x-cpu
//	ours         182,000      5.3
//	ours-wide    473,000      3.5                   0.40   1.45
//	harlow        90,000     21.3                   2.0    0.27
//	vmware        30,500     12.1                   6.2    0.43
//
// Fastest is everyone with the fastest settings that its API has: ours without read pacing, in batches of 500, harlow with a scan interval that it never
// waits for, vmware with a new shard every 30 ms. All but a few percent of harlow's time is in the decoder of the SDK's version 1.
//
// Defaults is everyone as it comes, which the pace decides as much as the work. Ours makes five reads per second and shard, of a window of 1,000
// records or, where these calls are the bound, of up to ten windows, and delivers the records one by one. Ours-wide differs by a window of
// 10,000, and batches of 500. Harlow makes four reads per second and shard, of 10,000 records. Vmware makes five of 10,000, and stays below
// 2 MB per second and shard after the first 10 MB, which this stream ends too early to show. It takes one shard at each of its syncs, of which
// there is one per minute by default: the same stream then takes it 456 s (439 records/s, one run), so here it is given one per second.
func BenchmarkPeers(b *testing.B) {
	if testing.Short() {
		b.Skip("it takes minutes")
	}
	programs := buildPeers(b)
	url := serveApart(b)
	fillApart(b, url, apartStream{peerStream, peerShards, peerEach, benchSize})
	b.Run("Fastest", func(b *testing.B) {
		benchPeers(b, programs, url, []contestant{{"ours", "ours", nil}, {"harlow", "harlow", nil}, {"vmware", "vmware", nil}})
	})
	b.Run("Defaults", func(b *testing.B) {
		defaults := []string{"-defaults"}
		benchPeers(b, programs, url, []contestant{
			{"ours", "ours", defaults},
			{"ours-wide", "ours", []string{"-defaults", "-window", "10000", "-batch", "500"}},
			{"harlow", "harlow", defaults},
			{"vmware", "vmware", defaults},
		})
	})
}

// peerRun is what a program prints.
type peerRun struct {
	Records          int     `json:"records"`
	Distinct         int     `json:"distinct"`
	Damaged          int     `json:"damaged"`
	CPUSeconds       float64 `json:"cpu_seconds"`
	RecordsPerSecond float64 `json:"records_per_second"`
}

// benchPeers reports each one's rate and processor time, and the ratios of the first one's to the others': medians of rounds in which everyone runs once.
func benchPeers(b *testing.B, programs, url string, all []contestant) {
	b.Helper()
	runs := make([][]peerRun, len(all))
	for range b.N {
		for range peerRounds {
			for i, c := range all {
				runs[i] = append(runs[i], runPeer(b, programs, url, c))
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	for i, c := range all {
		var rates, cpu, xRates, xCPU []float64
		for round, run := range runs[i] {
			first := runs[0][round]
			rates, cpu = append(rates, run.RecordsPerSecond), append(cpu, 1e6*run.CPUSeconds/float64(run.Records))
			xRates, xCPU = append(xRates, first.RecordsPerSecond/run.RecordsPerSecond), append(xCPU, first.CPUSeconds/run.CPUSeconds)
		}
		b.ReportMetric(median(rates), c.name+"-records/s")
		b.ReportMetric(median(cpu), c.name+"-µs-cpu/record")
		if i > 0 {
			b.ReportMetric(median(xRates), "x-"+c.name)
			b.ReportMetric(median(xCPU), "x-"+c.name+"-cpu")
		}
	}
}

// runPeer runs a program once. One that loses, repeats or damages records fails the benchmark.
func runPeer(b *testing.B, programs, url string, c contestant) peerRun {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), peerTimeout)
	defer cancel()
	args := append([]string{
		"-endpoint", url, "-stream", peerStream, "-records", strconv.Itoa(peerRecords), "-size", strconv.Itoa(benchSize),
	}, c.args...)
	cmd := exec.CommandContext(ctx, filepath.Join(programs, c.program), args...)
	// Nobody's settings but the program's.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "AWS_") })
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(b, err, "%s: %s", c.name, &stderr)
	var run peerRun
	require.NoError(b, json.Unmarshal(out, &run), "%s: %s", c.name, out)
	require.Equal(b, peerRecords, run.Distinct, "%s lost records", c.name)
	require.Equal(b, peerRecords, run.Records, "%s repeated records, or gave them out of order", c.name)
	require.Zero(b, run.Damaged, "%s damaged records", c.name)
	return run
}

// buildPeers builds the programs. Their module has what ours requires too, so it is built with a copy of its go.mod, which then follows ours.
func buildPeers(b *testing.B) (folder string) {
	b.Helper()
	folder = b.TempDir()
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join("peers", name))
		require.NoError(b, err)
		require.NoError(b, os.WriteFile(filepath.Join(folder, name), text, 0o600)) //nolint:gosec // a folder of the benchmark's
	}
	download := exec.CommandContext(b.Context(), "go", "mod", "download", "-C", "peers", "-modfile="+filepath.Join(folder, "go.mod"))
	if out, err := download.CombinedOutput(); err != nil {
		b.Skipf("the other consumers can't be downloaded: %v\n%s", err, out)
	}
	build := exec.CommandContext(b.Context(), "go", "build", "-C", "peers", "-mod=mod", "-modfile="+filepath.Join(folder, "go.mod"),
		"-o", folder+string(filepath.Separator), "./ours", "./harlow", "./vmware")
	out, err := build.CombinedOutput()
	require.NoError(b, err, "%s", out)
	return folder
}
