package actors

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// world is a service, a lease store and an actor system in virtual time: the embedded Kinesis behind the real SDK client, with no
// socket in between.
type world struct {
	t       *testing.T
	service *kinesistest.Service
	system  *actor.ActorSystem
	store   *flakyStore
	cfg     Config
	broker  *actor.PID
	sub     *probe.Probe // subscriber
	me      *probe.Probe // asks the broker
	tamper  func(*wireCall) bool
	oneCall chan struct{} // see wired
	begun   time.Time     // when the broker was spawned: its looks at the store are whole RenewEverys after
}

const testStream = "orders"

// inBubble runs test in a synctest bubble with a world whose stream has so many shards.
func inBubble(t *testing.T, shards int, test func(w *world), options ...func(*Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, service: kinesistest.New(), system: probe.NewSystem(t), store: newFlakyStore()}
		t.Cleanup(w.service.Close)
		if shards > 0 {
			require.NoError(t, w.service.CreateStream(testStream, shards))
		}
		w.cfg = Config{Clients: inProcess(http.HandlerFunc(w.serve)), Store: w.store, OwnerID: "test", Limits: Limits{ReadsPerSecond: -1}}
		if os.Getenv("PROTOKINESIS_TEST_LOG") != "" {
			w.cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
		}
		for _, o := range options {
			o(&w.cfg)
		}
		w.broker = w.spawnBroker()
		w.sub, w.me = probe.New(t, w.system, "subscriber"), probe.New(t, w.system, "me")
		w.sub.SetTimeout(time.Minute)
		w.me.SetTimeout(2 * time.Minute)
		defer func() { // also when the test has failed, or what is left in the bubble would hide why
			w.system.Root.Stop(w.broker)
			time.Sleep(time.Minute) // whatever still ticks shows itself
			synctest.Wait()
		}()
		test(w)
		w.me.Request(w.broker, &messages.Shutdown{Timeout: durationOf(0)})
		probe.Fish(w.me, func(*messages.Closed) bool { return true })
	})
}

func (w *world) spawnBroker() *actor.PID {
	w.begun = time.Now()
	pid, err := SpawnBroker(w.system, w.cfg)
	require.NoError(w.t, err)
	return pid
}

// connect brings the broker into service.
func (w *world) connect() {
	w.me.Request(w.broker, &messages.Connect{})
	probe.Expect[*messages.Connected](w.me)
}

// subscribe opens a subscription for the probe sub.
func (w *world) subscribe(change ...func(*messages.StreamDescriptor)) *messages.Subscribed {
	w.t.Helper()
	d := &messages.StreamDescriptor{Name: testStream}
	for _, f := range change {
		f(d)
	}
	w.me.Request(w.broker, &messages.Subscribe{Stream: d, Subscriber: w.sub.PID()})
	return probe.Fish(w.me, func(*messages.Subscribed) bool { return true })
}

// open connects and subscribes.
func (w *world) open(change ...func(*messages.StreamDescriptor)) *messages.Subscribed {
	w.t.Helper()
	w.connect()
	return w.subscribe(change...)
}

func (w *world) put(key, data string) {
	w.t.Helper()
	_, _, err := w.service.Put(testStream, key, []byte(data))
	require.NoError(w.t, err)
}

// next takes the next delivery; with ack it is settled.
func (w *world) next(ack bool) *messages.Delivery {
	w.t.Helper()
	d := probe.Fish(w.sub, func(*messages.Delivery) bool { return true })
	if ack {
		w.sub.Reply(d.Ack())
	}
	return d
}

// takeAll acks so many deliveries and returns their payloads in order.
func (w *world) takeAll(n int) []string {
	w.t.Helper()
	out := make([]string, 0, n)
	for range n {
		out = append(out, string(w.next(true).GetData()))
	}
	return out
}

func (w *world) lease(shard string) leasestore.Lease {
	w.t.Helper()
	all, err := w.store.Streams(context.Background())
	require.NoError(w.t, err)
	for _, s := range all {
		l, err := w.store.Get(context.Background(), leasestore.Key{Stream: s.Stream, Shard: shard})
		if err == nil {
			return l
		}
	}
	return leasestore.Lease{}
}

func horizon(d *messages.StreamDescriptor) {
	d.StartAt = &messages.Position{At: &messages.Position_TrimHorizon{TrimHorizon: &messages.TrimHorizon{}}}
}

// inProcess are clients that call the service without sockets, which do not live in a bubble.
func inProcess(service http.Handler) *Clients {
	return NewClients(aws.Config{
		Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		BaseEndpoint: aws.String("http://kinesis.test"), HTTPClient: handlerClient{service},
	})
}

type handlerClient struct{ handler http.Handler }

func (h handlerClient) Do(r *http.Request) (res *http.Response, err error) {
	defer func() {
		if p := recover(); p != nil {
			res, err = nil, errors.New("connection reset by peer")
		}
	}()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	in := r.Clone(r.Context())
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		in.Body = io.NopCloser(bytes.NewReader(body))
	}
	in.RequestURI = r.URL.RequestURI()
	rec := httptest.NewRecorder()
	h.handler.ServeHTTP(rec, in)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return rec.Result(), nil
}

// flakyStore is the memory store with an outage on demand and a log of writes.
type flakyStore struct {
	leasestore.Store
	mu      sync.Mutex
	fail    error
	after   bool // fail after having written
	delay   time.Duration
	lists   time.Duration // how long List takes to answer, after having looked
	refused string        // the shard whose lease can't be acquired
	writes  map[string]int
	seen    []leasestore.Lease
}

func newFlakyStore() *flakyStore {
	return &flakyStore{Store: leasestore.NewMemory(), writes: make(map[string]int)}
}

// outage makes every write fail with err until outage(nil); with after, the write is applied all the same.
func (s *flakyStore) outage(err error, after bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail, s.after = err, after
}

func (s *flakyStore) slow(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = d
}

func (s *flakyStore) slowList(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists = d
}

func (s *flakyStore) List(ctx context.Context, stream leasestore.StreamID) ([]leasestore.Lease, error) {
	leases, err := s.Store.List(ctx, stream)
	s.mu.Lock()
	delay := s.lists
	s.mu.Unlock()
	time.Sleep(delay)
	return leases, err
}

// View is as slow as List.
func (s *flakyStore) View(ctx context.Context, stream leasestore.StreamID) (leasestore.View, error) {
	view, err := s.Store.View(ctx, stream)
	s.mu.Lock()
	delay := s.lists
	s.mu.Unlock()
	time.Sleep(delay)
	return view, err
}

func (s *flakyStore) count(op string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes[op]
}

func (s *flakyStore) write(ctx context.Context, op string, f func() (leasestore.Lease, error)) (leasestore.Lease, error) {
	s.mu.Lock()
	s.writes[op]++
	fail, after, delay := s.fail, s.after, s.delay
	s.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return leasestore.Lease{}, ctx.Err()
		}
	}
	if fail != nil && !after {
		return leasestore.Lease{}, fail
	}
	l, err := f()
	s.mu.Lock()
	s.seen = append(s.seen, l)
	s.mu.Unlock()
	if fail != nil {
		return leasestore.Lease{}, fail
	}
	return l, err
}

// refuse makes acquisitions of a shard's lease fail, until refuse("").
func (s *flakyStore) refuse(shard string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = shard
}

func (s *flakyStore) Acquire(ctx context.Context, l leasestore.Lease, owner string) (leasestore.Lease, error) {
	s.mu.Lock()
	refused := s.refused == l.Shard
	s.mu.Unlock()
	if refused {
		return leasestore.Lease{}, errOutage
	}
	return s.write(ctx, "acquire", func() (leasestore.Lease, error) { return s.Store.Acquire(ctx, l, owner) })
}

func (s *flakyStore) Renew(ctx context.Context, l leasestore.Lease) (leasestore.Lease, error) {
	return s.write(ctx, "renew", func() (leasestore.Lease, error) { return s.Store.Renew(ctx, l) })
}

func (s *flakyStore) Checkpoint(ctx context.Context, l leasestore.Lease, c leasestore.Checkpoint) (leasestore.Lease, error) {
	return s.write(ctx, "checkpoint", func() (leasestore.Lease, error) { return s.Store.Checkpoint(ctx, l, c) })
}

func (s *flakyStore) Release(ctx context.Context, l leasestore.Lease) (leasestore.Lease, error) {
	return s.write(ctx, "release", func() (leasestore.Lease, error) { return s.Store.Release(ctx, l) })
}

type pidOf = actor.PID

func childPID(parent *actor.PID, name string) *actor.PID {
	return actor.NewPID(parent.GetAddress(), parent.GetId()+"/"+name)
}
