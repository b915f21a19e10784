package protokinesis

import (
	"context"
	"errors"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/messages"
)

// Record is what is published.
type Record struct {
	// Stream is the stream's name or ARN.
	Stream string
	// Data is the payload. Do not change it before Publish has returned.
	Data []byte
	// PartitionKey decides the shard, and records of one key keep their order. Empty: a random one.
	PartitionKey string
	// ExplicitHashKey, a decimal 128-bit number, decides the shard instead of PartitionKey.
	ExplicitHashKey string
	// Headers travel in a small envelope before the payload. None: the payload is stored as it is.
	Headers map[string]string
}

// Receipt says where a record was stored.
type Receipt struct {
	// Shard and SequenceNumber are its place.
	Shard, SequenceNumber string
	// PossibleDuplicate: an earlier try of unknown outcome may have stored it as well.
	PossibleDuplicate bool
}

// Publisher publishes records. It can be taken at any time, before Connect too.
type Publisher struct{ system *System }

// Publisher returns a handle for publishing to any stream.
func (s *System) Publisher() *Publisher { return &Publisher{system: s} }

// Pauses between tries while the publisher is overloaded.
const (
	overloadFirst = time.Millisecond
	overloadMax   = 50 * time.Millisecond
)

// Publish stores a record and returns where. Records of one key that one goroutine publishes are stored in that order; a request to the service
// takes one record of a key, as it promises no order among more, so the rate comes from many keys. While too
// many records wait it blocks until there is room or ctx ends. Errors: ErrInvalid (before any I/O), ErrPublish, ErrOverloaded
// (when ctx ended while blocked), ErrTimeout, ErrNotConnected.
func (p *Publisher) Publish(ctx context.Context, r Record) (Receipt, error) {
	var key *string
	if r.PartitionKey != "" {
		key = &r.PartitionKey
	}
	for pause := overloadFirst; ; pause = min(2*pause, overloadMax) {
		answer, err := p.system.publish(ctx, &r, key)
		published, err := as[*messages.Published](answer, deadline(err, r.Stream))
		if err == nil {
			return Receipt{
				Shard: published.GetShardId(), SequenceNumber: published.GetSequenceNumber(),
				PossibleDuplicate: published.GetPossibleDuplicate(),
			}, nil
		}
		if !errors.Is(err, ErrOverloaded) {
			return Receipt{}, err
		}
		if waitErr := wait(ctx, pause); waitErr != nil {
			return Receipt{}, errors.Join(err, waitErr)
		}
	}
}

// publish sends a record to its stream's publisher, which the broker names once.
func (s *System) publish(ctx context.Context, r *Record, key *string) (any, error) {
	to, known := s.publishers.Load(r.Stream)
	if !known {
		pid, err := s.asker.Publisher(ctx, s.pid, r.Stream)
		if err != nil {
			return nil, err
		}
		to, _ = s.publishers.LoadOrStore(r.Stream, pid)
	}
	pid, _ := to.(*actor.PID)
	return s.asker.Publish(ctx, pid, r.Stream, r.Data, key, r.ExplicitHashKey, r.Headers)
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
