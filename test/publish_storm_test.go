package test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/published"
)

var (
	stormKeys = flag.Int("publish.keys", 100, "how many partition keys TestPublishingThroughAStorm publishes; the whole size is 1000")
	stormEach = flag.Int("publish.each", 20, "how many records of each; the whole size is 200")
	stormSeed = flag.Uint64("publish.seed", 0, "replays the faults of one run of TestPublishingThroughAStorm; 0: of several")
)

// storm lets PutRecords fail in every way, at random: entries that are throttled or fail, requests that are refused, lost before or after they were
// carried out, or never answered; and reshards now and then. It refuses every request that has a record of poison in it.
type storm struct {
	s      *target
	t      *testing.T
	stream string
	next   aws.HTTPClient

	mu      sync.Mutex
	rnd     *rand.Rand
	calls   int
	entries int
	kinds   map[string]int

	resharding sync.Mutex   // one at a time
	overloaded atomic.Int64 // given back, as a shard was throttled and others needed the room
}

// pendingRecords is how many records a stream's publishers hold by default.
const pendingRecords = 10_000

const poison = "poison"

// putRequest is what the storm has to know of a PutRecords.
type putRequest struct {
	Records    []putEntry
	StreamName string
}

type putEntry struct {
	PartitionKey    string
	ExplicitHashKey string `json:",omitempty"`
	Data            []byte
}

// fate is what becomes of a request, and of which entries.
type stormFate struct {
	what  int
	codes []string
}

func (x *storm) decide(entries int) (f stormFate, call int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.calls++
	x.entries += entries
	f = stormFate{what: x.rnd.IntN(200), codes: make([]string, entries)}
	partly := x.rnd.IntN(3) == 0 // a part of the requests goes through whole
	for i := range f.codes {
		switch n := x.rnd.IntN(100); {
		case partly:
		case n < 8:
			f.codes[i] = "ProvisionedThroughputExceededException"
		case n < 12:
			f.codes[i] = "InternalFailure"
		case n < 13:
			f.codes[i] = "SomethingNew"
		}
	}
	return f, x.calls
}

func (x *storm) count(kind string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.kinds[kind]++
}

// Do implements aws.HTTPClient.
func (x *storm) Do(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".PutRecords") {
		return x.next.Do(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var in putRequest
	form := formatOf(r.Header)
	if err := form.decode(bytes.NewReader(body), &in); err != nil {
		x.t.Error(err)
		return form.answer(http.StatusBadRequest, map[string]string{"__type": "ValidationException"}) // an error would only be tried again
	}
	f, call := x.decide(len(in.Records))
	if call%25 == 10 {
		x.reshard(call) //nolint:contextcheck // an operator does it
	}
	if poisoned(in.Records) {
		x.count("poisoned")
		return form.answer(http.StatusBadRequest, map[string]string{"__type": "ValidationException", "message": "poison"})
	}
	switch w := f.what; {
	case w < 2:
		x.count("hung")
		<-r.Context().Done()
		return nil, r.Context().Err()
	case w < 4:
		x.count("stored and hung")
		x.carryOut(r, body)
		<-r.Context().Done()
		return nil, r.Context().Err()
	case w < 10:
		x.count("stored and reset")
		x.carryOut(r, body)
		return nil, errors.New("read: connection reset by peer")
	case w < 14:
		x.count("reset")
		return nil, errors.New("write: broken pipe")
	case w < 18:
		x.count("failed")
		return form.answer(http.StatusInternalServerError, map[string]string{"__type": "InternalFailure"})
	case w < 20:
		x.count("throttled")
		return form.answer(http.StatusBadRequest, map[string]string{"__type": "KMSThrottlingException"})
	case w < 24 && len(in.Records) > 1:
		x.count("refused")
		return form.answer(http.StatusBadRequest, map[string]string{"__type": "ValidationException", "message": "one of them"})
	default:
		return x.partly(r, in, f.codes)
	}
}

// carryOut does what is asked; nobody learns of it.
func (x *storm) carryOut(r *http.Request, body []byte) {
	if res, err := x.pass(r, body); err == nil {
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
}

func (x *storm) pass(r *http.Request, body []byte) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.ContentLength, r.Body = int64(len(body)), io.NopCloser(bytes.NewReader(body))
	return x.next.Do(r)
}

// partly stores the entries without a code.
func (x *storm) partly(r *http.Request, in putRequest, codes []string) (*http.Response, error) {
	form, results := formatOf(r.Header), make([]map[string]string, len(codes))
	left := putRequest{StreamName: in.StreamName}
	var at []int
	for i, code := range codes {
		if code != "" {
			x.count(code)
			results[i] = map[string]string{"ErrorCode": code, "ErrorMessage": "as the test wants it"}
			continue
		}
		left.Records = append(left.Records, in.Records[i])
		at = append(at, i)
	}
	if len(at) > 0 {
		body, err := form.encode(left)
		if err != nil {
			return nil, err
		}
		res, err := x.pass(r, body)
		if err != nil {
			return nil, err
		}
		defer func() { _ = res.Body.Close() }()
		var out struct{ Records []map[string]string }
		if err := formatOf(res.Header).decode(res.Body, &out); err != nil || len(out.Records) != len(at) {
			return nil, errors.Join(err, errors.New("the service answers what it should not"))
		}
		for i, result := range out.Records {
			results[at[i]] = result
		}
	}
	return form.answer(http.StatusOK, map[string]any{"FailedRecordCount": len(codes) - len(at), "Records": results})
}

func poisoned(entries []putEntry) bool {
	return slices.ContainsFunc(entries, func(e putEntry) bool { return bytes.Contains(e.Data, []byte(poison)) })
}

// reshard splits an open shard, or merges two.
func (x *storm) reshard(call int) {
	x.resharding.Lock()
	defer x.resharding.Unlock()
	x.count("reshards")
	open := slices.DeleteFunc(x.s.shards(x.t, x.stream), func(s types.Shard) bool { return s.SequenceNumberRange.EndingSequenceNumber != nil })
	slices.SortFunc(open, func(a, b types.Shard) int { // decimal, without leading zeros
		low, other := *a.HashKeyRange.StartingHashKey, *b.HashKeyRange.StartingHashKey
		return 2*(len(low)-len(other)) + strings.Compare(low, other)
	})
	if at := call % len(open); call%50 == 10 || at == 0 {
		x.s.split(x.t, x.stream, open[at])
	} else {
		x.s.merge(x.t, x.stream, open[at-1], open[at])
	}
}

// stormRun publishes through a storm and returns what the senders were told, in the order in which they sent.
func stormRun(t *testing.T, x *storm, p *protokinesis.Publisher) []published.Told {
	t.Helper()
	told := make([][]published.Told, *stormKeys)
	var all sync.WaitGroup
	for k := range told {
		all.Go(func() {
			key := fmt.Sprint([]string{"key-", "ключ-", "🐌"}[k%3], k)
			pending := make([]*protokinesis.Pending, *stormEach)
			for i := range pending {
				what := ""
				if k%40 == 7 && i%10 == 3 {
					what = poison
				}
				data := fmt.Appendf(nil, "%s#%d %s", key, i, what)
				pending[i] = p.PublishAsync(context.Background(), protokinesis.Record{Stream: x.stream, PartitionKey: key, Data: data})
				told[k] = append(told[k], published.Told{PartitionKey: key, Data: data})
			}
			for i, one := range pending {
				receipt, err := one.Wait(context.Background())
				to := &told[k][i]
				to.Stored, to.Duplicate = err == nil, receipt.PossibleDuplicate
				to.Shard, to.Sequence, to.Sub = receipt.Shard, receipt.SequenceNumber, receipt.SubSequenceNumber
				if err != nil {
					var e *protokinesis.Error
					assert.ErrorAs(t, err, &e)
					to.Unknown = e != nil && e.OutcomeUnknown
					if errors.Is(err, protokinesis.ErrOverloaded) && !bytes.Contains(to.Data, []byte(poison)) {
						x.overloaded.Add(1)
					}
				}
			}
		})
	}
	all.Wait()
	return slices.Concat(told...)
}

// P1, P2, P3, P5, P9, P13, K7: whatever a service does to requests, each record is answered once, and truly: an independent check of what is stored finds
// none lost, none falsely said to be stored, no duplicate that is not owned up to, and the records of each key first stored in the order in which they
// were sent. Only what the service never takes fails, and it fails alone.
//
// The whole size, some minutes: go test ./test -run TestPublishingThroughAStorm -publish.keys 1000 -publish.each 200
func TestPublishingThroughAStorm(t *testing.T) {
	t.Parallel()
	seeds := []uint64{1, 2}
	if *stormSeed != 0 {
		seeds = []uint64{*stormSeed}
	}
	for kind, options := range publisherKinds {
		for _, seed := range seeds {
			t.Run(fmt.Sprint(kind, " ", seed), func(t *testing.T) {
				t.Parallel()
				stormTest(t, seed, kind != "relaxed" && kind != "all", options)
			})
		}
	}
}

func stormTest(t *testing.T, seed uint64, ordered bool, options []protokinesis.PublisherOption) {
	t.Helper()
	s := embeddedService(t)
	x := &storm{
		s: s, t: t, stream: s.newStream(t, 4), next: s.config.HTTPClient, rnd: rand.New(rand.NewPCG(seed, 7)), kinds: make(map[string]int),
	}
	s.config.HTTPClient = x
	timings := s.timings()
	timings.CallTimeout, timings.PublishDeadline = 300*time.Millisecond, 10*time.Minute
	n := s.connect(t, protokinesis.WithTimings(timings), protokinesis.WithLimits(protokinesis.Limits{AggregateBytes: 2000}))
	begun := time.Now()
	told := stormRun(t, x, n.Publisher(options...))
	n.shutdown(t)

	r := published.Check(storedIn(s.server, x.stream), rangesOf(s.server, x.stream), told, ordered)
	overloaded := int(x.overloaded.Load())
	t.Logf("seed %d: %+v (%d overloaded) in %v; %d requests with %d entries: %v", seed, *r, overloaded, time.Since(begun), x.calls, x.entries, x.kinds)
	require.Empty(t, r.Faults)
	poisonous := 0
	for i := range told {
		if bytes.Contains(told[i].Data, []byte(poison)) {
			poisonous++
			require.False(t, told[i].Stored, "%s", told[i].Data)
		}
	}
	require.Positive(t, poisonous)
	require.Equal(t, poisonous+overloaded, r.Failed+r.Unknown, "all but these are stored")
	require.True(t, overloaded == 0 || len(told) > pendingRecords, "there is room for all")
}

// storedIn is what a stream has, in the order in which it was stored: children come after their parents.
func storedIn(server *kinesistest.Server, stream string) []published.Stored {
	records := server.Records(stream)
	slices.SortStableFunc(records, func(a, b kinesistest.Record) int { return a.Arrival.Compare(b.Arrival) })
	stored := make([]published.Stored, 0, len(records))
	for _, r := range records {
		stored = append(stored, published.Stored{Shard: r.Shard, Sequence: r.SequenceNumber, PartitionKey: r.PartitionKey, Data: r.Data})
	}
	return stored
}

func rangesOf(server *kinesistest.Server, stream string) map[string]published.Shard {
	ranges := make(map[string]published.Shard)
	for _, s := range server.Shards(stream) {
		ranges[s.ID] = published.Shard{First: s.StartHash, Last: s.EndHash}
	}
	return ranges
}
