package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

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
	t.Setenv(asProgram, "1")
	server := kinesistest.Start(t) // without the stream, so that it fails
	d := &demo{demoCmd: &demoCmd{}, server: server, ledger: newLedger(1, 1), app: &app{stderr: io.Discard}}
	d.app.LogLevel = "error"
	c, err := newConsumerProcess(d)
	require.NoError(t, err)
	defer func() { _ = c.close() }()
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

// However a demo ends, its consumer does not outlive it, nor does what it keeps in a file.
func TestConsumerProcessEndsWithItsDemo(t *testing.T) {
	for name, end := range map[string]func(p *process) int{
		"killed":      func(p *process) int { return p.end(syscall.SIGKILL) },
		"hung up":     func(p *process) int { return p.end(syscall.SIGHUP) },
		"interrupted": func(p *process) int { return p.end(os.Interrupt) },
		"ended":       func(p *process) int { return p.insist(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			t.Setenv("TMPDIR", folder)
			lives, tether, err := os.Pipe() // the tether is inherited by both
			require.NoError(t, err)
			defer func() { _ = lives.Close() }()
			p := startProgram(t, tether, "demo", "--chaos", "--log-level", "error", "--records", "1000000", "--rate", "100")
			require.NoError(t, tether.Close())
			require.Eventually(t, func() bool { return acked.MatchString(p.stderr.String()) }, patience, time.Millisecond)
			code := end(p)
			require.NoError(t, lives.SetReadDeadline(time.Now().Add(patience)))
			_, err = lives.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF, "the consumer goes on")
			left, err := os.ReadDir(folder)
			require.NoError(t, err)
			require.Empty(t, left)
			if name == "interrupted" {
				require.Equal(t, exitDone, code, p.stderr)
				require.Contains(t, strings.Join(p.rest(), "\n"), "\n0 lost, ")
			} else {
				require.Equal(t, -1, code)
			}
		})
	}
}

// acked is progress of a demo whose consumer is at work.
var acked = regexp.MustCompile(`published, [1-9]\d* acked`)

// Only a kill is a kill.
func TestWasKilled(t *testing.T) {
	for command, want := range map[string]bool{"exit 0": false, "exit 1": false, "kill -TERM $$": false, "kill -KILL $$": true} {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
		_ = cmd.Run() // the state says it
		require.Equal(t, want, wasKilled(cmd.ProcessState), command)
	}
}
