package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/protokinesis/protokinesis/test/emulators"
	"github.com/protokinesis/protokinesis/test/kinesistest"
)

// asProgram makes the test binary the program itself, for tests that need a process.
const asProgram = "PROTOKINESIS_TEST_AS_PROGRAM"

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	code := emulators.Main(m).Run()
	if code == 0 {
		// An actor system counts dead letters for a second after one.
		deadline := time.Now().Add(3 * time.Second)
		err := goleak.Find()
		for err != nil && time.Now().Before(deadline) {
			err = goleak.Find()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "goroutines are left:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// patience bounds every wait; it is reached by a failing test only.
const patience = 30 * time.Second

// result is what a run did.
type result struct {
	code           int
	stdout, stderr string
}

// lines are those of the output.
func (r result) lines() []string { return splitLines(r.stdout) }

func splitLines(s string) []string {
	s = strings.TrimSuffix(s, "\n")
	if s == "" {
		return nil
	}
	return strings.Split(s, "\n")
}

// cliRun runs the program in this process.
func cliRun(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	code := run(ctx, args, strings.NewReader(stdin), &stdout, &stderr)
	require.NoError(t, ctx.Err(), "it took too long; its errors: %s", &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// service is an embedded Kinesis, and how to run the program against it.
type service struct {
	*kinesistest.Server
	t *testing.T
}

func newService(t *testing.T) *service {
	t.Helper()
	return &service{kinesistest.Start(t), t}
}

// args adds to a command line what points it to the service.
func (s *service) args(args []string) []string {
	return append([]string{"--endpoint", s.URL(), "--test-credentials", "--region", "us-east-1"}, args...)
}

func (s *service) run(stdin string, args ...string) result {
	s.t.Helper()
	return cliRun(s.t, stdin, s.args(args)...)
}

// fill makes the stream s and puts the records 1 to n with so many keys; record i has the data i.
func (s *service) fill(shards, n, keys int) {
	s.t.Helper()
	require.NoError(s.t, s.CreateStream("s", shards))
	s.put(1, n, keys)
}

func (s *service) put(first, last, keys int) {
	s.t.Helper()
	for i := first; i <= last; i++ {
		_, _, err := s.Put("s", "key-"+strconv.Itoa(i%keys), []byte(strconv.Itoa(i)))
		require.NoError(s.t, err)
	}
}

// numbers are 1 to n, as text.
func numbers(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = strconv.Itoa(i + 1)
	}
	return out
}

// process is the program as a process of its own.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stderr *buffer
	stdout *os.File // to read from
}

// start starts the program as a process.
func (s *service) start(args ...string) *process {
	s.t.Helper()
	return startProgram(s.t, nil, s.args(args)...)
}

// startProgram starts the program as a process that has open, unless nil, as its file 3.
func startProgram(t *testing.T, open *os.File, args ...string) *process {
	t.Helper()
	p := &process{t: t, stderr: &buffer{}}
	p.cmd = exec.CommandContext(t.Context(), os.Args[0], args...)                //nolint:gosec // it is this program
	p.cmd.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0") // which is a second
	p.cmd.Stderr = p.stderr
	p.cmd.WaitDelay = patience // a command it left behind keeps the pipe open
	if open != nil {
		p.cmd.ExtraFiles = []*os.File{open}
	}
	read, write, err := os.Pipe()
	require.NoError(t, err)
	p.cmd.Stdout, p.stdout = write, read
	require.NoError(t, p.cmd.Start())
	require.NoError(t, write.Close())
	t.Cleanup(func() { _ = read.Close() })
	return p
}

// readLines reads so many lines of the output, as soon as they are there.
func (p *process) readLines(n int) []string {
	p.t.Helper()
	require.NoError(p.t, p.stdout.SetReadDeadline(time.Now().Add(patience)))
	var text []byte
	one := make([]byte, 1)
	for strings.Count(string(text), "\n") < n {
		_, err := p.stdout.Read(one)
		require.NoError(p.t, err, "read so far: %q; errors: %s", text, p.stderr)
		text = append(text, one[0])
	}
	return splitLines(string(text))
}

// rest reads the output to its end.
func (p *process) rest() []string {
	p.t.Helper()
	require.NoError(p.t, p.stdout.SetReadDeadline(time.Now().Add(patience)))
	text, err := io.ReadAll(p.stdout)
	require.NoError(p.t, err)
	return splitLines(string(text))
}

// wait waits for the end and returns the exit code, -1 after a signal.
func (p *process) wait() int {
	p.t.Helper()
	done := make(chan struct{})
	go func() {
		_ = p.cmd.Wait() // the state says it
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-done
		p.t.Fatalf("the process did not end; its errors: %s", p.stderr)
	}
	return p.cmd.ProcessState.ExitCode()
}

// end sends one signal and returns what wait does.
func (p *process) end(s os.Signal) int {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(s))
	return p.wait()
}

// insist sends a signal until the process has ended, and returns what wait does: until the first signal is seen to, a second one is the same.
func (p *process) insist(s os.Signal) int {
	p.t.Helper()
	done := make(chan int, 1)
	go func() { done <- p.wait() }()
	for {
		_ = p.cmd.Process.Signal(s)
		select {
		case code := <-done:
			return code
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// buffer is a bytes.Buffer for many goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o750))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run go test -update")
	require.Equal(t, string(want), got)
}
