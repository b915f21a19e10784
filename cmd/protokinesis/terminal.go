package main

import (
	"io"
	"os"

	"golang.org/x/term"
)

// errorOutput is standard error as programs started here get it: the file itself, if it is one.
func (a *app) errorOutput() io.Writer {
	if f := asFile(a.stderr); f != nil {
		return f
	}
	return a.stderr
}

// asFile is the file behind a writer, or nil.
func asFile(w io.Writer) *os.File {
	if locked, ok := w.(*lockedWriter); ok {
		w = locked.to
	}
	f, _ := w.(*os.File)
	return f
}

// terminal is the terminal behind a writer, or nil.
func terminal(w io.Writer) *os.File {
	f := asFile(w)
	if f == nil || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return f
}

// terminalSize is the size of a terminal, or the usual one.
func terminalSize(f *os.File) (width, height int) {
	width, height, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}
