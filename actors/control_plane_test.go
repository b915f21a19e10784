package actors

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// How a subscription lives with a control plane that fails.

// listingFaults are the ways in which shards can't be listed.
var listingFaults = map[string]kinesistest.Effect{
	"500": kinesistest.Error("InternalFailure", "oops"), "hung": kinesistest.Hang(),
	"throttled": kinesistest.Error("LimitExceededException", "slow down"), "denied": kinesistest.Error("AccessDeniedException", "no"),
	"empty": kinesistest.Body(200, []byte(`{"Shards":[]}`)), "garbage": kinesistest.Body(200, []byte(`{"Shards":`)),
}

// S4, S2: listings that fail for minutes: readers go on, leases are kept and none is wiped, and it is told once. Shutdown meanwhile returns.
func TestListingsThatFailForMinutes(t *testing.T) {
	for name, effect := range listingFaults {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 2, func(w *world) {
				w.acked()
				w.open(horizon)
				f := w.service.Fault("ListShards", kinesistest.Match{}, -1, effect)
				var want []string
				for i := range 60 {
					want = append(want, fmt.Sprint(i))
					w.put("k", fmt.Sprint(i))
					time.Sleep(5 * time.Second)
				}
				got, told := w.received()
				require.Equal(w.t, want, got)
				require.Len(w.t, told, 1)
				require.Equal(w.t, messages.ErrorKind_ERROR_KIND_STREAM, kindIgnoringTimeout(told[0]))
				require.False(w.t, told[0].GetFatal())
				require.LessOrEqual(w.t, f.Count(), 3*80, "no more than the SDK's three attempts in about five seconds")
				require.Equal(w.t, 2, w.store.count("acquire"))
				start := time.Now()
				w.me.Request(w.broker, &messages.Shutdown{})
				probe.Fish(w.me, func(*messages.Closed) bool { return true })
				require.Less(w.t, time.Since(start), 2*time.Second)
				require.Empty(w.t, w.lease(shardName(0)).Owner, "released")
			})
		})
	}
}

// kindIgnoringTimeout takes a time-out for what it is of a listing: an error of the stream.
func kindIgnoringTimeout(e *messages.SubscriptionError) messages.ErrorKind {
	if e.GetError().GetKind() == messages.ErrorKind_ERROR_KIND_TIMEOUT {
		return messages.ErrorKind_ERROR_KIND_STREAM
	}
	return e.GetError().GetKind()
}

// S4: listings that fail from the start: Subscribe is answered, and Shutdown at any time returns.
func TestListingsThatFailFromTheStart(t *testing.T) {
	for name, effect := range listingFaults {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(w *world) {
				w.service.Fault("ListShards", kinesistest.Match{}, -1, effect)
				w.connect()
				ask := func() {
					w.me.Request(w.broker, &messages.Subscribe{Stream: &messages.StreamDescriptor{Name: testStream}, Subscriber: w.sub.PID()})
				}
				ask()
				e := probe.Expect[*messages.Error](w.me)
				require.Contains(w.t, []messages.ErrorKind{messages.ErrorKind_ERROR_KIND_STREAM, messages.ErrorKind_ERROR_KIND_TIMEOUT}, e.GetKind())
				require.Equal(w.t, testStream, e.GetStream())
				ask()
				time.Sleep(2 * time.Second)
				start := time.Now()
				w.me.Request(w.broker, &messages.Shutdown{})
				probe.Fish(w.me, func(*messages.Closed) bool { return true })
				require.Less(w.t, time.Since(start), 2*time.Second)
			})
		})
	}
}

// G8: a few throttles while a subscription is opened delay it, and that is all. The SDK gives up after three.
func TestThrottledListingsDelayTheOpening(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		f := w.service.Fault("ListShards", kinesistest.Match{}, 10, kinesistest.Error("LimitExceededException", "slow down"))
		w.put("k", "a")
		w.open(horizon)
		require.Equal(w.t, 10, f.Count())
		require.Equal(w.t, []string{"a"}, w.takeAll(1))
	})
}

// S5: a shard that fails, a listing that hangs and a subscriber that settles nothing, all at once: Shutdown returns all the same.
func TestEverythingFailsAtOnce(t *testing.T) {
	for _, bad := range []kinesistest.Effect{kinesistest.Hang(), kinesistest.Error("InternalFailure", "oops"), kinesistest.Error("AccessDeniedException", "no")} {
		inBubble(t, 4, func(w *world) {
			w.open(horizon)
			w.put("k", "a")
			w.next(false)
			w.service.Fault("*", kinesistest.Match{}, -1, bad)
			time.Sleep(2 * time.Minute)
			start := time.Now()
			w.me.Request(w.broker, &messages.Shutdown{Timeout: durationOf(5 * time.Second)})
			closed := probe.Fish(w.me, func(*messages.Closed) bool { return true })
			require.Len(w.t, closed.GetUnfinished(), 1, "the record not settled")
			require.LessOrEqual(w.t, time.Since(start), 7*time.Second)
		})
	}
}

// S5: the coordinator panics while the control plane fails, or the lease store does: the subscription goes on when that is over.
func TestAPanicDuringAnOutage(t *testing.T) {
	notNow := kinesistest.Error("InternalFailure", "not now")
	for name, outage := range map[string]func(w *world) (over func()){
		"describe": func(w *world) func() {
			return w.service.Fault("DescribeStreamSummary", kinesistest.Match{}, -1, notNow).Clear
		},
		"list": func(w *world) func() { return w.service.Fault("ListShards", kinesistest.Match{}, -1, notNow).Clear },
		"denied": func(w *world) func() {
			return w.service.Fault("*", kinesistest.Match{}, -1, kinesistest.Error("AccessDeniedException", "no")).Clear
		},
		"store": func(w *world) func() { w.store.outage(errOutage, false); return func() { w.store.outage(nil, false) } },
	} {
		t.Run(name, func(t *testing.T) {
			s := &saboteur{at: &panicPoint{}, met: make(map[panicPoint]int)}
			inBubble(t, 2, func(w *world) {
				w.acked()
				w.open(horizon)
				w.put("k", "a")
				time.Sleep(5 * time.Second)
				over := outage(w)
				s.mu.Lock()
				*s.at = panicPoint{role: roleCoordinator, message: "timerFired0", nth: s.met[panicPoint{role: roleCoordinator, message: "timerFired0"}] + 1}
				s.mu.Unlock()
				time.Sleep(3 * time.Minute)
				s.mu.Lock()
				fired := s.fired
				s.mu.Unlock()
				require.True(w.t, fired)
				over()
				w.put("k", "b")
				time.Sleep(time.Minute)
				got, told := w.received()
				require.Equal(w.t, "b", got[len(got)-1])
				for _, e := range told {
					require.False(w.t, e.GetFatal(), e)
				}
			}, func(c *Config) { c.intercept = s.intercept })
		})
	}
}

// G12: no call is made after a broker has closed, nor is one repeated that was under way.
func TestNoCallsAfterTheEnd(t *testing.T) {
	for _, op := range []string{"GetRecords", "GetShardIterator", "ListShards"} {
		inBubble(t, 2, func(w *world) {
			w.open(horizon)
			w.service.Fault("GetRecords", kinesistest.Match{}, 2, kinesistest.ExpireIterator())
			w.service.Fault(op, kinesistest.Match{}, -1, kinesistest.Hang())
			time.Sleep(15 * time.Second)
			w.me.Request(w.broker, &messages.Shutdown{})
			probe.Fish(w.me, func(*messages.Closed) bool { return true })
			time.Sleep(100 * time.Millisecond)
			w.service.ClearCalls()
			time.Sleep(5 * time.Minute)
			require.Empty(w.t, w.service.Calls(), op)
		})
	}
}

// S2: the stream is gone while it is read, with the listing saying so or only empty: the leases stay as they are and nothing is taken for read to its
// end. With the first the subscription ends; with the second it waits, with a call in a while.
func TestStreamGoneUnderASubscription(t *testing.T) {
	notFound := kinesistest.Error("ResourceNotFoundException", "Stream orders under account 000000000000 not found.")
	for name, listing := range map[string]kinesistest.Effect{"not found": notFound, "empty listing": listingFaults["empty"]} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 2, func(w *world) {
				w.open(horizon)
				w.put("k", "a")
				d := w.next(true)
				time.Sleep(5 * time.Second)
				w.service.Fault("ListShards", kinesistest.Match{}, -1, listing)
				f := w.service.Fault("*", kinesistest.Match{}, -1, notFound)
				w.service.ClearCalls()
				time.Sleep(10 * time.Minute)
				_, told := w.received()
				require.NotEmpty(w.t, told)
				require.Equal(w.t, name == "not found", told[len(told)-1].GetFatal())
				require.Equal(w.t, d.GetSequenceNumber(), w.lease(d.GetShardId()).Checkpoint.String())
				require.Equal(w.t, "TRIM_HORIZON", w.lease(otherShard(d.GetShardId())).Checkpoint.String())
				require.LessOrEqual(w.t, w.service.CallCount("*"), 600, "a call in a second at most")
				if name == "not found" {
					return
				}
				f.Clear()
				w.service.ClearFaults()
				w.put("k", "b")
				require.Equal(w.t, []string{"b"}, w.takeAll(1), "it was the service that erred")
			}, paced)
		})
	}
}

// S3: twenty nodes over five minutes never describe the stream by DescribeStream, and each asks for its summary once.
func TestTheDescribeBudget(t *testing.T) {
	inBubble(t, 4, func(w *world) {
		brokers := make([]*actor.PID, 0, 20)
		for i := range 20 {
			w.cfg.Name = fmt.Sprint("node-", i)
			b := w.spawnBroker()
			brokers = append(brokers, b)
			w.me.Request(b, &messages.Connect{})
			probe.Expect[*messages.Connected](w.me)
			w.me.Request(b, &messages.Subscribe{Stream: &messages.StreamDescriptor{Name: testStream}, Subscriber: w.sub.PID()})
			probe.Expect[*messages.Subscribed](w.me)
		}
		time.Sleep(5 * time.Minute)
		require.Zero(w.t, w.service.CallCount("DescribeStream"))
		require.Equal(w.t, 20, w.service.CallCount("DescribeStreamSummary"))
		require.InDelta(w.t, 20*30, w.service.CallCount("ListShards"), 80)
		seconds := make(map[time.Time]int)
		for _, c := range w.service.Calls() {
			if c.Op == "ListShards" && c.Time.After(time.Now().Add(-4*time.Minute)) {
				seconds[c.Time.Truncate(time.Second)]++
			}
		}
		for at, n := range seconds {
			require.Less(w.t, n, 15, "the listings of all come together at %v", at)
		}
		for _, b := range brokers {
			w.me.Request(b, &messages.Shutdown{})
			probe.Expect[*messages.Closed](w.me)
		}
	})
}

// S6: a stream that is named by its ARN is named by it in every call, and never by a name with a colon in it.
func TestTheARNIsSentEverywhere(t *testing.T) {
	const arn = "arn:aws:kinesis:us-east-1:000000000000:stream/" + testStream
	inBubble(t, 1, func(w *world) {
		seen := make(map[string]bool)
		w.onWire(func(c *wireCall) bool {
			name, _ := c.in["StreamName"].(string)
			switch {
			case strings.Contains(name, ":"), c.op != "PutRecords" && c.in["StreamARN"] != arn:
				return c.say(400, "ValidationException", fmt.Sprintf(`{"message":"%s %v"}`, c.op, c.in))
			}
			seen[c.op] = true
			return false
		})
		w.put("k", "a")
		opened := w.open(horizon, func(d *messages.StreamDescriptor) { d.Name = arn })
		require.Equal(w.t, []string{"a"}, w.takeAll(1))
		w.service.Fault("GetRecords", kinesistest.Match{}, 1, kinesistest.ExpireIterator())
		time.Sleep(30 * time.Second)
		r := w.service.Records(testStream)[0]
		w.me.Request(opened.GetSubscription(), &messages.Seek{To: seqSeek(r.Shard, r.SequenceNumber)})
		probe.Expect[*messages.Sought](w.me)
		require.Equal(w.t, []string{"a"}, w.takeAll(1))
		split(w, shardName(0))
		w.put("k", "b")
		require.Equal(w.t, []string{"b"}, w.takeAll(1))
		w.me.Request(w.broker, &messages.Publish{Stream: arn, Data: []byte("c")})
		probe.Expect[*messages.Published](w.me)
		require.Equal(w.t, []string{"c"}, w.takeAll(1))
		w.wired(func() {
			for _, op := range []string{"DescribeStreamSummary", "ListShards", "GetShardIterator", "GetRecords", "PutRecords"} {
				require.True(w.t, seen[op], op)
			}
		})
		_, told := w.received()
		require.Empty(w.t, told)
	})
}

// R24: a listing of many pages, with a token that expires on the way: it begins anew, and part of it is never taken for the whole.
func TestListingsOfManyPages(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		paging := kinesistest.New(kinesistest.WithListShardsPage(3))
		defer paging.Close()
		require.NoError(w.t, paging.CreateStream(testStream, 10))
		w.service = paging
		pages, expired, bad := 0, 0, ""
		w.onWire(func(c *wireCall) bool {
			if c.op != "ListShards" {
				return false
			}
			pages++
			if c.in["NextToken"] == nil {
				return false
			}
			if c.in["StreamName"] != nil {
				bad = fmt.Sprint(c.in)
			}
			if expired < 3 && pages%4 == 3 {
				expired++
				return c.say(400, "ExpiredNextTokenException", `{"message":"expired"}`)
			}
			return false
		})
		opened := w.open(horizon)
		require.Len(w.t, opened.GetShards(), 10)
		w.wired(func() {
			require.Equal(w.t, 3, expired)
			require.Empty(w.t, bad, "a follow-up has the token and no name")
		})
		// A page that fails fails the whole listing: no shard is taken for trimmed.
		w.service.Fault("ListShards", kinesistest.Match{}, -1, kinesistest.Error("InternalFailure", "no"))
		time.Sleep(2 * time.Minute)
		w.service.ClearFaults()
		time.Sleep(time.Minute)
		require.Len(w.t, readersOf(w), 10)
		for i := range 10 {
			require.False(w.t, w.lease(shardName(i)).Checkpoint.IsShardEnd())
		}
		require.Equal(w.t, 10, w.store.count("acquire"))
	})
}

// C8: an ending sequence number that is not one, as some emulators give to closed shards, ends nothing: the missing iterator does.
func TestAnEndingSequenceNumberThatIsNone(t *testing.T) {
	for _, ending := range []string{"9223372036854775807", "0"} {
		inBubble(t, 1, func(w *world) {
			w.onWire(func(c *wireCall) bool {
				return c.op == "ListShards" && c.edit(func(out map[string]any) {
					shards, _ := out["Shards"].([]any)
					for _, s := range shards {
						fields, _ := s.(map[string]any)
						if sequences, _ := fields["SequenceNumberRange"].(map[string]any); sequences["EndingSequenceNumber"] != nil {
							sequences["EndingSequenceNumber"] = ending
						}
					}
				})
			})
			var want []string
			for i := range 25 {
				w.put("k", fmt.Sprint(i))
				want = append(want, fmt.Sprint(i))
			}
			split(w, shardName(0))
			w.put("k", "child")
			w.open(horizon, func(d *messages.StreamDescriptor) { d.WindowRecords = new(int32(4)) })
			require.Equal(w.t, append(want, "child"), w.takeAll(26))
			synctest.Wait()
			require.True(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
		})
	}
}

// S4: a node that dies is replaced also while no shard can be listed, because the service does not answer.
func TestTakeoverWhileListingsHang(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		w.next(false)
		w.cfg.Name = "second"
		second, other := w.spawnBroker(), probe.New(w.t, w.system, "other")
		other.SetTimeout(time.Minute)
		w.me.Request(second, &messages.Connect{})
		probe.Expect[*messages.Connected](w.me)
		w.me.Request(second, &messages.Subscribe{Stream: &messages.StreamDescriptor{Name: testStream}, Subscriber: other.PID()})
		require.Empty(w.t, probe.Expect[*messages.Subscribed](w.me).GetShards())
		w.service.Fault("ListShards", kinesistest.Match{}, -1, kinesistest.Hang())
		time.Sleep(25 * time.Second) // both wait for a listing
		w.system.Root.Stop(w.broker) // it releases nothing
		dead := time.Now()
		d := probe.Fish(other, func(*messages.Delivery) bool { return true })
		require.Equal(w.t, "a", string(d.GetData()))
		require.LessOrEqual(w.t, time.Since(dead), 17*time.Second, "ttl and a scan")
		w.me.Request(second, &messages.Shutdown{Timeout: durationOf(0)})
		probe.Expect[*messages.Closed](w.me)
	})
}
