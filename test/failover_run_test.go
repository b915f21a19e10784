//go:build unix

package test

import (
	"context"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/test/emulators"
	"github.com/protokinesis/protokinesis/test/failover"
)

// failoverTTL is the ttl of leases: the default.
const failoverTTL = 10 * time.Second

// failoverRun is one run of a case: a stream and a lease table of its own, the nodes, a publisher, and the log.
type failoverRun struct {
	*target
	t        *testing.T
	program  string
	folder   string // of the nodes' logs
	kinesis  string // its endpoint
	dynalite string
	web      *http.Client
	table    *dynamodb.Client
	stream   string // and table
	shards   int
	every    time.Duration // a record is published to each shard
	hints    bool          // nodes can tell each other
	number   int           // of the run
	nodes    map[string]*failoverNode
	rows     sync.Map // key → *sync.Mutex

	began   time.Time
	slowest atomic.Int64 // how long something took that should take no time, in nanoseconds
	mu      sync.Mutex
	events  []failover.Event
	records []failover.Record

	stop       chan struct{}
	background sync.WaitGroup
}

func newFailoverRun(t *testing.T, program string, c failoverCase, number int) *failoverRun {
	t.Helper()
	f := &failoverRun{
		t: t, program: program, dynalite: emulators.Dynalite(t), shards: c.shards, every: c.every, hints: c.hints,
		number: number, nodes: map[string]*failoverNode{}, began: time.Now(), stop: make(chan struct{}),
	}
	if f.kinesis = emulators.KinesisLocal(t); c.service == kinesalite {
		f.kinesis = emulators.Kinesalite(t)
	}
	f.target = emulator(t, c.service, f.kinesis)
	transport := &http.Transport{MaxIdleConnsPerHost: 100}
	f.web = &http.Client{Transport: transport, Timeout: patience}
	f.table = dynamodb.NewFromConfig(aws.Config{
		Region: "us-east-1", BaseEndpoint: &f.dynalite, HTTPClient: f.web, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	var err error
	f.folder, err = os.MkdirTemp("", "failover-") //nolint:usetesting // it is kept when the test fails
	require.NoError(t, err)
	f.stream = f.newStream(t, int32(c.shards)) //nolint:gosec // a few
	f.background.Go(f.watchMachine)
	t.Cleanup(func() {
		f.end()
		transport.CloseIdleConnections()
		if t.Failed() {
			t.Logf("what the nodes logged is kept in %s", f.folder)
		} else {
			_ = os.RemoveAll(f.folder)
		}
	})
	return f
}

// end is for what is left, also when the test has failed.
func (f *failoverRun) end() {
	f.stopPublishing()
	for _, n := range f.nodes {
		if n.alive() {
			_ = n.cmd.Process.Kill()
		}
		<-n.exit
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err := f.client.DeleteStream(ctx, &kinesis.DeleteStreamInput{StreamName: &f.stream})
	assert.NoError(f.t, err)
}

// logFile is what a node logs to.
func (f *failoverRun) logFile(node string) string { return filepath.Join(f.folder, node+".log") }

func (f *failoverRun) now() time.Duration { return time.Since(f.began) }

// add puts an event in the log.
func (f *failoverRun) add(e failover.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e.At = f.now()
	f.events = append(f.events, e)
}

func (f *failoverRun) mark(what failover.What, node string) {
	f.add(failover.Event{What: what, Node: node})
}

// log is the log so far.
func (f *failoverRun) log() *failover.Log {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &failover.Log{TTL: failoverTTL, Records: slices.Clip(f.records), Events: slices.Clip(f.events)}
}

// publish publishes a record to every shard, again and again. Each shard has two keys, which take turns. It begins when all nodes have
// subscribed, as they begin at the tip.
func (f *failoverRun) publish() {
	f.t.Helper()
	for _, n := range f.nodes {
		n.subscribed()
	}
	entries := make([][]types.PutRecordsRequestEntry, 2)
	for i := range f.shards {
		hash := new(big.Int).Lsh(big.NewInt(int64(2*i+1)), 127) // the middle of the shard
		hash.Div(hash, big.NewInt(int64(f.shards)))
		for turn := range entries {
			entries[turn] = append(entries[turn], types.PutRecordsRequestEntry{
				PartitionKey: aws.String(fmt.Sprintf("key-%d-%d", i, turn)), ExplicitHashKey: aws.String(hash.String()),
			})
		}
	}
	f.background.Go(func() {
		tick := time.NewTicker(f.every)
		defer tick.Stop()
		for number := 0; f.put(entries[number%2], number/2); number++ {
			select {
			case <-tick.C:
			case <-f.stop:
				return
			}
		}
	})
}

func (f *failoverRun) put(entries []types.PutRecordsRequestEntry, number int) bool {
	for i := range entries {
		entries[i].Data = fmt.Appendf(nil, "%s %d", *entries[i].PartitionKey, number)
	}
	sent := f.now()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := f.client.PutRecords(ctx, &kinesis.PutRecordsInput{StreamName: &f.stream, Records: entries})
	if !assert.NoError(f.t, err, "publish") || !assert.Zero(f.t, aws.ToInt32(out.FailedRecordCount)) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, r := range out.Records {
		f.records = append(f.records, failover.Record{
			Shard: *r.ShardId, Sequence: *r.SequenceNumber, Key: *entries[i].PartitionKey, Number: number, Sent: sent,
		})
	}
	return true
}

func (f *failoverRun) stopPublishing() {
	select {
	case <-f.stop:
	default:
		close(f.stop)
	}
	f.background.Wait()
}

// watchMachine notes how late it is when it wants to do something.
func (f *failoverRun) watchMachine() {
	const pause = 50 * time.Millisecond
	for {
		slept := time.Now()
		select {
		case <-f.stop:
			return
		case <-time.After(pause):
			f.took(time.Since(slept) - pause)
		}
	}
}

// took notes how long something took that should take no time.
func (f *failoverRun) took(d time.Duration) {
	for was := f.slowest.Load(); int64(d) > was; was = f.slowest.Load() {
		f.slowest.CompareAndSwap(was, int64(d))
	}
}

// expect asserts what only a machine at its limit may break, on which nodes lose their leases as nothing is written in time.
func (f *failoverRun) expect(holds bool, format string, args ...any) {
	f.t.Helper()
	slowest := time.Duration(f.slowest.Load())
	switch text := fmt.Sprintf(format, args...); {
	case holds:
	case slowest > failoverTTL/10:
		f.t.Logf("%s. But this machine has other things to do: it took %v for what should take no time.", text, slowest)
	default:
		f.t.Error(text)
	}
}

// await waits until something holds of the log. Without it the run is of no use.
func (f *failoverRun) await(what string, holds func(l *failover.Log) bool) {
	f.t.Helper()
	if !f.comes(failoverSoon, holds) {
		f.t.Fatalf("%s: not within %v; the owners are %v", what, failoverSoon, f.log().Owners(f.now()))
	}
}

// comes waits until something holds of the log, and reports whether it does.
func (f *failoverRun) comes(limit time.Duration, holds func(l *failover.Log) bool) bool {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if holds(f.log()) {
			return true
		}
	}
	return holds(f.log())
}

// balanced waits until the nodes share all shards evenly.
func (f *failoverRun) balanced(nodes ...string) {
	f.t.Helper()
	f.await(fmt.Sprintf("%v share the shards", nodes), func(l *failover.Log) bool {
		spread, all := failover.Spread(l.Owners(f.now()), nodes, f.shards)
		return all && spread <= 1
	})
}

// pass lets time pass: what must not happen has so long to happen.
func (f *failoverRun) pass(d time.Duration) { time.Sleep(d) }

// finish publishes no more, waits until all is printed, has all nodes leave, and checks the log.
func (f *failoverRun) finish() *failover.Report {
	f.t.Helper()
	f.stopPublishing()
	f.comes(patience, func(l *failover.Log) bool { return l.Missing() == 0 }) // else the check says what is lost
	var leaving []*failoverNode
	for _, n := range f.nodes {
		if n.alive() {
			n.signal(syscall.SIGTERM)
			leaving = append(leaving, n)
		}
	}
	for _, n := range leaving {
		n.left()
	}
	report := failover.Check(f.log())
	for _, v := range report.Violations {
		f.t.Errorf("%s: %s", v.Rule, v.Text)
	}
	if report.More > 0 {
		f.t.Errorf("%d more violations are not shown", report.More)
	}
	f.t.Logf("%d records; what should take no time took at most %v", report.Records, time.Duration(f.slowest.Load()).Round(time.Millisecond))
	return report
}
