package test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/leasestore/file"
)

func TestCreatePublishConsume(t *testing.T) {
	t.Parallel()
	for name, open := range services {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			n, stream, got, records := s.connect(t), newName(), newRecorder(), load{keys: 8, each: 5}

			sub, err := n.Subscribe(t.Context(), protokinesis.Stream(stream, protokinesis.CreateIfMissing(2)),
				protokinesis.HandlerFunc(got.handle))
			require.NoError(t, err)
			assert.Len(t, sub.Shards(), 2)
			stored := records.publish(t, n, stream)

			all := got.wait(t, records.count())
			assert.Equal(t, records.payloads(), byKey(all))
			assert.ElementsMatch(t, stored, places(all), "receipts and deliveries name the same places")
			for _, d := range all {
				assert.Equal(t, stream, d.Stream())
				assert.Equal(t, 1, d.Attempt())
				assert.Empty(t, d.Headers())
				assert.False(t, d.Arrival().IsZero())
			}
		})
	}
}

// TestRestart: a file remembers what was settled. After an orderly end nothing comes twice, and what was
// published meanwhile is not missing.
func TestRestart(t *testing.T) {
	t.Parallel()
	for name, open := range services {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			stream, path, records := s.newStream(t, 2), filepath.Join(t.TempDir(), "leases.db"), load{keys: 8, each: 3}
			session := func(records load, options ...protokinesis.StreamOption) {
				store, err := file.Open(path)
				require.NoError(t, err)
				defer func() { assert.NoError(t, store.Close()) }()
				n, got := s.connect(t, protokinesis.WithLeaseStore(store)), newRecorder()
				records.publish(t, n, stream)
				_, err = n.Subscribe(t.Context(), protokinesis.Stream(stream, options...), protokinesis.HandlerFunc(got.handle))
				require.NoError(t, err)
				got.wait(t, records.count())
				n.shutdown(t)
				assert.Equal(t, records.payloads(), byKey(got.all()))
			}
			session(records, protokinesis.StartAt(protokinesis.TrimHorizon()))
			session(records.then())
			session(records.then().then())
		})
	}
}

func TestUnsubscribeAndSubscribeAgain(t *testing.T) {
	t.Parallel()
	for name, open := range services {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			n, stream, records := s.connect(t), s.newStream(t, 2), load{keys: 8, each: 3}
			for range 3 {
				records.publish(t, n, stream)
				got := newRecorder()
				start := []protokinesis.StreamOption{}
				if records.from == 0 {
					start = append(start, protokinesis.StartAt(protokinesis.TrimHorizon()))
				}
				sub, err := n.Subscribe(t.Context(), protokinesis.Stream(stream, start...), protokinesis.HandlerFunc(got.handle))
				require.NoError(t, err)
				got.wait(t, records.count())
				require.NoError(t, sub.Unsubscribe(t.Context()))
				<-sub.Done()
				assert.NoError(t, sub.Err())
				assert.Equal(t, records.payloads(), byKey(got.all()))
				require.NoError(t, sub.Unsubscribe(t.Context()), "again")
				records = records.then()
			}
		})
	}
}

func TestSeekToTrimHorizon(t *testing.T) {
	t.Parallel()
	for name, open := range services {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			n, stream, got, records := s.connect(t), s.newStream(t, 2), newRecorder(), load{keys: 8, each: 3}
			sub, err := n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.HandlerFunc(got.handle))
			require.NoError(t, err)
			records.publish(t, n, stream)
			first := got.wait(t, records.count())
			require.NoError(t, sub.Seek(t.Context(), protokinesis.TrimHorizon()))

			all := got.wait(t, 2*records.count())
			require.Len(t, all, 2*len(first))
			assert.Equal(t, records.payloads(), byKey(all[len(first):]))
		})
	}
}

// TestSeekToSequence: one shard goes back to one record, the other stays.
func TestSeekToSequence(t *testing.T) {
	t.Parallel()
	for name, open := range services {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			n, stream, got, records := s.connect(t), s.newStream(t, 2), newRecorder(), load{keys: 8, each: 3}
			sub, err := n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.HandlerFunc(got.handle))
			require.NoError(t, err)
			records.publish(t, n, stream)
			first := got.wait(t, records.count())

			shard := sub.Shards()[1]
			stored := s.read(t, stream, shard)
			require.Greater(t, len(stored), 2)
			from := stored[len(stored)/2:]
			require.NoError(t, sub.Seek(t.Context(), protokinesis.AtSequence(shard, *from[0].SequenceNumber)))
			again := got.wait(t, len(first)+len(from))[len(first):]
			assert.Equal(t, shard, again[0].Shard())

			// What is published last is read last: nothing else comes before it.
			records.then().publish(t, n, stream)
			last := got.wait(t, 2*records.count()+len(from))[len(first):]
			want := make([]place, 0, len(from))
			for _, r := range from {
				want = append(want, place{shard, *r.SequenceNumber})
			}
			n.shutdown(t)
			assert.ElementsMatch(t, want, places(again))
			assert.Len(t, last, len(from)+records.count())
			assert.Len(t, got.all(), 2*records.count()+len(from))
		})
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	for name, open := range services {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			n, stream, got := s.connect(t), s.newStream(t, 1), newRecorder()
			_, err := n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.HandlerFunc(got.handle))
			require.NoError(t, err)
			records := []protokinesis.Record{
				{Data: []byte("plain")},
				{Data: []byte("with headers"), Headers: map[string]string{"content-type": "text/plain", "trace": "a: b", "größe": "µ", "empty": ""}},
				{Data: []byte("RSK1 looks like an envelope"), Headers: map[string]string{"x": " spaces "}},
				{Data: []byte("RSK1, but is none")},
				{Data: []byte{0, '\n', 0xff}, Headers: map[string]string{"binary": "yes"}},
			}
			for _, r := range records {
				r.Stream, r.PartitionKey = stream, "one"
				_, err := n.Publisher().Publish(t.Context(), r)
				require.NoError(t, err)
			}
			for i, d := range got.wait(t, len(records)) {
				assert.Equal(t, records[i].Data, d.Data())
				assert.Equal(t, records[i].Headers, d.Headers())
			}
		})
	}
}

func TestExplicitHashKey(t *testing.T) {
	const last = "340282366920938463463374607431768211455"
	t.Parallel()
	for name, open := range services {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			n, stream, got := s.connect(t), s.newStream(t, 2), newRecorder()
			sub, err := n.Subscribe(t.Context(), protokinesis.Stream(stream), protokinesis.HandlerFunc(got.handle))
			require.NoError(t, err)
			for i, key := range []string{"0", last} {
				receipt, err := n.Publisher().Publish(t.Context(), protokinesis.Record{
					Stream: stream, PartitionKey: "same", ExplicitHashKey: key, Data: []byte(key),
				})
				require.NoError(t, err)
				assert.Equal(t, sub.Shards()[i], receipt.Shard)
			}
			for _, d := range got.wait(t, 2) {
				assert.Equal(t, d.Shard() == sub.Shards()[1], string(d.Data()) == last)
			}
		})
	}
}
