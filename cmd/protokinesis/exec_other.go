//go:build !unix

package main

import (
	"context"
	"os"
	"os/exec"
)

// ownGroup does nothing here: there are no process groups.
func ownGroup(*exec.Cmd) {}

// wasKilled is whether a process did not end well: one that was killed exits with 1 here.
func wasKilled(state *os.ProcessState) bool { return state.ExitCode() == 1 }

// dieTogether does nothing here.
func (*processGroups) dieTogether(context.Context) (stop func()) { return func() {} }
