//go:build unix

package main

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// ownGroup keeps the terminal's Ctrl-C away from the command, so that it can finish its record; cancelled, all of its group is killed.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// wasKilled is whether a process ended as one that was killed does.
func wasKilled(state *os.ProcessState) bool {
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// dieTogether sees to it that the signal after the one that ended ctx, which ends the program at once, ends its commands too: in groups
// of their own they would go on. It stops doing so when stop is called.
func (g *processGroups) dieTogether(ctx context.Context) (stop func()) {
	second := make(chan os.Signal, 1)
	ended := make(chan struct{})
	stopNotify := context.AfterFunc(ctx, func() {
		signal.Notify(second, os.Interrupt, syscall.SIGTERM)
		defer signal.Stop(second)
		select {
		case <-ended:
		case s := <-second:
			g.mu.Lock() // and keep it: no further command starts
			for leader := range g.running {
				_ = syscall.Kill(-leader, syscall.SIGKILL)
			}
			if g.last != nil {
				g.last()
			}
			signal.Reset(s)
			_ = syscall.Kill(os.Getpid(), s.(syscall.Signal)) //nolint:forcetypeassert // what is asked for is of that type
		}
	})
	return func() {
		close(ended)
		stopNotify()
	}
}
