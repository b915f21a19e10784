package actors

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/internal/kpl"
	"github.com/protokinesis/protokinesis/messages"
)

type actorPID = actor.PID

// Outlet is a publisher as Go code of its process uses it: records are checked and wait for room on their caller's goroutine, and go to the
// publisher directly.
type Outlet struct {
	stream string
	how    publishing
	limits Limits
	quota  *quota
	root   *actor.RootContext
	pid    *actor.PID // set once, before anybody else has the outlet

	draining atomic.Bool // the publisher was told to end
	ended    atomic.Bool // it takes in nothing any more
	gate     atomic.Pointer[shardGate]
	tickets  sync.Pool // of *Ticket
}

// shardGate says which shards take no more records for now. It is there while some are throttled.
type shardGate struct {
	shards  *shardMap
	lanes   map[string]*shardLane
	crowded *atomic.Bool
}

// shut reports whether the shard of a record has no room.
func (g *shardGate) shut(hash kpl.Hash) bool {
	s, known := g.shards.find(hash)
	if !known {
		return false
	}
	l := g.lanes[s.id]
	return l != nil && (l.full.Load() || g.crowded.Load())
}

// Item is a record as Go code publishes it. Without a key it gets a random one.
type Item struct {
	Data         []byte
	Key, HashKey string
	Headers      map[string]string
}

func (r Item) fields() recordFields {
	return recordFields{data: r.Data, key: r.Key, keyless: r.Key == "", hashKey: r.HashKey, headers: r.Headers}
}

// Pauses between looks at a shard that takes no more.
const (
	gateFirst = time.Millisecond
	gateMax   = 50 * time.Millisecond
)

// Publish stores a record. It waits for room until ctx ends, and then for the outcome. An error is an *Error, or of ctx.
func (o *Outlet) Publish(ctx context.Context, r Item) (Stored, error) {
	t, _ := o.tickets.Get().(*Ticket)
	if t == nil {
		t = &Ticket{outlet: o, answered: make(chan struct{}, 1)}
	}
	for {
		if err := o.begin(ctx, t, r); err != nil {
			o.tickets.Put(t)
			return Stored{}, err
		}
		outcome, answered := t.wait(ctx)
		if !answered {
			return Stored{}, ctx.Err()
		}
		if outcome.Err != nil && outcome.Err.Kind == messages.ErrorKind_ERROR_KIND_OVERLOADED {
			continue // it had to make room again
		}
		t.data = nil // not to be held until the next one
		o.tickets.Put(t)
		if outcome.Err != nil {
			return Stored{}, outcome.Err
		}
		return outcome.Stored, nil
	}
}

// PublishAsync begins to store a record. It waits for room until ctx ends, and not for the outcome. That may be Overloaded all the same: when its
// shard turns out to be throttled, and others need the room.
func (o *Outlet) PublishAsync(ctx context.Context, r Item) (*Ticket, error) {
	t := new(Ticket)
	return t, o.Begin(ctx, t, r)
}

// Begin is PublishAsync with a new ticket that the caller has made.
func (o *Outlet) Begin(ctx context.Context, t *Ticket, r Item) error {
	t.outlet = o
	return o.begin(ctx, t, r)
}

// begin makes room for a record and sends it.
func (o *Outlet) begin(ctx context.Context, t *Ticket, r Item) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	fields := r.fields()
	size, invalid := fields.check(o.stream, o.limits)
	if invalid != nil {
		return invalid
	}
	fields.prepare()
	if err := o.enter(ctx, &fields, int64(size)); err != nil {
		return err
	}
	t.data, t.key, t.keyless, t.hashKey, t.size = fields.data, fields.key, fields.keyless, fields.hashKey, size
	t.number, t.outcome = NextCorrelation(), Outcome{}
	t.taken.Store(false)
	t.open.Store(t.number)
	o.send(t)
	return nil
}

// send passes a request to the publisher. At the moment of its end the publisher's name stands for nothing, and what is sent there is lost, see
// tombstone: whoever sends then refuses his own request.
func (o *Outlet) send(r refusable) {
	o.root.Send(o.pid, r)
	if o.ended.Load() {
		r.refuse(notConnected(messages.BrokerState_BROKER_STATE_CLOSED))
	}
}

// enter waits until there is room for a record, in its shard and in the stream.
func (o *Outlet) enter(ctx context.Context, f *recordFields, size int64) error {
	if o.gate.Load() == nil && o.quota.try(1, size) {
		return nil
	}
	hash := f.hash()
	for {
		if err := o.passGate(ctx, hash); err != nil {
			return err
		}
		if err := o.room(ctx, 1, size, &hash); err != nil {
			return err
		}
		if g := o.gate.Load(); g == nil || !g.shut(hash) {
			return nil
		}
		o.quota.release(1, size) // its shard turned out to take no more while it waited
	}
}

// PublishBatch stores records and returns what became of each. It waits for room for all of them until ctx ends.
func (o *Outlet) PublishBatch(ctx context.Context, records []Item) ([]Outcome, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t := &batchTicket{
		outlet: o, number: NextCorrelation(), done: make(chan struct{}),
		items: make([]batchItem, 0, len(records)), outcomes: make([]Outcome, len(records)),
	}
	for i, r := range records {
		fields := r.fields()
		size, invalid := fields.check(o.stream, o.limits)
		if invalid != nil {
			t.outcomes[i].Err = invalid
			continue
		}
		fields.prepare()
		t.items = append(t.items, batchItem{fields: fields, size: size, index: i})
		t.bytes += int64(size)
	}
	if err := checkBatchSize(o.stream, len(t.items), t.bytes, o.limits); err != nil {
		return nil, err
	}
	if len(t.items) == 0 {
		return t.outcomes, nil
	}
	for i := range t.items {
		if o.gate.Load() == nil {
			break
		}
		if err := o.passGate(ctx, t.items[i].fields.hash()); err != nil {
			return nil, err
		}
	}
	if err := o.room(ctx, len(t.items), t.bytes, nil); err != nil {
		return nil, err
	}
	o.send(t)
	select {
	case <-t.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if t.err != nil {
		return nil, t.err
	}
	return t.outcomes, nil
}

// checkBatchSize refuses a batch for which there is never room.
func checkBatchSize(stream string, records int, bytes int64, l Limits) *Error {
	if records <= l.PendingRecords && bytes <= min(l.PendingBytes, l.PublishBytes) {
		return nil
	}
	e := invalid(stream, "records", "are %d with %d bytes: a publisher holds at most %d records and %d bytes", records, bytes,
		l.PendingRecords, min(l.PendingBytes, l.PublishBytes))
	e.Advice = "publish them in several batches, or raise Limits.PendingRecords, PendingBytes or PublishBytes"
	return e
}

// passGate waits while the record's shard takes no more.
func (o *Outlet) passGate(ctx context.Context, hash kpl.Hash) error {
	for wait := gateFirst; ; wait = min(2*wait, gateMax) {
		g := o.gate.Load()
		if g == nil || !g.shut(hash) {
			return nil
		}
		if err := pause(ctx, wait); err != nil {
			return errors.Join(o.overloaded("its shard is throttled, and too many of its records wait to be stored"), err)
		}
	}
}

// room makes room in the quota.
func (o *Outlet) room(ctx context.Context, records int, bytes int64, hash *kpl.Hash) error {
	if o.quota.try(records, bytes) {
		return nil
	}
	o.root.Send(o.pid, wantsRoom{})
	if err := o.quota.wait(ctx, records, bytes, hash); err != nil {
		return errors.Join(o.overloaded("too many records wait to be stored"), err)
	}
	return nil
}

func (o *Outlet) overloaded(text string) *Error {
	return &Error{Kind: messages.ErrorKind_ERROR_KIND_OVERLOADED, Stream: o.stream, Text: text, Advice: "publish more slowly"}
}
