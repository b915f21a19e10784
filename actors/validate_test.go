package actors

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/protokinesis/protokinesis/messages"
)

const goodARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"

func TestParseStream(t *testing.T) {
	longest := strings.Repeat("a", 128)
	for spelling, want := range map[string]streamRef{
		"orders":  {spelling: "orders", name: "orders"},
		"A-z_0.9": {spelling: "A-z_0.9", name: "A-z_0.9"},
		"arnold":  {spelling: "arnold", name: "arnold"},
		longest:   {spelling: longest, name: longest},
		goodARN:   {spelling: goodARN, name: "orders", arn: goodARN},
		"arn:aws-cn:kinesis:cn-north-1:123456789012:stream/a.b": {
			spelling: "arn:aws-cn:kinesis:cn-north-1:123456789012:stream/a.b", name: "a.b",
			arn: "arn:aws-cn:kinesis:cn-north-1:123456789012:stream/a.b",
		},
		"arn:aws:kinesis:us-east-1:000000000000:stream/emulated": {
			spelling: "arn:aws:kinesis:us-east-1:000000000000:stream/emulated", name: "emulated",
			arn: "arn:aws:kinesis:us-east-1:000000000000:stream/emulated",
		},
	} {
		got, err := parseStream(spelling)
		require.Nil(t, err, spelling)
		require.Equal(t, want, got)
		name, arn := got.target()
		if want.arn != "" {
			require.Nil(t, name)
			require.Equal(t, spelling, *arn)
		} else {
			require.Nil(t, arn)
			require.Equal(t, spelling, *name)
		}
	}
}

func TestParseStreamRefuses(t *testing.T) {
	for name, spelling := range map[string]string{
		"empty":                  "",
		"129 characters":         strings.Repeat("a", 129),
		"a space":                "my stream",
		"a slash":                "a/b",
		"a colon":                "a:b",
		"not ASCII":              "größe",
		"a line break":           "a\n",
		"ARN in upper case":      strings.ToUpper(goodARN),
		"ARN cut short":          "arn:aws:kinesis:eu-west-1",
		"ARN of nothing":         "arn:",
		"ARN without a name":     "arn:aws:kinesis:eu-west-1:123456789012:stream/",
		"ARN without stream/":    "arn:aws:kinesis:eu-west-1:123456789012:orders",
		"ARN of a consumer":      goodARN + "/consumer/me:1",
		"ARN of another kind":    "arn:aws:kinesis:eu-west-1:123456789012:consumer/orders",
		"ARN of another service": "arn:aws:dynamodb:eu-west-1:123456789012:stream/orders",
		"ARN without a region":   "arn:aws:kinesis::123456789012:stream/orders",
		"ARN without account":    "arn:aws:kinesis:eu-west-1::stream/orders",
		"ARN without partition":  "arn::kinesis:eu-west-1:123456789012:stream/orders",
		"ARN with a bad name":    "arn:aws:kinesis:eu-west-1:123456789012:stream/my stream",
		"ARN with a long name":   "arn:aws:kinesis:eu-west-1:123456789012:stream/" + strings.Repeat("a", 129),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseStream(spelling)
			require.NotNil(t, err, "%+v", got)
			require.ErrorIs(t, err, ErrInvalid)
			require.Equal(t, "stream.name", err.Field)
			require.NotEmpty(t, err.Text)
		})
	}
}

func FuzzParseStream(f *testing.F) {
	f.Add("orders")
	f.Add(goodARN)
	f.Add("arn:aws:kinesis:::")
	f.Fuzz(func(t *testing.T, spelling string) {
		ref, err := parseStream(spelling)
		if err != nil {
			return
		}
		require.Equal(t, spelling, ref.spelling)
		require.Regexp(t, `^[a-zA-Z0-9_.-]{1,128}$`, ref.name)
		require.True(t, ref.arn == "" && ref.name == spelling || ref.arn == spelling && strings.HasSuffix(spelling, ":stream/"+ref.name))
	})
}

func positionAt(sequence *messages.Sequence) *messages.Position {
	return &messages.Position{At: &messages.Position_Sequence{Sequence: sequence}}
}

func positionAtMillis(ms int64) *messages.Position {
	return &messages.Position{At: &messages.Position_Timestamp{Timestamp: &messages.Timestamp{UnixMillis: ms}}}
}

func TestDescriptorFieldsThatAreWrong(t *testing.T) {
	type d = *messages.StreamDescriptor
	for name, c := range map[string]struct {
		field  string
		change func(d)
	}{
		"no name":                       {"stream.name", func(d d) { d.Name = "" }},
		"a bad name":                    {"stream.name", func(d d) { d.Name = "my stream" }},
		"a malformed ARN":               {"stream.name", func(d d) { d.Name = "arn:aws:kinesis:x" }},
		"create with 0 shards":          {"create_if_missing", func(d d) { d.CreateIfMissing = new(int32(0)) }},
		"create with -1 shards":         {"create_if_missing", func(d d) { d.CreateIfMissing = new(int32(-1)) }},
		"batches of 0":                  {"batch_size", func(d d) { d.BatchSize = new(int32(0)) }},
		"batches of -1":                 {"batch_size", func(d d) { d.BatchSize = new(int32(-1)) }},
		"batches of 10001":              {"batch_size", func(d d) { d.BatchSize = new(int32(10_001)) }}, // G14
		"a window of 0":                 {"window_records", func(d d) { d.WindowRecords = new(int32(0)) }},
		"a window of -1":                {"window_records", func(d d) { d.WindowRecords = new(int32(math.MinInt32)) }},
		"a window of 0 bytes":           {"window_bytes", func(d d) { d.WindowBytes = new(int64(0)) }},
		"a window of -1 bytes":          {"window_bytes", func(d d) { d.WindowBytes = new(int64(-1)) }},
		"an ordering that is none":      {"ordering", func(d d) { d.Ordering = 3 }},
		"a negative ordering":           {"ordering", func(d d) { d.Ordering = -1 }},
		"-1 attempts":                   {"max_attempts", func(d d) { d.MaxAttempts = -1 }},
		"a negative backoff":            {"retry_backoff", func(d d) { d.RetryBackoff = durationpb.New(-1) }},
		"a negative poll interval":      {"poll_interval", func(d d) { d.PollInterval = durationpb.New(-time.Second) }},
		"a negative interval":           {"checkpoint_interval", func(d d) { d.CheckpointInterval = durationpb.New(-time.Hour) }},
		"a negative wait":               {"redeliver_after", func(d d) { d.RedeliverAfter = durationpb.New(-time.Nanosecond) }},
		"a wait of no time":             {"redeliver_after", func(d d) { d.RedeliverAfter = durationpb.New(time.Millisecond) }},
		"a negative idle poll interval": {"idle_poll_interval", func(d d) { d.IdlePollInterval = durationpb.New(-time.Second) }},
		"a pause as long as iterators":  {"idle_poll_interval", func(d d) { d.IdlePollInterval = durationpb.New(5 * time.Minute) }},
		"no duration":                   {"poll_interval", func(d d) { d.PollInterval = &durationpb.Duration{Seconds: 1, Nanos: -1} }},
		"a duration out of range":       {"retry_backoff", func(d d) { d.RetryBackoff = &durationpb.Duration{Seconds: math.MaxInt64} }},
		"a bad dead letter":             {"dead_letter", func(d d) { d.DeadLetter, d.MaxAttempts = "a b", 3 }},
		"a malformed dead letter ARN":   {"dead_letter", func(d d) { d.DeadLetter, d.MaxAttempts = "arn:x", 3 }},
		"a dead letter without bound":   {"dead_letter", func(d d) { d.DeadLetter = "graveyard" }},
		"dead letters in a circle":      {"dead_letter", func(d d) { d.DeadLetter, d.MaxAttempts = "orders", 3 }},
		"dead letters in a circle, ARN": {"dead_letter", func(d d) { d.DeadLetter, d.MaxAttempts = goodARN, 3 }},
		"fan-out without a consumer":    {"consumer_name", func(d d) { d.EnhancedFanOut = true }},
		"an empty position":             {"start_at", func(d d) { d.StartAt = &messages.Position{} }},
		"a time before 1970":            {"start_at.timestamp", func(d d) { d.StartAt = positionAtMillis(-1) }},
		"a sequence of no shard":        {"start_at.sequence.shard_id", func(d d) { d.StartAt = positionAt(&messages.Sequence{SequenceNumber: "1"}) }},
		"a position without sequence":   {"start_at.sequence.shard_id", func(d d) { d.StartAt = positionAt(nil) }},
		"an empty sequence":             {"start_at.sequence.sequence_number", func(d d) { d.StartAt = positionAt(&messages.Sequence{ShardId: "s"}) }},
		"a word as sequence": {"start_at.sequence.sequence_number", func(d d) {
			d.StartAt = positionAt(&messages.Sequence{ShardId: "s", SequenceNumber: "LATEST"})
		}},
		"a negative sequence": {"start_at.sequence.sequence_number", func(d d) {
			d.StartAt = positionAt(&messages.Sequence{ShardId: "s", SequenceNumber: "-5"})
		}},
		"a sequence of 130 digits": {"start_at.sequence.sequence_number", func(d d) {
			d.StartAt = positionAt(&messages.Sequence{ShardId: "s", SequenceNumber: strings.Repeat("1", 130)})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			descriptor := &messages.StreamDescriptor{Name: "orders"}
			c.change(descriptor)
			got, err := checkDescriptor(descriptor, Timings{}.withDefaults())
			require.NotNil(t, err, "%+v", got)
			require.ErrorIs(t, err, ErrInvalid)
			require.Equal(t, c.field, err.Field)
			if c.field != "stream.name" && c.field != "dead_letter" {
				require.Equal(t, "orders", err.Stream)
			}
			require.NotEmpty(t, err.Text)
		})
	}
	_, err := checkDescriptor(nil, Timings{})
	require.NotNil(t, err, "no descriptor at all")
	require.Equal(t, "stream.name", err.Field)
}

func TestDescriptorDefaults(t *testing.T) {
	got, err := checkDescriptor(&messages.StreamDescriptor{Name: "orders"}, Timings{}.withDefaults())
	require.Nil(t, err)
	require.Equal(t, reading{
		stream: streamRef{spelling: "orders", name: "orders"}, windowRecords: 1000, windowBytes: 16 << 20,
		retryBackoff: 200 * time.Millisecond, pollInterval: time.Second, checkpointInterval: time.Second,
	}, got)
}

func TestDescriptorLimitsAreAllowed(t *testing.T) {
	descriptor := &messages.StreamDescriptor{
		Name: goodARN, CreateIfMissing: new(int32(1)), BatchSize: new(int32(10_000)), WindowRecords: new(int32(1)),
		WindowBytes: new(int64(1)), PerKeyOrder: true, MaxAttempts: 1, DeadLetter: "graveyard",
		RetryBackoff: durationpb.New(0), PollInterval: durationpb.New(0), CheckpointInterval: durationpb.New(5 * time.Second),
		StartAt: positionAt(&messages.Sequence{ShardId: "s", SequenceNumber: strings.Repeat("9", 129)}),
	}
	got, err := checkDescriptor(descriptor, Timings{}.withDefaults())
	require.Nil(t, err)
	require.Equal(t, reading{
		stream: streamRef{spelling: goodARN, name: "orders", arn: goodARN}, startAt: descriptor.GetStartAt(), createShards: 1,
		batchSize: 10_000, windowRecords: 1, windowBytes: 1, perKeyOrder: true, maxAttempts: 1, deadLetter: "graveyard",
		checkpointInterval: 5 * time.Second,
	}, got)

	for _, position := range []*messages.Position{
		{At: &messages.Position_TrimHorizon{}},
		{At: &messages.Position_Latest{}},
		positionAtMillis(0),
		positionAt(&messages.Sequence{ShardId: "s", SequenceNumber: "0"}),
	} {
		require.Nil(t, checkPosition("orders", "to", position), "%v", position)
	}
	require.Equal(t, "to", checkPosition("orders", "to", nil).Field)
}

func TestConfigValidate(t *testing.T) {
	require.Nil(t, (&Config{}).validate(), "the zero value is fine")
	for field, change := range map[string]func(c *Config){
		"LeaseTTL":           func(c *Config) { c.Timings.LeaseTTL = -1 },
		"RenewEvery":         func(c *Config) { c.Timings.RenewEvery = 10 * time.Second },
		"ListEvery":          func(c *Config) { c.Timings.ListEvery = -1 },
		"IdlePollInterval":   func(c *Config) { c.Timings.IdlePollInterval = time.Hour },
		"PollInterval":       func(c *Config) { c.Timings.PollInterval = -1 },
		"CheckpointInterval": func(c *Config) { c.Timings.CheckpointInterval = -1 },
		"CallTimeout":        func(c *Config) { c.Timings.CallTimeout = -1 },
		"OpenTimeout":        func(c *Config) { c.Timings.OpenTimeout = -1 },
		"ShutdownTimeout":    func(c *Config) { c.Timings.ShutdownTimeout = -1 },
		"PublishDeadline":    func(c *Config) { c.Timings.PublishDeadline = -1 },
		"Limits":             func(c *Config) { c.Limits.PendingBytes = -1 },
		"WireFormat":         func(c *Config) { c.WireFormat = 7 },
	} {
		var cfg Config
		change(&cfg)
		err := cfg.validate()
		require.NotNil(t, err, field)
		require.Equal(t, field, err.Field)
		require.ErrorIs(t, err, ErrInvalid)
	}
}

// The SDK's own protocol knows no CBOR.
func TestTheSDKsProtocolIsJSON(t *testing.T) {
	require.Nil(t, (&Config{WireFormat: CBOR}).validate())
	require.Nil(t, (&Config{SDKProtocol: true}).validate())
	require.Equal(t, "WireFormat", (&Config{SDKProtocol: true, WireFormat: CBOR}).validate().Field)
}

func TestPublishFieldsThatAreWrong(t *testing.T) {
	type p = *messages.Publish
	for name, c := range map[string]struct {
		field  string
		change func(p)
	}{
		"no stream":           {"stream", func(p p) { p.Stream = "" }},
		"a bad stream":        {"stream", func(p p) { p.Stream = "a b" }},
		"an empty key":        {"partition_key", func(p p) { p.PartitionKey = new("") }},
		"a key of 257":        {"partition_key", func(p p) { p.PartitionKey = new(strings.Repeat("k", 257)) }},
		"a key of 257 signs":  {"partition_key", func(p p) { p.PartitionKey = new(strings.Repeat("🐌", 257)) }},
		"a key not UTF-8":     {"partition_key", func(p p) { p.PartitionKey = new("k\xff") }},
		"a hash key of words": {"explicit_hash_key", func(p p) { p.ExplicitHashKey = "first" }},
		"a negative hash key": {"explicit_hash_key", func(p p) { p.ExplicitHashKey = "-1" }},
		"a hex hash key":      {"explicit_hash_key", func(p p) { p.ExplicitHashKey = "0xff" }},
		"a hash key of 2^128": {"explicit_hash_key", func(p p) { p.ExplicitHashKey = "340282366920938463463374607431768211456" }},
		"a huge hash key":     {"explicit_hash_key", func(p p) { p.ExplicitHashKey = strings.Repeat("9", 200) }},
		"a bad header":        {"headers", func(p p) { p.Headers = map[string]string{"a:b": "c"} }},
	} {
		t.Run(name, func(t *testing.T) {
			m := &messages.Publish{Stream: "orders", Data: []byte("data"), PartitionKey: new("k")}
			c.change(m)
			err := checkPublish(m, Limits{}.withDefaults())
			require.NotNil(t, err)
			require.ErrorIs(t, err, ErrInvalid)
			require.Equal(t, c.field, err.Field)
		})
	}
}

func TestPublishLimitsAreAllowed(t *testing.T) {
	for name, m := range map[string]*messages.Publish{
		"no data":                    {PartitionKey: new("k")},
		"no key":                     {Data: []byte("data")},
		"a key of 256":               {PartitionKey: new(strings.Repeat("k", 256))},
		"a key of 256 signs":         {PartitionKey: new(strings.Repeat("🐌", 256))},
		"the first hash key":         {ExplicitHashKey: "0"},
		"the last hash key":          {ExplicitHashKey: maxHashKey},
		"an ARN, a header, no value": {Stream: goodARN, Headers: map[string]string{"a": ""}},
	} {
		if m.GetStream() == "" {
			m.Stream = "orders"
		}
		require.Nil(t, checkPublish(m, Limits{}.withDefaults()), name)
	}
}

// The service's pattern is 0|([1-9]\d{0,38}): a leading zero makes it refuse the whole request.
func TestExplicitHashKeyWithLeadingZeros(t *testing.T) {
	for _, key := range []string{"00", "007", strings.Repeat("0", 40) + "1"} {
		err := checkPublish(&messages.Publish{Stream: "orders", ExplicitHashKey: key}, Limits{}.withDefaults())
		require.NotNil(t, err, "%q goes to the service, which refuses it", key)
		require.Equal(t, "explicit_hash_key", err.Field)
	}
}

// Bytes count as the service counts them: data with the envelope, and the key in UTF-8.
func TestRecordSize(t *testing.T) {
	limits := Limits{MaxRecordSize: 100}.withDefaults()
	for name, c := range map[string]struct {
		key     string
		headers map[string]string
		room    int // for data
	}{
		"key":              {"k", nil, 99},
		"multi-byte key":   {"🐌🐌", nil, 92},
		"key and header":   {"k", map[string]string{"ab": "cde"}, 99 - 8 - 8},
		"key and headers":  {"k", map[string]string{"ab": "cde", "é": ""}, 99 - 8 - 8 - 5},
		"key alone at 100": {strings.Repeat("k", 100), nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := &messages.Publish{Stream: "orders", PartitionKey: &c.key, Headers: c.headers, Data: make([]byte, c.room)}
			require.Nil(t, checkPublish(m, limits), "exactly at the limit")
			require.Equal(t, 100, recordSize(m))
			require.Len(t, wrapEnvelope(m.GetHeaders(), m.GetData()), 100-len(c.key), "what is sent has the size that was counted")
			m.Data = make([]byte, c.room+1)
			err := checkPublish(m, limits)
			require.NotNil(t, err, "one byte more")
			require.ErrorIs(t, err, ErrInvalid)
			require.Equal(t, "data", err.Field)
			require.NotEmpty(t, err.Advice)
		})
	}
}

func TestRecordSizeIsWhatIsSent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		headers := headerMaps().Draw(t, "headers")
		if rapid.Bool().Draw(t, "none") {
			headers = nil
		}
		m := &messages.Publish{
			PartitionKey: new(rapid.String().Draw(t, "key")), Headers: headers, Data: rapid.SliceOf(rapid.Byte()).Draw(t, "data"),
		}
		require.Equal(t, len(wrapEnvelope(m.GetHeaders(), m.GetData()))+len(m.GetPartitionKey()), recordSize(m))
	})
}

// A record without a key gets a random one, whose bytes count too. The service would refuse the request that it is in.
func TestRecordSizeCountsTheRandomKey(t *testing.T) {
	const limit = 1 << 20
	m := &messages.Publish{Stream: "orders", Data: bytes.Repeat([]byte{1}, limit)}
	require.NotNil(t, checkPublish(m, Limits{MaxRecordSize: limit}.withDefaults()), "%d bytes and a key do not fit into %d", limit, limit)
}

// A spent record was published within the limit; it must still be possible to publish it with the headers
// that say where it comes from. Else it is refused again and again, and its shard never advances.
func TestDeadLetterOfTheLargestRecordCanBePublished(t *testing.T) {
	limits := Limits{MaxRecordSize: 1000}.withDefaults()
	d := &messages.Delivery{
		Stream: "orders", ShardId: "shardId-000000000000", SequenceNumber: strings.Repeat("4", 56), PartitionKey: "k",
		Data: make([]byte, 999), Attempt: 3,
	}
	require.Nil(t, checkPublish(&messages.Publish{Stream: "orders", Data: d.GetData(), PartitionKey: &d.PartitionKey}, limits))
	require.Nil(t, checkPublish(deadLetter("graveyard", d, 1, limits.MaxRecordSize), limits))
}

func TestDeadLetterMessage(t *testing.T) {
	d := &messages.Delivery{
		Stream: "orders", ShardId: "shard", SequenceNumber: "5", SubSequenceNumber: 4, PartitionKey: "k", Data: []byte("data"),
		Headers: map[string]string{"own": "header"}, Attempt: 3,
	}
	m := deadLetter("graveyard", d, 9, 1<<20)
	require.Equal(t, "graveyard", m.GetStream())
	require.Equal(t, "k", m.GetPartitionKey())
	require.Equal(t, "data", string(m.GetData()))
	require.EqualValues(t, 9, m.GetCorrelation())
	require.Equal(t, map[string]string{
		"own": "header", headerDeadStream: "orders", headerDeadShard: "shard", headerDeadSequence: "5", headerDeadSub: "4",
		headerDeadAttempts: "3",
	}, m.GetHeaders())
	require.Equal(t, map[string]string{"own": "header"}, d.GetHeaders(), "the delivery was sent and is not changed")
	require.Nil(t, checkPublish(m, Limits{}.withDefaults()))
	require.Nil(t, deadLetter("graveyard", &messages.Delivery{}, 1, 1<<20).PartitionKey, "no key: a random one, as an empty one is refused")
}

// checkPublish checks a record and the name of its stream, as broker and publisher do.
func checkPublish(m *messages.Publish, l Limits) *Error {
	if _, err := parseStream(m.GetStream()); err != nil {
		err.Field = "stream"
		return err
	}
	f := fieldsOf(m, m.PartitionKey)
	_, err := f.check(m.GetStream(), l)
	return err
}
