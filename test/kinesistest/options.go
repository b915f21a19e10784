package kinesistest

import "time"

// Defaults of the options.
const (
	defaultAccountID  = "000000000000"
	defaultRegion     = "us-east-1"
	defaultShardLimit = 20_000
	defaultListPage   = 1000
	defaultCallLog    = 100_000
)

// Option changes how a service behaves.
type Option func(*config)

type config struct {
	accountID   string
	region      string
	limits      bool
	streamDelay time.Duration
	shardLimit  int
	listPage    int
	callLog     int
	now         func() time.Time
}

func newConfig(opts []Option) config {
	c := config{
		accountID:  defaultAccountID,
		region:     defaultRegion,
		shardLimit: defaultShardLimit,
		listPage:   defaultListPage,
		callLog:    defaultCallLog,
		now:        time.Now,
	}
	for _, opt := range opts {
		opt(&c)
	}
	return c
}

// WithLimits makes the service enforce the quotas of Amazon Kinesis: per shard 5 GetRecords calls and
// 2 MiB a second for reads, 1000 records and 1 MiB a second for writes, and the call rates of
// GetShardIterator, ListShards and the control plane. The default is no limit at all.
func WithLimits() Option { return func(c *config) { c.limits = true } }

// WithStreamDelay sets how long a stream or consumer stays CREATING, UPDATING or DELETING, on the
// service's clock. The default is 0: changes are complete when the call returns.
func WithStreamDelay(d time.Duration) Option { return func(c *config) { c.streamDelay = max(d, 0) } }

// WithAccountID sets the 12-digit account that owns the streams. The default is 000000000000.
func WithAccountID(id string) Option { return func(c *config) { c.accountID = id } }

// WithRegion sets the region that appears in ARNs and in [Server.Config]. The default is us-east-1.
func WithRegion(region string) Option { return func(c *config) { c.region = region } }

// WithShardLimit sets how many open shards the account may have. The default is 20000.
func WithShardLimit(n int) Option { return func(c *config) { c.shardLimit = n } }

// WithListShardsPage sets the largest number of shards one page of ListShards holds. The default is
// 1000, as in Amazon Kinesis; a small page lets tests see paging with few shards.
func WithListShardsPage(n int) Option { return func(c *config) { c.listPage = max(n, 1) } }

// WithCallLog sets how many calls [Service.Calls] remembers; the oldest are forgotten first. The
// default is 100000; 0 turns the log off, which suits benchmarks.
func WithCallLog(n int) Option { return func(c *config) { c.callLog = max(n, 0) } }

// WithClock sets the source of time below the service's movable [Clock]. The default is [time.Now].
func WithClock(now func() time.Time) Option { return func(c *config) { c.now = now } }
