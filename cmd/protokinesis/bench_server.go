package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// serverProcess is "protokinesis serve" in a process of its own, so that what is measured is not the service. It ends when its standard input does,
// also when this process is killed.
type serverProcess struct {
	url   endpointURL
	cmd   *exec.Cmd
	stdin io.Closer
	out   io.ReadCloser
	group processGroups
}

const (
	serverStart = 30 * time.Second
	urlVariable = "export AWS_ENDPOINT_URL_KINESIS="
)

func startServer(a *app) (*serverProcess, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &serverProcess{}
	//nolint:gosec // ourselves
	s.cmd = exec.CommandContext(context.WithoutCancel(a.ctx), program, "serve", "--listen", "127.0.0.1:0", "--end-with-stdin")
	s.cmd.Stderr = a.stderr
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if s.out, err = s.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := s.group.start(s.cmd); err != nil { // Ctrl-C is for the benchmark, which ends it
		return nil, fmt.Errorf("the service can't be started: %w", err)
	}
	late := time.AfterFunc(serverStart, func() { _ = s.cmd.Process.Kill() })
	defer late.Stop()
	in := bufio.NewScanner(s.out)
	for s.url == "" && in.Scan() {
		if url, ok := strings.CutPrefix(in.Text(), urlVariable); ok {
			s.url = endpointURL(url)
		}
	}
	if s.url == "" {
		_ = s.close()
		return nil, fmt.Errorf("the service did not start: %v", s.cmd.ProcessState)
	}
	go func() { _, _ = io.Copy(io.Discard, s.out) }() // until it ends
	return s, nil
}

// close ends the service.
func (s *serverProcess) close() error {
	_ = s.stdin.Close() // it fails only if the process has ended
	late := time.AfterFunc(serverStart, func() { _ = s.cmd.Process.Kill() })
	defer late.Stop()
	if err := s.group.wait(s.cmd); err != nil {
		return fmt.Errorf("the service failed: %w", err)
	}
	return nil
}
