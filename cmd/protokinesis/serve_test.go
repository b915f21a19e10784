package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read, write := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, []string{"serve", "--listen", "127.0.0.1:0", "--limits"}, strings.NewReader(""), write, os.Stderr)
		_ = write.Close()
	}()
	environment := make(map[string]string)
	scanner := bufio.NewScanner(read)
	for scanner.Scan() {
		if assignment, ok := strings.CutPrefix(scanner.Text(), "export "); ok {
			name, value, _ := strings.Cut(assignment, "=")
			environment[name] = value
		}
		if strings.Contains(scanner.Text(), "AWS_REGION") {
			break
		}
	}
	require.Len(t, environment, 3)
	for name, value := range environment {
		t.Setenv(name, value)
	}
	t.Setenv("AWS_REGION", "us-east-1")
	r := cliRun(t, "one\ntwo\n", "publish", "s", "--create-if-missing", "1")
	require.Equal(t, exitDone, r.code, r.stderr)
	r = cliRun(t, "", "consume", "s", "--from", "horizon", "--count", "2", "--output", "raw")
	require.Equal(t, exitDone, r.code, r.stderr)
	require.ElementsMatch(t, []string{"one", "two"}, r.lines())

	taken := strings.TrimPrefix(environment["AWS_ENDPOINT_URL_KINESIS"], "http://")
	r = cliRun(t, "", "serve", "--listen", taken)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "--listen")

	cancel()
	require.Equal(t, exitDone, <-code)
}
