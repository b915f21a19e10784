package test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/remoting"
)

// Proto.Actor's remote can be started once in a process, as each start writes a variable of gRPC that the running ones
// read. So the other node is a process of its own: this test program, started with farVariable set.

const farVariable = "PROTOKINESIS_TEST_FAR_SIDE"

// What the two processes tell each other, by pipes.
const (
	lineBegun = "a third is sent" // far side: the broker is to end now
	lineEnded = "it has ended"    // near side: send the rest
)

// farJob is what the far side is to do.
type farJob struct {
	Broker   *actor.PID
	Stream   string
	Requests int
}

// startRemote makes an actor system that others can reach. Its address is the one it listens on.
func startRemote() (*actor.ActorSystem, *remote.Remote) {
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(slog.DiscardHandler)
	}), actor.WithDeadLetterThrottleInterval(10*time.Millisecond)) // a dead letter has a goroutine for so long, which is not to be left at the end
	r := remote.NewRemote(system, remoting.Configure("127.0.0.1", 0))
	r.Start()
	return system, r
}

// nearSide is this process's actor system that others can reach; started once.
var nearSide struct {
	once   sync.Once
	system *actor.ActorSystem
	remote *remote.Remote
}

func nearSystem() *actor.ActorSystem {
	nearSide.once.Do(func() { nearSide.system, nearSide.remote = startRemote() })
	return nearSide.system
}

// nearNode is a node that others can reach.
func nearNode(t *testing.T, s *target, options ...protokinesis.Option) *node {
	t.Helper()
	n := &node{actors: nearSystem()}
	n.System = protokinesis.New(n.actors, append([]protokinesis.Option{
		protokinesis.WithAWSConfig(s.config), wire(s.name), protokinesis.WithTimings(s.timings()), protokinesis.WithLimits(protokinesis.Limits{ReadsPerSecond: -1}),
	}, options...)...)
	t.Cleanup(n.end)
	require.NoError(t, n.Connect(t.Context()))
	return n
}

// stopNearSide runs after the tests, before goroutines are counted.
func stopNearSide() {
	if nearSide.remote != nil {
		nearSide.remote.Shutdown(true)
	}
}

// beFarSide plays the other node, if this process was started for it, and does not return then.
func beFarSide() {
	text := os.Getenv(farVariable)
	if text == "" {
		return
	}
	var job farJob
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		panic(err)
	}
	system, _ := startRemote()
	a := newAsker(system, job.Broker, job.Stream, job.Requests)
	a.askAll(func() { fmt.Println(lineBegun) }, func() {
		if line, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil || strings.TrimSpace(line) != lineEnded {
			panic(fmt.Sprint("the near side said ", line, err))
		}
	})
	if err := json.NewEncoder(os.Stdout).Encode(a.wait()); err != nil {
		panic(err)
	}
	os.Exit(0)
}

// TestEveryRequestFromAfarIsAnswered: as TestEveryRequestIsAnswered, with the requests coming from another node.
func TestEveryRequestFromAfarIsAnswered(t *testing.T) {
	t.Parallel()
	const requests = 40_000
	s := embeddedService(t)
	stream := s.newStream(t, 2)
	n := nearNode(t, s, protokinesis.WithLimits(protokinesis.Limits{ReadsPerSecond: -1, PendingRecords: 1_000_000}))
	_, err := n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.HandlerFunc(newRecorder().handle))
	require.NoError(t, err)

	far := startFarSide(t, farJob{Broker: n.PID(), Stream: stream, Requests: requests})
	require.Equal(t, lineBegun, far.readLine(t))
	n.shutdown(t)
	_, err = fmt.Fprintln(far.in, lineEnded)
	require.NoError(t, err)
	var got tally
	require.NoError(t, json.Unmarshal([]byte(far.readLine(t)), &got))
	requireAnswered(t, got, requests)
}

// farProcess is the other node, seen from here.
type farProcess struct {
	in  io.Writer
	out *bufio.Reader
}

func startFarSide(t *testing.T, job farJob) *farProcess {
	t.Helper()
	text, err := json.Marshal(job)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0]) //nolint:gosec // this very program
	cmd.Env = append(os.Environ(), farVariable+"="+string(text))
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { assert.NoError(t, cmd.Wait(), "the far side") }) // a data race there is an error here
	return &farProcess{in: in, out: bufio.NewReader(out)}
}

func (f *farProcess) readLine(t *testing.T) string {
	t.Helper()
	line, err := f.out.ReadString('\n')
	require.NoError(t, err)
	return strings.TrimSpace(line)
}
