package actors

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

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
