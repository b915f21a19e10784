//go:build unix

package test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/test/failover"
)

// failoverNode is a process of protokinesis consume.
type failoverNode struct {
	name string
	run  *failoverRun
	gate *storeGate
	cmd  *exec.Cmd
	exit chan struct{} // closed when it has ended and all that it has printed is in the log
	err  error         // how it has ended

	mu     sync.Mutex // one reads the output at a time
	output syscall.RawConn
	rest   []byte // of a line
}

// start starts a node; its clock is wrong by so much.
func (f *failoverRun) start(name string, skew time.Duration) {
	n := &failoverNode{name: name, run: f, exit: make(chan struct{})}
	read, write, err := os.Pipe()
	require.NoError(f.t, err)
	defer func() { _ = write.Close() }()
	n.output, err = read.SyscallConn()
	require.NoError(f.t, err)
	n.gate = newStoreGate(f, n) // after n.output, which its goroutines read
	args := []string{
		"--endpoint", f.kinesis, "--region", "us-east-1", "--test-credentials", "--log-level", "info", "--wire", wireName(f.name),
		"consume", f.stream, "--end-with-stdin", "--output", "json", "--owner", name,
		"--lease-store", "dynamodb:" + f.stream, "--dynamodb-endpoint", n.gate.server.URL,
	}
	if f.hints {
		args = append(args, "--remote", "127.0.0.1:0")
	}
	n.cmd = exec.CommandContext(f.t.Context(), f.program, args...)
	n.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", skewVariable, skew/time.Second))
	log, err := os.Create(f.logFile(name))
	require.NoError(f.t, err)
	defer func() { _ = log.Close() }()
	n.cmd.Stdout, n.cmd.Stderr = write, log
	_, err = n.cmd.StdinPipe() // it ends when the test does, however that ends
	require.NoError(f.t, err)
	f.mark(failover.Started, name)
	require.NoError(f.t, n.cmd.Start())
	go n.follow(read)
	f.nodes[name] = n
}

// subscribed waits until the node has opened its subscription. Records published from then on are its to read.
func (n *failoverNode) subscribed() {
	n.run.t.Helper()
	for end := time.Now().Add(failoverSoon); time.Now().Before(end) && n.alive(); time.Sleep(20 * time.Millisecond) {
		log, err := os.ReadFile(n.run.logFile(n.name))
		if err == nil && bytes.Contains(log, []byte("subscription open")) {
			return
		}
	}
	n.run.t.Fatalf("node %s has not opened its subscription", n.name)
}

// follow puts what the node prints in the log, to its end.
func (n *failoverNode) follow(read *os.File) {
	defer close(n.exit)
	_ = n.output.Read(n.take) // until the last writer has closed it
	_ = read.Close()
	n.err = n.cmd.Wait()
	n.gate.reopen()
	n.gate.server.CloseClientConnections()
	n.gate.server.Close()
}

// drain puts in the log what the node has printed so far.
func (n *failoverNode) drain() {
	_ = n.output.Control(func(fd uintptr) { n.take(fd) }) // if it fails all has been read
}

// take reads what there is, and reports whether it was the end.
func (n *failoverNode) take(fd uintptr) (ended bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	buffer := make([]byte, 64<<10)
	for {
		size, err := syscall.Read(int(fd), buffer)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil: // nothing more for now
			return err != syscall.EAGAIN
		case size == 0:
			return true
		}
		n.rest = append(n.rest, buffer[:size]...)
		for {
			line, rest, whole := bytes.Cut(n.rest, []byte("\n"))
			if !whole {
				break
			}
			n.printed(line)
			n.rest = rest
		}
	}
}

func (n *failoverNode) printed(line []byte) {
	var record struct{ Shard, Sequence string }
	if err := json.Unmarshal(line, &record); err != nil {
		n.run.t.Errorf("node %s printed %q: %v", n.name, line, err)
		return
	}
	n.run.add(failover.Event{What: failover.Line, Node: n.name, Shard: record.Shard, Sequence: record.Sequence})
}

// signal does something to the node's process, and notes it.
func (n *failoverNode) signal(s syscall.Signal) {
	n.run.mark(map[syscall.Signal]failover.What{
		syscall.SIGKILL: failover.Killed, syscall.SIGTERM: failover.Told, syscall.SIGSTOP: failover.Stopped, syscall.SIGCONT: failover.Continued,
	}[s], n.name)
	assert.NoError(n.run.t, n.cmd.Process.Signal(s), "node %s", n.name)
}

// cut keeps the node from the store, until heal.
func (n *failoverNode) cut(mode gateMode) {
	n.run.mark(failover.Cut, n.name)
	n.gate.shut(mode)
}

func (n *failoverNode) heal() {
	n.run.mark(failover.Healed, n.name)
	n.gate.reopen()
}

// alive reports whether the process has not ended.
func (n *failoverNode) alive() bool {
	select {
	case <-n.exit:
		return false
	default:
		return true
	}
}

// left waits until a node that was told to leave has done so, in order.
func (n *failoverNode) left() {
	select {
	case <-n.exit:
		assert.NoError(n.run.t, n.err, "node %s", n.name)
		n.run.mark(failover.Left, n.name)
	case <-time.After(patience):
		assert.Fail(n.run.t, "a node does not leave", "node %s", n.name)
	}
}
