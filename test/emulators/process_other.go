//go:build !unix

package emulators

import "os/exec"

func setProcessGroup(*exec.Cmd) {}

func killProcessGroup(command *exec.Cmd) { _ = command.Process.Kill() }
