package actors

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/test/kinesistest"
)

// A child that neither GetShardIterator nor the listing knows yet, as both lag behind its parent's last page, is not at its end.
func TestYoungChildIsNotAtItsEnd(t *testing.T) {
	s := &script{}
	inBubble(t, 1, func(w *world) {
		w.acked()
		w.open(horizon)
		w.put("a", "parent")
		time.Sleep(3 * time.Second)
		s.set(func(s *script) { s.list = without(shardName(1), shardName(2)) })
		for _, id := range []string{shardName(1), shardName(2)} {
			w.service.Fault("GetShardIterator", kinesistest.Match{Shard: id}, 1, kinesistest.Error("ResourceNotFoundException", "no such shard yet"))
		}
		split(w, shardName(0))
		for _, key := range []string{"a", "b", "c", "d"} {
			w.put(key, "child")
		}
		time.Sleep(3 * time.Second)
		s.set(func(s *script) { s.list = nil })
		time.Sleep(5 * time.Minute)
		got, _ := w.received()
		require.Equal(w.t, []string{"parent", "child", "child", "child", "child"}, got)
	}, s.install)
}

// One listing that lacks an open shard, just when the service gives no next iterator once, is not its end.
func TestOneShortListingIsNotTheEnd(t *testing.T) {
	s := &script{}
	inBubble(t, 2, func(w *world) {
		w.acked()
		w.open(horizon)
		time.Sleep(3 * time.Second)
		s.set(func(s *script) { s.list = without(shardName(1)) })
		w.service.Fault("GetRecords", kinesistest.Match{Shard: shardName(1)}, 1, kinesistest.NullIterator())
		time.Sleep(3 * time.Second)
		s.set(func(s *script) { s.list = nil })
		w.put(keyFor(w, shardName(1), false), "x")
		time.Sleep(5 * time.Minute)
		got, _ := w.received()
		require.Equal(w.t, []string{"x"}, got)
	}, s.install)
}
