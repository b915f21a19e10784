package actors

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/test/kinesistest"
)

// That the service did not know the shard for a moment, while a listing lacked it, is forgotten once
// it has been opened.
func TestAShardThatWasNotFoundForAMomentEndsAtOnce(t *testing.T) {
	s := &script{}
	inBubble(t, 2, func(w *world) {
		w.acked()
		w.open(horizon)
		key := keyFor(w, shardName(0), false)
		w.put(key, "a")
		time.Sleep(3 * time.Second)
		s.set(func(s *script) { s.list = without(shardName(0)) })
		w.service.Fault("GetRecords", kinesistest.Match{Shard: shardName(0)}, 1, kinesistest.Error("ResourceNotFoundException", "not now"))
		time.Sleep(1500 * time.Millisecond) // a poll, and the listing that follows it
		s.set(func(s *script) { s.list = nil })
		time.Sleep(10 * time.Second)
		w.service.Fault("GetRecords", kinesistest.Match{Shard: shardName(0)}, 3, kinesistest.NullIterator())
		split(w, shardName(0))
		w.put(key, "b")
		time.Sleep(6 * time.Second)
		got, _ := w.received()
		require.Equal(w.t, []string{"a", "b"}, got)
	}, s.install)
}
