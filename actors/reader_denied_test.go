package actors

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
)

// G11, G13: what a person has to solve is told once, tried slowly, costs neither the lease nor a record, and reading goes on where it was as
// soon as it is solved. What passes by itself is told to nobody.
func TestFailuresThatAPersonMustSolve(t *testing.T) {
	for code, told := range map[string]int{
		"AccessDeniedException": 1, "KMSAccessDeniedException": 1, "KMSDisabledException": 1, "KMSInvalidStateException": 1,
		"KMSNotFoundException": 1, "KMSOptInRequired": 1, "OptInRequired": 1, "UnrecognizedClientException": 1,
		"KMSThrottlingException": 0, "ProvisionedThroughputExceededException": 0,
	} {
		for _, op := range []string{"GetRecords", "GetShardIterator"} {
			for _, lasts := range []time.Duration{10 * time.Second, 30 * time.Minute} {
				t.Run(code+"/"+op+"/"+lasts.String(), func(t *testing.T) {
					inBubble(t, 1, func(w *world) {
						w.open(horizon)
						w.put("k", "a")
						w.put("k", "b")
						a, b := w.next(false), w.next(false)
						w.acked()
						w.sub.Send(readersOf(w)[shardName(0)], a.Ack()) // b stays in flight
						time.Sleep(5 * time.Second)
						f := w.service.Fault(op, kinesistest.Match{}, -1, kinesistest.Error(code, "no"))
						if op == "GetShardIterator" {
							w.service.Fault("GetRecords", kinesistest.Match{}, 1, kinesistest.ExpireIterator())
						}
						w.put("k", "c")
						time.Sleep(lasts)
						require.LessOrEqual(w.t, f.Count(), 3+int(lasts/(8*time.Second)), "tried slowly")
						f.Clear()
						w.put("k", "d")
						time.Sleep(15 * time.Second)
						w.sub.Send(readersOf(w)[shardName(0)], b.Ack())
						time.Sleep(3 * time.Second)
						got, errors := w.received()
						require.Equal(w.t, []string{"c", "d"}, got, "no rewind and no gap")
						require.Len(w.t, errors, told)
						for _, e := range errors {
							require.False(w.t, e.GetFatal())
							require.Equal(w.t, shardName(0), e.GetError().GetShardId())
							require.Equal(w.t, code, e.GetError().GetAwsCode())
						}
						require.Equal(w.t, 1, w.store.count("acquire"))
						for _, kind := range iteratorKinds(w, shardName(0))[1:] {
							require.Equal(w.t, "AFTER_SEQUENCE_NUMBER", kind)
						}
						require.Equal(w.t, w.service.Records(testStream)[3].SequenceNumber, w.lease(shardName(0)).Checkpoint.String())
						requirePace(w)
					}, paced)
				})
			}
		}
	}
}

// G11: denied at the opening: Subscribe is answered all the same, the failure is told, and the shard is read once it is granted.
func TestDeniedAtTheOpening(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		w.acked()
		f := w.service.Fault("GetShardIterator", kinesistest.Match{Shard: shardName(0)}, -1, kinesistest.Error("AccessDeniedException", "no"))
		w.open()
		w.put("k", "a")
		w.put("k1", "b")
		time.Sleep(30 * time.Minute)
		require.Less(w.t, f.Count(), 250)
		f.Clear()
		time.Sleep(15 * time.Second)
		got, told := w.received()
		require.ElementsMatch(w.t, []string{"a", "b"}, got, "from the moment that it was opened on")
		require.Len(w.t, told, 2, "of the first pass, and that it lasts")
		for _, e := range told {
			require.Equal(w.t, messages.ErrorKind_ERROR_KIND_READ, e.GetError().GetKind())
		}
		require.Equal(w.t, 1, count(iteratorKinds(w, shardName(0)), "LATEST"))
	})
}

func count[T comparable](all []T, one T) int {
	n := 0
	for _, v := range all {
		if v == one {
			n++
		}
	}
	return n
}
