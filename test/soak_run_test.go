package test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/leasestore/file"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/soak"
)

// soakNodes are the names of the nodes.
var soakNodes = []string{"a", "b", "c"}

// soakRun is a run as the test sees it: the service, the publishers, the lease store, the processes of the moment, and the log of all.
type soakRun struct {
	*target
	t       *testing.T
	seed    uint64
	stream  string
	dir     string    // of the log
	leases  string    // of the lease file
	started time.Time // what times in the log count from
	began   time.Time // the schedule
	file    *os.File
	store   *soakStore

	mu     sync.Mutex
	events []soak.Event
	up     map[string]bool
	open   chan struct{} // closed when all nodes have been up
	nodes  map[string]*soakProcess
	seek   *soakCommand // under way
	seeker string       // the node that was asked for it
	opened bool

	processes []*soakProcess // all there were
	stopped   *soakProcess   // stands still
	away      *soakProcess   // has been killed, or is leaving
	seekID    int
	busy      time.Time
	instants  []int64 // of the service's clock, for seeks to a time
	counts    map[stepKind]int
	faults    map[string][]*kinesistest.Fault
	jumps     time.Duration

	stop      chan struct{}
	publisher sync.WaitGroup
	receipts  []protokinesis.Receipt
	failures  int   // of Publish
	failure   error // the last
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

// onEvent takes an event of a node.
func (r *soakRun) onEvent(e soak.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addLocked(e)
	switch {
	case e.What == soak.Up:
		if r.up[e.Node] = true; len(r.up) == len(soakNodes) && !r.opened {
			r.opened = true
			close(r.open)
		}
	case e.What == soak.Sought && r.seek != nil && r.seek.ID == e.ID && (e.Text == "" || e.Text == seekGivenUp):
		if r.seek.Mode == seekTip {
			r.addLocked(soak.Event{What: soak.Bound, ID: e.ID, Millis: r.server.Clock().Now().UnixMilli()})
		}
		r.seek = nil
	}
}

// openStore opens the lease file, again after a restart of all nodes.
func (r *soakRun) openStore() {
	store, err := file.Open(filepath.Join(r.leases, "leases.db"))
	require.NoError(r.t, err)
	if r.store == nil {
		r.store = &soakStore{run: r, holder: map[string]string{}}
	}
	r.store.Store = store
	r.add(soak.Event{What: soak.Opened})
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
