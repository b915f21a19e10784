package actors

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/internal/kpl"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
)

// unreliable is a service whose calls take a while and fail in every way, at random.
type unreliable struct {
	w   *world
	mu  sync.Mutex
	rnd *rand.Rand

	sent, entries int
	hangs         int
}

// refusal of a whole request, as the SDK returns it.
func wholeError(status int, code string) error {
	return &awshttp.ResponseError{ResponseError: &smithyhttp.ResponseError{
		Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status}},
		Err:      &smithy.GenericAPIError{Code: code, Message: "as the test wants it"},
	}}
}

func (u *unreliable) put(ctx context.Context, in *kinesis.PutRecordsInput, real putCall) (*kinesis.PutRecordsOutput, error) {
	u.mu.Lock()
	u.sent++
	u.entries += len(in.Records)
	what, delay := u.rnd.IntN(100), time.Duration(u.rnd.IntN(40))*time.Millisecond
	codes := make([]string, len(in.Records))
	for i := range codes {
		switch n := u.rnd.IntN(100); {
		case n < 10:
			codes[i] = codeThrottled
		case n < 15:
			codes[i] = codeInternal
		}
	}
	if what == 0 {
		u.hangs++
	}
	sent := u.sent
	u.mu.Unlock()
	if sent%40 == 20 {
		u.reshard(sent) //nolint:contextcheck // an operator does it
	}
	time.Sleep(delay)
	switch {
	case what == 0: // never answers
		<-ctx.Done()
		return nil, ctx.Err()
	case what == 1: // stores it, and never answers
		_, _ = real(in)
		<-ctx.Done()
		return nil, ctx.Err()
	case what < 6:
		_, _ = real(in)
		return nil, &smithy.OperationError{ServiceID: "Kinesis", OperationName: "PutRecords", Err: errReset}
	case what < 9:
		return nil, wholeError(http.StatusInternalServerError, codeInternal)
	case what < 11:
		return nil, wholeError(http.StatusBadRequest, "KMSThrottlingException")
	case what < 13 && len(in.Records) > 1:
		return nil, wholeError(http.StatusBadRequest, "ValidationException")
	case what < 40:
		return real(in)
	default:
		return failSome(in, real, func(i int, _ *types.PutRecordsRequestEntry) string { return codes[i] })
	}
}

// reshard splits the first open shard, or merges the first two.
func (u *unreliable) reshard(n int) {
	var open []kinesistest.Shard
	for _, s := range u.w.service.Shards(testStream) {
		if s.EndSequence == "" {
			open = append(open, s)
		}
	}
	hash := func(s kinesistest.Shard) kpl.Hash {
		h, _ := kpl.ParseHash(s.StartHash)
		return h
	}
	slices.SortFunc(open, func(a, b kinesistest.Shard) int { return hash(a).Compare(hash(b)) })
	if n%80 == 20 || len(open) < 2 {
		split(u.w, open[0].ID)
	} else {
		merge(u.w, open[0].ID, open[1].ID)
	}
}

var errReset = fmt.Errorf("read: connection reset by peer")

func faultRun(t *testing.T, seed uint64, options *messages.PublishOptions, keys, each int) {
	t.Helper()
	u := &unreliable{rnd: rand.New(rand.NewPCG(seed, 1))}
	var log *sentLog
	inBubble(t, 4, func(w *world) {
		u.w = w
		w.connect()
		o := w.outletOf(options)
		log = newSentLog()
		begun := time.Now()
		var all sync.WaitGroup
		for k := range keys {
			all.Go(func() { log.send(t, o, fmt.Sprint("key-", k), each, time.Duration(1+k)*time.Millisecond) })
		}
		all.Wait()
		strict := options.GetOrdering() != messages.PublishOrdering_PUBLISH_ORDERING_RELAXED
		stored, failed := log.requireTrue(w, strict)
		t.Logf("seed %d: %d stored, %d not, in %v, %d requests with %d entries, %d hung", seed, stored, failed, time.Since(begun), u.sent, u.entries, u.hangs)
		require.Equal(w.t, keys*each, stored+failed)
		for _, outcomes := range log.keys {
			for _, o := range outcomes {
				require.True(w.t, o.Err == nil || seed == 0 || (seed == 2 && o.Err.Kind == messages.ErrorKind_ERROR_KIND_OVERLOADED), "%v", o.Err)
			}
		}
	}, putsThrough(func(ctx context.Context, in *kinesis.PutRecordsInput, real putCall) (*kinesis.PutRecordsOutput, error) {
		return u.put(ctx, in, real)
	}), func(c *Config) {
		c.Timings.CallTimeout = 2 * time.Second
		c.Limits.AggregateBytes = 500
		if seed > 0 {
			c.Timings.PublishDeadline = 5 * time.Minute
		}
		if seed == 2 { // senders have to wait for room
			c.Limits.PendingRecords = 300
		}
	})
}

// P1, P2, P3, P9, K4: under throttles, failures of entries and of requests, resets after storing, calls that hang, refused requests and reshards, every
// record is stored or reported, nothing is falsely said to be stored, and the records of each key are first stored in the order they were sent.
func TestPublishUnderFaults(t *testing.T) {
	for name, options := range map[string]*messages.PublishOptions{
		"strict":                 nil,
		"relaxed":                {Ordering: messages.PublishOrdering_PUBLISH_ORDERING_RELAXED},
		"aggregated":             {Aggregate: true},
		"aggregated and relaxed": {Aggregate: true, Ordering: messages.PublishOrdering_PUBLISH_ORDERING_RELAXED},
		"lingering":              {Linger: durationOf(30 * time.Millisecond)},
	} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprint(name, " ", seed), func(t *testing.T) { faultRun(t, seed, options, 100, 30) })
		}
	}
}
