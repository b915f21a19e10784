package test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/protokinesis/protokinesis/leasestore/file"
	"github.com/protokinesis/protokinesis/test/probe"
	"github.com/protokinesis/protokinesis/test/soak"
)

// soakVariable tells a process to be the soak's consumer.
const soakVariable = "PROTOKINESIS_TEST_SOAK"

// soakJob is what the consumer is to do.
type soakJob struct {
	Endpoint, Stream, Path string
	Seed                   uint64
}

// soakCommand is a line on the consumer's standard input.
type soakCommand struct {
	Do     string
	Node   string `json:",omitempty"` // "": the one with the most leases
	Mode   string `json:",omitempty"`
	ID     string `json:",omitempty"`
	Millis int64  `json:",omitempty"`
	Pick   uint64 `json:",omitempty"`
}

// Commands, and the modes of a seek.
const (
	doPartition = "partition"
	doSeek      = "seek"
	doBounce    = "bounce" // shut a node down and start it again
	doCalm      = "calm"
	doQuit      = "quit"

	seekHorizon = "horizon"
	seekTip     = "tip"
	seekTime    = "time"
	seekRecord  = "record"
)

var soakNodes = []string{"a", "b"}

// soakLog writes the event log: a line each, written before what it allows. What is in the pipe survives a kill.
type soakLog struct {
	mu    sync.Mutex
	lines int
	out   io.Writer
}

func (l *soakLog) add(e soak.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines++
	e.Local = l.lines
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	if _, err := l.out.Write(append(line, '\n')); err != nil {
		os.Exit(3) // the test is gone
	}
}

func (l *soakLog) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines
}

// soakChild is the consumer process: two nodes on one lease file.
type soakChild struct {
	job    soakJob
	log    *soakLog
	nodes  map[string]*soakNode
	calm   atomic.Bool
	ctx    context.Context //nolint:containedctx // the process's life
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu     sync.Mutex
	recent map[string][]place // node → records done of late
}

// beSoakChild plays the consumer, if this process was started for it, and does not return then.
func beSoakChild() {
	text := os.Getenv(soakVariable)
	if text == "" {
		return
	}
	c := &soakChild{log: &soakLog{out: os.Stdout}, nodes: map[string]*soakNode{}, recent: map[string][]place{}}
	if err := json.Unmarshal([]byte(text), &c.job); err != nil {
		panic(err)
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.run()
	os.Exit(0)
}

func (c *soakChild) run() {
	opened, err := file.Open(c.job.Path)
	if err != nil {
		panic(err)
	}
	store := &soakStore{Store: opened, log: c.log, holder: map[string]string{}}
	c.tasks.Go(c.watchHeap)
	for _, name := range soakNodes {
		n := &soakNode{
			name: name, child: c, store: &soakNodeStore{soakStore: store, node: name}, web: &http.Transport{MaxIdleConnsPerHost: 100},
		}
		c.nodes[name] = n
		c.tasks.Go(n.up)
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var command soakCommand
		if err := json.Unmarshal(in.Bytes(), &command); err != nil {
			panic(err)
		}
		if command.Do == doQuit {
			c.quit(store)
			return
		}
		c.obey(command, store)
	}
	os.Exit(3) // the test is gone
}

func (c *soakChild) obey(command soakCommand, store *soakStore) {
	if command.Node == "" {
		command.Node = store.busiest(soakNodes)
	}
	n := c.nodes[command.Node]
	switch command.Do {
	case doPartition:
		n.store.disturb(command.Mode, time.Duration(command.Millis)*time.Millisecond)
	case doSeek:
		c.tasks.Go(func() { n.seek(command) })
	case doBounce:
		c.tasks.Go(func() {
			n.down()
			if c.ctx.Err() == nil {
				n.up()
			}
		})
	case doCalm:
		for _, n := range c.nodes {
			n.store.heal()
		}
		c.calm.Store(true)
		c.log.add(soak.Event{What: soak.Calm})
	}
}

// quit ends everything in order and says what is left.
func (c *soakChild) quit(store *soakStore) {
	c.cancel()
	c.tasks.Wait()
	var all sync.WaitGroup
	for _, n := range c.nodes {
		all.Go(n.down)
	}
	all.Wait()
	store.writes.Wait()
	if err := store.Close(); err != nil {
		panic(err)
	}
	for _, n := range c.nodes {
		n.store.heal()
		n.web.CloseIdleConnections()
	}
	if err := goleak.Find(); err != nil {
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

// remember keeps the records that a node has done of late, for seeks back to one.
func (c *soakChild) remember(node, shard, sequence string) {
	const kept = 300
	c.mu.Lock()
	defer c.mu.Unlock()
	done := append(c.recent[node], place{shard, sequence})
	c.recent[node] = done[max(0, len(done)-kept):]
}

func (c *soakChild) recall(node string, pick uint64) (place, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	done := c.recent[node]
	if len(done) == 0 {
		return place{}, false
	}
	return done[pick%uint64(len(done))], true
}

func (c *soakChild) logger(node string) *slog.Logger {
	if os.Getenv(probe.LogVariable) == "" {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})).With(slog.String("node", node))
}

// noTB is a test for whoever wants one where there is none.
type noTB struct{ testing.TB }

func (noTB) Helper()           {}
func (noTB) Cleanup(func())    {}
func (noTB) Output() io.Writer { return os.Stderr }
