package test

import (
	"bufio"
	"context"
	"io"
	"math/big"
	"os/exec"
	"path/filepath"
	"runtime"
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

// serveApart starts the embedded service in a process of its own, which ends with its standard input.
func serveApart(b *testing.B) (url string) {
	b.Helper()
	program := filepath.Join(b.TempDir(), "protokinesis")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	out, err := exec.CommandContext(b.Context(), "go", "build", "-o", program, "../cmd/protokinesis").CombinedOutput()
	require.NoError(b, err, "%s", out)
	// Not by the benchmark's context: that ends before the clean-up does.
	cmd := exec.CommandContext(context.WithoutCancel(b.Context()), program, "serve", "--listen", "127.0.0.1:0", "--end-with-stdin")
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

// apartStream is a stream of a service in another process, with as many records of a size in each shard.
type apartStream struct {
	name               string
	shards, each, size int
}

func (s apartStream) records() int { return s.shards * s.each }

// fillApart makes the stream.
func fillApart(b *testing.B, url string, s apartStream) {
	b.Helper()
	ctx := b.Context()
	client := kinesis.New(kinesis.Options{
		Region: "us-east-1", BaseEndpoint: &url, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	_, err := client.CreateStream(ctx, &kinesis.CreateStreamInput{StreamName: aws.String(s.name), ShardCount: aws.Int32(int32(s.shards))}) //nolint:gosec // a few
	require.NoError(b, err)
	require.NoError(b, kinesis.NewStreamExistsWaiter(client).Wait(ctx, &kinesis.DescribeStreamInput{StreamName: aws.String(s.name)}, time.Minute))

	sys := protokinesis.New(probe.NewSystem(b), protokinesis.WithEndpoint(url), protokinesis.WithTestCredentials())
	require.NoError(b, sys.Connect(ctx))
	publisher := sys.Publisher(protokinesis.RelaxedOrder())
	data := make([]byte, s.size)
	step := max(1, min(fillEach, fillBytes/s.shards/s.size))
	for sent := 0; sent < s.each; sent += step {
		records := make([]protokinesis.Record, 0, s.shards*step)
		for i := range s.shards * min(step, s.each-sent) {
			records = append(records, protokinesis.Record{
				Stream: s.name, PartitionKey: benchKeys[i%len(benchKeys)], ExplicitHashKey: hashOfShard(i%s.shards, s.shards), Data: data,
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

// fillEach is how many records of each shard are written at a time, at most fillBytes of all.
const (
	fillEach  = 500
	fillBytes = 16 << 20
)

// hashOfShard is a hash key in the range of one of so many shards, of which all are as wide.
func hashOfShard(shard, of int) string {
	width := new(big.Int).Lsh(big.NewInt(1), 128)
	width.Div(width, big.NewInt(int64(of)))
	return width.Mul(width, big.NewInt(int64(shard))).String()
}
