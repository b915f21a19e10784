package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/protokinesis/protokinesis/messages"
)

// executor runs a shell command for each record.
type executor struct {
	command string
	out     *printer
	errors  io.Writer
	groups  processGroups
}

// pipeWait bounds the wait for the output of a command that has ended and left others behind with its pipes, or that was killed.
const pipeWait = 2 * time.Second

// run runs the command for the one record of a job. Its output is printed, in one piece, if it succeeds.
func (e *executor) run(ctx context.Context, records []*messages.Delivery, attempt int) error {
	d := records[0]
	cmd := exec.CommandContext(ctx, "sh", "-c", e.command) //nolint:gosec // running what the user says is the point
	var stdout bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(d.GetData()), &stdout, e.errors
	cmd.Env = append(os.Environ(), recordEnv(d, attempt)...)
	cmd.WaitDelay = pipeWait
	err := e.groups.run(cmd)
	if err != nil && !(errors.Is(err, exec.ErrWaitDelay) && cmd.ProcessState.Success()) {
		if ctx.Err() != nil {
			err = fmt.Errorf("it was ended, as the time for the shutdown is up: %w", err)
		}
		return err
	}
	if stdout.Len() == 0 {
		return nil
	}
	return e.out.write(stdout.Bytes())
}

// processGroups are the commands that run, each with the processes it started.
type processGroups struct {
	mu      sync.Mutex
	running map[int]bool // by the leader's id

	last func() // unless nil, what dieTogether does after it has killed them
}

func (g *processGroups) run(cmd *exec.Cmd) error {
	if err := g.start(cmd); err != nil {
		return err
	}
	return g.wait(cmd)
}

func (g *processGroups) start(cmd *exec.Cmd) error {
	ownGroup(cmd)
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	if g.running == nil {
		g.running = make(map[int]bool)
	}
	g.running[cmd.Process.Pid] = true
	return nil
}

// wait is called once for each command that was started.
func (g *processGroups) wait(cmd *exec.Cmd) error {
	defer func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.running, cmd.Process.Pid)
	}()
	return cmd.Wait()
}

// recordEnv is what a command learns of its record. A variable can't hold a zero byte; they are left out.
func recordEnv(d *messages.Delivery, attempt int) []string {
	headers := d.GetHeaders()
	if headers == nil {
		headers = map[string]string{}
	}
	headersJSON, err := json.Marshal(headers)
	if err != nil {
		headersJSON = []byte("{}") // a map of strings can always be encoded
	}
	variables := []string{
		"PK_STREAM=" + d.GetStream(),
		"PK_SHARD=" + d.GetShardId(),
		"PK_SEQUENCE=" + d.GetSequenceNumber(),
		"PK_SUB_SEQUENCE=" + strconv.FormatUint(d.GetSubSequenceNumber(), 10),
		"PK_PARTITION_KEY=" + d.GetPartitionKey(),
		"PK_ARRIVAL=" + arrival(d),
		"PK_ATTEMPT=" + strconv.Itoa(attempt),
		"PK_HEADERS=" + string(headersJSON),
	}
	for i, v := range variables {
		variables[i] = strings.ReplaceAll(v, "\x00", "")
	}
	return variables
}
