//go:build !unix

package main

import (
	"context"
	"os/exec"
)

// ownGroup does nothing here: there are no process groups.
func ownGroup(*exec.Cmd) {}

// dieTogether does nothing here.
func (*processGroups) dieTogether(context.Context) (stop func()) { return func() {} }
