//go:build unix

package emulators

import (
	"os/exec"
	"syscall"
)

// setProcessGroup keeps an interrupt at the terminal from the emulator: it ends when the tests do.
func setProcessGroup(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

func killProcessGroup(command *exec.Cmd) {
	_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
}
