package actors

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

const (
	// idlePollMost is the longest pause that may be asked for: an iterator lives for five minutes, and this leaves room for failures.
	idlePollMost = time.Minute
	// quietParts is how slowly the pause of a quiet shard grows: so many times as long as it, the shard has been quiet.
	quietParts = 24
)

// idlePause is the pause between reads of a shard at its tip that has been quiet for so long: at first poll, at last most. So what comes late
// for the pause comes by a 24th of the quiet time later than it would, at most.
func idlePause(quiet, poll, most time.Duration) time.Duration {
	return max(poll, min(quiet/quietParts, most))
}

// heldUp reports whether the last call came later than after a pause, or is the first of all: the shard may not have been quiet, only nobody looked.
func (f *fetcher) heldUp(pollInterval time.Duration) bool {
	return f.stirred.IsZero() || f.called.Sub(f.answered) > 2*max(pollInterval, f.pause)
}

// readQuota is what may be read of a shard in a second. A page may be larger; the seconds after it pay for that.
const readQuota = 2 << 20

// throttlePause is how long to wait after a throttle, the so many-th in a row. owed are the bytes of the page before it: after the
// largest, of 10 MiB, the service may refuse for five seconds.
func throttlePause(refusals, owed int) time.Duration {
	debt := time.Duration((owed+readQuota-1)/readQuota) * time.Second
	return max(debt, backoff(throttleFirst, throttleMax, refusals))
}

// pageBytes is the size of a page as the service counts it.
func pageBytes(records []types.Record) int {
	n := 0
	for i := range records {
		n += len(records[i].Data) + len(aws.ToString(records[i].PartitionKey))
	}
	return n
}
