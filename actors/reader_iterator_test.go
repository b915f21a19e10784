package actors

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// I1: an iterator that expired for age, with all that was read unsettled, goes on behind what was read.
func TestIteratorThatExpiredUnderASlowSubscriber(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		var want []string
		for i := range 500 {
			w.put("k", fmt.Sprint(i))
			want = append(want, fmt.Sprint(i))
		}
		time.Sleep(3 * time.Second)
		w.service.Clock().Advance(5*time.Minute + time.Second)
		time.Sleep(3 * time.Second)
		w.put("k", "after")
		time.Sleep(3 * time.Second)
		got, told := w.received()
		require.Equal(w.t, append(want, "after"), got, "nothing twice, nothing lost")
		require.Empty(w.t, told)
		require.Equal(w.t, []string{"TRIM_HORIZON", "AFTER_SEQUENCE_NUMBER"}, iteratorKinds(w, shardName(0)))
		require.Equal(w.t, "TRIM_HORIZON", w.lease(shardName(0)).Checkpoint.String())
		requirePace(w)
	}, paced)
}

// I1, I3: whatever happens to iterators, and however often in a row, reading goes on where it was: never at the start, and at the tip only once.
func TestIteratorsThatFail(t *testing.T) {
	expire := func(n int) func(w *world) {
		return func(w *world) { w.service.Fault("GetRecords", kinesistest.Match{}, n, kinesistest.ExpireIterator()) }
	}
	fail := func(op, code string, n int) func(w *world) {
		return func(w *world) { w.service.Fault(op, kinesistest.Match{}, n, kinesistest.Error(code, "no")) }
	}
	for name, c := range map[string]struct {
		fault func(w *world)
		opens int // iterators asked for because of it
		told  int
	}{
		"expired":                     {expire(1), 1, 0},
		"expired twice in a row":      {expire(2), 2, 0},
		"expired three times":         {expire(3), 3, 0},
		"expired, reported as 500":    {fail("GetRecords", "InternalFailure", 5), 1, 1},
		"invalid":                     {fail("GetRecords", "InvalidArgumentException", 1), 1, 0},
		"expired, no other at first":  {func(w *world) { fail("GetShardIterator", "InternalFailure", 3)(w); expire(1)(w) }, 4, 0},
		"expired, no other for long":  {func(w *world) { fail("GetShardIterator", "InternalFailure", 7)(w); expire(1)(w) }, 8, 1},
		"throttled, then expired":     {func(w *world) { fail("GetRecords", "KMSThrottlingException", 2)(w); expire(1)(w) }, 1, 0},
		"expired, iterator throttled": {func(w *world) { fail("GetShardIterator", "LimitExceededException", 6)(w); expire(1)(w) }, 7, 0},
	} {
		for start, options := range map[string]func(*messages.StreamDescriptor){"tip": func(*messages.StreamDescriptor) {}, "horizon": horizon} {
			for _, read := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%s/read %v", name, start, read), func(t *testing.T) {
					inBubble(t, 1, func(w *world) {
						w.acked()
						w.open(options)
						var want []string
						if read {
							w.put("k", "before")
							want = []string{"before"}
						}
						time.Sleep(10 * time.Second)
						c.fault(w)
						time.Sleep(10 * time.Second)
						w.put("k", "after")
						time.Sleep(2 * time.Minute)
						got, told := w.received()
						require.Equal(w.t, append(want, "after"), got)
						require.Len(w.t, told, c.told)
						kinds := iteratorKinds(w, shardName(0))
						require.Len(w.t, kinds, 1+c.opens)
						again := "AFTER_SEQUENCE_NUMBER"
						switch {
						case !read && start == "tip":
							again = "AT_TIMESTAMP"
						case !read:
							again = "TRIM_HORIZON"
						}
						for _, k := range kinds[1:] {
							require.Equal(w.t, again, k)
						}
						requirePace(w)
					}, paced)
				})
			}
		}
	}
}

// G2: an iterator that is refused for ever, though the next can be had at once, is no loop without a pause; it is told once.
func TestIteratorsThatExpireForEver(t *testing.T) {
	for _, code := range []string{"ExpiredIteratorException", "InvalidArgumentException", "InternalFailure"} {
		inBubble(t, 1, func(w *world) {
			w.acked()
			w.open(horizon)
			f := w.service.Fault("GetRecords", kinesistest.Match{}, -1, kinesistest.Error(code, "no"))
			time.Sleep(10 * time.Minute)
			require.Less(w.t, f.Count(), 100, code)
			requirePace(w)
			f.Clear()
			w.put("k", "a")
			time.Sleep(30 * time.Second)
			got, told := w.received()
			require.Equal(w.t, []string{"a"}, got)
			require.Len(w.t, told, 1, code)
		}, paced)
	}
}

// I2: an iterator that was refused is never sent again.
func TestAnExpiredIteratorIsSentOnce(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		sent := make(map[any]int)
		w.onWire(func(c *wireCall) bool {
			if c.op != "GetRecords" || len(sent) >= 4 {
				return false
			}
			sent[c.in["ShardIterator"]]++
			return c.say(http.StatusBadRequest, "ExpiredIteratorException", `{"message":"Iterator expired."}`)
		})
		w.service.Fault("GetShardIterator", kinesistest.Match{}, -1, kinesistest.Delay(time.Millisecond)) // each is another
		w.open(horizon)
		w.put("k", "a")
		require.Equal(w.t, []string{"a"}, w.takeAll(1))
		w.wired(func() {
			require.Len(w.t, sent, 4)
			for _, n := range sent {
				require.Equal(w.t, 1, n)
			}
		})
	})
}

// I3: an iterator that is answered by 500 for ever is given up after five tries, and the next goes on at the same place.
func TestAnIteratorThatFailsForEverIsReplaced(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		var bad any
		tries := 0
		w.onWire(func(c *wireCall) bool {
			if c.op != "GetRecords" {
				return false
			}
			if bad == "next" {
				bad = c.in["ShardIterator"]
			}
			if bad != c.in["ShardIterator"] {
				return false
			}
			tries++
			return c.say(http.StatusInternalServerError, "InternalFailure", `{}`)
		})
		w.open(horizon)
		w.put("k", "a")
		w.next(false)
		w.wired(func() { bad = "next" })
		time.Sleep(time.Minute)
		w.wired(func() { require.Equal(w.t, reopenAfter, tries) })
		w.put("k", "b")
		require.Equal(w.t, []string{"b"}, w.takeAll(1))
		require.Equal(w.t, []string{"TRIM_HORIZON", "AFTER_SEQUENCE_NUMBER"}, iteratorKinds(w, shardName(0)))
	})
}

// I7: records that come again, with an iterator that includes the record it is to come after and with pages that repeat the one before, are
// delivered once.
func TestRecordsThatComeAgain(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		var last []any
		repeated, reads := 0, 0
		w.onWire(func(c *wireCall) bool {
			switch c.op {
			case "GetShardIterator":
				return c.pass(func(in map[string]any) {
					if in["ShardIteratorType"] == "AFTER_SEQUENCE_NUMBER" {
						in["ShardIteratorType"] = "AT_SEQUENCE_NUMBER"
					}
				})
			case "GetRecords":
				if reads++; reads%4 == 0 {
					return c.say(http.StatusBadRequest, "ExpiredIteratorException", `{}`)
				}
				return c.edit(func(out map[string]any) {
					page, _ := out["Records"].([]any)
					out["Records"] = append(append([]any{}, last...), page...)
					repeated += len(last)
					if len(page) > 0 {
						last = page[len(page)-1:]
					}
				})
			}
			return false
		})
		w.acked()
		var want []string
		for i := range 60 {
			w.put("k", fmt.Sprint(i))
			want = append(want, fmt.Sprint(i))
		}
		w.open(horizon, func(d *messages.StreamDescriptor) { d.WindowRecords = new(int32(5)) })
		time.Sleep(time.Minute)
		got, _ := w.received()
		require.Equal(w.t, want, got)
		w.wired(func() { require.Greater(w.t, repeated, 10) })
		require.Contains(w.t, iteratorKinds(w, shardName(0)), "AT_SEQUENCE_NUMBER")
		require.Equal(w.t, w.service.Records(testStream)[59].SequenceNumber, w.lease(shardName(0)).Checkpoint.String())
	})
}

// I6: each kind of start says what it needs, and nothing else.
func TestWhatIsAskedOfGetShardIterator(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		var asked []map[string]any
		w.onWire(func(c *wireCall) bool {
			if c.op == "GetShardIterator" {
				asked = append(asked, c.in)
			}
			return false
		})
		for range 2 {
			w.put("k", "x")
			time.Sleep(time.Second)
		}
		records := w.service.Records(testStream)
		w.connect()
		w.acked()
		open := func(at *messages.Position) map[string]any {
			w.wired(func() { asked = nil })
			opened := w.subscribe(func(d *messages.StreamDescriptor) { d.StartAt = at })
			time.Sleep(3 * time.Second)
			w.service.Fault("GetRecords", kinesistest.Match{}, 1, kinesistest.ExpireIterator())
			time.Sleep(3 * time.Second)
			w.me.Request(opened.GetSubscription(), &messages.Unsubscribe{})
			probe.Expect[*messages.Unsubscribed](w.me)
			synctest.Wait()
			w.wired(func() { require.Greater(w.t, len(asked), 1) })
			return asked[0]
		}
		want := func(kind string, more ...string) map[string]any {
			m := map[string]any{"StreamName": testStream, "ShardId": shardName(0), "ShardIteratorType": kind}
			if len(more) > 0 {
				m["StartingSequenceNumber"] = more[0]
			}
			return m
		}
		require.Equal(w.t, want("LATEST"), open(nil), "the first opening of all")
		require.Equal(w.t, want("TRIM_HORIZON"), open(toHorizon()))
		require.Equal(w.t, want("AFTER_SEQUENCE_NUMBER", records[1].SequenceNumber), asked[1], "what was read")
		require.Equal(w.t, want("AT_SEQUENCE_NUMBER", records[1].SequenceNumber), open(nil), "the checkpoint of before")
		require.Equal(w.t, want("AT_SEQUENCE_NUMBER", records[1].SequenceNumber), open(seqSeek(shardName(0), records[1].SequenceNumber)))
		require.Equal(w.t, want("LATEST"), open(&messages.Position{At: &messages.Position_Latest{}}))
		stamped := open(timestamp(records[1].Arrival))
		require.InDelta(w.t, float64(records[1].Arrival.UnixMilli())/1000, number(stamped["Timestamp"]), 0.0005)
		delete(stamped, "Timestamp")
		require.Equal(w.t, want("AT_TIMESTAMP"), stamped)
	})
}

// G2: many seeks at once ask for iterators at the pace that the service allows; all are carried out.
func TestManySeeksKeepThePace(t *testing.T) {
	for name, to := range map[string]func(r kinesistest.Record) *messages.Position{
		"horizon":  func(kinesistest.Record) *messages.Position { return toHorizon() },
		"sequence": func(r kinesistest.Record) *messages.Position { return seqSeek(r.Shard, r.SequenceNumber) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(w *world) {
				w.acked()
				w.put("k", "a")
				opened := w.open(horizon)
				for range 20 {
					w.me.Request(opened.GetSubscription(), &messages.Seek{To: to(w.service.Records(testStream)[0])})
				}
				for range 20 {
					probe.Fish(w.me, func(*messages.Sought) bool { return true })
				}
				require.GreaterOrEqual(w.t, len(iteratorKinds(w, shardName(0))), 21)
				requirePace(w)
			}, paced)
		})
	}
}
