//go:build unix

package main

import (
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A consumer that does not end is killed, and the demo says so.
func TestConsumerProcessThatHangs(t *testing.T) {
	c := newTestConsumer(t)
	require.NoError(t, c.start(t.Context()))
	require.NoError(t, c.life.cmd.Process.Signal(syscall.SIGSTOP))
	c.patience = time.Millisecond
	require.EqualError(t, c.close(), "the consumer failed: it did not end within 1ms, and was killed")
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
			if name == "hung up" && signal.Ignored(syscall.SIGHUP) {
				t.Skip("SIGHUP is ignored here, as under nohup, and so it is by programs that are started")
			}
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
