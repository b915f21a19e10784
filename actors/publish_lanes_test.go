package actors

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/internal/kpl"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// keysOfShards are so many partition keys of each of n shards of one size.
func keysOfShards(n, each int) [][]string {
	m := shardsOf(0, n)
	keys := make([][]string, n)
	for i, missing := 0, n*each; missing > 0; i++ {
		key := fmt.Sprint("key-", i)
		s, _ := m.find(kpl.UserRecord{PartitionKey: key}.Hash())
		for at := range n {
			if s.id == shardName(at) && len(keys[at]) < each {
				keys[at] = append(keys[at], key)
				missing--
			}
		}
	}
	return keys
}

// throttledShard throttles every entry of the first of n shards while on is set; each call takes a while.
type throttledShard struct {
	on      atomic.Bool
	shards  *shardMap
	refused atomic.Int64
}

func (s *throttledShard) put(_ context.Context, in *kinesis.PutRecordsInput, real putCall) (*kinesis.PutRecordsOutput, error) {
	time.Sleep(20 * time.Millisecond)
	return failSome(in, real, func(_ int, e *types.PutRecordsRequestEntry) string {
		explicit := ""
		if e.ExplicitHashKey != nil {
			explicit = *e.ExplicitHashKey
		}
		at, _ := s.shards.find(kpl.UserRecord{PartitionKey: *e.PartitionKey, ExplicitHashKey: explicit}.Hash())
		if s.on.Load() && at.id == shardName(0) {
			s.refused.Add(1)
			return codeThrottled
		}
		return ""
	})
}

// P11: one shard of eight is throttled. The others lose nothing of their rate, though senders to the one do not stop, and what waits is bounded.
func TestAThrottledShardDoesNotSlowTheOthers(t *testing.T) {
	for name, options := range map[string]*messages.PublishOptions{"plain": nil, "aggregated": {Aggregate: true}} {
		t.Run(name, func(t *testing.T) {
			const shards, each, bound = 8, 8, 800
			throttle := &throttledShard{shards: shardsOf(0, shards)}
			inBubble(t, shards, func(w *world) {
				w.connect()
				o := w.outletOf(options)
				keys := keysOfShards(shards, each)
				round := func(d time.Duration) (counts [shards]int64, most int) {
					ctx, cancel := context.WithTimeout(context.Background(), d)
					defer cancel()
					var all sync.WaitGroup
					for shard := range shards {
						for _, key := range keys[shard] {
							all.Go(func() {
								for ctx.Err() == nil {
									if shard == 0 { // does not wait for its records
										_, _ = o.PublishAsync(ctx, Item{Key: key, Data: []byte("x")})
										if throttle.on.Load() {
											time.Sleep(time.Millisecond) // else it depends on the scheduler how many come before the throttle is known
											continue
										}
									}
									if _, err := o.Publish(ctx, Item{Key: key, Data: []byte("x")}); err == nil {
										atomic.AddInt64(&counts[shard], 1)
									}
								}
							})
						}
					}
					for ctx.Err() == nil {
						time.Sleep(50 * time.Millisecond)
						held, _ := o.quota.held()
						most = max(most, held)
					}
					all.Wait()
					return counts, most
				}
				before, _ := round(8 * time.Second)
				throttle.on.Store(true)
				during, most := round(8 * time.Second)
				for shard := 1; shard < shards; shard++ {
					require.Greater(w.t, float64(during[shard]), 0.95*float64(before[shard]), "shard %d: %d records before, %d now", shard, before[shard], during[shard])
				}
				require.LessOrEqual(w.t, most, bound/2, "a quarter for the one, and what the others have on their way")
				require.Less(w.t, throttle.refused.Load(), int64(500), "what is sent in vain")
				synctest.Wait()
				w.me.Request(o.pid, &messages.StatusRequest{})
				status := probe.Expect[*messages.Status](w.me).GetPublishers()[0]
				require.Equal(w.t, []string{shardName(0)}, status.GetThrottledShards())
				require.GreaterOrEqual(w.t, status.GetPending(), int64(bound/4))

				throttle.on.Store(false)
				time.Sleep(30 * time.Second)
				held, size := o.quota.held()
				require.Zero(w.t, held)
				require.Zero(w.t, size)
				_, err := o.Publish(context.Background(), Item{Data: []byte("x")})
				require.NoError(w.t, err)
				require.Nil(w.t, o.gate.Load(), "it is forgotten that the shard was throttled")
			}, putsThrough(throttle.put), func(c *Config) { c.Limits.PendingRecords = bound })
		})
	}
}

// Actors are answered Overloaded for the shard that is throttled, and only for that.
func TestOverloadedOnlyForTheThrottledShard(t *testing.T) {
	throttle := &throttledShard{shards: shardsOf(0, 4)}
	throttle.on.Store(true)
	inBubble(t, 4, func(w *world) {
		w.connect()
		keys := keysOfShards(4, 200)
		publish := func(shard, n int) (stored, overloaded int) {
			for i := range n {
				w.me.Request(w.broker, &messages.Publish{Stream: testStream, PartitionKey: &keys[shard][i%200], Data: []byte("x")})
				time.Sleep(time.Millisecond)
			}
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			for {
				e, more := w.me.TryReceive()
				if !more {
					return stored, overloaded
				}
				switch m := e.Message.(type) {
				case *messages.Published:
					stored++
				case *messages.Error:
					require.Equal(w.t, messages.ErrorKind_ERROR_KIND_OVERLOADED, m.GetKind())
					require.Equal(w.t, shardName(0), m.GetShardId())
					overloaded++
				}
			}
		}
		stored, overloaded := publish(0, 200)
		require.Zero(w.t, stored)
		require.Equal(w.t, 100, overloaded, "a quarter of 400 waits")
		for shard := 1; shard < 4; shard++ {
			stored, overloaded = publish(shard, 200)
			require.Equal(w.t, 200, stored)
			require.Zero(w.t, overloaded)
		}
	}, putsThrough(throttle.put), func(c *Config) { c.Limits.PendingRecords = 400 })
}

// With 30 % of the entries throttled and 5 % failing, whatever the rate, everything is stored, and what is sent is what has to be.
func TestFewEntriesAreSentInVain(t *testing.T) {
	var entries, requests atomic.Int64
	rnd := rand.New(rand.NewPCG(7, 7))
	var mu sync.Mutex
	log := newSentLog()
	const keys, each = 200, 25
	inBubble(t, 8, func(w *world) {
		w.connect()
		o := w.outletOf(nil)
		begun := time.Now()
		var all sync.WaitGroup
		for k := range keys {
			all.Go(func() { log.send(t, o, fmt.Sprint("key-", k), each, 0) })
		}
		all.Wait()
		stored, _ := log.requireTrue(w, true)
		t.Logf("%d entries in %d requests, %v", entries.Load(), requests.Load(), time.Since(begun))
		require.Equal(w.t, keys*each, stored)
		require.LessOrEqual(w.t, entries.Load(), int64(keys*each*16/10))
	}, putsThrough(func(_ context.Context, in *kinesis.PutRecordsInput, real putCall) (*kinesis.PutRecordsOutput, error) {
		time.Sleep(5 * time.Millisecond)
		entries.Add(int64(len(in.Records)))
		requests.Add(1)
		return failSome(in, real, func(int, *types.PutRecordsRequestEntry) string {
			mu.Lock()
			defer mu.Unlock()
			switch n := rnd.IntN(100); {
			case n < 30:
				return codeThrottled
			case n < 35:
				return codeInternal
			default:
				return ""
			}
		})
	}), func(c *Config) { c.Timings.PublishDeadline = 5 * time.Minute })
}

// A call that hangs holds up the keys that are in it, and no others.
func TestAHungCallDoesNotHoldUpOtherKeys(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.connect()
		o := w.outletOf(nil)
		w.service.Fault("PutRecords", kinesistest.Match{PartitionKey: "hangs"}, 1, kinesistest.Hang())
		hung, err := o.PublishAsync(context.Background(), Item{Key: "hangs", Data: []byte("1")})
		require.NoError(w.t, err)
		behind, err := o.PublishAsync(context.Background(), Item{Key: "hangs", Data: []byte("2")})
		require.NoError(w.t, err)
		begun := time.Now()
		for i := range 20 {
			_, err := o.Publish(context.Background(), Item{Key: fmt.Sprint(i), Data: []byte("x")})
			require.NoError(w.t, err)
		}
		assert.Less(w.t, time.Since(begun), 20*(publishGather+5*time.Millisecond))
		<-hung.Done()
		<-behind.Done()
		require.Greater(w.t, time.Since(begun), 20*time.Second)
		require.Nil(w.t, hung.Outcome().Err)
		require.True(w.t, hung.Outcome().PossibleDuplicate)
		require.False(w.t, behind.Outcome().PossibleDuplicate)
	}, func(c *Config) { c.Timings.PublishDeadline = 2 * time.Minute })
}

// A producer that may not list shards publishes all the same; what was throttled waits, and the rest goes on.
func TestPublishWithoutAShardMap(t *testing.T) {
	throttle := &throttledShard{shards: shardsOf(0, 4)}
	throttle.on.Store(true)
	inBubble(t, 4, func(w *world) {
		denied := w.service.Fault("ListShards", kinesistest.Match{}, -1, kinesistest.Error("AccessDeniedException", "no"))
		w.connect()
		keys := keysOfShards(4, 5)
		for name, options := range map[string]*messages.PublishOptions{"plain": nil, "aggregated": {Aggregate: true}} {
			o := w.outletOf(options)
			var tickets []*Ticket
			for i, key := range slices.Concat(keys...) {
				ticket, err := o.PublishAsync(context.Background(), Item{Key: key, Data: []byte("x")})
				require.NoError(w.t, err)
				if tickets = append(tickets, ticket); i < 5 {
					time.Sleep(30 * time.Millisecond)
				}
			}
			time.Sleep(500 * time.Millisecond)
			settled := 0
			for _, ticket := range tickets {
				select {
				case <-ticket.Done():
					settled++
				default:
				}
			}
			require.Equal(w.t, 15, settled, name)
			before := throttle.refused.Load()
			time.Sleep(20 * time.Second)
			require.Less(w.t, throttle.refused.Load()-before, int64(5*12), name)
			throttle.on.Store(false)
			for _, ticket := range tickets {
				<-ticket.Done()
				require.Nil(w.t, ticket.Outcome().Err)
			}
			throttle.on.Store(true)
		}
		require.Less(w.t, denied.Count(), 25)
	}, putsThrough(throttle.put))
}

// P10, P14: what waits longer than its deadline is told then, whyever it waits, and what the last failure was.
func TestDeadlinesAreKept(t *testing.T) {
	throttle := &throttledShard{shards: shardsOf(0, 4)}
	throttle.on.Store(true)
	inBubble(t, 4, func(w *world) {
		w.connect()
		o := w.outletOf(nil)
		keys := keysOfShards(4, 50)
		sent := make(map[*Ticket]time.Time)
		for i := range 100 {
			ticket, err := o.PublishAsync(context.Background(), Item{Key: keys[0][i%50], Data: []byte("x")})
			require.NoError(w.t, err)
			sent[ticket] = time.Now()
			time.Sleep(37 * time.Millisecond)
		}
		for len(sent) > 0 {
			time.Sleep(10 * time.Millisecond)
			for ticket, at := range maps.Clone(sent) {
				select {
				case <-ticket.Done():
					delete(sent, ticket)
					late := time.Since(at) - 10*time.Second
					require.InDelta(w.t, 50, late.Milliseconds(), 70, "told %v after its deadline", late)
					require.ErrorIs(w.t, ticket.Outcome().Err, ErrPublish)
					require.False(w.t, ticket.Outcome().Err.OutcomeUnknown)
				default:
				}
			}
		}
		require.Empty(w.t, w.service.Records(testStream))
	}, putsThrough(throttle.put), func(c *Config) { c.Timings.PublishDeadline = 10 * time.Second })
}
