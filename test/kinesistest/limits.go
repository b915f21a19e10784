package kinesistest

import "sync"

// Quotas of Amazon Kinesis, per second.
const (
	readCallsPerSecond    = 5
	readBytesPerSecond    = 2 << 20
	writeRecordsPerSecond = 1000
	writeBytesPerSecond   = 1 << 20
	secondMillis          = 1000
)

// meter counts the use of a quota in windows of a second that begin with the first use. Bytes may
// overdraw a window once; the debt is then carried over and paid off by the windows that follow,
// which is why reads fail for up to five seconds after a page of 10 MiB.
type meter struct {
	start int64 // ms
	calls int
	bytes int
}

// roll moves to the window that contains now.
func (m *meter) roll(now int64, bytesPerSecond int) {
	passed := (now - m.start) / secondMillis
	if passed <= 0 {
		return
	}
	m.calls = 0
	m.bytes = max(0, m.bytes-int(min(passed, 1<<20))*bytesPerSecond)
	if m.bytes == 0 {
		m.start = now
		return
	}
	m.start += passed * secondMillis
}

// allowRead reports whether a GetRecords call may run now, and counts it if so.
func (m *meter) allowRead(now int64) bool {
	m.roll(now, readBytesPerSecond)
	if m.calls >= readCallsPerSecond || m.bytes >= readBytesPerSecond {
		return false
	}
	m.calls++
	return true
}

// allowWrite reports whether a record of size bytes may be put now, and counts it if so. A record
// above 1 MiB fits only an unused window.
func (m *meter) allowWrite(now int64, size int) bool {
	m.roll(now, writeBytesPerSecond)
	if m.calls >= writeRecordsPerSecond || (m.bytes > 0 && m.bytes+size > writeBytesPerSecond) {
		return false
	}
	m.calls++
	m.bytes += size
	return true
}

// scope says what a call rate is counted for.
type scope int

const (
	perAccount scope = iota
	perStream
	perShard
)

type callRate struct {
	perSecond int
	scope     scope
	code      string
}

var callRates = map[string]callRate{
	"CreateStream":                  {5, perAccount, codeLimitExceeded},
	"DeleteStream":                  {5, perAccount, codeLimitExceeded},
	"DescribeStream":                {10, perAccount, codeLimitExceeded},
	"DescribeStreamSummary":         {20, perAccount, codeLimitExceeded},
	"DescribeLimits":                {1, perAccount, codeLimitExceeded},
	"ListStreams":                   {5, perAccount, codeLimitExceeded},
	"ListShards":                    {1000, perStream, codeLimitExceeded},
	"SplitShard":                    {5, perAccount, codeLimitExceeded},
	"MergeShards":                   {5, perAccount, codeLimitExceeded},
	"RegisterStreamConsumer":        {5, perAccount, codeLimitExceeded},
	"DeregisterStreamConsumer":      {5, perAccount, codeLimitExceeded},
	"DescribeStreamConsumer":        {20, perStream, codeLimitExceeded},
	"ListStreamConsumers":           {5, perStream, codeLimitExceeded},
	"IncreaseStreamRetentionPeriod": {5, perAccount, codeLimitExceeded},
	"DecreaseStreamRetentionPeriod": {5, perAccount, codeLimitExceeded},
	"GetShardIterator":              {5, perShard, codeThroughputExceeded},
}

// rateLimiter counts the calls of the control plane and of GetShardIterator.
type rateLimiter struct {
	mu     sync.Mutex
	meters map[string]*meter
}

// allow counts the call and returns the error that refuses it, if its rate is exceeded.
func (r *rateLimiter) allow(call *Call, now int64) *apiError {
	rate, ok := callRates[call.Op]
	if !ok {
		return nil
	}
	key := call.Op
	if rate.scope != perAccount {
		key += "/" + call.Stream
	}
	if rate.scope == perShard {
		key += "/" + call.Shard
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.meters[key]
	if m == nil {
		m = &meter{}
		r.meters[key] = m
	}
	m.roll(now, 1)
	if m.calls >= rate.perSecond {
		return failf(rate.code, "Rate exceeded for %s.", key)
	}
	m.calls++
	return nil
}
