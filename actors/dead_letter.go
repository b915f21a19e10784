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
	headerDeadKey      = "pk-origin-partition-key" // if it could not be its partition key again
)

// maxDeadLetter is the most that the service stores of a record, if the stream allows it. A dead letter may be as large, as it was stored before.
const maxDeadLetter = 10 << 20

// maxRecordSize is the most bytes of a record to be published with these headers.
func maxRecordSize(headers map[string]string, l Limits) int {
	if headers[headerDeadShard] != "" {
		return max(l.MaxRecordSize, maxDeadLetter)
	}
	return l.MaxRecordSize
}

// deadLetter is a spent record on its way to another stream: its payload, key and headers, and where it came from. It must not be refused, or its shard
// would never advance: a key that no record may have, as only a user record has, goes into a header, and a record that fits into usual or the
// largest bound only without the headers goes without them.
func deadLetter(stream string, d *messages.Delivery, correlation uint64, usual int) *messages.Publish {
	headers := make(map[string]string, len(d.GetHeaders())+6)
	maps.Copy(headers, d.GetHeaders())
	headers[headerDeadStream] = d.GetStream()
	headers[headerDeadShard] = d.GetShardId()
	headers[headerDeadSequence] = d.GetSequenceNumber()
	if sub := d.GetSubSequenceNumber(); sub > 0 {
		headers[headerDeadSub] = strconv.FormatUint(sub, 10)
	}
	headers[headerDeadAttempts] = strconv.Itoa(int(d.GetAttempt()))
	m := &messages.Publish{Stream: stream, Data: d.GetData(), Headers: headers, Correlation: correlation}
	if key := d.GetPartitionKey(); partitionKeyFault(key) == "" {
		m.PartitionKey = &key
	} else if key != "" && headerFault(headerDeadKey, key) == "" {
		headers[headerDeadKey] = key
	}
	with := recordSize(m)
	without := with - envelopeSize(headers) + envelopeSize(d.GetHeaders())
	if (without <= usual && with > usual) || with > maxDeadLetter {
		m.Headers = d.GetHeaders()
	}
	return m
}
