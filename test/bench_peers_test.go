package test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/test/probe"
)

const (
	peerStream  = "peers"
	peerShards  = 8
	peerEach    = 25_000 // records of a shard
	peerRecords = peerShards * peerEach
	peerRounds  = 5
	peerTimeout = 2 * time.Minute
)

// peers are the other consumers; their programs, and ours, are in the folder of that name.
var peers = []string{"harlow", "vmware"}

// BenchmarkPeers runs this library and other Go consumers in turn, each in a process of its own, over the same stream of the embedded service in another
// one: 8 shards × 25,000 records of 512 bytes, checkpoints in memory, from before the consumer is started to its last record. The service
// has no limits.
func BenchmarkPeers(b *testing.B) {
	if testing.Short() {
		b.Skip("it takes a minute")
	}
	programs := buildPeers(b)
	url := servePeers(b)
	fillForPeers(b, url)
	// Everyone with the fastest settings that its API has.
	b.Run("Fastest", func(b *testing.B) { benchPeers(b, programs, url) })
	// Everyone as it comes, which is paced in different ways.
	b.Run("Defaults", func(b *testing.B) { benchPeers(b, programs, url, "-defaults") })
}

// peerRun is what a program prints.
type peerRun struct {
	Records          int     `json:"records"`
	Distinct         int     `json:"distinct"`
	Damaged          int     `json:"damaged"`
	CPUSeconds       float64 `json:"cpu_seconds"`
	RecordsPerSecond float64 `json:"records_per_second"`
}

// benchPeers reports each one's rate and processor time, and the ratios of ours to theirs: medians of rounds in which everyone runs once.
func benchPeers(b *testing.B, programs, url string, more ...string) {
	var ours []peerRun
	theirs := make(map[string][]peerRun)
	for range b.N {
		for range peerRounds {
			ours = append(ours, runPeer(b, programs, "ours", url, more...))
			for _, peer := range peers {
				theirs[peer] = append(theirs[peer], runPeer(b, programs, peer, url, more...))
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	reportPeer(b, "ours", ours)
	for _, peer := range peers {
		reportPeer(b, peer, theirs[peer])
		var rates, cpu []float64
		for i, their := range theirs[peer] {
			rates = append(rates, ours[i].RecordsPerSecond/their.RecordsPerSecond)
			cpu = append(cpu, ours[i].CPUSeconds/their.CPUSeconds)
		}
		b.ReportMetric(median(rates), "x-"+peer)
		b.ReportMetric(median(cpu), "x-"+peer+"-cpu")
	}
}

func reportPeer(b *testing.B, name string, runs []peerRun) {
	b.Helper()
	var rates, cpu []float64
	for _, run := range runs {
		rates = append(rates, run.RecordsPerSecond)
		cpu = append(cpu, 1e6*run.CPUSeconds/float64(run.Records))
	}
	b.ReportMetric(median(rates), name+"-records/s")
	b.ReportMetric(median(cpu), name+"-cpu-µs/record")
}

// runPeer runs a program once. One that loses, repeats or damages records fails the benchmark.
func runPeer(b *testing.B, programs, name, url string, more ...string) peerRun {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), peerTimeout)
	defer cancel()
	args := append([]string{
		"-endpoint", url, "-stream", peerStream, "-records", strconv.Itoa(peerRecords), "-size", strconv.Itoa(benchSize),
	}, more...)
	cmd := exec.CommandContext(ctx, filepath.Join(programs, name), args...)                                //nolint:gosec // built by this benchmark
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "AWS_") }) // nobody's settings but the program's
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(b, err, "%s: %s", name, &stderr)
	var run peerRun
	require.NoError(b, json.Unmarshal(out, &run), "%s: %s", name, out)
	require.Equal(b, peerRecords, run.Distinct, "%s lost records", name)
	require.Equal(b, peerRecords, run.Records, "%s repeated records, or gave them out of order", name)
	require.Zero(b, run.Damaged, "%s damaged records", name)
	return run
}

// buildPeers builds the programs. Their module has what ours requires too, so it is built with a copy of its go.mod, which then follows ours.
func buildPeers(b *testing.B) (folder string) {
	b.Helper()
	folder = b.TempDir()
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join("peers", name))
		require.NoError(b, err)
		require.NoError(b, os.WriteFile(filepath.Join(folder, name), text, 0o600))
	}
	module := []string{"-C", "peers", "-mod=mod", "-modfile=" + filepath.Join(folder, "go.mod")}
	list := append(append([]string{"list"}, module...), "-deps", "./...")
	if out, err := exec.CommandContext(b.Context(), "go", list...).CombinedOutput(); err != nil { //nolint:gosec // go itself
		b.Skipf("the modules of the other consumers can't be downloaded: %v\n%s", err, out)
	}
	build := append(append([]string{"build"}, module...), "-o", folder+string(filepath.Separator), "./ours", "./harlow", "./vmware")
	out, err := exec.CommandContext(b.Context(), "go", build...).CombinedOutput() //nolint:gosec // go itself
	require.NoError(b, err, "%s", out)
	return folder
}

// servePeers starts the embedded service in a process of its own, which ends with its standard input.
func servePeers(b *testing.B) (url string) {
	b.Helper()
	program := filepath.Join(b.TempDir(), "protokinesis")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	out, err := exec.CommandContext(b.Context(), "go", "build", "-o", program, "../cmd/protokinesis").CombinedOutput() //nolint:gosec // go itself
	require.NoError(b, err, "%s", out)
	//nolint:gosec // what was just built; without the benchmark's context, as that ends before the clean-up
	cmd := exec.Command(program, "serve", "--listen", "127.0.0.1:0", "--end-with-stdin")
	cmd.Stderr = b.Output()
	stdin, err := cmd.StdinPipe()
	require.NoError(b, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		_ = stdin.Close()
		_, _ = io.Copy(io.Discard, stdout)
		require.NoError(b, cmd.Wait())
	})
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), "export AWS_ENDPOINT_URL_KINESIS="); ok {
			return url
		}
	}
	require.FailNow(b, "the service did not start")
	return ""
}

// fillForPeers makes the stream, with as many records in each shard.
func fillForPeers(b *testing.B, url string) {
	b.Helper()
	ctx := b.Context()
	client := kinesis.New(kinesis.Options{
		Region: "us-east-1", BaseEndpoint: &url, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	_, err := client.CreateStream(ctx, &kinesis.CreateStreamInput{StreamName: aws.String(peerStream), ShardCount: aws.Int32(peerShards)})
	require.NoError(b, err)
	require.NoError(b, kinesis.NewStreamExistsWaiter(client).Wait(ctx, &kinesis.DescribeStreamInput{StreamName: aws.String(peerStream)}, time.Minute))

	sys := protokinesis.New(probe.NewSystem(b), protokinesis.WithEndpoint(url), protokinesis.WithTestCredentials())
	require.NoError(b, sys.Connect(ctx))
	publisher := sys.Publisher(protokinesis.RelaxedOrder())
	data := make([]byte, benchSize)
	for range peerEach / benchPage {
		records := make([]protokinesis.Record, 0, peerShards*benchPage)
		for i := range cap(records) {
			records = append(records, protokinesis.Record{
				Stream: peerStream, PartitionKey: benchKeys[i%len(benchKeys)], ExplicitHashKey: hashOfShard(i % peerShards), Data: data,
			})
		}
		results, err := publisher.PublishBatch(ctx, records)
		require.NoError(b, err)
		for _, result := range results {
			require.NoError(b, result.Err)
		}
	}
	require.NoError(b, sys.Shutdown(ctx))
}

// benchPage is how many records of each shard are written at a time.
const benchPage = 500

// hashOfShard is a hash key in the range of a shard, of which all are as wide.
func hashOfShard(shard int) string {
	width := new(big.Int).Lsh(big.NewInt(1), 128)
	width.Div(width, big.NewInt(peerShards))
	return width.Mul(width, big.NewInt(int64(shard))).String()
}
