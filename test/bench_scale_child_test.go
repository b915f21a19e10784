package test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/leasestore/file"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// scaleVariable tells a process to play a part in the measurements of many shards. Service, library and bare client have a process each, so that
// memory, goroutines and processor time are of one of them alone.
const scaleVariable = "PROTOKINESIS_TEST_SCALE"

// scaleJob is what such a process is to be.
type scaleJob struct {
	Part       string // scaleService, scaleOurs, scaleBare
	URL        string // of the service
	Shards     int
	PollMillis int
	IdleMillis int    // the longest pause of a quiet shard
	StoreFile  string // leases in this file instead of in memory
}

const (
	scaleService = "service"
	scaleOurs    = "ours"
	scaleBare    = "bare"
)

// scaleSample is what a process has used and holds, as it answers to doSample.
type scaleSample struct {
	At         time.Time
	CPU        float64 // seconds
	Heap       float64 // bytes of live objects
	Stacks     float64 // bytes
	Resident   float64 // bytes, as the system counts them; 0 where it can't be asked
	Goroutines int
	Records    int64  // delivered; of the service: stored
	Polls      int64  // of the service: GetRecords answered
	Writes     int64  // of the lease store
	URL        string `json:",omitempty"` // of the service
	Text       string `json:",omitempty"` // why it failed
}

// Commands, a line each on standard input; each is answered by a line with a sample.
const (
	doSample  = "sample"
	doMemory  = "memory"  // the same after a collection
	doProfile = "profile" // KIND PATH
	doProduce = "produce" // RECORDS-A-SECOND SECONDS
)

// beScaleChild plays a part, if this process was started for one, and does not return then.
func beScaleChild() {
	text := os.Getenv(scaleVariable)
	if text == "" {
		return
	}
	c := &scaleChild{out: json.NewEncoder(os.Stdout)}
	if err := json.Unmarshal([]byte(text), &c.job); err != nil {
		panic(err)
	}
	play := map[string]func() error{scaleService: c.serve, scaleOurs: c.subscribe, scaleBare: c.pollBare}[c.job.Part]
	if err := play(); err != nil {
		_ = c.out.Encode(scaleSample{Text: err.Error()})
		os.Exit(1)
	}
	c.obey()
	os.Exit(0)
}

type scaleChild struct {
	job     scaleJob
	out     *json.Encoder
	records atomic.Int64
	writes  atomic.Int64
	service *kinesistest.Server
	errors  int // told by the library
}

// obey answers until standard input ends.
func (c *scaleChild) obey() {
	c.answer(false)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		words := strings.Fields(in.Text())
		switch words[0] {
		case doProfile:
			if err := writeProfile(words[1], words[2]); err != nil {
				panic(err)
			}
		case doProduce:
			rate, _ := strconv.Atoi(words[1])
			seconds, _ := strconv.Atoi(words[2])
			c.produce(rate, seconds)
		}
		c.answer(words[0] == doMemory)
	}
}

func (c *scaleChild) answer(collect bool) {
	s := scaleSample{CPU: cpuSeconds(), Goroutines: runtime.NumGoroutine(), Records: c.records.Load(), Writes: c.writes.Load()}
	s.At = time.Now()
	if collect {
		runtime.GC()
	}
	s.Heap, s.Stacks, s.Resident = memory("/memory/classes/heap/objects:bytes"), memory("/memory/classes/heap/stacks:bytes"), resident()
	if c.service != nil {
		s.Polls, s.URL = int64(c.service.CallCount("GetRecords")), c.service.URL()
	}
	if err := c.out.Encode(s); err != nil {
		panic(err)
	}
}

func memory(class string) float64 {
	s := []metrics.Sample{{Name: class}}
	metrics.Read(s)
	return float64(s[0].Value.Uint64())
}

func writeProfile(kind, path string) error {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	if kind == "cpu" {
		if err := pprof.StartCPUProfile(out); err != nil {
			return err
		}
		time.Sleep(5 * time.Second)
		pprof.StopCPUProfile()
		return nil
	}
	return pprof.Lookup(kind).WriteTo(out, 0)
}

// serve is the service with its stream.
func (c *scaleChild) serve() error {
	server, err := kinesistest.Listen(context.Background(), "127.0.0.1:0", kinesistest.WithCallLog(0))
	if err != nil {
		return err
	}
	c.service = server
	return server.CreateStream(benchStream, c.job.Shards)
}

// produce stores so many records a second, spread over the second and the shards.
func (c *scaleChild) produce(rate, seconds int) {
	const ticks = 50
	data := make([]byte, benchSize)
	ticker := time.NewTicker(time.Second / ticks)
	defer ticker.Stop()
	for range seconds * ticks {
		<-ticker.C
		for range rate / ticks {
			key := "key-" + strconv.FormatInt(c.records.Add(1)%100_000, 10)
			if _, _, err := c.service.Put(benchStream, key, data); err != nil {
				panic(err)
			}
		}
	}
}

// subscribe is the library. It returns when every shard has its iterator.
func (c *scaleChild) subscribe() error {
	store, err := c.store()
	if err != nil {
		return err
	}
	system := probe.NewSystem(noTB{})
	sys := protokinesis.New(system, protokinesis.WithEndpoint(c.job.URL), protokinesis.WithTestCredentials(), protokinesis.WithLeaseStore(store),
		protokinesis.WithTimings(protokinesis.Timings{PollInterval: c.poll(), IdlePollInterval: time.Duration(c.job.IdleMillis) * time.Millisecond}))
	ctx := context.Background()
	if err := sys.Connect(ctx); err != nil {
		return err
	}
	pid := system.Root.Spawn(actor.PropsFromFunc(func(context actor.Context) {
		switch m := context.Message().(type) {
		case *messages.DeliveryBatch:
			c.records.Add(int64(len(m.GetDeliveries())))
			context.Respond(m.Ack())
		case *messages.SubscriptionError:
			if c.errors++; c.errors == 1 { // what is measured then is no steady state
				fmt.Fprintln(os.Stderr, m.GetError())
			}
		}
	}))
	_, err = sys.Subscribe(ctx, protokinesis.Stream(benchStream, protokinesis.Batches(500)), protokinesis.Actor(pid))
	return err
}

func (c *scaleChild) poll() time.Duration { return time.Duration(c.job.PollMillis) * time.Millisecond }

func (c *scaleChild) store() (leasestore.Store, error) {
	counting := &countingStore{Store: leasestore.NewMemory(), writes: &c.writes}
	if c.job.StoreFile == "" {
		return counting, nil
	}
	var err error
	counting.Store, err = file.Open(c.job.StoreFile)
	return counting, err
}

// countingStore counts what is written.
type countingStore struct {
	leasestore.Store
	writes *atomic.Int64
}

func (s *countingStore) Acquire(ctx context.Context, l leasestore.Lease, owner string) (leasestore.Lease, error) {
	s.writes.Add(1)
	return s.Store.Acquire(ctx, l, owner)
}

func (s *countingStore) Renew(ctx context.Context, l leasestore.Lease) (leasestore.Lease, error) {
	s.writes.Add(1)
	return s.Store.Renew(ctx, l)
}

func (s *countingStore) Checkpoint(ctx context.Context, l leasestore.Lease, to leasestore.Checkpoint) (leasestore.Lease, error) {
	s.writes.Add(1)
	return s.Store.Checkpoint(ctx, l, to)
}
