package actors

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

// streamRef is a stream as a request spells it.
type streamRef struct {
	// spelling is what the request said; answers and deliveries repeat it.
	spelling string
	// name is the stream's name.
	name string
	// arn is set when the spelling is one.
	arn string
}

// target is how the stream is named to the service: by ARN if that was given (it may be another account's), else by name, which every
// emulator understands.
func (s streamRef) target() (name, arn *string) {
	if s.arn != "" {
		return nil, &s.arn
	}
	return &s.name, nil
}

const maxStreamName = 128

// parseStream reads a stream's name or ARN. Only the form is checked.
func parseStream(spelling string) (streamRef, *Error) {
	if spelling == "" {
		return streamRef{}, invalid("", "stream.name", "is empty")
	}
	if !strings.HasPrefix(spelling, "arn:") {
		if err := checkStreamName(spelling, spelling); err != nil {
			return streamRef{}, err
		}
		return streamRef{spelling: spelling, name: spelling}, nil
	}
	a, err := arn.Parse(spelling)
	if err != nil {
		return streamRef{}, malformedARN(spelling)
	}
	kind, name, ok := strings.Cut(a.Resource, "/")
	if !ok || kind != "stream" || a.Partition == "" || a.Service != "kinesis" || a.Region == "" || a.AccountID == "" {
		return streamRef{}, malformedARN(spelling)
	}
	if err := checkStreamName(spelling, name); err != nil {
		return streamRef{}, err
	}
	return streamRef{spelling: spelling, name: name, arn: spelling}, nil
}

func malformedARN(spelling string) *Error {
	e := invalid(spelling, "stream.name", "is not the ARN of a stream")
	e.Advice = "arn:aws:kinesis:REGION:ACCOUNT:stream/NAME"
	return e
}

func checkStreamName(spelling, name string) *Error {
	if len(name) > maxStreamName {
		return invalid(spelling, "stream.name", "is longer than %d characters", maxStreamName)
	}
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '.', r == '-':
		default:
			return invalid(spelling, "stream.name", "has a character %q that no stream name can have", r)
		}
	}
	if name == "" {
		return invalid(spelling, "stream.name", "is empty")
	}
	return nil
}

// reading says how a subscription reads; a checked StreamDescriptor with the defaults filled in.
type reading struct {
	stream             streamRef
	startAt            *messages.Position
	createShards       int32
	batchSize          int // 0: one Delivery per record
	windowRecords      int
	windowBytes        int
	perKeyOrder        bool
	relaxed            bool // children do not wait for their parents
	maxAttempts        int32
	deadLetter         string
	strays             messages.StrayRecords
	onRecreated        messages.OnRecreated
	consumer           string // the registered consumer, with enhanced fan-out
	retryBackoff       time.Duration
	pollInterval       time.Duration
	idlePollInterval   time.Duration // of a quiet shard; no longer than pollInterval: the pause does not grow
	checkpointInterval time.Duration
	redeliverAfter     time.Duration // 0: never
}

const (
	maxBatch            = 10_000
	defaultWindow       = 1000
	defaultWindowBytes  = 16 << 20
	defaultRetryBackoff = 200 * time.Millisecond
	maxRetryBackoff     = 30 * time.Second
)

// checkDescriptor finds everything about a Subscribe that can be wrong before asking a service, and fills in the defaults.
func checkDescriptor(d *messages.StreamDescriptor, t Timings) (reading, *Error) {
	ref, err := parseStream(d.GetName())
	if err != nil {
		return reading{}, err
	}
	r := reading{
		stream: ref, startAt: d.GetStartAt(), createShards: d.GetCreateIfMissing(), batchSize: int(d.GetBatchSize()),
		windowRecords: defaultWindow, windowBytes: defaultWindowBytes, perKeyOrder: d.GetPerKeyOrder(),
		maxAttempts: d.GetMaxAttempts(), deadLetter: d.GetDeadLetter(), retryBackoff: defaultRetryBackoff,
		pollInterval: t.PollInterval, idlePollInterval: t.IdlePollInterval, checkpointInterval: t.CheckpointInterval,
		strays: d.GetStrayRecords(), onRecreated: d.GetOnRecreated(),
		relaxed: d.GetOrdering() == messages.Ordering_ORDERING_RELAXED,
	}
	name := ref.spelling
	if d.CreateIfMissing != nil && d.GetCreateIfMissing() < 1 {
		return reading{}, invalid(name, "create_if_missing", "is %d: a stream has at least one shard", d.GetCreateIfMissing())
	}
	if d.BatchSize != nil && (d.GetBatchSize() < 1 || d.GetBatchSize() > maxBatch) {
		return reading{}, invalid(name, "batch_size", "is %d: 1 to %d are possible", d.GetBatchSize(), maxBatch)
	}
	if d.WindowRecords != nil {
		if d.GetWindowRecords() < 1 {
			return reading{}, invalid(name, "window_records", "is %d: nothing could be delivered", d.GetWindowRecords())
		}
		r.windowRecords = int(d.GetWindowRecords())
	}
	if d.WindowBytes != nil {
		if d.GetWindowBytes() < 1 {
			return reading{}, invalid(name, "window_bytes", "is %d: nothing could be delivered", d.GetWindowBytes())
		}
		r.windowBytes = int(d.GetWindowBytes())
	}
	if d.GetMaxAttempts() < 0 {
		return reading{}, invalid(name, "max_attempts", "is %d: it can't be negative", d.GetMaxAttempts())
	}
	if _, known := messages.StrayRecords_name[int32(r.strays)]; !known {
		return reading{}, invalid(name, "stray_records", "%d is no policy", r.strays)
	}
	if _, known := messages.OnRecreated_name[int32(r.onRecreated)]; !known {
		return reading{}, invalid(name, "on_recreated", "%d is no policy", r.onRecreated)
	}
	if _, known := messages.Ordering_name[int32(d.GetOrdering())]; !known {
		return reading{}, invalid(name, "ordering", "is %d, which is neither strict nor relaxed", d.GetOrdering())
	}
	if err := checkDurations(name, d, &r); err != nil {
		return reading{}, err
	}
	if r.deadLetter != "" {
		if err := checkDeadLetter(name, d, ref); err != nil {
			return reading{}, err
		}
	}
	if err := checkFanOut(name, d); err != nil {
		return reading{}, err
	}
	if d.GetEnhancedFanOut() {
		r.consumer = d.GetConsumerName()
	}
	if d.GetStartAt() != nil {
		if err := checkPosition(name, "start_at", d.GetStartAt()); err != nil {
			return reading{}, err
		}
	}
	return r, nil
}

func checkDurations(name string, d *messages.StreamDescriptor, r *reading) *Error {
	for _, f := range []struct {
		field string
		value *durationpb.Duration
		into  *time.Duration
	}{
		{"retry_backoff", d.GetRetryBackoff(), &r.retryBackoff},
		{"poll_interval", d.GetPollInterval(), &r.pollInterval},
		{"idle_poll_interval", d.GetIdlePollInterval(), &r.idlePollInterval},
		{"checkpoint_interval", d.GetCheckpointInterval(), &r.checkpointInterval},
		{"redeliver_after", d.GetRedeliverAfter(), &r.redeliverAfter},
	} {
		if f.value == nil {
			continue
		}
		if f.value.CheckValid() != nil || f.value.AsDuration() < 0 {
			return invalid(name, f.field, "%v is negative", f.value.AsDuration())
		}
		*f.into = f.value.AsDuration()
	}
	if r.idlePollInterval > idlePollMost {
		return invalid(name, "idle_poll_interval", "%v is too long: at most %v, as iterators expire", r.idlePollInterval, idlePollMost)
	}
	if r.redeliverAfter > 0 && r.redeliverAfter < redeliverLeast {
		return invalid(name, "redeliver_after", "%v is too short: at least %v, or zero for never", r.redeliverAfter, redeliverLeast)
	}
	return nil
}

// redeliverLeast is the shortest time until a delivery comes again: a shard looks for them several times in it.
const redeliverLeast = 10 * time.Millisecond

func checkDeadLetter(name string, d *messages.StreamDescriptor, ref streamRef) *Error {
	dead, err := parseStream(d.GetDeadLetter())
	switch {
	case err != nil:
		err.Field = "dead_letter"
		return err
	case d.GetMaxAttempts() == 0:
		return invalid(name, "dead_letter", "needs max_attempts, else no record ever goes there")
	case dead.name == ref.name:
		return invalid(name, "dead_letter", "is the stream itself: a spent record would come again for ever")
	}
	return nil
}

func checkFanOut(name string, d *messages.StreamDescriptor) *Error {
	if !d.GetEnhancedFanOut() {
		return nil
	}
	if d.GetConsumerName() == "" {
		return invalid(name, "consumer_name", "is empty: enhanced fan-out reads as a registered consumer")
	}
	return nil
}

// checkPosition checks the form of a position.
func checkPosition(stream, field string, p *messages.Position) *Error {
	switch at := p.GetAt().(type) {
	case *messages.Position_TrimHorizon, *messages.Position_Latest:
		return nil
	case *messages.Position_Timestamp:
		if at.Timestamp.GetUnixMillis() < 0 {
			return invalid(stream, field+".timestamp", "%d is before 1970", at.Timestamp.GetUnixMillis())
		}
		return nil
	case *messages.Position_Sequence:
		if at.Sequence.GetShardId() == "" {
			return invalid(stream, field+".sequence.shard_id", "is empty")
		}
		if !leasestore.ValidSequence(at.Sequence.GetSequenceNumber()) {
			e := invalid(stream, field+".sequence.sequence_number", "%q is not a sequence number", at.Sequence.GetSequenceNumber())
			e.Shard = at.Sequence.GetShardId()
			return e
		}
		return nil
	default:
		return invalid(stream, field, "says no position")
	}
}

const maxPartitionKey = 256

// maxHashKey is 2^128-1, the last hash key.
const maxHashKey = "340282366920938463463374607431768211455"

// partitionKeyFault says why a record can't have this partition key; "" if it can.
func partitionKeyFault(key string) string {
	switch n := utf8.RuneCountInString(key); {
	case n == 0:
		return "is empty: leave it out for a random one"
	case n > maxPartitionKey:
		return fmt.Sprintf("has %d characters: %d are possible", n, maxPartitionKey)
	case !utf8.ValidString(key):
		return "is not UTF-8"
	default:
		return ""
	}
}

// recordSize is a record's bytes as the service counts them.
func recordSize(m *messages.Publish) int {
	return len(m.GetData()) + envelopeSize(m.GetHeaders()) + len(m.GetPartitionKey())
}
