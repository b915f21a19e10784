package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// consumerProcess runs "protokinesis consume" of a demo's stream, so that it can be killed. Its checkpoints are in a file, and what it prints is
// what it has handled: each line goes into the ledger.
//
// It ends in order when its standard input does, whether the demo closes that or dies. Unlike a signal that can't come too early, and it is
// the same on every system. It removes its file then, too; so the folder stays only if the demo is killed just when no consumer runs.
type consumerProcess struct {
	demo   *demo
	folder string
	groups processGroups
	first  bool
	// patience is how long a process may take to end in order.
	patience time.Duration

	life *consumerLife // nil: none runs
}

// consumerLife is one process, from its start to its end.
type consumerLife struct {
	cmd     *exec.Cmd
	stdin   io.Closer
	printed chan struct{} // one token when something was printed
	ended   chan struct{} // closed when the process has ended and all that it had printed is in the ledger
	// Set when it has ended.
	exit, output error
}

// consumerPatience is more than the consumer's own time limit.
const consumerPatience = demoShutdown + 5*time.Second

func newConsumerProcess(d *demo) (*consumerProcess, error) {
	folder, err := os.MkdirTemp("", "protokinesis-demo-")
	if err != nil {
		return nil, err
	}
	c := &consumerProcess{demo: d, folder: folder, first: true, patience: consumerPatience}
	c.groups.last = c.clean
	return c, nil
}

// clean removes what the processes leave behind.
func (c *consumerProcess) clean() { _ = os.RemoveAll(c.folder) }

// start starts the process. It reads from the horizon; the next one goes on where the one before it was.
func (c *consumerProcess) start(ctx context.Context) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{
		"consume", demoStream, "--endpoint", c.demo.server.URL(), "--test-credentials", "--log-level", c.demo.app.LogLevel,
		"--lease-store", fileScheme + filepath.Join(c.folder, "leases"), "--output", formatJSON, "--end-with-stdin",
		"--poll-interval", demoPoll.String(), "--read-rate", "off", "--list-every", "1s", "--shutdown-timeout", demoShutdown.String(),
	}
	if wire := c.demo.app.Wire; wire != "" {
		args = append(args, "--wire", wire)
	}
	if c.first {
		args = append(args, "--from", "horizon")
	}
	c.first = false
	l := &consumerLife{printed: make(chan struct{}, 1), ended: make(chan struct{})}
	l.cmd = exec.CommandContext(context.WithoutCancel(ctx), program, args...) //nolint:gosec // ourselves
	l.cmd.Stderr = c.demo.app.stderr
	if l.stdin, err = l.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.groups.start(l.cmd); err != nil { // Ctrl-C is for the demo, which ends it in order
		return fmt.Errorf("the consumer can't be started: %w", err)
	}
	go func() {
		defer close(l.ended)
		l.output = l.read(out, c.demo.ledger)
		_ = out.Close() // if a line could not be read, the process must not hang at the next
		l.exit = c.groups.wait(l.cmd)
	}()
	c.life = l
	return nil
}

// read puts what is printed into the ledger. A last line that was cut short by a kill is none: its record was not handled.
func (l *consumerLife) read(out io.Reader, into *ledger) (failed error) {
	in := bufio.NewScanner(out)
	in.Buffer(nil, 4*maxLine)
	in.Split(wholeLines)
	for in.Scan() {
		var r jsonRecord
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			failed = fmt.Errorf("the consumer printed %q: %w", in.Text(), err)
			continue
		}
		into.isDelivered(r.PartitionKey, []byte(r.Data))
		into.isAcked()
		select {
		case l.printed <- struct{}{}:
		default:
		}
	}
	return errors.Join(failed, in.Err())
}

// wholeLines is a bufio.SplitFunc for lines that end.
func wholeLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	advance, token, err = bufio.ScanLines(data, false)
	if atEOF && advance == 0 {
		return len(data), nil, err
	}
	return advance, token, err
}

// printed waits until the process has printed something. It need not, if all there is had come before it was started.
func (c *consumerProcess) printed(ctx context.Context) error {
	stalled := time.NewTimer(demoStalled)
	defer stalled.Stop()
	select {
	case <-c.life.printed:
		return nil
	case <-c.life.ended:
		return c.life.tooEarly()
	case <-stalled.C:
		if t, _ := c.demo.ledger.now(); t.lost > 0 {
			return fmt.Errorf("the consumer printed nothing for %v", demoStalled)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tooEarly is the error of a process that has ended by itself.
func (l *consumerLife) tooEarly() error {
	return errors.Join(fmt.Errorf("the consumer ended by itself: %v", l.cmd.ProcessState), l.output)
}

// kill ends the process as a power cut does, and waits until what it had printed is in the ledger.
func (c *consumerProcess) kill() error {
	l := c.life
	killErr := l.cmd.Process.Kill()
	if killErr != nil && !errors.Is(killErr, os.ErrProcessDone) {
		return fmt.Errorf("the consumer can't be killed: %w", killErr)
	}
	<-l.ended
	c.life = nil
	if killErr != nil || !wasKilled(l.cmd.ProcessState) {
		return l.tooEarly()
	}
	return l.output
}

// close ends the process in order and cleans up.
func (c *consumerProcess) close() error {
	defer c.clean()
	if c.life == nil {
		return nil
	}
	l := c.life
	c.life = nil
	_ = l.stdin.Close() // it fails only if the process has ended
	late := time.NewTimer(c.patience)
	defer late.Stop()
	var err error
	select {
	case <-l.ended:
		err = l.exit
	case <-late.C:
		_ = l.cmd.Process.Kill() // likewise
		<-l.ended
		err = fmt.Errorf("it did not end within %v, and was killed", c.patience)
	}
	if err != nil {
		err = fmt.Errorf("the consumer failed: %w", err)
	}
	return errors.Join(err, l.output)
}
