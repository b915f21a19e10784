package test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/soak"
)

var (
	soakLength = flag.Duration("soak", 20*time.Second, "how long TestSoak disturbs what it runs")
	soakSeed   = flag.Uint64("soak.seed", 0, "replays a run of TestSoak; 0: a new one")
)

// soakKeys is how many partition keys are published to, each about five times a second.
const soakKeys = 40

// TestSoak is a long random run, and a check of its log that knows nothing of the library (package soak):
//
//	go test ./test -run Soak -soak 60s
//
// Three nodes, each a process of its own, share a stream to which this process publishes. Meanwhile shards are split and merged; the service throttles,
// fails, hangs, resets, answers garbage and half answers, and its clock jumps so that iterators expire; handlers are slow, fail and panic; the stream and single
// shards are moved by seeks; a node is cut off from the lease store for longer than the ttl, or all are, or the store loses its replies; a node stands still for
// longer than the ttl and then goes on, is killed, or leaves, and joins again; all are killed, or end in order, and start again. At the end all is calm: what was
// published and not left out by a seek has to be handled, and everything has to stop in order and leave nothing behind.
//
// What is checked is the rules of package soak: nothing is lost; order per key, children after their parents; nothing comes again without a reason; one reader per shard,
// and none takes it from one that is not silent; what is given away is settled and checkpointed; checkpoints never run ahead of what was done, and never go back; an
// orderly end. All but one of them do not ask what time it is: this process has the lease store and the log, and what a node's handlers do, and what it gets from the
// service, is in the log before the node goes on; a line says how long the log was when a request was sent.
//
// The seed decides what happens, in which order and at which time of the run, and how a handler takes the n-th attempt of the n-th record of a key. It does not
// decide what the scheduler and the network make of it: which record is on its way when a kill comes, which of the shards "the third open one" is by then, or which call
// a fault hits. So a seed that has found something finds it again often, not always; the log of the failed run is kept, and its place printed.
//
// Each of these breakages must be found with every seed:
//
//   - A child shard is opened at the tip: in actors/lineage.go, decideOne, add "tip: true" to the decision with l.inherited(). Found as "order per key" and
//     "nothing is lost": the first records of the children are never read.
//   - A checkpoint of what was read: in actors/window.go, add, let "w.watermark = e.position" follow w.entries.push(e). Found as "checkpoints never run ahead".
//   - A settlement before the handler has run: in actors/handler.go, start, let "root.Send(j.reader, j.delivery.Ack())" precede the line with call(…). Found as
//     "checkpoints never run ahead" and "order per key".
//   - A reader without a fence: in actors/reader_lease.go, let trusted return r.lease.held. Found as "one reader per shard": a node that is cut off, or wakes up,
//     delivers what it asked for after another had taken the shard.
//   - An impatient observer: in leasestore/observer.go, Expired, let o.ttl be o.ttl/2. Found as "one reader per shard".
//   - A handover without draining: in actors/reader_end.go, checkDrained, leave out what it asks of the window. Found as "what a node gives away …".
//   - A handover without the last checkpoint: in actors/reader_lease.go, nextOp, leave out "|| k.release". Found as "what a node gives away …" by most seeds in 20 s,
//     and by all in a minute.
func TestSoak(t *testing.T) {
	seed := *soakSeed
	for seed == 0 {
		seed = uint64(rand.Uint32())
	}
	t.Logf("go test ./test -run 'TestSoak$' -soak %v -soak.seed %d", *soakLength, seed)
	r := newSoakRun(t, seed)
	r.started = time.Now()
	r.startAll()
	receive(t, r.open)
	n := r.connect(t, protokinesis.WithTimings(soakTimings))
	for key := range soakKeys {
		r.publisher.Go(func() { r.publish(n, key) })
	}
	r.began = time.Now()
	for _, step := range soakSchedule(seed, *soakLength) {
		time.Sleep(time.Until(r.began.Add(step.at)))
		r.do(step)
	}
	time.Sleep(time.Until(r.began.Add(*soakLength)))
	r.finish()
	r.check()
}

func newSoakRun(t *testing.T, seed uint64) *soakRun {
	t.Helper()
	dir, err := os.MkdirTemp("", "soak-") //nolint:usetesting // it is kept when the test fails
	require.NoError(t, err)
	leases, err := os.MkdirTemp("/dev/shm", "soak-") //nolint:usetesting // in memory, if there is such a place: it is not the disk that is tested
	if err != nil {
		leases = dir
	}
	f, err := os.Create(filepath.Join(dir, "events.jsonl"))
	require.NoError(t, err)
	server := kinesistest.Start(t, kinesistest.WithCallLog(0))
	r := &soakRun{
		target: &target{name: embedded, config: server.Config(), client: server.Client(), server: server, poll: 20 * time.Millisecond},
		t:      t, seed: seed, dir: dir, leases: leases, file: f, open: make(chan struct{}), stop: make(chan struct{}),
		up: map[string]bool{}, nodes: map[string]*soakProcess{}, counts: map[stepKind]int{}, faults: map[string][]*kinesistest.Fault{},
	}
	r.openStore()
	t.Cleanup(func() {
		r.end(soak.Killed, r.processes...)
		for _, p := range r.processes {
			<-p.ended
		}
		_ = r.store.Close()
		_ = f.Close()
		_ = os.RemoveAll(filepath.Join(leases, "leases.db"))
		_ = os.Remove(leases) // unless it is the log's
		if !t.Failed() {
			_ = os.RemoveAll(dir)
		}
	})
	r.stream = r.newStream(t, 2)
	return r
}

// finish ends all disturbances, waits until what was published is handled, and ends the consumer in order.
func (r *soakRun) finish() {
	r.server.ClearFaults()
	close(r.stop)
	r.publisher.Wait()
	r.back()
	for _, name := range soakNodes {
		if len(r.running(name)) == 0 { // it has ended by itself, which is found below
			r.start(name)
		}
	}
	r.add(soak.Event{What: soak.Calm})
	all := r.running()
	for _, p := range all {
		p.store.heal()
		p.tell(soakCommand{Do: doCalm})
	}
	r.drain()
	r.end(soak.Ended, all...)
	r.awaitEnd(all...)
}

// check goes through the log and says what it has found.
func (r *soakRun) check() {
	records, shards := r.stored()
	report := soak.Check(records, shards, r.log())
	stored := make(map[place]bool, len(records))
	for _, rec := range records {
		stored[place{rec.Shard, rec.Sequence}] = true
	}
	for _, receipt := range r.receipts {
		if !stored[place{receipt.Shard, receipt.SequenceNumber}] {
			r.t.Errorf("published, but not stored: %+v", receipt)
		}
	}
	var counts []string
	for _, kind := range slices.Sorted(maps.Keys(r.counts)) {
		counts = append(counts, fmt.Sprintf("%s %d", kind, r.counts[kind]))
	}
	r.t.Logf("seed %d, %v: published %d (%d failed, the last: %v); %v\nevents: %s\nfaults: %s", r.seed, time.Since(r.began).Round(time.Second),
		len(r.receipts), r.failures, r.failure, report, strings.Join(counts, ", "), strings.Join(r.faultCounts(), ", "))
	for _, v := range report.Violations {
		text := &strings.Builder{}
		for _, e := range v.Events {
			line, err := json.Marshal(e)
			require.NoError(r.t, err)
			fmt.Fprintf(text, "\n    %s", line)
		}
		r.t.Errorf("%s: %s%s", v.Rule, v.Text, text)
	}
	if r.t.Failed() {
		r.t.Logf("seed %d; the log is kept in %s; %d more violations are not shown", r.seed, r.dir, report.More)
	}
}
