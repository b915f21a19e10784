package test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/rpc"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/protokinesis/protokinesis/test/probe"
	"github.com/protokinesis/protokinesis/test/soak"
)

// soakVariable tells a process to be a node of the soak.
const soakVariable = "PROTOKINESIS_TEST_SOAK"

// soakJob is what a node is to do.
type soakJob struct {
	Endpoint, Stream, Node string
	Process                int
	Host                   string // address of the test
	Seed                   uint64
}

// soakCommand is a line on a node's standard input.
type soakCommand struct {
	Do     string
	Mode   string `json:",omitempty"`
	ID     string `json:",omitempty"`
	Millis int64  `json:",omitempty"`
	Pick   uint64 `json:",omitempty"`
}

// Commands, and the modes of a seek.
const (
	doSeek = "seek"
	doCalm = "calm"
	doQuit = "quit"

	seekHorizon = "horizon"
	seekTip     = "tip"
	seekTime    = "time"
	seekRecord  = "record"
)

// soakLog is the event log, which the test has: a line is in it when add returns.
type soakLog struct{ client *rpc.Client }

func (l *soakLog) add(e soak.Event) {
	if err := l.client.Call("Host.Log", e, &struct{}{}); err != nil {
		os.Exit(3) // the test is gone
	}
}

// count is how many lines it has, of all nodes.
func (l *soakLog) count() int {
	n := 0
	if err := l.client.Call("Host.Lines", struct{}{}, &n); err != nil {
		os.Exit(3)
	}
	return n
}

// soakChild is the process of a node.
type soakChild struct {
	job    soakJob
	log    *soakLog
	node   *soakNode
	calm   atomic.Bool
	ctx    context.Context //nolint:containedctx // the process's life
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu     sync.Mutex
	recent []place // records done of late
}

// beSoakChild plays a node, if this process was started for it, and does not return then.
func beSoakChild() {
	text := os.Getenv(soakVariable)
	if text == "" {
		return
	}
	c := &soakChild{}
	if err := json.Unmarshal([]byte(text), &c.job); err != nil {
		panic(err)
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.run()
	os.Exit(0)
}

func (c *soakChild) run() {
	client, err := rpc.Dial("tcp", c.job.Host)
	if err != nil {
		panic(err)
	}
	c.log = &soakLog{client}
	c.node = &soakNode{child: c, store: soakRemote{client}, web: &http.Transport{MaxIdleConnsPerHost: 100}}
	c.tasks.Go(c.watchHeap)
	c.tasks.Go(c.node.up)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var command soakCommand
		if err := json.Unmarshal(in.Bytes(), &command); err != nil {
			panic(err)
		}
		switch command.Do {
		case doSeek:
			c.tasks.Go(func() { c.node.seek(command) })
		case doCalm:
			c.calm.Store(true)
		case doQuit:
			c.quit()
			return
		}
	}
	os.Exit(3) // the test is gone
}

// quit ends everything in order and says what is left.
func (c *soakChild) quit() {
	c.cancel()
	c.tasks.Wait()
	c.node.down()
	c.node.web.CloseIdleConnections()
	if err := goleak.Find(goleak.IgnoreAnyFunction("net/rpc.(*Client).input")); err != nil {
		c.log.add(soak.Event{What: soak.Leak, Text: err.Error()})
	}
}

// pause waits, but not beyond the end.
func (c *soakChild) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-c.ctx.Done():
	}
}

// watchHeap logs each new high of the memory in use.
func (c *soakChild) watchHeap() {
	const step = 4 << 20
	highest := uint64(0)
	for c.ctx.Err() == nil {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		if m.HeapAlloc >= highest+step {
			highest = m.HeapAlloc
			c.log.add(soak.Event{What: soak.Heap, Bytes: highest})
		}
		c.pause(200 * time.Millisecond)
	}
}

// remember keeps the records that were done of late, for seeks back to one.
func (c *soakChild) remember(shard, sequence string) {
	const kept = 300
	c.mu.Lock()
	defer c.mu.Unlock()
	done := append(c.recent, place{shard, sequence})
	c.recent = done[max(0, len(done)-kept):]
}

func (c *soakChild) recall(pick uint64) (place, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.recent) == 0 {
		return place{}, false
	}
	return c.recent[pick%uint64(len(c.recent))], true
}

func (c *soakChild) logger() *slog.Logger {
	if os.Getenv(probe.LogVariable) == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With(slog.String("node", c.job.Node))
}

// noTB is a test for whoever wants one where there is none.
type noTB struct{ testing.TB }

func (noTB) Helper()           {}
func (noTB) Cleanup(func())    {}
func (noTB) Output() io.Writer { return os.Stderr }
