package protokinesis

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/protokinesis/protokinesis/actors"
	"github.com/protokinesis/protokinesis/messages"
)

// StreamOption says how a stream is read.
type StreamOption func(*messages.StreamDescriptor)

// Stream names the stream to read, by name or ARN.
func Stream(name string, options ...StreamOption) *messages.StreamDescriptor {
	d := &messages.StreamDescriptor{Name: name}
	for _, o := range options {
		o(d)
	}
	return d
}

// StartAt reads from a position instead of the stored checkpoint.
func StartAt(p *messages.Position) StreamOption {
	return func(d *messages.StreamDescriptor) { d.StartAt = p }
}

// CreateIfMissing creates the stream with so many shards if it does not exist.
func CreateIfMissing(shards int) StreamOption {
	return func(d *messages.StreamDescriptor) { d.CreateIfMissing = new(int32(shards)) } //nolint:gosec // checked by the broker
}

// Window bounds the records of one shard that are delivered and not settled; as many again may be read ahead. While it is the calls per second
// ([Limits].ReadsPerSecond) that hold the shard up, a page of up to ten times as many is. Default 1000.
func Window(records int) StreamOption {
	return func(d *messages.StreamDescriptor) { d.WindowRecords = new(int32(records)) } //nolint:gosec // checked by the broker
}

// WindowBytes bounds the bytes of one shard that are delivered and not settled. Default 16 MiB.
func WindowBytes(n int64) StreamOption {
	return func(d *messages.StreamDescriptor) { d.WindowBytes = &n }
}

// Batches delivers up to so many records in a message to an actor. Default: one record per message.
func Batches(size int) StreamOption {
	return func(d *messages.StreamDescriptor) { d.BatchSize = new(int32(size)) } //nolint:gosec // checked by the broker
}

// PerKeyOrder lets only one unsettled record of a partition key out at a time. HandlerFunc sets it by itself.
func PerKeyOrder() StreamOption {
	return func(d *messages.StreamDescriptor) { d.PerKeyOrder = true }
}

// RelaxedOrdering lets the shards of a split or merge be read at once, beside those they came from, instead of after them. Nothing is left
// out, but the order of a partition key's records is not kept across a reshard. Each shard's own order is.
func RelaxedOrdering() StreamOption {
	return func(d *messages.StreamDescriptor) { d.Ordering = messages.Ordering_ORDERING_RELAXED }
}

// EnhancedFanOut reads as a registered consumer, to which the service pushes at a rate of its own. The consumer is registered if it is
// missing, and has leases and checkpoints of its own.
func EnhancedFanOut(consumer string) StreamOption {
	return func(d *messages.StreamDescriptor) { d.EnhancedFanOut, d.ConsumerName = true, consumer }
}

// MaxAttempts bounds the deliveries of a record. Then it is published to deadLetter, if that is not empty, and dropped.
func MaxAttempts(n int, deadLetter string) StreamOption {
	return func(d *messages.StreamDescriptor) { d.MaxAttempts, d.DeadLetter = int32(n), deadLetter } //nolint:gosec // checked by the broker
}

// RetryBackoff is the first pause before a retried record comes again; it doubles up to 30 s. Default 200 ms.
func RetryBackoff(first time.Duration) StreamOption {
	return func(d *messages.StreamDescriptor) { d.RetryBackoff = durationpb.New(first) }
}

// RedeliverAfter is how long a record delivered to an actor may stay unsettled, and nothing be settled that was read before it, until it is delivered
// again: what is sent to another node can be lost on the way. Choose it longer than a record takes to be handled, and at least 10 ms; zero is
// never. MaxAttempts does not count these deliveries. Default 30 s for an actor on another node, never for one on this node. A HandlerFunc, which is always on this node, has
// no use for it.
func RedeliverAfter(d time.Duration) StreamOption {
	return func(s *messages.StreamDescriptor) { s.RedeliverAfter = durationpb.New(d) }
}

// IdlePollInterval lets the pause between reads of a shard at its tip grow while no records come to it: from the poll interval ([Timings]) by a
// 24th of the time without records, up to most, which is at most 1 min. With 5 s a shard that is quiet for two minutes is read a fifth as
// often, and the first record after them is up to 5 s late; then the pause begins anew. Default: that of [Timings], which does not grow.
func IdlePollInterval(most time.Duration) StreamOption {
	return func(d *messages.StreamDescriptor) { d.IdlePollInterval = durationpb.New(most) }
}

// Policies of OnRecreated.
const (
	// FailOnRecreated ends the subscription, or does not open it, with an ErrStream. The default.
	FailOnRecreated = messages.OnRecreated_ON_RECREATED_FAIL
	// ResetOnRecreated starts over at the oldest record of the new stream.
	ResetOnRecreated = messages.OnRecreated_ON_RECREATED_RESET
)

// OnRecreated says what to do when the stream was deleted and created again under its name: checkpoints of before are of another
// stream and never used. Default FailOnRecreated.
func OnRecreated(policy messages.OnRecreated) StreamOption {
	return func(d *messages.StreamDescriptor) { d.OnRecreated = policy }
}

// Policies of StrayRecords.
const (
	// DeliverStrays delivers them as any other. The default.
	DeliverStrays = messages.StrayRecords_STRAY_RECORDS_DELIVER
	// DropStrays skips them.
	DropStrays = messages.StrayRecords_STRAY_RECORDS_DROP
	// StopAtStrays stops the shard before the first and tells the subscriber.
	StopAtStrays = messages.StrayRecords_STRAY_RECORDS_ERROR
)

// StrayRecords says what to do with user records of aggregated records whose hash key lies outside the shard they are in, as producers write them
// for a while after a reshard. They are counted in ShardStatus. Default DeliverStrays.
func StrayRecords(policy messages.StrayRecords) StreamOption {
	return func(d *messages.StreamDescriptor) { d.StrayRecords = policy }
}

// TrimHorizon is the oldest records retained.
func TrimHorizon() *messages.Position {
	return &messages.Position{At: &messages.Position_TrimHorizon{TrimHorizon: &messages.TrimHorizon{}}}
}

// Latest is the tip: what is published from now on.
func Latest() *messages.Position {
	return &messages.Position{At: &messages.Position_Latest{Latest: &messages.Latest{}}}
}

// AtTimestamp is the first records that arrived at or after t.
func AtTimestamp(t time.Time) *messages.Position {
	return &messages.Position{At: &messages.Position_Timestamp{Timestamp: &messages.Timestamp{UnixMillis: t.UnixMilli()}}}
}

// AtSequence is one record of one shard; it is the next one delivered. Other shards stay where they are.
func AtSequence(shard, sequence string) *messages.Position {
	return AtSubSequence(shard, sequence, 0)
}

// AtSubSequence is one user record of an aggregated record; it is the next one delivered. Other shards stay where they are.
func AtSubSequence(shard, sequence string, sub uint64) *messages.Position {
	return &messages.Position{At: &messages.Position_Sequence{
		Sequence: &messages.Sequence{ShardId: shard, SequenceNumber: sequence, SubSequenceNumber: sub},
	}}
}

// Subscriber receives what is read: an Actor or a HandlerFunc.
type Subscriber interface {
	// attach returns the actor that receives, and prepares the stream's description for it.
	attach(s *System, sub *Subscription, d *messages.StreamDescriptor) *actor.PID
}

// Actor subscribes an actor, here or on another node. It receives messages.Delivery, or DeliveryBatch with Batches, and settles by responding
// to them; and messages.SubscriptionError. The subscription ends with it. When the nodes can't reach each other any more it ends too: let an actor on another
// node watch Subscription.PID, and subscribe again when that has stopped.
func Actor(pid *actor.PID) Subscriber { return actorSubscriber{pid} }

type actorSubscriber struct{ pid *actor.PID }

func (a actorSubscriber) attach(*System, *Subscription, *messages.StreamDescriptor) *actor.PID {
	return a.pid
}

// HandlerFunc handles one record: nil acks it, an error retries it after a backoff (see also Drop and RetryAfter), a panic is an
// error. Handlers of different partition keys run in parallel, up to 16 per shard (Handler changes that); those of one key in order. ctx
// ends when the subscription does.
type HandlerFunc func(ctx context.Context, d *Delivery) error

func (f HandlerFunc) attach(s *System, sub *Subscription, d *messages.StreamDescriptor) *actor.PID {
	return Handler{Func: f}.attach(s, sub, d)
}

// Handler is a HandlerFunc with settings.
type Handler struct {
	// Func handles one record.
	Func HandlerFunc
	// Parallel bounds the handlers running at a time per shard. Default 16.
	Parallel int
	// OnError is told of what goes wrong with the subscription; fatal: it has ended. It must not block. Default: the log.
	OnError func(err error, fatal bool)
}

const (
	defaultParallel = 16
	handlerBatch    = 256
)

func (h Handler) attach(s *System, sub *Subscription, d *messages.StreamDescriptor) *actor.PID {
	if h.Parallel <= 0 {
		h.Parallel = defaultParallel
	}
	d.PerKeyOrder, d.RedeliverAfter = true, nil
	if d.BatchSize == nil {
		d.BatchSize = new(int32(handlerBatch))
	}
	sub.handler = actors.SpawnHandler(s.system, actors.HandlerConfig{
		Handle:   func(ctx context.Context, d *messages.Delivery) error { return h.Func(ctx, &Delivery{d}) },
		Parallel: h.Parallel, Logger: s.logger, Ended: sub.end, Stopped: func() { s.forget(sub) },
		OnError: func(e *Error, fatal bool) {
			if fatal {
				sub.setErr(e)
			}
			if h.OnError != nil {
				h.OnError(e, fatal)
				return
			}
			s.logger.Error("subscription", "error", e, "fatal", fatal)
		},
	})
	return sub.handler
}

// Delivery is one record as a HandlerFunc sees it. Its bytes are shared: read only. It shares memory with the records that were read together with it,
// so what is kept of it when the handler has returned keeps all of them, up to 10,000 records or 10 MiB: Clone it.
type Delivery struct{ m *messages.Delivery }

// Stream is the stream as Subscribe named it.
func (d *Delivery) Stream() string { return d.m.GetStream() }

// Shard is the shard it was read from.
func (d *Delivery) Shard() string { return d.m.GetShardId() }

// SequenceNumber is its sequence number.
func (d *Delivery) SequenceNumber() string { return d.m.GetSequenceNumber() }

// SubSequenceNumber is its index within an aggregated record; 0 otherwise.
func (d *Delivery) SubSequenceNumber() uint64 { return d.m.GetSubSequenceNumber() }

// PartitionKey is its partition key.
func (d *Delivery) PartitionKey() string { return d.m.GetPartitionKey() }

// Data is the payload.
func (d *Delivery) Data() []byte { return d.m.GetData() }

// Headers are a copy of the headers it was published with.
func (d *Delivery) Headers() map[string]string { return maps.Clone(d.m.GetHeaders()) }

// Arrival is when the service received it.
func (d *Delivery) Arrival() time.Time { return d.m.Arrival() }

// Clone is a copy with memory of its own, to be kept.
func (d *Delivery) Clone() *Delivery { return &Delivery{d.m.Clone()} }

// Attempt counts the deliveries of it by this reader, from 1.
func (d *Delivery) Attempt() int { return int(d.m.GetAttempt()) }

// Subscription is a stream being read.
type Subscription struct {
	system  *System
	stream  string
	pid     *actor.PID
	handler *actor.PID
	shards  []string
	done    chan struct{}
	ended   sync.Once
	stopped chan struct{} // the handler has stopped

	mu  sync.Mutex
	err error
}

// Subscribe reads a stream. It returns once every shard this node may take has its first iterator: a record published
// after that is read. Errors: ErrInvalid (before any I/O), ErrStream, ErrConfig, ErrTimeout, ErrNotConnected.
func (s *System) Subscribe(ctx context.Context, stream *messages.StreamDescriptor, to Subscriber) (*Subscription, error) {
	sub := &Subscription{system: s, stream: stream.GetName(), done: make(chan struct{}), stopped: make(chan struct{})}
	n := actors.NextCorrelation()
	stream = proto.CloneOf(stream) // the caller's may be used again
	request := &messages.Subscribe{Stream: stream, Correlation: n}
	request.Subscriber = to.attach(s, sub, stream)
	opened, err := as[*messages.Subscribed](s.ask(ctx, stream.GetName(), request, n))
	if err != nil {
		if sub.handler != nil {
			s.system.Root.Poison(sub.handler) // a subscription that opens all the same ends with its subscriber
		}
		return nil, err
	}
	sub.pid, sub.shards = opened.GetSubscription(), opened.GetShards()
	if sub.handler != nil {
		s.mu.Lock()
		s.handlers[sub.handler.Id] = sub
		s.mu.Unlock()
		actors.WatchSubscription(s.system, sub.handler, sub.pid)
	}
	return sub, nil
}

// PID is the subscription's coordinator, for those who send messages.
func (sub *Subscription) PID() *actor.PID { return sub.pid }

// Shards are the shards this node read when the subscription was opened.
func (sub *Subscription) Shards() []string { return sub.shards }

// Done is closed when a HandlerFunc's subscription has ended; Err tells why. For an Actor, watch PID instead.
func (sub *Subscription) Done() <-chan struct{} { return sub.done }

// Err is why the subscription ended by itself; nil before that, or when it was asked to end.
func (sub *Subscription) Err() error {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	return sub.err
}

func (sub *Subscription) setErr(err error) {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	if sub.err == nil {
		sub.err = err
	}
}

func (sub *Subscription) end() { sub.ended.Do(func() { close(sub.done) }) }

// Seek moves the subscription and returns once every moved shard has its new iterator. A position of the whole stream moves all its shards,
// AtSequence one that this node reads. Deliveries from before are void. Errors: ErrInvalid, ErrRead, ErrLease, ErrNotConnected.
func (sub *Subscription) Seek(ctx context.Context, to *messages.Position) error {
	n := actors.NextCorrelation()
	_, err := sub.system.ask(ctx, sub.stream, &messages.Seek{To: to, Stream: sub.stream, Correlation: n}, n)
	return err
}

// Unsubscribe ends the subscription as Shutdown does, for as long as ctx allows, and returns what that does. One that has ended already
// returns nil.
func (sub *Subscription) Unsubscribe(ctx context.Context) error {
	n := actors.NextCorrelation()
	request := &messages.Unsubscribe{Correlation: n, Timeout: budget(ctx)}
	answer, err := as[*messages.Unsubscribed](sub.system.askPID(ctx, sub.pid, sub.stream, request, n))
	if errors.Is(err, ErrNotConnected) {
		err = nil
	}
	if sub.handler != nil {
		if stopErr := sub.system.stopHandler(ctx, sub); err == nil {
			err = stopErr
		}
	}
	if err != nil {
		return err
	}
	return unfinished(sub.stream, "unsubscribed", answer.GetUnfinished())
}

// Status tells how the subscription's shards are.
func (sub *Subscription) Status(ctx context.Context) (*messages.SubscriptionStatus, error) {
	n := actors.NextCorrelation()
	status, err := as[*messages.Status](sub.system.askPID(ctx, sub.pid, sub.stream, &messages.StatusRequest{Correlation: n}, n))
	if err != nil {
		return nil, err
	}
	return status.GetSubscriptions()[0], nil
}
