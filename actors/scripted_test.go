package actors

import (
	"context"
	"crypto/md5" //nolint:gosec // how the service hashes partition keys
	"fmt"
	"math/big"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// script changes what the service answers, for what no fault of the service can do. install is an option of inBubble.
type script struct {
	mu   sync.Mutex
	list scriptedList
	page func(*kinesis.GetRecordsOutput) // before a page is returned
	open func()                          // before an iterator is asked for
}

// scriptedList stands in for ListShards; real is the one that it stands in for.
type scriptedList func(in *kinesis.ListShardsInput, real func() (*kinesis.ListShardsOutput, error)) (*kinesis.ListShardsOutput, error)

func (s *script) install(c *Config) {
	c.Clients = &Clients{Control: scripted{c.Clients.Control, s}, Data: scripted{c.Clients.Data, s}}
}

// set changes the script.
func (s *script) set(change func(s *script)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

type scripted struct {
	Kinesis
	script *script
}

func (k scripted) ListShards(
	ctx context.Context, in *kinesis.ListShardsInput, o ...func(*kinesis.Options),
) (*kinesis.ListShardsOutput, error) {
	k.script.mu.Lock()
	list := k.script.list
	k.script.mu.Unlock()
	real := func() (*kinesis.ListShardsOutput, error) { return k.Kinesis.ListShards(ctx, in, o...) }
	if list == nil {
		return real()
	}
	return list(in, real)
}

func (k scripted) GetRecords(
	ctx context.Context, in *kinesis.GetRecordsInput, o ...func(*kinesis.Options),
) (*kinesis.GetRecordsOutput, error) {
	out, err := k.Kinesis.GetRecords(ctx, in, o...)
	k.script.mu.Lock()
	page := k.script.page
	k.script.mu.Unlock()
	if err == nil && page != nil {
		page(out)
	}
	return out, err
}

func (k scripted) GetShardIterator(
	ctx context.Context, in *kinesis.GetShardIteratorInput, o ...func(*kinesis.Options),
) (*kinesis.GetShardIteratorOutput, error) {
	k.script.mu.Lock()
	open := k.script.open
	k.script.mu.Unlock()
	if open != nil {
		open()
	}
	return k.Kinesis.GetShardIterator(ctx, in, o...)
}

// without is a listing that leaves shards out.
func without(hidden ...string) scriptedList {
	return func(_ *kinesis.ListShardsInput, real func() (*kinesis.ListShardsOutput, error)) (*kinesis.ListShardsOutput, error) {
		out, err := real()
		if err != nil {
			return nil, err
		}
		kept := out.Shards[:0:0]
		for _, s := range out.Shards {
			if !slices.Contains(hidden, *s.ShardId) {
				kept = append(kept, s)
			}
		}
		out.Shards = kept
		return out, nil
	}
}

// answering is a listing that always answers the same.
func answering(out *kinesis.ListShardsOutput) scriptedList {
	return func(*kinesis.ListShardsInput, func() (*kinesis.ListShardsOutput, error)) (*kinesis.ListShardsOutput, error) {
		return out, nil
	}
}

func listInput() *kinesis.ListShardsInput {
	return &kinesis.ListShardsInput{StreamName: aws.String(testStream)}
}

// withoutChildren is a last page that does not say who comes after.
func withoutChildren(out *kinesis.GetRecordsOutput) { out.ChildShards = nil }

// keyFor is a partition key whose records go to the shard, and to the lower half of its range, or the upper.
func keyFor(w *world, shard string, upper bool) string {
	w.t.Helper()
	for _, s := range w.service.Shards(testStream) {
		if s.ID != shard {
			continue
		}
		lo, _ := new(big.Int).SetString(s.StartHash, 10)
		hi, _ := new(big.Int).SetString(s.EndHash, 10)
		mid := new(big.Int).Rsh(new(big.Int).Add(lo, hi), 1)
		for i := range 10_000 {
			key := fmt.Sprintf("key-%d", i)
			sum := md5.Sum([]byte(key)) //nolint:gosec // see above
			hash := new(big.Int).SetBytes(sum[:])
			if hash.Cmp(lo) >= 0 && hash.Cmp(hi) <= 0 && (hash.Cmp(mid) >= 0) == upper {
				return key
			}
		}
	}
	w.t.Fatalf("no shard %s", shard)
	return ""
}

// restart ends the broker in order, without waiting for what is in flight, and spawns another on the same store. meanwhile happens
// in between.
func restart(w *world, meanwhile func()) {
	w.t.Helper()
	w.me.Request(w.broker, &messages.Shutdown{Timeout: durationOf(0)})
	probe.Fish(w.me, func(*messages.Closed) bool { return true })
	for _, more := w.sub.TryReceive(); more; _, more = w.sub.TryReceive() { // what the first has delivered
	}
	meanwhile()
	w.cfg.Name += "-again"
	w.broker = w.spawnBroker()
}

// second is another node in the same world, on the same store.
func second(w *world) (broker *pidOf, sub *probe.Probe) {
	w.t.Helper()
	cfg := w.cfg
	cfg.Name, cfg.OwnerID = "second", "second"
	broker, err := SpawnBroker(w.system, cfg)
	require.NoError(w.t, err)
	sub = probe.New(w.t, w.system, "other")
	sub.SetTimeout(time.Minute)
	w.me.Request(broker, &messages.Connect{})
	probe.Expect[*messages.Connected](w.me)
	return broker, sub
}

func subscribeAt(w *world, broker *pidOf, sub *probe.Probe) *messages.Subscribed {
	w.t.Helper()
	w.me.Request(broker, &messages.Subscribe{Stream: &messages.StreamDescriptor{Name: testStream}, Subscriber: sub.PID()})
	return probe.Fish(w.me, func(*messages.Subscribed) bool { return true })
}

func shutDown(w *world, broker *pidOf) {
	w.t.Helper()
	w.me.Request(broker, &messages.Shutdown{Timeout: durationOf(0)})
	probe.Fish(w.me, func(*messages.Closed) bool { return true })
}

// fishEither takes the next delivery of either subscriber and settles it.
func fishEither(w *world, other *probe.Probe) *messages.Delivery {
	w.t.Helper()
	for range 6000 {
		for _, p := range []*probe.Probe{w.sub, other} {
			if e, ok := p.TryReceive(); ok {
				if d, isDelivery := e.Message.(*messages.Delivery); isDelivery {
					p.Reply(d.Ack())
					return d
				}
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	w.t.Fatal("no delivery within a minute")
	return nil
}

// failingToAcquire is an option of inBubble: the first acquisition of the shard's lease fails.
func failingToAcquire(shard string) func(*Config) {
	return func(c *Config) { c.Store = &badStore{Store: c.Store, failAcq: map[string]int{shard: 1}} }
}

// nothingMore waits for d and sees that nothing was delivered.
func nothingMore(w *world, d time.Duration) {
	w.t.Helper()
	time.Sleep(d)
	synctest.Wait()
	for e, more := w.sub.TryReceive(); more; e, more = w.sub.TryReceive() {
		if d, ok := e.Message.(*messages.Delivery); ok {
			require.Fail(w.t, "nothing more was to be delivered", "%s of %s", d.GetData(), d.GetShardId())
		}
	}
}

// Move and SaveState are part of the store's outages, too.
func (s *flakyStore) Move(ctx context.Context, l leasestore.Lease, to leasestore.Checkpoint, seek int64) (leasestore.Lease, error) {
	return s.write(ctx, "move", func() (leasestore.Lease, error) { return s.Store.Move(ctx, l, to, seek) })
}

// written are the checkpoints of a shard in the order in which they were stored.
func (s *flakyStore) written(shard string) []leasestore.Checkpoint {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []leasestore.Checkpoint
	for _, l := range s.seen {
		if l.Shard == shard {
			out = append(out, l.Checkpoint)
		}
	}
	return out
}

// lateStore loses checkpoints that it is armed for: their writer hears of an outage at once, and they are written later.
type lateStore struct {
	leasestore.Store
	mu     sync.Mutex
	after  time.Duration
	next   int
	landed error
}

func (s *lateStore) arm(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = n
}

func (s *lateStore) armed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next > 0
}

func (s *lateStore) Checkpoint(ctx context.Context, l leasestore.Lease, c leasestore.Checkpoint) (leasestore.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == 0 {
		return s.Store.Checkpoint(ctx, l, c)
	}
	s.next--
	ctx = context.WithoutCancel(ctx)
	time.AfterFunc(s.after, func() {
		_, err := s.Store.Checkpoint(ctx, l, c)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.landed = err
	})
	return leasestore.Lease{}, errOutage
}

// hasLanded is what became of the last write that was late.
func (s *lateStore) hasLanded() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.landed
}
