package actors

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
)

// How the end of a shard is recognised.

// lastPages are answers of GetRecords that have nothing to go on with, in the ways services say so.
var lastPages = map[string]string{
	"absent":        `{"Records":[],"MillisBehindLatest":0}`,
	"null":          `{"Records":[],"MillisBehindLatest":0,"NextShardIterator":null,"ChildShards":null}`,
	"empty":         `{"Records":[],"MillisBehindLatest":0,"NextShardIterator":"","ChildShards":[]}`,
	"far behind":    `{"Records":[],"MillisBehindLatest":86400000}`,
	"nothing else":  `{}`,
	"absent record": `{"MillisBehindLatest":0,"NextShardIterator":""}`,
}

// R14: absent, null and empty are one thing. Of a closed shard they are its end; R16: of an open one they are not.
func TestNoNextIterator(t *testing.T) {
	for name, page := range lastPages {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, func(w *world) {
				w.open(horizon)
				w.put("k", "a")
				w.takeAll(1)
				fault := w.service.Fault("GetRecords", kinesistest.Match{Shard: shardName(0)}, 3, kinesistest.Body(200, []byte(page)))
				time.Sleep(30 * time.Second)
				require.Equal(w.t, 3, fault.Count())
				require.False(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd(), "it is open")
				w.put("k", "b")
				require.Equal(w.t, []string{"b"}, w.takeAll(1))

				w.service.Fault("GetRecords", kinesistest.Match{Shard: shardName(0)}, -1, kinesistest.Body(200, []byte(page)))
				split(w, shardName(0))
				w.put("k", "c")
				require.Equal(w.t, []string{"c"}, w.takeAll(1))
				require.True(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
			})
		})
	}
}

// R15: no iterator at all is a candidate for the end too, which the listing decides.
func TestNoIterator(t *testing.T) {
	for _, answer := range []string{`{}`, `{"ShardIterator":null}`, `{"ShardIterator":""}`} {
		t.Run(answer, func(t *testing.T) {
			inBubble(t, 1, func(w *world) {
				w.put("k", "a")
				w.connect()
				w.service.Fault("GetShardIterator", kinesistest.Match{}, 2, kinesistest.Body(200, []byte(answer)))
				w.subscribe(horizon)
				require.Equal(w.t, []string{"a"}, w.takeAll(1), "an open shard is opened again")
				time.Sleep(3 * time.Second)
				restart(w, func() {
					split(w, shardName(0))
					w.put("k", "b")
				})
				w.service.Fault("GetShardIterator", kinesistest.Match{Shard: shardName(0)}, -1, kinesistest.Body(200, []byte(answer)))
				w.open()
				require.Equal(w.t, []string{"b"}, w.takeAll(1))
				require.True(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
				for _, c := range w.service.Calls() {
					require.NotEqual(w.t, "ValidationException", c.ErrorCode, "no iterator is not sent to GetRecords")
				}
			})
		})
	}
}

// R16: a shard that was open when an answer had no next iterator, and is closed by the time the listing is looked at, is read on: what
// came in between is not lost.
func TestShardIsReadOnWhenItClosedAfterTheLastPage(t *testing.T) {
	s := &script{page: withoutChildren}
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		w.takeAll(1)
		s.set(func(s *script) {
			s.list = func(_ *kinesis.ListShardsInput, real func() (*kinesis.ListShardsOutput, error)) (*kinesis.ListShardsOutput, error) {
				time.Sleep(5 * time.Second) // the listing is answered late
				return real()
			}
		})
		time.Sleep(30 * time.Second)
		w.service.Fault("GetRecords", kinesistest.Match{}, 1, kinesistest.NullIterator())
		time.Sleep(2 * time.Second)
		w.put("k", "b")
		w.put("k", "c")
		split(w, shardName(0))
		w.put("k", "d")
		require.Equal(w.t, []string{"b", "c", "d"}, w.takeAll(3))
	}, s.install)
}

// R16: an answer without a next iterator in the middle of a closed shard is not its end either.
func TestSpuriousNullIteratorInAClosedShard(t *testing.T) {
	s := &script{page: withoutChildren}
	inBubble(t, 1, func(w *world) {
		var want []string
		for i := range 10 {
			want = append(want, fmt.Sprint(i))
			w.put("k", want[i])
		}
		split(w, shardName(0))
		w.connect()
		w.service.Fault("GetRecords", kinesistest.Match{}, 2, kinesistest.NullIterator())
		w.subscribe(horizon, func(d *messages.StreamDescriptor) { d.WindowRecords = new(int32(2)) })
		require.Equal(w.t, want, w.takeAll(10))
		time.Sleep(10 * time.Second)
		require.True(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
	}, s.install)
}

// A listing that fails confirms nothing; it is asked again.
func TestEndIsNotConfirmedByAListingThatFails(t *testing.T) {
	s := &script{page: withoutChildren}
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		w.takeAll(1)
		w.service.Fault("ListShards", kinesistest.Match{}, 20, kinesistest.Error("InternalFailure", "not now"))
		split(w, shardName(0))
		w.put("k", "b")
		w.sub.ExpectNone(2 * time.Second)
		require.False(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
		require.Equal(w.t, []string{"b"}, w.takeAll(1))
	}, s.install)
}

// R9: a closed shard without a record ends, found at the horizon, at the tip, and by whoever comes after a restart.
func TestEmptyShardsEnd(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open()
		split(w, shardName(0))
		split(w, shardName(1))
		split(w, shardName(2))
		time.Sleep(2 * time.Second)
		for n := range 3 {
			require.True(w.t, w.lease(shardName(n)).Checkpoint.IsShardEnd(), n)
		}
		restart(w, func() { split(w, shardName(3)) })
		w.open()
		w.put("k", "a")
		require.Equal(w.t, []string{"a"}, w.takeAll(1))
		require.True(w.t, w.lease(shardName(3)).Checkpoint.IsShardEnd())
	})
}

// R10: the checkpoint is at the last record of a closed shard, so nothing more is delivered of it, and it ends.
func TestShardWithACheckpointAtItsLastRecordEnds(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		w.takeAll(1)
		time.Sleep(2 * time.Second)
		last := w.service.Records(testStream)[0].SequenceNumber
		require.Equal(w.t, last, w.lease(shardName(0)).Checkpoint.String())
		restart(w, func() {
			split(w, shardName(0))
			w.put("k", "b")
		})
		w.open()
		require.Equal(w.t, []string{"b"}, w.takeAll(1))
		require.True(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
		require.Equal(w.t, "AT_SEQUENCE_NUMBER", iteratorKinds(w, shardName(0))[1])
	})
}

// A child shard in an answer that has a next iterator all the same is not an end.
func TestChildShardsWithANextIterator(t *testing.T) {
	s := &script{page: func(out *kinesis.GetRecordsOutput) {
		out.ChildShards = []types.ChildShard{{ShardId: aws.String(shardName(7)), ParentShards: []string{shardName(0)}}}
	}}
	inBubble(t, 1, func(w *world) {
		w.open(horizon)
		w.put("k", "a")
		w.takeAll(1)
		time.Sleep(10 * time.Second)
		w.put("k", "b")
		require.Equal(w.t, []string{"b"}, w.takeAll(1))
		require.False(w.t, w.lease(shardName(0)).Checkpoint.IsShardEnd())
	}, s.install)
}
