package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/test/kinesistest"
)

// The end of standard input ends a consumer of a demo in order, whatever it is at, and its leases go with it.
func TestConsumeEndsWithStdin(t *testing.T) {
	s := newService(t)
	s.fill(2, 100, 10)
	folder := filepath.Join(t.TempDir(), "demo")
	args := s.args(eager("consume", "s", "--from", "horizon", "--output", "raw", "--end-with-stdin",
		"--lease-store", fileScheme+filepath.Join(folder, "leases")))

	for range 5 { // before it has subscribed
		require.NoError(t, os.Mkdir(folder, 0o700))
		r := cliRun(t, "", args...)
		require.Equal(t, exitDone, r.code, r.stderr)
		require.Empty(t, r.stderr)
		require.NoDirExists(t, folder)
	}

	require.NoError(t, os.Mkdir(folder, 0o700))
	stdin, end := io.Pipe()
	stdout := &onWrite{then: func() { _ = end.Close() }}
	var stderr buffer
	code := run(t.Context(), args, stdin, stdout, &stderr)
	require.Equal(t, exitDone, code, stderr.String())
	require.NotEmpty(t, stdout.String())
	require.NoDirExists(t, folder)
}

// A consumer that ends by itself is noticed, before it has printed anything and instead of being killed.
func TestConsumerProcessThatEndsByItself(t *testing.T) {
	c := newTestConsumer(t)
	require.NoError(t, c.start(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.EqualError(t, c.printed(ctx), "the consumer ended by itself: exit status 1")
	require.EqualError(t, c.kill(), "the consumer ended by itself: exit status 1")
	require.NoError(t, c.start(t.Context()))
	<-c.life.ended
	require.ErrorContains(t, c.close(), "the consumer failed: exit status 1")
	require.NoDirExists(t, c.folder)
}

// newTestConsumer is a consumer of a demo without its stream, so that it fails.
func newTestConsumer(t *testing.T) *consumerProcess {
	t.Helper()
	t.Setenv(asProgram, "1")
	d := &demo{demoCmd: &demoCmd{}, server: kinesistest.Start(t), ledger: newLedger(1, 1), app: &app{stderr: io.Discard}}
	d.app.LogLevel = "error"
	c, err := newConsumerProcess(d)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.close() })
	return c
}
