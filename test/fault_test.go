package test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// What needs sockets, or a service that others wrote. The rest of the faults is shown in virtual time, in package actors.

// front stands between a node and its service and changes what goes through.
type front struct {
	next   aws.HTTPClient
	before func(op string, in map[string]any) // changes the request's fields, if set
	change func(op string, r *http.Request, res *http.Response) (*http.Response, error)
}

// Do implements aws.HTTPClient.
func (f *front) Do(r *http.Request) (*http.Response, error) {
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if f.before != nil {
		form, in := formatOf(r.Header), map[string]any(nil)
		if err := form.decode(r.Body, &in); err != nil {
			return nil, err
		}
		f.before(op, in)
		text, err := form.encode(in)
		if err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.ContentLength, r.Body = int64(len(text)), io.NopCloser(bytes.NewReader(text))
	}
	res, err := f.next.Do(r)
	if err != nil || f.change == nil {
		return res, err
	}
	return f.change(op, r, res)
}

// through puts a front before the target.
func (s *target) through(change func(op string, r *http.Request, res *http.Response) (*http.Response, error)) {
	s.config.HTTPClient = &front{next: s.config.HTTPClient, change: change}
}

// asking changes what is asked of the target.
func (s *target) asking(before func(op string, in map[string]any)) {
	s.config.HTTPClient = &front{next: s.config.HTTPClient, before: before}
}

// every is a fault that strikes the first answer of n of an operation, and then every n-th.
func every(n int64, ops ...string) func(op string) bool {
	var count atomic.Int64
	return func(op string) bool {
		return slices.Contains(ops, op) && count.Add(1)%n == 0
	}
}

// body is an answer's body whose end is another.
type body struct {
	io.Reader
	io.Closer
}

// refused turns an answer into an error of the service, in the same format.
func refused(res *http.Response, code string) *http.Response {
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	form := formatOf(res.Header)
	no, err := form.answer(http.StatusBadRequest, map[string]string{"__type": code, "message": "refused by the test"})
	if err != nil {
		panic(err) // two strings can always be written
	}
	no.Header = res.Header
	no.Header.Del("X-Amzn-Errortype")
	no.Header.Set("Content-Type", string(form))
	return no
}

// G9, G10, I1: answers that break off, end early with a status of 200, or are refused now and then, while records are published, read and checkpointed:
// nothing is lost, nothing comes twice, and the order of each key stays.
func TestReadingThroughABadNetwork(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(op string, res *http.Response) *http.Response{
		"broken off": func(_ string, res *http.Response) *http.Response {
			res.Body = body{io.MultiReader(io.LimitReader(res.Body, 40), failing{}), res.Body}
			return res
		},
		"cut short": func(_ string, res *http.Response) *http.Response {
			whole, _ := io.ReadAll(res.Body)
			res.ContentLength, res.Body = -1, body{bytes.NewReader(whole[:len(whole)/2]), res.Body}
			return res
		},
		"expired":   func(_ string, res *http.Response) *http.Response { return refused(res, "ExpiredIteratorException") },
		"throttled": func(_ string, res *http.Response) *http.Response { return refused(res, "KMSThrottlingException") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for service, open := range services {
				t.Run(service, func(t *testing.T) {
					s := open(t)
					strikes, struck := every(4, "GetRecords"), atomic.Int64{}
					s.through(func(op string, _ *http.Request, res *http.Response) (*http.Response, error) {
						if strikes(op) {
							struck.Add(1)
							return fault(op, res), nil
						}
						return res, nil
					})
					n, stream, got, records := s.connect(t), s.newStream(t, 2), newRecorder(), load{keys: 6, each: 4}
					_, err := n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.HandlerFunc(got.handle))
					require.NoError(t, err)
					records.publish(t, n, stream)
					got.wait(t, records.count())
					require.Eventually(t, func() bool { return struck.Load() >= 4 }, patience, time.Millisecond)
					records.then().publish(t, n, stream)
					got.wait(t, 2*records.count())
					n.shutdown(t)
					assert.Equal(t, records.and(records.then()).payloads(), byKey(got.all()))
				})
			}
		})
	}
}

// failing is a connection that breaks.
type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// G9, G10: connections that the service resets, in the middle of an answer or before it, and calls that it never answers or answers with
// half a body only: the call is given up at its deadline and the same place is read again.
func TestConnectionsThatFail(t *testing.T) {
	t.Parallel()
	for name, effect := range map[string]kinesistest.Effect{
		"reset": kinesistest.Reset(), "reset mid body": kinesistest.ResetMidBody(), "no answer": kinesistest.Hang(), "no body": kinesistest.HangMidBody(),
		"cut short": kinesistest.Body(200, []byte(`{"Records":[{"Data":"YWJj","Partit`)), "2 MB of HTML": kinesistest.Body(503, bytes.Repeat([]byte("<p>"), 700_000)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := embeddedService(t)
			timings := s.timings()
			timings.CallTimeout = 200 * time.Millisecond
			n, stream, got, records := s.connect(t, protokinesis.WithTimings(timings)), s.newStream(t, 2), newRecorder(), load{keys: 6, each: 4}
			_, err := n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.HandlerFunc(got.handle))
			require.NoError(t, err)
			f := s.server.Fault("GetRecords", kinesistest.Match{}, 6, effect)
			records.publish(t, n, stream)
			got.wait(t, records.count())
			require.Eventually(t, func() bool { return f.Count() == 6 }, patience, time.Millisecond)
			records.then().publish(t, n, stream)
			got.wait(t, 2*records.count())
			n.shutdown(t)
			assert.Equal(t, records.and(records.then()).payloads(), byKey(got.all()))
			kinds := 0
			for _, c := range s.server.Calls() {
				if c.Op == "GetShardIterator" {
					kinds++
				}
			}
			assert.Equal(t, 2, kinds, "the iterators were kept")
		})
	}
}

// I2, I3: an iterator that went bad, for good, in the words of services that others wrote: kinesis-local answers 500. Another takes its place. That one is
// good for a page: else failures follow each other, and so do pauses, each twice as long as the last.
func TestIteratorsThatGoBad(t *testing.T) {
	t.Parallel()
	for service, open := range services {
		t.Run(service, func(t *testing.T) {
			s := open(t)
			var mu sync.Mutex
			bad, opened, sent, reads := make(map[any]bool), make(map[any]bool), make(map[any]int), 0
			s.asking(func(op string, in map[string]any) {
				mu.Lock()
				defer mu.Unlock()
				if op != "GetRecords" {
					return
				}
				iterator := in["ShardIterator"]
				if reads++; reads >= 5*(len(bad)+1) && len(bad) < 4 && !opened[iterator] {
					bad[iterator] = true
				}
				if bad[iterator] {
					sent[iterator]++
					in["ShardIterator"] = "AAAAAAAAAAGarbage"
				}
			})
			s.through(func(op string, _ *http.Request, res *http.Response) (*http.Response, error) {
				if op != "GetShardIterator" {
					return res, nil
				}
				var out struct{ ShardIterator string }
				err := peek(res, &out)
				mu.Lock()
				defer mu.Unlock()
				opened[out.ShardIterator] = true
				return res, err
			})
			timings := s.timings()
			timings.CallTimeout = 5 * time.Second // kinesis-local leaves a read without any answer now and then
			n, stream, got, records := s.connect(t, protokinesis.WithTimings(timings)), s.newStream(t, 2), newRecorder(), load{keys: 6, each: 4}
			_, err := n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.HandlerFunc(got.handle))
			require.NoError(t, err)
			records.publish(t, n, stream)
			got.wait(t, records.count())
			require.Eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(bad) == 4 }, patience, time.Millisecond)
			records.then().publish(t, n, stream)
			got.wait(t, 2*records.count())
			n.shutdown(t)
			assert.Equal(t, records.and(records.then()).payloads(), byKey(got.all()))
			for _, times := range sent {
				assert.LessOrEqual(t, times, 5)
			}
		})
	}
}

// R24: a listing of many pages, which kinesalite does not have, with a token that expires on the way.
func TestListingsOfManyPages(t *testing.T) {
	t.Parallel()
	for service, open := range services {
		t.Run(service, func(t *testing.T) {
			s := open(t)
			var pages, refusals atomic.Int64
			s.asking(func(op string, in map[string]any) {
				if op == "ListShards" {
					in["MaxResults"] = 2
				}
			})
			s.through(func(op string, _ *http.Request, res *http.Response) (*http.Response, error) {
				if op == "ListShards" && pages.Add(1)%3 == 0 && refusals.Add(1) < 3 {
					return refused(res, "ExpiredNextTokenException"), nil
				}
				return res, nil
			})
			n, stream, got, records := s.connect(t), s.newStream(t, 5), newRecorder(), load{keys: 20, each: 2}
			sub, err := n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.HandlerFunc(got.handle))
			require.NoError(t, err)
			assert.Len(t, sub.Shards(), 5)
			records.publish(t, n, stream)
			got.wait(t, records.count())
			n.shutdown(t)
			assert.Equal(t, records.payloads(), byKey(got.all()))
		})
	}
}

// S7: credentials that are rotated in the middle: each key works only until the next.
func TestRotatedCredentials(t *testing.T) {
	t.Parallel()
	for service, open := range services {
		t.Run(service, func(t *testing.T) {
			s := open(t)
			var key atomic.Int64
			s.config.Credentials = aws.NewCredentialsCache(aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
				return aws.Credentials{AccessKeyID: fmt.Sprintf("AKID%d", key.Load()), SecretAccessKey: "secret"}, nil
			}))
			s.through(func(_ string, r *http.Request, res *http.Response) (*http.Response, error) {
				if !strings.Contains(r.Header.Get("Authorization"), fmt.Sprintf("Credential=AKID%d/", key.Load())) {
					return refused(res, "ExpiredTokenException"), nil
				}
				return res, nil
			})
			n, stream, got, records := s.connect(t), s.newStream(t, 2), newRecorder(), load{keys: 4, each: 3}
			_, err := n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.HandlerFunc(got.handle))
			require.NoError(t, err)
			records.publish(t, n, stream)
			got.wait(t, records.count())
			key.Add(1)
			for i := range 4 { // published past the node: its own records would come twice, as the answer to the first try is refused
				for k := range records.keys {
					_, err := s.client.PutRecord(t.Context(), &kinesis.PutRecordInput{
						StreamName: &stream, PartitionKey: aws.String(fmt.Sprint("key-", k)), Data: []byte(fmt.Sprint(i)),
					})
					require.NoError(t, err)
				}
			}
			all := got.wait(t, records.count()+4*records.keys)
			n.shutdown(t)
			require.Len(t, got.all(), len(all), "nothing came twice")
			for k, data := range byKey(all) {
				assert.Equal(t, []string{"0", "1", "2", "3"}, data[records.each:], k)
			}
		})
	}
}

// I4: a checkpoint that is not of the shard, by the word of services that others wrote: it is told, with shard and checkpoint, and nothing is
// skipped until someone seeks.
func TestForeignCheckpoint(t *testing.T) {
	t.Parallel()
	const foreign = "49000000000000000000000000000000000000000000000000000001"
	for service, open := range services {
		t.Run(service, func(t *testing.T) {
			s := open(t)
			stream, store := s.newStream(t, 1), leasestore.NewMemory()
			n := s.connect(t, protokinesis.WithLeaseStore(store))
			p := newProbe(t, n)
			opened := subscribe(t, p, n, protokinesis.Stream(stream))
			publishTo(t, n, stream, "0")
			deliveries, _ := take(t, p, 1)
			unsubscribe(t, p, opened.GetSubscription())
			shard := opened.GetShards()[0]
			plantCheckpoint(t, store, shard, foreign)

			opened = subscribe(t, p, n, protokinesis.Stream(stream))
			e := probe.Fish(p, func(*messages.SubscriptionError) bool { return true })
			assert.False(t, e.GetFatal())
			assert.Equal(t, messages.ErrorKind_ERROR_KIND_READ, e.GetError().GetKind())
			assert.Equal(t, shard, e.GetError().GetShardId())
			assert.Contains(t, e.GetError().GetText(), foreign)
			assert.Equal(t, foreign, checkpoint(t, store, shard))

			p.Request(opened.GetSubscription(), &messages.Seek{To: protokinesis.TrimHorizon()})
			again := probe.Fish(p, func(*messages.Delivery) bool { return true })
			assert.Equal(t, deliveries[shard][0].GetSequenceNumber(), again.GetSequenceNumber())
		})
	}
}

// plantCheckpoint stores a checkpoint, as an earlier run of the application would have.
func plantCheckpoint(t *testing.T, store leasestore.Store, shard, sequence string) {
	t.Helper()
	streams, err := store.Streams(t.Context())
	require.NoError(t, err)
	lease, err := store.Get(t.Context(), leasestore.Key{Stream: streams[0].Stream, Shard: shard})
	require.NoError(t, err)
	lease, err = store.Acquire(t.Context(), lease, "earlier")
	require.NoError(t, err)
	lease, err = store.Move(t.Context(), lease, leasestore.AtSequence(sequence, 0), lease.Seek)
	require.NoError(t, err)
	_, err = store.Release(t.Context(), lease)
	require.NoError(t, err)
}

// I5: from an instant that is yet to come on, with services that refuse it.
func TestStartInTheFuture(t *testing.T) {
	t.Parallel()
	for service, open := range services {
		t.Run(service, func(t *testing.T) {
			s := open(t)
			if s.name == kinesalite {
				t.Skip("kinesalite never answers AT_TIMESTAMP for a shard without a record at or after the instant")
			}
			n, stream, got := s.connect(t), s.newStream(t, 1), newRecorder()
			publishTo(t, n, stream, "0")
			at := time.Now().Add(time.Second)
			_, err := n.Subscribe(t.Context(), protokinesis.Stream(stream, protokinesis.StartAt(protokinesis.AtTimestamp(at))),
				protokinesis.HandlerFunc(got.handle))
			require.NoError(t, err)
			publishTo(t, n, stream, "1")
			for time.Now().Before(at) {
				publishTo(t, n, stream, "1")
			}
			publishTo(t, n, stream, "2")
			require.Eventually(t, func() bool {
				return slices.Contains(payloads(got.all()), "to 2")
			}, patience, time.Millisecond)
			n.shutdown(t)
			for _, d := range got.all() {
				assert.False(t, d.Arrival().Before(at.Truncate(time.Millisecond)), "%v is before %v", d.Arrival(), at)
			}
		})
	}
}
