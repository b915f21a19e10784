package actors

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// G10, G15: answers with status 200 that are none: the same place is read again, nothing is lost, nothing comes twice, and the shard is not taken for
// read to its end.
func TestAnswersThatAreNone(t *testing.T) {
	iterator := `"NextShardIterator":"AAAA"`
	for _, body := range []string{
		``, `{}`, `[]`, `null`, `"text"`, `7`, `{`, `{"Records":`, `{"Records":[`, `{"Records":[{"SequenceNumber":"4`, "\x00\x01\x02", `<html>busy</html>`,
		`{"Records":{},` + iterator + `}`, `{"Records":"none",` + iterator + `}`, `{"Records":[7],` + iterator + `}`, `{"Records":[[]],` + iterator + `}`,
		`{"Records":[{"SequenceNumber":5,"Data":"YQ==","PartitionKey":"k"}],` + iterator + `}`,
		`{"Records":[{"SequenceNumber":"5","Data":"*","PartitionKey":"k"}],` + iterator + `}`,
		`{"Records":[{"SequenceNumber":"5","Data":{},"PartitionKey":"k"}],` + iterator + `}`,
		`{"Records":[{"SequenceNumber":"5","Data":"YQ==","PartitionKey":"k","ApproximateArrivalTimestamp":"noon"}],` + iterator + `}`,
		`{"Records":[{}],` + iterator + `}`, `{"Records":[{"Data":"YQ==","PartitionKey":"k"}],` + iterator + `}`,
		`{"Records":[{"SequenceNumber":"","Data":"YQ==","PartitionKey":"k"}],` + iterator + `}`,
		`{"Records":[{"SequenceNumber":"abc","Data":"YQ==","PartitionKey":"k"}],` + iterator + `}`,
		`{"Records":[],"NextShardIterator":7}`, `{"Records":[],"NextShardIterator":{}}`, `{"Records":[],"NextShardIterator":""}`,
		`{"Records":[],"NextShardIterator":null}`, `{"Records":[],"MillisBehindLatest":0}`,
		`{"Records":[],"MillisBehindLatest":"soon",` + iterator + `}`, `{"Records":[],"ChildShards":7}`, `{"Records":[],"ChildShards":[]}`,
		`{"__type":"ExpiredIteratorException"}`,
	} {
		t.Run(body, func(t *testing.T) {
			inBubble(t, 1, func(w *world) {
				w.acked()
				w.open(horizon)
				w.put("k", "a")
				time.Sleep(3 * time.Second)
				f := w.service.Fault("GetRecords", kinesistest.Match{}, 3, kinesistest.Body(200, []byte(body)))
				w.put("k", "b")
				time.Sleep(5 * time.Second)
				w.put("k", "c")
				time.Sleep(30 * time.Second)
				require.Equal(w.t, 3, f.Count())
				got, told := w.received()
				require.Equal(w.t, []string{"a", "b", "c"}, got)
				require.Empty(w.t, told)
				last := w.service.Records(testStream)[2].SequenceNumber
				require.Equal(w.t, last, w.lease(shardName(0)).Checkpoint.String())
				requirePace(w)
			}, paced)
		})
	}
}

// G15: the code of an error is found in the body with and without a namespace, and in the header; and a body of megabytes is no trouble, nor is it
// passed on.
func TestWhereTheErrorCodeStands(t *testing.T) {
	const long = "com.amazonaws.kinesis.v20131202#"
	large := strings.Repeat("x", 2<<20)
	for name, c := range map[string]struct {
		status       int
		header, body string
		opens, told  int // iterators asked for because of two such answers, errors told of
	}{
		"type":                   {400, "", `{"__type":"ExpiredIteratorException","message":"m"}`, 2, 0},
		"type with a namespace":  {400, "", `{"__type":"` + long + `ExpiredIteratorException","message":"m"}`, 2, 0},
		"header":                 {400, "ExpiredIteratorException", `{}`, 2, 0},
		"header, no body":        {400, "ExpiredIteratorException", ``, 2, 0},
		"header with an address": {400, "ExpiredIteratorException:http://internal.amazon.com/coral/", `{}`, 2, 0},
		"code":                   {400, "", `{"code":"ExpiredIteratorException"}`, 2, 0},
		"a throttle":             {400, "", `{"__type":"` + long + `ProvisionedThroughputExceededException"}`, 0, 0},
		"a throttle, header":     {400, "ProvisionedThroughputExceededException", ``, 0, 0},
		"denied, large":          {400, "AccessDeniedException", `{"message":"` + large + `"}`, 0, 1},
		"large":                  {500, "", `{"__type":"InternalFailure","message":"` + large + `"}`, 0, 0},
		"large and no JSON":      {500, "", large, 0, 0},
		"no code at all":         {400, "", ``, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(w *world) {
				left := 0
				w.onWire(func(call *wireCall) bool {
					if call.op != "GetRecords" || left == 0 {
						return false
					}
					left--
					return call.say(c.status, c.header, c.body)
				})
				w.acked()
				w.open(horizon)
				w.put("k", "a")
				time.Sleep(3 * time.Second)
				w.wired(func() { left = 2 })
				time.Sleep(30 * time.Second)
				w.put("k", "b")
				time.Sleep(30 * time.Second)
				w.wired(func() { require.Zero(w.t, left) })
				got, told := w.received()
				require.Equal(w.t, []string{"a", "b"}, got)
				require.Len(w.t, iteratorKinds(w, shardName(0)), 1+c.opens)
				require.Len(w.t, told, c.told)
				for _, e := range told {
					require.Equal(w.t, c.header, e.GetError().GetAwsCode())
					require.Less(w.t, len(e.GetError().GetCause()), 5000)
				}
			}, paced)
		})
	}
}

// G1: empty pages with a lag that falls: the shard is read on at the pace that the service allows, and never after an idle pause.
func TestEmptyPagesAtThePaceOfTheService(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		pages := 0
		w.onWire(func(c *wireCall) bool {
			if c.op != "GetRecords" || pages == 50 {
				return false
			}
			pages++
			return c.edit(func(out map[string]any) { // the iterator stays: nothing has been read
				out["Records"], out["NextShardIterator"], out["MillisBehindLatest"] = []any{}, c.in["ShardIterator"], 3_600_000-pages
			})
		})
		w.acked()
		for i := range 10 {
			w.put("k", fmt.Sprint(i))
		}
		w.open(horizon)
		time.Sleep(12 * time.Second)
		got, _ := w.received()
		require.Len(w.t, got, 10, "fifty pages take ten seconds")
		require.Len(w.t, iteratorKinds(w, shardName(0)), 1)
		requirePace(w)
	}, paced)
}

// D7, D8: what the service says of its lag, or does not, decides on the pace and on nothing else; what it has not said is not known.
func TestLags(t *testing.T) {
	for name, c := range map[string]struct {
		lag    any
		known  int64
		atMost int // reads in ten seconds
		least  int
	}{
		"absent": {nil, -1, 12, 8}, "zero": {0, 0, 12, 8}, "negative": {-1, -1, 12, 8},
		"one": {1, 1, 51, 40}, "5000": {5000, 5000, 51, 40}, "null": {"null", -1, 12, 8},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(w *world) {
				w.onWire(func(call *wireCall) bool {
					return call.op == "GetRecords" && call.edit(func(out map[string]any) {
						switch c.lag {
						case nil:
							delete(out, "MillisBehindLatest")
						case "null":
							out["MillisBehindLatest"] = nil
						default:
							out["MillisBehindLatest"] = c.lag
						}
					})
				})
				w.acked()
				w.put("k", "a")
				w.open(horizon)
				time.Sleep(5 * time.Second)
				before := len(readTimes(w))
				time.Sleep(10 * time.Second)
				reads := len(readTimes(w)) - before
				require.LessOrEqual(w.t, reads, c.atMost)
				require.GreaterOrEqual(w.t, reads, c.least)
				w.me.Request(w.broker, &messages.StatusRequest{})
				status := probe.Fish(w.me, func(*messages.Status) bool { return true })
				require.Equal(w.t, c.known, status.GetSubscriptions()[0].GetShards()[0].GetMillisBehindLatest())
				w.put("k", "b")
				time.Sleep(2 * time.Second)
				got, told := w.received()
				require.Equal(w.t, []string{"a", "b"}, got)
				require.Empty(w.t, told)
			}, paced)
		})
	}
}

// R16: a missing, null or empty next iterator on an open shard, for ever: the shard is read on by new iterators, ever more slowly, and it is told once.
func TestNoNextIteratorForEver(t *testing.T) {
	for _, missing := range []any{nil, "", "absent"} {
		inBubble(t, 1, func(w *world) {
			w.onWire(func(c *wireCall) bool {
				return c.op == "GetRecords" && c.edit(func(out map[string]any) {
					if out["NextShardIterator"] = missing; missing == "absent" {
						delete(out, "NextShardIterator")
					}
				})
			})
			w.acked()
			w.open(horizon)
			var want []string
			for i := range 20 {
				w.put("k", fmt.Sprint(i))
				want = append(want, fmt.Sprint(i))
				time.Sleep(30 * time.Second)
			}
			got, told := w.received()
			require.Equal(w.t, want, got)
			require.Less(w.t, len(readTimes(w)), 200)
			require.NotEmpty(w.t, told)
			require.LessOrEqual(w.t, len(told), 20, "once for each time that it was read again")
			require.False(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
			requirePace(w)
		}, paced)
	}
}

// D7: what was known of the lag is not known any more when the shard has not been read for a while.
func TestLagOfAShardThatIsNotRead(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(windowOfRecords(1))
		time.Sleep(3 * time.Second)
		require.Zero(w.t, w.onlyStatus().GetMillisBehindLatest())
		for range 5 {
			w.put("k", "a")
		}
		time.Sleep(time.Minute)
		require.EqualValues(w.t, -1, w.onlyStatus().GetMillisBehindLatest(), "the subscriber stands still")
		w.takeAll(5)
		time.Sleep(3 * time.Second)
		require.Zero(w.t, w.onlyStatus().GetMillisBehindLatest())
		w.service.Fault("GetRecords", kinesistest.Match{}, -1, kinesistest.Error("AccessDeniedException", "no"))
		time.Sleep(time.Minute)
		require.EqualValues(w.t, -1, w.onlyStatus().GetMillisBehindLatest(), "it can't be read")
	})
}
