//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package file

import "os"

// abandon gives up a file that bbolt opened, locked and then panicked over.
func abandon(f *os.File) { _ = f.Close() }
