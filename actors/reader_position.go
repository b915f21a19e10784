package actors

import (
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/protokinesis/protokinesis/leasestore"
)

// What is made of positions and pages that are not as they should be: pure decisions of the reader.

var errNoSequence = errors.New("the service answered with a record that has no sequence number")

// checkRecords refuses a page whose records can't be placed: nothing could be checkpointed.
func checkRecords(records []types.Record) error {
	for i := range records {
		if !leasestore.ValidSequence(aws.ToString(records[i].SequenceNumber)) {
			return errNoSequence
		}
	}
	return nil
}

// arrivedSince leaves out the records of a page that arrived before an instant, up to the first that did not: arrival times need not grow.
func arrivedSince(records []types.Record, since time.Time) []types.Record {
	for len(records) > 0 && records[0].ApproximateArrivalTimestamp != nil && records[0].ApproximateArrivalTimestamp.Before(since) {
		records = records[1:]
	}
	return records
}

const (
	// instantStep is how much earlier an instant is asked for after it was refused as one of the future, four times as much after each further refusal.
	instantStep = time.Second
	// maxInstants is how many refusals in a row are taken for one of the future: by then the instant is hours earlier.
	maxInstants = 8
)

// instantToAsk is the instant to ask the service for, when one was refused so many times: its clock may be behind. An earlier one brings
// more records, never fewer.
func instantToAsk(at, now time.Time, refusals int) time.Time {
	if refusals == 0 {
		return at
	}
	step := instantStep
	for range refusals - 1 {
		step *= 4
	}
	if now.Before(at) {
		at = now
	}
	return at.Add(-step).Truncate(time.Millisecond) // as it is sent
}
