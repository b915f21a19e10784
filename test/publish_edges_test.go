package test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis"
)

// P4, P6: sizes count as the service counts them, data and key in UTF-8, and a key's length in characters. What is just possible is stored as it was given,
// however it is published; what is a little more is refused before anything is sent, and alone.
func TestSizesThatAreJustPossible(t *testing.T) {
	t.Parallel()
	for kind, options := range publisherKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := embeddedService(t)
			n, stream, got := s.connect(t), s.newStream(t, 2), newRecorder()
			_, err := n.Subscribe(t.Context(), protokinesis.Stream(stream, protokinesis.StartAt(protokinesis.TrimHorizon())), protokinesis.HandlerFunc(got.handle))
			require.NoError(t, err)
			headers := map[string]string{"traceparent": traceparent}
			const mostBytes, envelope = 1 << 20, len("RSK1....") + len("traceparent: ") + len(traceparent) + len("\n")
			snails, long := strings.Repeat("🐌", 256), strings.Repeat("ü", 256)
			possible := []protokinesis.Record{
				{PartitionKey: snails, Data: []byte("x")},
				{PartitionKey: snails, Data: make([]byte, mostBytes-len(snails))},
				{PartitionKey: long, Data: make([]byte, mostBytes-len(long)-envelope), Headers: headers},
				{PartitionKey: long, Data: []byte{}},
				{PartitionKey: "the least hash", ExplicitHashKey: "0", Data: []byte("y")},
				{PartitionKey: "the greatest", ExplicitHashKey: "340282366920938463463374607431768211455", Data: []byte("z"), Headers: headers},
				{PartitionKey: "just alone", Data: make([]byte, 50<<10)}, // as large as an aggregated record
				{PartitionKey: "just not", Data: make([]byte, 50<<10-50)},
				{PartitionKey: "just not", Data: []byte("RSK1 is how an envelope begins")},
			}
			wrong := []protokinesis.Record{
				{PartitionKey: snails + "🐌", Data: []byte("x")},
				{PartitionKey: snails, Data: make([]byte, mostBytes-len(snails)+1)},
				{PartitionKey: long, Data: make([]byte, mostBytes-len(long)-envelope+1), Headers: headers},
				{PartitionKey: "k", ExplicitHashKey: "340282366920938463463374607431768211456", Data: []byte("x")},
				{PartitionKey: "\xff", Data: []byte("x")},
				{PartitionKey: "k", Data: []byte("x"), Headers: map[string]string{"a:b": ""}},
			}
			all := append(append([]protokinesis.Record{}, possible...), wrong...)
			for i := range all {
				all[i].Stream = stream
			}
			results, err := n.Publisher(options...).PublishBatch(t.Context(), all)
			require.NoError(t, err)
			for i, r := range results {
				if i < len(possible) {
					assert.NoError(t, r.Err, "record %d", i)
				} else {
					assert.ErrorIs(t, r.Err, protokinesis.ErrInvalid, "record %d", i)
				}
			}
			of := func(key string, size int, headers map[string]string) string { return fmt.Sprint(key, size, headers) }
			var want, have []string
			for _, r := range possible {
				want = append(want, of(r.PartitionKey, len(r.Data), r.Headers))
			}
			for _, d := range got.wait(t, len(possible)) {
				have = append(have, of(d.PartitionKey(), len(d.Data()), d.Headers()))
			}
			assert.ElementsMatch(t, want, have)
			n.shutdown(t)
		})
	}
}

// P4: a request has no more bytes than the service takes, keys counted, up to the last one.
func TestRequestsAreNoLargerThanTheServiceTakes(t *testing.T) {
	t.Parallel()
	for kind, options := range publisherKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := embeddedService(t)
			n, stream := s.connect(t, protokinesis.WithLimits(protokinesis.Limits{RequestBytes: 10 << 20})), s.newStream(t, 1)
			var records []protokinesis.Record
			for i := range 1200 { // 10 MiB are 500 of them without their keys, and a little less than 478 with
				key := fmt.Sprint(strings.Repeat("🐌", 250), i)
				records = append(records, protokinesis.Record{Stream: stream, PartitionKey: key, Data: make([]byte, 10<<20/500)})
			}
			results, err := n.Publisher(options...).PublishBatch(t.Context(), records)
			require.NoError(t, err)
			for _, r := range results {
				require.NoError(t, r.Err)
				require.False(t, r.PossibleDuplicate)
			}
			most := 0
			for _, c := range s.server.Calls() {
				if c.Op == "PutRecords" {
					assert.Empty(t, c.ErrorCode, "a request was refused")
					most = max(most, c.RecordsIn)
				}
			}
			assert.Less(t, most, 500)
			if kind == "strict" || kind == "relaxed" {
				assert.Equal(t, 10<<20/(10<<20/500+1003), most, "and no smaller than need be")
			}
			n.shutdown(t)
		})
	}
}
