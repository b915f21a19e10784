// Package emulators starts emulators of Kinesis and DynamoDB for tests and reads sample data. They are npm packages, pinned by the
// package-lock.json in this folder; "make test" installs them.
//
// An emulator is started when a test first asks for it, and shared by all tests of the process: give streams and tables names
// that no other test uses. It is stopped by [Main], or when the process ends.
//
// Where Node.js or the packages are missing, a test that asks for them is skipped and says so; where the environment has
// [RequireVariable], as under "make test", it fails.
package emulators

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// RequireVariable is the environment variable that, when set to 1, makes tests fail that would be skipped for want of an
// emulator.
const RequireVariable = "PROTOKINESIS_REQUIRE_EMULATORS"

const (
	startTimeout = 60 * time.Second // kinesis-local takes 2.6 s on an idle machine
	stopTimeout  = 5 * time.Second
	// Another process may take the port between its choice and its use.
	startAttempts = 3
)

// errNotInstalled is the failure that is a reason to skip.
var errNotInstalled = errors.New("not installed")

var (
	kinesisLocal = &emulator{
		name:   "kinesis-local",
		health: "/healthcheck",
		status: http.StatusOK,
		script: "main.js",
		configure: func(folder string, port, spare int) (args, env []string) {
			return nil, []string{
				"KINESIS_MOCK_PLAIN_PORT=" + strconv.Itoa(port),
				"KINESIS_MOCK_TLS_PORT=" + strconv.Itoa(spare),
				// It looks for its certificate in the working directory if it is not told.
				"KINESIS_MOCK_CERT_PATH=" + filepath.Join(folder, "server.json"),
				"LOG_LEVEL=WARN",
				"SHARD_LIMIT=1000",
			}
		},
	}
	kinesalite = &emulator{
		name:   "kinesalite",
		health: "/",
		status: http.StatusForbidden, // how it answers whatever is not signed
		script: "cli.js",
		configure: func(_ string, port, _ int) (args, env []string) {
			return []string{"--port", strconv.Itoa(port), "--shardLimit", "1000"}, nil
		},
	}
	dynalite = &emulator{
		name:   "dynalite",
		health: "/",
		status: http.StatusOK,
		script: "cli.js",
		configure: func(_ string, port, _ int) (args, env []string) {
			// Tables are made and removed at once by no service; half a second each, as by default, is more than a test needs.
			return []string{"--port", strconv.Itoa(port), "--createTableMs", "50", "--deleteTableMs", "50"}, nil
		},
	}
)

// all is what Main stops.
var all = []*emulator{kinesisLocal, kinesalite, dynalite}

// KinesisLocal returns the endpoint URL of kinesis-local (kinesis-mock), over plain HTTP. Its known deviations: PutRecords
// takes time quadratic in the records of a shard, keep to less than 5,000; ShardFilter AT_TRIM_HORIZON returns all shards;
// SubscribeToShard does not speak the SDK's protocol; nothing is ever throttled.
func KinesisLocal(tb testing.TB) string {
	tb.Helper()
	return kinesisLocal.use(tb)
}

// Kinesalite returns the endpoint URL of kinesalite, a second opinion. Its known deviations: it accepts no ARN for a name,
// ignores MaxResults and ShardFilter, reports MillisBehindLatest 0, never lists ChildShards, has no UpdateShardCount and no
// enhanced fan-out; GetShardIterator AT_TIMESTAMP hangs when no record is that new: give every call a deadline.
func Kinesalite(tb testing.TB) string {
	tb.Helper()
	return kinesalite.use(tb)
}

// Dynalite returns the endpoint URL of dynalite, a DynamoDB. Its known deviations: it has no transactions, no PartiQL and no
// time to live; it ignores ReturnValuesOnConditionCheckFailure, so a failed condition never tells the row; nothing is ever
// throttled; a read that is not consistent sees the last write all the same.
func Dynalite(tb testing.TB) string {
	tb.Helper()
	return dynalite.use(tb)
}

// Main wraps what TestMain runs, so that the emulators are stopped after the last test, and before goroutines are
// counted:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(emulators.Main(m)) }
func Main(m interface{ Run() int }) interface{ Run() int } { return runner{m} }

type runner struct{ tests interface{ Run() int } }

// Run runs the tests, then stops the emulators.
func (r runner) Run() int {
	code := r.tests.Run()
	for _, e := range all {
		e.stop()
	}
	return code
}

// emulator is a server in Node.js: one per test process.
type emulator struct {
	name      string // of the npm package
	script    string // to run, in the package's folder
	health    string // path to ask whether it is up
	status    int    // what health answers then
	configure func(folder string, port, spare int) (args, env []string)

	mu      sync.Mutex
	started bool // successfully or not; it isn't tried again
	url     string
	err     error
	server  *server
}

// use returns the URL of the running emulator, starting it at the first call.
func (e *emulator) use(tb testing.TB) string {
	tb.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.server.died() {
		// The test that was its end fails; the others need not.
		fmt.Fprintf(os.Stderr, "%s has ended by itself; it wrote: %s\n", e.name, e.server.output.Bytes())
		e.started = false
	}
	if !e.started {
		e.started = true
		e.url, e.server, e.err = e.start(tb.Context())
	}
	if e.err != nil {
		giveUp(tb, "the emulator "+e.name, e.err)
	}
	return e.url
}

func (e *emulator) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.server != nil {
		e.server.stop()
	}
	e.server, e.started = nil, false
}

func (e *emulator) start(ctx context.Context) (url string, s *server, err error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return "", nil, fmt.Errorf("%w: there is no node in PATH (Node.js 20 or newer is needed)", errNotInstalled)
	}
	script, err := installed(e.name, e.script)
	if err != nil {
		return "", nil, err
	}
	for range startAttempts {
		if url, s, err = e.startOnce(ctx, node, script); err == nil || ctx.Err() != nil {
			break
		}
	}
	return url, s, err
}

func (e *emulator) startOnce(ctx context.Context, node, script string) (string, *server, error) {
	port, spare, err := freePorts(ctx)
	if err != nil {
		return "", nil, err
	}
	folder := filepath.Dir(script)
	preload := filepath.Join(folder, "..", "..", "preload.cjs")
	args, env := e.configure(folder, port, spare)
	s, err := startServer(node, append([]string{"--require", preload, script}, args...), env, folder)
	if err != nil {
		return "", nil, fmt.Errorf("start %s: %w", e.name, err)
	}
	url := "http://127.0.0.1:" + strconv.Itoa(port)
	if err := s.awaitHealth(ctx, url+e.health, e.status); err != nil {
		s.stop()
		return "", nil, fmt.Errorf("%s: %w; it wrote: %s", e.name, err, s.output.Bytes())
	}
	return url, s, nil
}

// giveUp skips the test, or fails it if nothing may be left out.
func giveUp(tb testing.TB, what string, err error) {
	tb.Helper()
	if errors.Is(err, errNotInstalled) && os.Getenv(RequireVariable) != "1" {
		tb.Skipf("left out, as it needs %s: %v. 'make test' installs what is needed and leaves nothing out.", what, err)
	}
	tb.Fatalf("%s can't be used: %v", what, err)
}

// installed finds a file of an npm package: the module's root is looked for from the working directory, which is the folder of
// the package under test, upwards.
func installed(npmPackage, file string) (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			break
		}
		parent := filepath.Dir(folder)
		if parent == folder {
			return "", fmt.Errorf("%w: no go.mod above the working directory", errNotInstalled)
		}
		folder = parent
	}
	path := filepath.Join(folder, "test", "emulators", "node_modules", npmPackage, file)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w: the npm package %s is not in test/emulators/node_modules", errNotInstalled, npmPackage)
	}
	return path, nil
}

// freePorts finds two loopback ports that nobody listens on.
func freePorts(ctx context.Context) (first, second int, err error) {
	var ports [2]int
	for i := range ports {
		var config net.ListenConfig
		listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return 0, 0, err
		}
		defer func() { _ = listener.Close() }() // after both were chosen, so that they differ
		ports[i] = listener.Addr().(*net.TCPAddr).Port
	}
	return ports[0], ports[1], nil
}

// server is a child process.
type server struct {
	command *exec.Cmd
	input   io.Closer // the process ends when this does
	output  *tail
	exited  chan struct{}
}

// died reports whether the process has ended by itself.
func (s *server) died() bool {
	if s == nil {
		return false
	}
	select {
	case <-s.exited:
		return true
	default:
		return false
	}
}

func startServer(program string, args, env []string, folder string) (*server, error) {
	// Not CommandContext: the server is shared by tests and outlives the context of the first.
	command := exec.Command(program, args...) //nolint:noctx // see above
	command.Dir = folder
	command.Env = append(os.Environ(), env...)
	setProcessGroup(command)
	output := &tail{}
	command.Stdout, command.Stderr = output, output
	input, err := command.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	s := &server{command: command, input: input, output: output, exited: make(chan struct{})}
	go func() {
		defer close(s.exited)
		_ = command.Wait() // how it ended is in its output
	}()
	return s, nil
}

// awaitHealth waits until the server answers with status, and gives up when it exits or takes too long.
func (s *server) awaitHealth(ctx context.Context, url string, status int) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		if response, err := client.Do(request); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == status {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-s.exited:
			return errors.New("it exited while it was starting")
		case <-ctx.Done():
			return fmt.Errorf("it was not up: %w", ctx.Err())
		}
	}
}

// stop ends the process and waits for that.
func (s *server) stop() {
	_ = s.input.Close() // preload.cjs ends the process
	select {
	case <-s.exited:
		return
	case <-time.After(stopTimeout):
	}
	killProcessGroup(s.command)
	<-s.exited
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

// Write keeps b.
func (t *tail) Write(b []byte) (int, error) {
	const most = 4 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b...)
	t.kept = t.kept[max(0, len(t.kept)-most):]
	return len(b), nil
}

// Bytes is a copy of what was kept.
func (t *tail) Bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.kept)
}

// Flight is a record of the sample data.
type Flight struct {
	Date        string `json:"date"` // 2001/01/13 14:56
	Delay       int    `json:"delay"`
	Distance    int    `json:"distance"`
	Origin      string `json:"origin"`
	Destination string `json:"destination"`
}

// Flights returns 20,000 flights within the USA, in no order: real data of uneven keys, from the npm package vega-datasets.
func Flights(tb testing.TB) []Flight {
	tb.Helper()
	content, err := os.ReadFile(FlightsPath(tb))
	if err != nil {
		tb.Fatalf("read the flights: %v", err)
	}
	var flights []Flight
	if err := json.Unmarshal(content, &flights); err != nil {
		tb.Fatalf("read the flights: %v", err)
	}
	return flights
}

// FlightsPath returns where the file of the flights is: a JSON array of objects like [Flight].
func FlightsPath(tb testing.TB) string {
	tb.Helper()
	path, err := installed("vega-datasets", filepath.Join("data", "flights-20k.json"))
	if err != nil {
		giveUp(tb, "the sample data vega-datasets", err)
	}
	return path
}
