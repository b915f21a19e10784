package actors

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/protokinesis/protokinesis/messages"
)

// publishing says how records are published: checked messages.PublishOptions.
type publishing struct {
	relaxed, aggregate bool
	linger             time.Duration
}

// publisherKey is which publisher: a broker has one for each stream and options.
type publisherKey struct {
	stream string
	how    publishing
}

// maxLinger is the longest that a record may be made to wait for others: what waits for hours is lost with its process.
const maxLinger = time.Minute

// checkPublishOptions checks the options of a Publish.
func checkPublishOptions(stream string, m *messages.PublishOptions) (publishing, *Error) {
	if m == nil {
		return publishing{}, nil
	}
	how := publishing{
		relaxed:   m.GetOrdering() == messages.PublishOrdering_PUBLISH_ORDERING_RELAXED,
		aggregate: m.GetAggregate(), linger: m.GetLinger().AsDuration(),
	}
	if _, known := messages.PublishOrdering_name[int32(m.GetOrdering())]; !known {
		return publishing{}, invalid(stream, "options.ordering", "is %d, which is neither strict nor relaxed", m.GetOrdering())
	}
	if m.GetLinger() != nil && (m.GetLinger().CheckValid() != nil || how.linger < 0 || how.linger > maxLinger) {
		return publishing{}, invalid(stream, "options.linger", "is %v: 0 to %v are possible", how.linger, maxLinger)
	}
	return how, nil
}

// message is the options as they are sent; nil for the defaults.
func (how publishing) message() *messages.PublishOptions {
	if how == (publishing{}) {
		return nil
	}
	m := &messages.PublishOptions{Aggregate: how.aggregate}
	if how.relaxed {
		m.Ordering = messages.PublishOrdering_PUBLISH_ORDERING_RELAXED
	}
	if how.linger > 0 {
		m.Linger = durationpb.New(how.linger)
	}
	return m
}

// autoStream is the answer to aggregated records for a stream that distributes records by itself.
func autoStream(stream string) *Error {
	e := invalid(stream, "options.aggregate", "the stream distributes its records by itself (AUTO), so that nobody can tell the shard of an aggregated record")
	e.Advice = "publish without aggregation, or set the stream's record distribution strategy to USER_PARTITION_KEY"
	return e
}
