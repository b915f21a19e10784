package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// consumerProcess runs "protokinesis consume" of a demo's stream, so that it can be killed. Its checkpoints are in a file, and what it prints is
// what it has handled: each line goes into the ledger.
type consumerProcess struct {
	demo   *demo
	folder string

	cmd     *exec.Cmd
	first   bool
	reading sync.WaitGroup
	lines   chan struct{} // one token when something was printed since the start
	mu      sync.Mutex
	readErr error
}

func newConsumerProcess(d *demo) (*consumerProcess, error) {
	folder, err := os.MkdirTemp("", "protokinesis-demo-")
	if err != nil {
		return nil, err
	}
	return &consumerProcess{demo: d, folder: folder, first: true}, nil
}

// start starts the process. It reads from the horizon; the next one goes on where the one before it was.
func (c *consumerProcess) start(ctx context.Context) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{
		"consume", demoStream, "--endpoint", c.demo.server.URL(), "--test-credentials", "--log-level", c.demo.app.LogLevel,
		"--lease-store", fileScheme + filepath.Join(c.folder, "leases"), "--output", formatJSON,
		"--poll-interval", demoPoll.String(), "--read-rate", "off", "--list-every", "1s",
	}
	if c.first {
		args = append(args, "--from", "horizon")
	}
	c.first = false
	c.cmd = exec.CommandContext(context.WithoutCancel(ctx), program, args...) //nolint:gosec // ourselves
	ownGroup(c.cmd)                                                           // Ctrl-C is for the demo, which ends it in order
	c.cmd.Stderr = c.demo.app.stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.cmd.Start(); err != nil {
		return fmt.Errorf("the consumer can't be started: %w", err)
	}
	c.lines = make(chan struct{}, 1)
	c.reading.Go(func() { c.read(bufio.NewScanner(out), c.lines) })
	return nil
}

// read puts what is printed into the ledger. A last line that was cut short by a kill is none: its record was not handled.
func (c *consumerProcess) read(in *bufio.Scanner, lines chan<- struct{}) {
	in.Buffer(nil, 4*maxLine)
	in.Split(wholeLines)
	for in.Scan() {
		var r jsonRecord
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			c.mu.Lock()
			c.readErr = fmt.Errorf("the consumer printed %q: %w", in.Text(), err)
			c.mu.Unlock()
			continue
		}
		c.demo.ledger.isDelivered(r.PartitionKey, []byte(r.Data))
		c.demo.ledger.isAcked()
		select {
		case lines <- struct{}{}:
		default:
		}
	}
}

// wholeLines is a bufio.SplitFunc for lines that end.
func wholeLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	advance, token, err = bufio.ScanLines(data, false)
	if atEOF && advance == 0 {
		return len(data), nil, err
	}
	return advance, token, err
}

// printed waits until the process has printed something.
func (c *consumerProcess) printed(ctx context.Context) error {
	select {
	case <-c.lines:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// kill ends the process as a power cut does, and waits until what it had printed is in the ledger.
func (c *consumerProcess) kill() error {
	if err := c.cmd.Process.Kill(); err != nil {
		return err
	}
	c.reading.Wait()
	if err := c.cmd.Wait(); err == nil {
		return errors.New("the consumer ended before it was killed")
	}
	return nil
}

// close ends the process in order.
func (c *consumerProcess) close() error {
	defer func() { _ = os.RemoveAll(c.folder) }()
	if c.cmd == nil || c.cmd.Process == nil {
		return nil
	}
	_ = c.cmd.Process.Signal(os.Interrupt) // it fails only if the process has ended
	c.reading.Wait()
	err := c.cmd.Wait()
	if err != nil {
		err = fmt.Errorf("the consumer failed: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(err, c.readErr)
}
