package actors

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/internal/kpl"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
)

// putHook stands in for PutRecords. real is the one that it stands in for.
type putHook func(ctx context.Context, in *kinesis.PutRecordsInput, real putCall) (*kinesis.PutRecordsOutput, error)

type putCall func(in *kinesis.PutRecordsInput) (*kinesis.PutRecordsOutput, error)

type hookedPuts struct {
	Kinesis
	hook putHook
}

func (k hookedPuts) PutRecords(
	ctx context.Context, in *kinesis.PutRecordsInput, o ...func(*kinesis.Options),
) (*kinesis.PutRecordsOutput, error) {
	return k.hook(ctx, in, func(in *kinesis.PutRecordsInput) (*kinesis.PutRecordsOutput, error) {
		return k.Kinesis.PutRecords(ctx, in, o...)
	})
}

// putsThrough puts a hook before the service.
func putsThrough(hook putHook) func(*Config) {
	return func(c *Config) {
		c.Clients = &Clients{Control: c.Clients.Control, Data: hookedPuts{c.Clients.Data, hook}}
	}
}

const (
	codeThrottled = "ProvisionedThroughputExceededException"
	codeInternal  = "InternalFailure"
)

// failSome fails the entries that fails returns a code for, and lets the service store the others.
func failSome(
	in *kinesis.PutRecordsInput, real putCall, fails func(i int, e *types.PutRecordsRequestEntry) string,
) (*kinesis.PutRecordsOutput, error) {
	out := &kinesis.PutRecordsOutput{Records: make([]types.PutRecordsResultEntry, len(in.Records))}
	left := *in
	left.Records = nil
	var at []int
	for i := range in.Records {
		if code := fails(i, &in.Records[i]); code != "" {
			out.Records[i] = types.PutRecordsResultEntry{ErrorCode: &code, ErrorMessage: aws.String("as the test wants it")}
			continue
		}
		left.Records = append(left.Records, in.Records[i])
		at = append(at, i)
	}
	if len(at) == 0 {
		return out, nil
	}
	stored, err := real(&left)
	if err != nil {
		return nil, err
	}
	for i, r := range stored.Records {
		out.Records[at[i]] = r
	}
	return out, nil
}

// outletOf is a publisher of the test stream, of a connected broker.
func (w *world) outletOf(options *messages.PublishOptions) *Outlet {
	w.t.Helper()
	o, err := NewAsker(w.system).Outlet(context.Background(), w.broker, testStream, options)
	require.NoError(w.t, err)
	return o
}

// sentLog is what was published: the records of each key in the order they were sent, and what became of them.
type sentLog struct {
	mu   sync.Mutex
	keys map[string][]Outcome
}

func newSentLog() *sentLog { return &sentLog{keys: make(map[string][]Outcome)} }

// send publishes so many records of a key, one after another, with a pause before each but without waiting for outcomes, and then collects these.
func (l *sentLog) send(t *testing.T, o *Outlet, key string, n int, gap time.Duration) {
	t.Helper()
	tickets := make([]*Ticket, 0, n)
	for i := range n {
		time.Sleep(gap)
		ticket, err := o.PublishAsync(context.Background(), Item{Key: key, Data: fmt.Appendf(nil, "%s#%d", key, i)})
		if err != nil {
			t.Errorf("not taken in: %v", err)
			return
		}
		tickets = append(tickets, ticket)
	}
	outcomes := make([]Outcome, 0, n)
	for _, ticket := range tickets {
		<-ticket.Done()
		outcomes = append(outcomes, ticket.Outcome())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys[key] = outcomes
}

// storedAt is where a record is.
type storedAt struct {
	shard, sequence string
	sub             uint64
}

// requireTrue compares what senders were told with what the service has: nothing lost, nothing falsely said to be stored, duplicates owned up to,
// and the records of each key first stored in the order they were sent. It returns how many were stored, and how many reported as not.
func (l *sentLog) requireTrue(w *world, ordered bool) (stored, failed int) {
	w.t.Helper()
	places := make(map[string][]storedAt)
	last := make(map[string]int)
	all := w.service.Records(testStream) // in the order of shards, children after their parents
	slices.SortStableFunc(all, func(a, b kinesistest.Record) int { return a.Arrival.Compare(b.Arrival) })
	for _, r := range all {
		users := []kpl.UserRecord{{PartitionKey: r.PartitionKey, Data: r.Data}}
		if a, ok := kpl.Split(r.Data); ok {
			users = a.Users
		}
		for sub, u := range users {
			data := string(u.Data)
			key, number, _ := strings.Cut(data, "#")
			require.Equal(w.t, key, u.PartitionKey)
			var n int
			_, err := fmt.Sscan(number, &n)
			require.NoError(w.t, err)
			if first := places[data] == nil; first && ordered {
				if before, any := last[key]; any {
					require.Greater(w.t, n, before, "key %s: %d is stored first after %d", key, n, before)
				}
				last[key] = n
			}
			places[data] = append(places[data], storedAt{r.Shard, r.SequenceNumber, uint64(sub)})
		}
	}
	for key, outcomes := range l.keys {
		for i, o := range outcomes {
			data := fmt.Sprintf("%s#%d", key, i)
			at := places[data]
			delete(places, data)
			switch {
			case o.Err == nil:
				stored++
				require.Contains(w.t, at, storedAt{o.Shard, o.Sequence, o.SubSequence}, "%s: said to be stored where it is not", data)
				require.True(w.t, len(at) == 1 || o.PossibleDuplicate, "%s is stored %d times", data, len(at))
			case !o.Err.OutcomeUnknown:
				failed++
				require.Empty(w.t, at, "%s: said not to be stored: %v", data, o.Err)
			default:
				failed++
			}
		}
	}
	require.Empty(w.t, places, "stored, and never published")
	return stored, failed
}
