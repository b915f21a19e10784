package main

import (
	"bufio"
	"errors"
	"io"
)

// maxLine is the most bytes of a line that are kept: those of a record, the library's Limits.MaxRecordSize.
const maxLine = 1 << 20

// line is a line of the input.
type line struct {
	number  uint64 // from 1
	data    []byte
	tooLong int   // its bytes, when there were too many to keep
	readErr error // instead of a line
}

// readLines reads lines on a goroutine of its own, as a read can't be interrupted, until the input or stop ends. A line of any
// length is read, but no more than maxLine bytes of it are kept.
func readLines(from io.Reader, stop <-chan struct{}) <-chan line {
	lines := make(chan line)
	go func() {
		defer close(lines)
		in := bufio.NewReaderSize(from, 64<<10)
		for number := uint64(1); ; number++ {
			l, err := readLine(in)
			l.number = number
			if errors.Is(err, io.EOF) {
				return
			}
			l.readErr = err
			select {
			case lines <- l:
			case <-stop:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return lines
}

// readLine reads a line; io.EOF when there is none.
func readLine(in *bufio.Reader) (line, error) {
	l := line{data: []byte{}} // not nil: an empty line is an empty record
	size := 0
	for {
		part, err := in.ReadSlice('\n')
		size += len(part)
		if ended := err == nil; ended {
			part = part[:len(part)-1]
			size--
		}
		if size <= maxLine {
			l.data = append(l.data, part...)
		} else {
			l.data, l.tooLong = nil, size
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF):
			if size == 0 {
				return l, io.EOF
			}
			return l, nil // the last line needs no break
		default:
			return l, err
		}
	}
}
