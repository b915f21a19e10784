package protokinesis

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/protokinesis/protokinesis/actors"
	"github.com/protokinesis/protokinesis/messages"
)

// Record is what is published.
type Record struct {
	// Stream is the stream's name or ARN.
	Stream string
	// Data is the payload. Do not change it before the record is settled; the end of a context alone does not settle it.
	Data []byte
	// PartitionKey decides the shard, and records of one key keep their order. Empty: a random one.
	PartitionKey string
	// ExplicitHashKey, a decimal 128-bit number, decides the shard instead of PartitionKey.
	ExplicitHashKey string
	// Headers travel in a small envelope before the payload. None: the payload is stored as it is.
	Headers map[string]string
}

func (r *Record) item() actors.Item {
	return actors.Item{Data: r.Data, Key: r.PartitionKey, HashKey: r.ExplicitHashKey, Headers: r.Headers}
}

// Receipt says where a record was stored.
type Receipt struct {
	// Shard and SequenceNumber are its place.
	Shard, SequenceNumber string
	// SubSequenceNumber is its index within an aggregated record; 0 otherwise.
	SubSequenceNumber uint64
	// PossibleDuplicate: an earlier try of unknown outcome may have stored it as well.
	PossibleDuplicate bool
}

func receipt(s actors.Stored) Receipt {
	return Receipt{
		Shard: s.Shard, SequenceNumber: s.Sequence, SubSequenceNumber: s.SubSequence, PossibleDuplicate: s.PossibleDuplicate,
	}
}

// PublisherOption says how records are published.
type PublisherOption func(*messages.PublishOptions)

// Aggregate puts many records into one, in the format of the Kinesis Producer Library: small records cost a fraction then. Readers have to take them
// apart, as this library, the KCL and others do. It is not for streams that distribute records by themselves (AUTO): ErrInvalid.
//
// When a reshard makes an aggregated record end up in a shard that not all of its records belong to, all of them are stored once more, in order, and
// their receipts say PossibleDuplicate.
func Aggregate() PublisherOption {
	return func(o *messages.PublishOptions) { o.Aggregate = true }
}

// RelaxedOrder gives up the order of the records of a partition key: any number of them are on their way at once, and one that fails is stored after
// those that came later. It is faster for few keys.
func RelaxedOrder() PublisherOption {
	return func(o *messages.PublishOptions) { o.Ordering = messages.PublishOrdering_PUBLISH_ORDERING_RELAXED }
}

// Linger lets a record wait up to d, at most a minute, for others to be sent with it. Default 0: it is sent at once, and what comes meanwhile goes with
// the next request.
func Linger(d time.Duration) PublisherOption {
	return func(o *messages.PublishOptions) { o.Linger = durationpb.New(d) }
}

// Publisher publishes records, to any stream. It can be taken at any time, before Connect too, and used from any goroutine.
//
// Records of one partition key that one goroutine publishes through one Publisher are stored in that order. A request to the service takes one record
// of a key, as the service promises no order among more, so the rate comes from many keys; or from Aggregate, or RelaxedOrder.
//
// While too many records wait, or too many of a shard that is throttled, publishing blocks until there is room or ctx ends.
//
// A record that was taken in is tried for Timings.PublishDeadline, whatever becomes of ctx.
//
// Errors: ErrInvalid (nothing was stored), ErrPublish, ErrConfig (credentials or endpoint do not work), ErrOverloaded (when ctx ended while blocked; see
// PublishAsync), ErrTimeout (ctx's deadline passed; the record may be stored yet), ErrNotConnected. A ctx that is cancelled is context.Canceled.
type Publisher struct {
	system  *System
	options *messages.PublishOptions

	outlets atomic.Pointer[map[string]*actors.Outlet] // by stream; they live as long as the broker
	mu      sync.Mutex                                // writes outlets
}

// Publisher returns a handle for publishing, the same for the same options. Without options: in strict order, not aggregated, at once.
func (s *System) Publisher(options ...PublisherOption) *Publisher {
	if len(options) == 0 {
		return s.publisher
	}
	o := new(messages.PublishOptions)
	for _, option := range options {
		option(o)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.publishers {
		if proto.Equal(p.options, o) {
			return p
		}
	}
	p := &Publisher{system: s, options: o}
	s.publishers = append(s.publishers, p)
	return p
}

// Publish stores a record and returns where. When ctx ends first, the record may be stored all the same.
func (p *Publisher) Publish(ctx context.Context, r Record) (Receipt, error) {
	outlet, err := p.outlet(ctx, r.Stream)
	if err != nil {
		return Receipt{}, deadline(err, r.Stream)
	}
	stored, err := outlet.Publish(ctx, r.item())
	if err != nil {
		return Receipt{}, deadline(err, r.Stream)
	}
	return receipt(stored), nil
}

// outlet finds the publisher of a stream, which the broker names once.
func (p *Publisher) outlet(ctx context.Context, stream string) (*actors.Outlet, error) {
	if known := p.outlets.Load(); known != nil {
		if o := (*known)[stream]; o != nil {
			return o, nil
		}
	}
	o, err := p.system.asker.Outlet(ctx, p.system.pid, stream, p.options)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	more := map[string]*actors.Outlet{stream: o}
	if known := p.outlets.Load(); known != nil {
		maps.Copy(more, *known)
	}
	p.outlets.Store(&more)
	return o, nil
}

// Pending is a record on its way.
type Pending struct {
	ticket actors.Ticket
	stream string
	err    error // it was not taken in
}

// closed is the Done of a record that was not taken in.
var closed = func() chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}()

// PublishAsync begins to store a record and returns at once, or when there is room for it. ctx bounds that wait only. Records of one partition key
// are stored in the order of the calls.
//
// The outcome may be ErrOverloaded all the same: when the shard of many waiting records turns out to be throttled, the youngest of them make room for
// those of other shards. They are not stored and can be published again. Publish does that by itself.
func (p *Publisher) PublishAsync(ctx context.Context, r Record) *Pending {
	pending := &Pending{stream: r.Stream}
	outlet, err := p.outlet(ctx, r.Stream)
	if err == nil {
		err = outlet.Begin(ctx, &pending.ticket, r.item())
	}
	pending.err = deadline(err, r.Stream)
	return pending
}

// Done is closed when the record is settled.
func (p *Pending) Done() <-chan struct{} {
	if p.err != nil {
		return closed
	}
	return p.ticket.Done()
}

// Wait returns where the record was stored, or why it was not. It may be called often, from any goroutine. The end of ctx ends the wait only.
func (p *Pending) Wait(ctx context.Context) (Receipt, error) {
	if p.err != nil {
		return Receipt{}, p.err
	}
	done := p.ticket.Done()
	select {
	case <-done:
	default:
		select {
		case <-done:
		case <-ctx.Done():
			return Receipt{}, deadline(ctx.Err(), p.stream)
		}
	}
	outcome := p.ticket.Outcome()
	if outcome.Err != nil {
		return Receipt{}, outcome.Err
	}
	return receipt(outcome.Stored), nil
}

// Result is what became of one record of a batch.
type Result struct {
	Receipt
	// Err is why it was not stored; nil: it was.
	Err error
}

// PublishBatch stores records and returns what became of each, in their order, when all of them are settled. The records of each stream are taken in
// as a whole. An error means that there are no results: nothing was taken in (ErrInvalid: more than the publisher's bounds; ErrOverloaded,
// ErrNotConnected), or ctx ended before all were settled (ErrTimeout), or, with several streams, either of one of them, while those of others may be
// stored. A single record's Err may be ErrOverloaded as with PublishAsync.
func (p *Publisher) PublishBatch(ctx context.Context, records []Record) ([]Result, error) {
	results := make([]Result, len(records))
	if len(records) == 0 {
		return results, nil
	}
	if otherStream(records) < 0 {
		if err := p.publishBatch(ctx, records, nil, results); err != nil {
			return nil, err
		}
		return results, nil
	}
	byStream := make(map[string][]int)
	for i := range records {
		byStream[records[i].Stream] = append(byStream[records[i].Stream], i)
	}
	var all sync.WaitGroup
	errs := make(chan error, len(byStream))
	for _, indexes := range byStream {
		all.Go(func() { errs <- p.publishBatch(ctx, records, indexes, results) })
	}
	all.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}

// otherStream is the first record of another stream than the first one's; -1: there is none.
func otherStream(records []Record) int {
	for i := range records {
		if records[i].Stream != records[0].Stream {
			return i
		}
	}
	return -1
}

// publishBatch publishes the records with these indexes, all for nil, which are of one stream.
func (p *Publisher) publishBatch(ctx context.Context, records []Record, indexes []int, results []Result) error {
	if indexes == nil {
		indexes = make([]int, len(records))
		for i := range indexes {
			indexes[i] = i
		}
	}
	stream := records[indexes[0]].Stream
	outlet, err := p.outlet(ctx, stream)
	if err != nil {
		return deadline(err, stream)
	}
	items := make([]actors.Item, len(indexes))
	for i, at := range indexes {
		items[i] = records[at].item()
	}
	outcomes, err := outlet.PublishBatch(ctx, items)
	if err != nil {
		return deadline(err, stream)
	}
	for i, at := range indexes {
		results[at].Receipt = receipt(outcomes[i].Stored)
		if outcomes[i].Err != nil {
			results[at].Err = outcomes[i].Err
		}
	}
	return nil
}
