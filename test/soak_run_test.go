package test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/soak"
)

// soakRun is a run as the test sees it: the service, the publishers, the consumer process of the moment, and the log of all.
type soakRun struct {
	*target
	t       *testing.T
	seed    uint64
	stream  string
	dir     string // of the log
	leases  string // of the lease file
	started time.Time
	file    *os.File

	mu        sync.Mutex
	events    []soak.Event
	processes int
	ups       int
	open      chan struct{} // closed when both nodes of the first process are up
	seek      *soakCommand  // under way

	consumer *soakProcess
	seekID   int
	busy     time.Time
	instants []int64 // of the service's clock, for seeks to a time
	counts   map[stepKind]int
	faults   map[string][]*kinesistest.Fault
	jumps    time.Duration

	stop      chan struct{}
	publisher sync.WaitGroup
	receipts  []protokinesis.Receipt
	failures  int   // of Publish
	failure   error // the last
}

// soakProcess is a consumer.
type soakProcess struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	ending soak.What // how it is to end; "" if it is not
	ended  chan struct{}
}

// add puts an event in the log.
func (r *soakRun) add(e soak.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addLocked(e)
}

func (r *soakRun) addLocked(e soak.Event) {
	e.Line = len(r.events) + 1
	r.events = append(r.events, e)
	line, err := json.Marshal(e)
	if err == nil {
		_, err = r.file.Write(append(line, '\n'))
	}
	if err != nil {
		panic(err)
	}
}

func (r *soakRun) log() []soak.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clip(r.events)
}

// start starts a consumer on the lease file, and asks it for the seek that its predecessor has not answered.
func (r *soakRun) start() {
	job, err := json.Marshal(soakJob{Endpoint: r.server.URL(), Stream: r.stream, Path: filepath.Join(r.leases, "leases.db"), Seed: r.seed})
	require.NoError(r.t, err)
	cmd := exec.CommandContext(r.t.Context(), os.Args[0]) //nolint:gosec // this very program
	cmd.Env = append(os.Environ(), soakVariable+"="+string(job))
	cmd.Stderr = r.t.Output()
	in, err := cmd.StdinPipe()
	require.NoError(r.t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(r.t, err)
	require.NoError(r.t, cmd.Start())
	p := &soakProcess{cmd: cmd, in: in, ended: make(chan struct{})}
	r.consumer = p
	r.processes++
	r.add(soak.Event{What: soak.Started, Process: r.processes})
	go r.follow(p, r.processes, out)
	r.mu.Lock()
	pending := r.seek
	r.mu.Unlock()
	if pending != nil {
		r.tell(*pending)
	}
}

// follow takes a consumer's log to its end.
func (r *soakRun) follow(p *soakProcess, number int, out io.Reader) {
	defer close(p.ended)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e soak.Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			break // cut off by the kill
		}
		e.Process = number
		r.onEvent(e)
	}
	_, _ = io.Copy(io.Discard, out)
	err := p.cmd.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	e := soak.Event{What: p.ending, Process: number}
	if p.ending == "" || (p.ending == soak.Ended && err != nil) {
		e.What, e.Text = soak.Crashed, fmt.Sprint(err)
	}
	r.addLocked(e)
}

func (r *soakRun) onEvent(e soak.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addLocked(e)
	switch {
	case e.What == soak.Up:
		if r.ups++; r.ups == len(soakNodes) {
			close(r.open)
		}
	case e.What == soak.Sought && r.seek != nil && r.seek.ID == e.ID && (e.Text == "" || e.Text == seekGivenUp):
		if r.seek.Mode == seekTip {
			r.addLocked(soak.Event{What: soak.Bound, ID: e.ID, Millis: r.server.Clock().Now().UnixMilli()})
		}
		r.seek = nil
	}
}

// tell gives the consumer a command. One that is about to die may not get it.
func (r *soakRun) tell(c soakCommand) {
	line, err := json.Marshal(c)
	require.NoError(r.t, err)
	_, _ = r.consumer.in.Write(append(line, '\n'))
}

// end ends the consumer and waits for it.
func (r *soakRun) end(how soak.What) {
	r.mu.Lock()
	r.consumer.ending = how
	r.mu.Unlock()
	if how == soak.Killed {
		_ = r.consumer.cmd.Process.Kill()
	} else {
		r.tell(soakCommand{Do: doQuit})
	}
	select {
	case <-r.consumer.ended:
	case <-time.After(2 * patience):
		r.add(soak.Event{What: soak.Note, Text: "the consumer does not end: killed"})
		assert.Fail(r.t, "the consumer does not end")
		_ = r.consumer.cmd.Process.Kill()
		<-r.consumer.ended
	}
}

// publish publishes the records of a key, in order, until the run is over.
func (r *soakRun) publish(n *node, key int) {
	for i := 0; ; i++ {
		name := fmt.Sprintf("key-%02d", key)
		receipt, err := n.Publisher().Publish(r.t.Context(), protokinesis.Record{
			Stream: r.stream, PartitionKey: name, Data: fmt.Appendf(nil, "%s %d", name, i),
		})
		r.mu.Lock()
		if err == nil {
			r.receipts = append(r.receipts, receipt)
		} else {
			r.failures, r.failure = r.failures+1, err
			r.addLocked(soak.Event{What: soak.Note, Text: "publish: " + err.Error()})
		}
		r.mu.Unlock()
		select {
		case <-r.stop:
			return
		case <-time.After(time.Duration(50+(key*37+i*101)%300) * time.Millisecond):
		}
	}
}

// published is how many records have been published.
func (r *soakRun) published() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int64(len(r.receipts))
}

// stored is what the service has in the end.
func (r *soakRun) stored() ([]soak.Record, []soak.Shard) {
	var (
		records []soak.Record
		shards  []soak.Shard
	)
	for _, rec := range r.server.Records(r.stream) {
		records = append(records, soak.Record{Shard: rec.Shard, Sequence: rec.SequenceNumber, Key: rec.PartitionKey, Arrival: rec.Arrival.UnixMilli()})
	}
	for _, sh := range r.server.Shards(r.stream) {
		s := soak.Shard{ID: sh.ID}
		for _, parent := range []string{sh.Parent, sh.AdjacentParent} {
			if parent != "" {
				s.Parents = append(s.Parents, parent)
			}
		}
		if !sh.Closed.IsZero() {
			s.Closed = sh.Closed.UnixMilli()
		}
		shards = append(shards, s)
	}
	return records, shards
}

// drain waits until all is handled, and gives up when for a while no record was and no shard came to its end.
func (r *soakRun) drain() {
	records, shards := r.stored()
	fewest, ends, since := len(records)+1, 0, time.Now()
	for time.Since(since) < patience {
		r.mu.Lock()
		seeking := r.seek != nil
		r.mu.Unlock()
		missing := soak.Missing(records, shards, r.log())
		if missing == 0 && !seeking {
			return
		}
		if n := shardEnds(r.log()); missing < fewest || n > ends {
			fewest, ends, since = missing, n, time.Now()
		}
		time.Sleep(200 * time.Millisecond)
	}
	assert.Fail(r.t, "the run does not come to its end", "%d records are missing, seek under way: %v", fewest, r.seek)
}

func shardEnds(events []soak.Event) int {
	n := 0
	for i := range events {
		if events[i].What == soak.Checkpoint && events[i].Checkpoint == "SHARD_END" {
			n++
		}
	}
	return n
}
