package actors

import (
	"maps"
	"strconv"

	"github.com/protokinesis/protokinesis/messages"
)

// Headers that say where a dead letter comes from.
const (
	headerDeadStream   = "pk-origin-stream"
	headerDeadShard    = "pk-origin-shard"
	headerDeadSequence = "pk-origin-sequence"
	headerDeadSub      = "pk-origin-sub-sequence" // unless it is 0
	headerDeadAttempts = "pk-attempts"
)

// deadLetter is a spent record on its way to another stream: its payload, key and headers, and where it came from. A record so large that
// this does not fit into maxSize goes without it: it must not be refused, or its shard would never advance.
func deadLetter(stream string, d *messages.Delivery, correlation uint64, maxSize int) *messages.Publish {
	headers := make(map[string]string, len(d.GetHeaders())+5)
	maps.Copy(headers, d.GetHeaders())
	headers[headerDeadStream] = d.GetStream()
	headers[headerDeadShard] = d.GetShardId()
	headers[headerDeadSequence] = d.GetSequenceNumber()
	if sub := d.GetSubSequenceNumber(); sub > 0 {
		headers[headerDeadSub] = strconv.FormatUint(sub, 10)
	}
	headers[headerDeadAttempts] = strconv.Itoa(int(d.GetAttempt()))
	m := &messages.Publish{Stream: stream, Data: d.GetData(), Headers: headers, Correlation: correlation}
	if d.GetPartitionKey() != "" {
		key := d.GetPartitionKey()
		m.PartitionKey = &key
	}
	if recordSize(m) > maxSize {
		m.Headers = d.GetHeaders()
	}
	return m
}
