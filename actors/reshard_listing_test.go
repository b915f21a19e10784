package actors

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// Listings of many shards, in part, late, and with shards that fail.

// reshardOften leaves a stream of one shard with n shards closed and two open.
func reshardOften(w *world, rounds int) (closed int) {
	w.t.Helper()
	split(w, shardName(0))
	for i := range rounds {
		merge(w, shardName(3*i+1), shardName(3*i+2))
		split(w, shardName(3*i+3))
	}
	return 1 + 3*rounds
}

// R17, R27: finished shards are neither leased nor read, whatever of them the listing shows, and do not keep the open ones waiting:
// all of those are open when Subscribe is answered.
func TestFinishedShardsDoNotKeepOpenOnesWaiting(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		closed := reshardOften(w, 20)
		w.put("k", "a")
		require.Equal(w.t, []string{"a"}, w.takeAll(1))
		time.Sleep(30 * time.Second)
		for n := range closed {
			require.True(w.t, w.lease(shardName(n)).Checkpoint.IsShardEnd(), n)
		}
		acquired := 0
		restart(w, func() {
			acquired = w.store.count("acquire")
			w.service.ClearCalls()
		})
		w.connect()
		start := time.Now()
		opened := w.subscribe()
		require.Equal(w.t, []string{shardName(closed), shardName(closed + 1)}, opened.GetShards())
		require.Less(w.t, time.Since(start), time.Second)
		time.Sleep(time.Minute)
		require.Equal(w.t, acquired+2, w.store.count("acquire"))
		for n := range closed {
			require.Empty(w.t, iteratorKinds(w, shardName(n)))
		}
	})
}

// R19: a node that took long over its listing, or over its look at the leases, does not read again what another has finished
// meanwhile, and makes no lease anew.
func TestStaleListingDoesNotBringAFinishedShardBack(t *testing.T) {
	for _, slow := range []string{"listing", "leases"} {
		t.Run(slow, func(t *testing.T) {
			s := &script{}
			inBubble(t, 1, func(w *world) {
				w.open(horizon)
				w.put("k", "a")
				w.takeAll(1)
				time.Sleep(2 * time.Second)
				// The slow node looks at everything and hears of it 20 s later.
				if slow == "listing" {
					s.set(func(s *script) { s.list = late(20 * time.Second) })
				} else {
					w.store.slowList(20 * time.Second)
				}
				shared := w.store
				w.me.SetTimeout(5 * time.Minute)
				cfg := w.cfg
				cfg.Name, cfg.Timings.CallTimeout = "second", time.Minute
				broker, err := SpawnBroker(w.system, cfg)
				require.NoError(w.t, err)
				other := probe.New(w.t, w.system, "other")
				w.me.Request(broker, &messages.Connect{})
				probe.Expect[*messages.Connected](w.me)
				w.me.Request(broker, &messages.Subscribe{Stream: &messages.StreamDescriptor{Name: testStream}, Subscriber: other.PID()})
				time.Sleep(time.Second)
				split(w, shardName(0))
				w.put("k", "b")
				require.Equal(w.t, []string{"b"}, w.takeAll(1))
				end := w.lease(shardName(0))
				require.True(w.t, end.Checkpoint.IsShardEnd())
				probe.Fish(w.me, func(*messages.Subscribed) bool { return true })
				shared.slowList(0)
				s.set(func(s *script) { s.list = nil })
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Equal(w.t, end, w.lease(shardName(0)), "its lease is as it was")
				require.Len(w.t, iteratorKinds(w, shardName(0)), 1)
				for e, more := other.TryReceive(); more; e, more = other.TryReceive() {
					_, delivered := e.Message.(*messages.Delivery)
					require.False(w.t, delivered, "%v", e.Message)
				}
				nothingMore(w, 0)
				shutDown(w, broker)
			}, s.install)
		})
	}
}

// late is a listing that is answered d after it was looked at.
func late(d time.Duration) scriptedList {
	return func(_ *kinesis.ListShardsInput, real func() (*kinesis.ListShardsOutput, error)) (*kinesis.ListShardsOutput, error) {
		out, err := real()
		time.Sleep(d)
		return out, err
	}
}

// R21: the end of one shard is of no concern to the others: they go on with the iterators they have, without a gap.
func TestEndOfOneShardLeavesTheOthersAlone(t *testing.T) {
	inBubble(t, 4, func(w *world) {
		w.open(horizon)
		keys := make([]string, 4)
		for n := range keys {
			keys[n] = keyFor(w, shardName(n), false)
		}
		arrived := make(map[string][]time.Time)
		w.sub.SetAutoPilot(func(e probe.Envelope) any {
			d, ok := e.Message.(*messages.Delivery)
			if !ok {
				return nil
			}
			return d.Ack()
		})
		for i := range 200 { // 20 records a second and shard, for 10 s
			if i == 40 {
				split(w, shardName(0))
			}
			for _, key := range keys {
				w.put(key, fmt.Sprint(i))
			}
			time.Sleep(50 * time.Millisecond)
			for e, more := w.sub.TryReceive(); more; e, more = w.sub.TryReceive() {
				d, ok := e.Message.(*messages.Delivery)
				require.True(w.t, ok, "%v", e.Message)
				arrived[d.GetPartitionKey()] = append(arrived[d.GetPartitionKey()], time.Now())
			}
		}
		for _, key := range keys[1:] {
			require.Greater(w.t, len(arrived[key]), 150)
			for i := 1; i < len(arrived[key]); i++ {
				require.LessOrEqual(w.t, arrived[key][i].Sub(arrived[key][i-1]), 1200*time.Millisecond, "the poll interval, and a tenth")
			}
		}
		for n := 1; n < 4; n++ {
			require.Len(w.t, iteratorKinds(w, shardName(n)), 1)
		}
	})
}

// pages makes a listing come in pages of so many shards; page is called before each with its number in the listing, from 1.
func pages(size int32, page func(n int) error) scriptedList {
	var n atomic.Int32
	return func(in *kinesis.ListShardsInput, real func() (*kinesis.ListShardsOutput, error)) (*kinesis.ListShardsOutput, error) {
		if in.NextToken == nil {
			n.Store(0)
		}
		in.MaxResults = aws.Int32(size)
		if err := page(int(n.Add(1))); err != nil {
			return nil, err
		}
		return real()
	}
}

// R24, R27: every page of the listing is read, by its token alone (the service refuses the stream's name beside it), and without
// a filter. A token that expired begins the listing anew.
func TestListingHasPages(t *testing.T) {
	var expired atomic.Int32
	s := &script{}
	s.list = pages(10, func(n int) error {
		if n == 3 && expired.Add(1) == 1 {
			return &types.ExpiredNextTokenException{Message: aws.String("older than 300 s")}
		}
		return nil
	})
	inBubble(t, 45, func(w *world) {
		opened := w.open(horizon)
		require.Len(w.t, opened.GetShards(), 45)
		require.Greater(w.t, expired.Load(), int32(1), "it was listed anew")
		want := make([]string, 45)
		for n := range want {
			want[n] = shardName(n)
			w.put(keyFor(w, want[n], true), want[n])
		}
		require.ElementsMatch(w.t, want, w.takeAll(45))
	}, s.install)
}

// R24: part of a listing is never taken for all of it. Of three pages the second fails, or its token expires, for long: no reader
// stops, no child takes a parent on the missing pages for vanished, and the children found late are read from their first record.
func TestPartOfAListingIsNotAllOfIt(t *testing.T) {
	for name, failure := range map[string]error{
		"error":   &types.LimitExceededException{Message: aws.String("too many")},
		"expired": &types.ExpiredNextTokenException{Message: aws.String("older than 300 s")},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{page: withoutChildren}
			inBubble(t, 4, func(w *world) {
				w.open()
				keys := []string{keyFor(w, shardName(0), false), keyFor(w, shardName(3), false)}
				w.put(keys[1], "parent")
				parent := w.next(false)
				reader := w.sub.Sender()
				split(w, shardName(3))
				w.put(keys[1], "child")
				var recovered atomic.Bool
				s.set(func(s *script) {
					s.list = pages(2, func(n int) error {
						if n == 2 && !recovered.Load() {
							time.Sleep(100 * time.Millisecond)
							return failure
						}
						return nil
					})
				})
				time.Sleep(time.Minute)
				w.put(keys[0], "sibling")
				require.Equal(w.t, "sibling", string(w.next(true).GetData()))
				w.sub.Send(reader, parent.Ack())
				nothingMore(w, time.Minute)
				require.False(w.t, w.lease(shardName(3)).Checkpoint.IsShardEnd(), "it is not taken for vanished")
				recovered.Store(true)
				require.Equal(w.t, []string{"child"}, w.takeAll(1))
				for n := range 3 {
					require.Len(w.t, iteratorKinds(w, shardName(n)), 1, "nobody was stopped and started again")
				}
			}, s.install)
		})
	}
}

// R25: one shard that can't be opened and a slow store do not keep the others from being read, also not those found later.
func TestOneFailingShardDoesNotKeepOthersFromStarting(t *testing.T) {
	const shards, bad = 40, 13
	inBubble(t, shards, func(w *world) {
		w.store.slow(200 * time.Millisecond)
		w.connect()
		w.service.Fault("GetShardIterator", kinesistest.Match{Shard: shardName(bad)}, -1, kinesistest.Error("InternalFailure", "always"))
		start := time.Now()
		w.subscribe(horizon)
		require.Less(w.t, time.Since(start), 2*time.Second)
		told := probe.Expect[*messages.SubscriptionError](w.sub)
		require.Equal(w.t, shardName(bad), told.GetError().GetShardId())
		split(w, shardName(0))
		var want []string
		for n := range shards + 2 {
			if n != 0 && n != bad {
				want = append(want, shardName(n))
				w.put(keyFor(w, shardName(n), false), shardName(n))
			}
		}
		got := w.takeAll(len(want))
		slices.Sort(got)
		require.Equal(w.t, want, got)
	})
}

// R22: what a listing shows that no end of a shard has told of is read within a discovery interval.
func TestShardsAreDiscoveredByTheListingAlone(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		w.connect()
		hidden := w.cfg.Clients.Control.(scripted).script
		hidden.set(func(s *script) { s.list = without(shardName(1)) })
		require.Equal(w.t, []string{shardName(0)}, w.subscribe(horizon).GetShards())
		w.put(keyFor(w, shardName(1), false), "a")
		nothingMore(w, time.Minute)
		hidden.set(func(s *script) { s.list = nil })
		found := time.Now()
		require.Equal(w.t, []string{"a"}, w.takeAll(1))
		require.LessOrEqual(w.t, time.Since(found), 11*time.Second)
	}, (&script{}).install)
}
