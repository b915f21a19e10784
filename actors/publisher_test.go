package actors

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// While the service hangs, records that wait are told at their deadline's next chance, not after a try of their own each.
func TestRecordsThatWaitedPastTheirDeadlineAreNotSent(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.connect()
		w.service.Fault("PutRecords", kinesistest.Match{}, -1, kinesistest.Hang())
		key := "one key, so one record at a time"
		for i := range 5 {
			w.me.Request(w.broker, &messages.Publish{Stream: testStream, PartitionKey: &key, Data: []byte("x"), Correlation: uint64(i + 1)})
		}
		start := time.Now()
		for _, e := range probe.ReceiveN[*messages.Error](w.me, 5, 5*time.Minute) {
			require.Equal(w.t, messages.ErrorKind_ERROR_KIND_PUBLISH, e.GetKind())
		}
		require.Less(w.t, time.Since(start), 70*time.Second)
		require.Equal(w.t, publishCalls, w.service.CallCount("PutRecords"), "of the first one")
	})
}

// P1, P2, P3: only entries that failed are sent again, and a key's records are stored in the order they were sent.
func TestPartialFailuresKeepTheOrderOfAKey(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.connect()
		w.service.Fault("PutRecords", kinesistest.Match{}, 8, kinesistest.PartialEvery("ProvisionedThroughputExceededException", 2))
		keys := []string{"a", "b", "c"}
		for i := range 30 {
			w.me.Request(w.broker, &messages.Publish{
				Stream: testStream, PartitionKey: &keys[i%3], Data: []byte{byte(i)}, Correlation: uint64(i + 1),
			})
		}
		probe.ReceiveN[*messages.Published](w.me, 30, 5*time.Minute)
		last := map[string]int{"a": -1, "b": -1, "c": -1}
		for _, r := range w.service.Records(testStream) {
			require.Greater(w.t, int(r.Data[0]), last[r.PartitionKey], "the order of key %s", r.PartitionKey)
			last[r.PartitionKey] = int(r.Data[0])
		}
		require.Len(w.t, w.service.Records(testStream), 30, "each once")
	})
}

// A request that stores something ends the growth of the pause: one shard that is throttled for long does not slow down the others.
func TestPauseOfAPublisherDoesNotGrowWhileRecordsAreStored(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		w.connect()
		w.service.Fault("PutRecords", kinesistest.Match{Shard: shardName(0)}, -1, kinesistest.Partial("ProvisionedThroughputExceededException"))
		throttled, free := keyOf(w, shardName(0)), keyOf(w, shardName(1))
		w.me.Request(w.broker, &messages.Publish{Stream: testStream, PartitionKey: &throttled, Data: []byte("x"), Correlation: 1})
		start := time.Now()
		for range 20 {
			w.me.Request(w.broker, &messages.Publish{Stream: testStream, PartitionKey: &free, Data: []byte("x"), Correlation: 2})
			probe.Expect[*messages.Published](w.me)
		}
		require.Less(w.t, time.Since(start), 10*time.Second, "half a second for each at most")
		w.service.ClearFaults()
		probe.Expect[*messages.Published](w.me)
	})
}

// keyOf is a partition key of a shard.
func keyOf(w *world, shard string) string {
	w.t.Helper()
	for i := range 100 {
		key := fmt.Sprint("key", i)
		if at, _, err := w.service.Put(testStream, key, []byte("probe")); err == nil && at == shard {
			return key
		}
	}
	w.t.Fatalf("no key of %s", shard)
	return ""
}
