//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package file

import (
	"os"
	"syscall"
)

// abandon gives up a file that bbolt opened, locked and then panicked over. Closing alone would leave it locked: the
// memory map that bbolt leaves behind keeps the open file alive. A file that is closed already is left alone.
func abandon(f *os.File) {
	if conn, err := f.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { _ = syscall.Flock(int(fd), syscall.LOCK_UN) })
	}
	_ = f.Close()
}
