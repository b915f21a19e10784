package actors

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/protokinesis/protokinesis/leasestore"
)

// Config is everything a broker is told before it does any I/O. The zero value reads a real AWS account by the SDK's default
// chain, with leases in memory. It is copied when the broker is spawned.
type Config struct {
	// Name is the broker's actor name. Default "protokinesis".
	Name string

	// AWS is used as it is, when set; Region, Endpoint and TestCredentials are ignored then.
	AWS *aws.Config
	// Region and Endpoint override what the SDK's default chain finds.
	Region, Endpoint string
	// TestCredentials signs with fixed, meaningless keys: for emulators.
	TestCredentials bool
	// Clients, when set, are used instead of clients of the AWS configuration: for tests with a fake.
	Clients *Clients

	// WireFormat is what records are read and written in. Default: JSON.
	WireFormat WireFormat
	// SDKProtocol leaves the reading of answers and the writing of requests to the SDK, in JSON.
	SDKProtocol bool

	// Store holds leases and checkpoints. Default: one in memory, which dies with the broker.
	Store leasestore.Store
	// OwnerID names this node in the lease store. A nonce is appended, so that two brokers given the same id are still
	// two owners. Default: the host name.
	OwnerID string

	// Cluster is the node's, if it is a member of one.
	Cluster Cluster

	// Logger takes the log. Default: none.
	Logger *slog.Logger

	// Timings; zero means the default.
	Timings Timings
	// Limits; zero means the default.
	Limits Limits

	// anchor is what this broker's coordinators count their looks at the lease store from.
	anchor time.Time
	// pool runs the broker's actors and their effects.
	pool *pool
	// budget bounds what its readers hold together.
	budget *budget
	// calls are its readers' turnstile to the service, acquisitions that to the lease store.
	calls, acquisitions *turnstile
	// publish bounds what its publishers hold together.
	publish *publishBudget
	// quiet sends no hints, as if no other node could be reached; for tests.
	quiet bool
	// intercept sees every message before an actor does; tests make it panic.
	intercept func(r role, message any)
}

// WireFormat is how GetRecords and PutRecords are written on their way to the service and back. Everything else is JSON.
type WireFormat int

const (
	// JSON is what every service takes. Data travels as base64.
	JSON WireFormat = iota
	// CBOR is a quarter shorter and less work. Amazon's service takes it from clients in Java; when a service turns out not to, JSON is used from then on,
	// and the log says so.
	CBOR
)

// Timings are how long and how often. Zero means the default.
type Timings struct {
	// LeaseTTL is how long a lease outlives the last sign of life of its owner. Default 10 s.
	LeaseTTL time.Duration
	// RenewEvery is the pause between renewals of an idle shard's lease, and between looks for leases of others
	// that have expired. At most a third of LeaseTTL leaves room for retries. Default 3 s.
	RenewEvery time.Duration
	// ListEvery is the pause between listings of a stream's shards, ± 10 %. Default 10 s.
	ListEvery time.Duration
	// PollInterval is the pause between reads of a shard that is read to its tip. Default 1 s.
	PollInterval time.Duration
	// IdlePollInterval is the longest pause between reads of a shard at its tip to which no records come. The pause grows from PollInterval by a
	// 24th of the time without records, so 5 s are reached after two minutes; the next record ends it. At most 1 min, as iterators expire.
	// Default 0: the pause does not grow.
	IdlePollInterval time.Duration
	// CheckpointInterval is how long a moved watermark may stay unsaved. Default 1 s.
	CheckpointInterval time.Duration
	// GatherTime is how long a node that finds a stream read by nobody waits before it takes shards, in a lease store that other nodes may
	// use: those that start at the same time divide them then without moving any. Default: RenewEvery; negative: none. A store of
	// this process only, such as the default, is not waited for.
	GatherTime time.Duration
	// HandoverTimeout is how long what is in flight may take to settle when a shard is handed to another node; what has not by then comes
	// again there. Default 10 s.
	HandoverTimeout time.Duration
	// CallTimeout bounds every call of AWS. Default 30 s.
	CallTimeout time.Duration
	// OpenTimeout bounds Subscribe up to its answer, creation of the stream included. Default 1 min.
	OpenTimeout time.Duration
	// ShutdownTimeout is how long what is in flight may take to settle at the end, unless the request says. Default 30 s.
	ShutdownTimeout time.Duration
	// PublishDeadline is how long a record is tried before its sender is told that it failed. Default 30 s.
	PublishDeadline time.Duration
}

// Limits are how much. Zero means the default.
type Limits struct {
	// ReadsPerSecond is the most GetRecords calls per shard in any second, retries included. Default 5, as the service
	// allows; negative: no limit, for emulators and benchmarks.
	ReadsPerSecond int
	// ReadCalls is how many calls of GetRecords and GetShardIterator all shards of a broker have under way at a time, each on a connection of its
	// own. More wait for their turn; one that takes longer than two seconds counts no more. Many thousands of shards far away from the service need
	// more: the shards' calls a second, times what a call takes in seconds. Default 512; negative: no limit.
	ReadCalls int
	// PendingRecords and PendingBytes bound what the publishers of a stream hold unanswered, and PublishBytes what those of all streams do; beyond,
	// Publish is answered Overloaded, and the Go API waits. A shard that is throttled may use a quarter of the stream's part, as long as there
	// are others. Defaults 10,000, 64 MiB and 256 MiB.
	PendingRecords int
	PendingBytes   int64
	PublishBytes   int64
	// PublishRequests is how many PutRecords a publisher has under way at a time. Default 4.
	PublishRequests int
	// RequestBytes is the most bytes of records in a PutRecords. Default 5 MiB, which every emulator takes; the service itself has taken 10 MiB
	// since October 2025.
	RequestBytes int
	// AggregateBytes and AggregateRecords bound an aggregated record. Defaults 50 KiB, as the Kinesis Producer Library's (MaxRecordSize, if that is
	// less), and 10,000 records.
	AggregateBytes   int
	AggregateRecords int
	// HeldBytes is the most bytes that all shards of a broker hold together, read and not settled. Beyond it a shard that holds records reads no
	// more until it has settled some, and one that holds none reads ten records at a time; a page per shard that was being read may come
	// on top. Default 256 MiB. The bounds of each shard are those of its subscription (window_records, window_bytes).
	HeldBytes int64
	// MaxRecordSize is the most bytes of data and partition key in a record. Default 1 MiB, the service's default.
	MaxRecordSize int
}

// Defaults. The rates are the service's (GetRecords: five calls per second and shard), the rest KCL's or what its users ask for.
const (
	defaultName               = "protokinesis"
	defaultLeaseTTL           = 10 * time.Second
	defaultRenewEvery         = 3 * time.Second
	defaultListEvery          = 10 * time.Second
	defaultPollInterval       = time.Second
	defaultCheckpointInterval = time.Second
	defaultHandoverTimeout    = 10 * time.Second
	defaultCallTimeout        = 30 * time.Second
	defaultOpenTimeout        = time.Minute
	defaultShutdownTimeout    = 30 * time.Second
	defaultPublishDeadline    = 30 * time.Second

	defaultReadsPerSecond = 5
	defaultReadCalls      = 512
	defaultPendingRecords = 10_000
	defaultPendingBytes   = 64 << 20
	defaultPublishBytes   = 256 << 20
	defaultRequests       = 4
	defaultRequestBytes   = 5 << 20
	defaultAggregateBytes = 50 << 10
	defaultAggregateMax   = 10_000
	defaultMaxRecordSize  = 1 << 20
	defaultHeldBytes      = 256 << 20
)

func orDefault[T int | int64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

func (t Timings) withDefaults() Timings {
	orDefault(&t.LeaseTTL, defaultLeaseTTL)
	orDefault(&t.RenewEvery, defaultRenewEvery)
	orDefault(&t.ListEvery, defaultListEvery)
	orDefault(&t.PollInterval, defaultPollInterval)
	orDefault(&t.CheckpointInterval, defaultCheckpointInterval)
	orDefault(&t.GatherTime, t.RenewEvery)
	orDefault(&t.HandoverTimeout, defaultHandoverTimeout)
	orDefault(&t.CallTimeout, defaultCallTimeout)
	orDefault(&t.OpenTimeout, defaultOpenTimeout)
	orDefault(&t.ShutdownTimeout, defaultShutdownTimeout)
	orDefault(&t.PublishDeadline, defaultPublishDeadline)
	return t
}

func (l Limits) withDefaults() Limits {
	orDefault(&l.ReadsPerSecond, defaultReadsPerSecond)
	orDefault(&l.ReadCalls, defaultReadCalls)
	orDefault(&l.PendingRecords, defaultPendingRecords)
	orDefault(&l.PendingBytes, defaultPendingBytes)
	orDefault(&l.PublishBytes, defaultPublishBytes)
	orDefault(&l.PublishRequests, defaultRequests)
	orDefault(&l.RequestBytes, defaultRequestBytes)
	orDefault(&l.AggregateRecords, defaultAggregateMax)
	orDefault(&l.MaxRecordSize, defaultMaxRecordSize)
	orDefault(&l.AggregateBytes, min(defaultAggregateBytes, l.MaxRecordSize))
	orDefault(&l.HeldBytes, defaultHeldBytes)
	return l
}

// validate finds what can't work, before anything is tried. It is checked by Connect, as spawning does not fail.
func (cfg *Config) validate() *Error {
	t := cfg.Timings.withDefaults()
	for _, d := range []struct {
		field string
		value time.Duration
	}{
		{"LeaseTTL", t.LeaseTTL},
		{"RenewEvery", t.RenewEvery},
		{"ListEvery", t.ListEvery},
		{"PollInterval", t.PollInterval},
		{"IdlePollInterval", t.IdlePollInterval},
		{"CheckpointInterval", t.CheckpointInterval},
		{"HandoverTimeout", t.HandoverTimeout},
		{"CallTimeout", t.CallTimeout},
		{"OpenTimeout", t.OpenTimeout},
		{"ShutdownTimeout", t.ShutdownTimeout},
		{"PublishDeadline", t.PublishDeadline},
	} {
		if d.value < 0 {
			return invalid("", d.field, "%v is negative", d.value)
		}
	}
	if cfg.WireFormat != JSON && cfg.WireFormat != CBOR {
		return invalid("", "WireFormat", "%d is none", cfg.WireFormat)
	}
	if cfg.SDKProtocol && cfg.WireFormat != JSON {
		return invalid("", "WireFormat", "the SDK's own protocol is JSON")
	}
	if t.IdlePollInterval > idlePollMost {
		return invalid("", "IdlePollInterval", "%v is too long: at most %v, as iterators expire", t.IdlePollInterval, idlePollMost)
	}
	if t.RenewEvery >= t.LeaseTTL {
		return invalid("", "RenewEvery", "%v is not shorter than LeaseTTL (%v): every lease would expire between renewals",
			t.RenewEvery, t.LeaseTTL)
	}
	l := cfg.Limits.withDefaults()
	return l.validate()
}

func (l Limits) validate() *Error {
	for _, n := range []struct {
		field string
		value int64
	}{
		{"PendingRecords", int64(l.PendingRecords)},
		{"PendingBytes", l.PendingBytes},
		{"PublishBytes", l.PublishBytes},
		{"PublishRequests", int64(l.PublishRequests)},
		{"RequestBytes", int64(l.RequestBytes)},
		{"AggregateBytes", int64(l.AggregateBytes)},
		{"AggregateRecords", int64(l.AggregateRecords)},
		{"MaxRecordSize", int64(l.MaxRecordSize)},
		{"HeldBytes", l.HeldBytes},
	} {
		if n.value < 0 {
			return invalid("", "Limits", "%s is %d: it can't be negative", n.field, n.value)
		}
	}
	if l.RequestBytes > maxRequestBytes {
		return invalid("", "Limits", "RequestBytes is %d: the service takes %d at most", l.RequestBytes, maxRequestBytes)
	}
	if l.AggregateBytes > l.MaxRecordSize {
		return invalid("", "Limits", "AggregateBytes is %d, more than a record may have (MaxRecordSize, %d)", l.AggregateBytes, l.MaxRecordSize)
	}
	return nil
}

// withDefaults is the configuration as the actors use it.
func (cfg Config) withDefaults() *Config {
	if cfg.Name == "" {
		cfg.Name = defaultName
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Timings = cfg.Timings.withDefaults()
	cfg.Limits = cfg.Limits.withDefaults()
	cfg.pool, cfg.anchor = newPool(), time.Now()
	if cfg.budget == nil {
		cfg.budget = &budget{limit: cfg.Limits.HeldBytes}
	}
	if cfg.calls == nil {
		cfg.calls, cfg.acquisitions = newTurnstile(cfg.Limits.ReadCalls), newTurnstile(maxAcquisitions)
	}
	cfg.publish = &publishBudget{limit: cfg.Limits.PublishBytes}
	return &cfg
}

func (cfg *Config) logger() *slog.Logger { return cfg.Logger }

// uniqueOwner is the id that leases are held under: what the user calls this node, and a nonce, as process ids and
// host names repeat in containers and so does what users put into configuration.
func uniqueOwner(given string) (string, error) {
	name := given
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "unknown-host"
		}
		name = host
	}
	nonce := make([]byte, 6)
	if _, err := rand.Read(nonce); err != nil {
		return "", fmt.Errorf("no random bytes for the owner id: %w", err)
	}
	return name + "-" + hex.EncodeToString(nonce), nil
}
