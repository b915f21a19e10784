//go:build unix

package test

import (
	"os"
	"syscall"
)

// stopProcess makes a process stand still, as a long pause does.
func stopProcess(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// continueProcess lets it go on.
func continueProcess(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
