package kinesistest

import (
	"fmt"
	"math/big"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSequenceRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		q := sequence{
			created: rapid.Uint64Max(secondsMask).Draw(rt, "created"),
			counter: rapid.Uint64().Draw(rt, "counter"),
			time:    rapid.Uint64Max(secondsMask).Draw(rt, "time"),
			shard:   rapid.Uint32().Draw(rt, "shard"),
		}
		text := q.String()
		hi, mid, lo := q.words()
		want := new(big.Int).SetUint64(hi)
		for _, word := range []uint64{mid, lo} {
			want.Lsh(want, 64).Or(want, new(big.Int).SetUint64(word))
		}
		require.Equal(rt, want.String(), text)
		back, err := parseSequence(text)
		require.NoError(rt, err)
		require.Equal(rt, q, back)
	})
}

func FuzzSequence(f *testing.F) {
	f.Add("49680683139507720191959893813779218738569135028088864770")
	f.Add("0")
	f.Add("TRIM_HORIZON")
	f.Fuzz(func(t *testing.T, text string) {
		if q, err := parseSequence(text); err == nil {
			require.Equal(t, text, q.String())
		}
	})
}

func FuzzIterator(f *testing.F) {
	s := New()
	valid := s.iteratorFor(position{stream: 1, shard: 2, ordinal: 3, issued: 4})
	f.Add(valid)
	f.Add([]byte("garbage"))
	f.Fuzz(func(t *testing.T, token []byte) {
		if at, err := s.parseIterator(token); err == nil {
			again, err := s.parseIterator(s.iteratorFor(at))
			require.NoError(t, err)
			require.Equal(t, at, again)
		}
		var page pageToken
		_ = s.readToken(string(token), s.clock.Now(), &page)
	})
}

// FuzzRequests feeds the hand-written parsers; whatever they accept must be fit to be stored.
func FuzzRequests(f *testing.F) {
	f.Add([]byte(`{"StreamName":"a","Records":[{"Data":"AA==","PartitionKey":"\u00e9","ExplicitHashKey":"1"}]}`))
	f.Add([]byte(`{"ShardIterator":"x","Limit":10,"x":[{"y":null}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _ = parseGetRecords(jsonCodec, body)
		_, _ = parsePutRecord(jsonCodec, body)
		r, err := parsePutRecords(jsonCodec, body)
		if err != nil {
			return
		}
		puts, ok := r.(*putRecords)
		require.True(t, ok)
		var log recordLog
		for i := range puts.entries {
			p := &puts.entries[i]
			if p.check() != nil {
				continue
			}
			var seq [sequenceDigits]byte
			sequence{created: 1}.put(&seq)
			log.append(&seq, 1, p)
			for f := range forms {
				stored := readForm(t, &log, query{form: f, limit: len(log.entries), maxBytes: 1 << 30})
				require.Equal(t, string(p.key), stored[len(stored)-1].PartitionKey)
				require.Len(t, stored[len(stored)-1].Data, p.dataLen)
			}
		}
	})
}

// The log keeps the latest calls in order, however many there are to keep.
func TestCallLogIsARing(t *testing.T) {
	for _, limit := range []int{0, 1, 3, callBlock - 1, callBlock, callBlock + 1, 3*callBlock + 7} {
		s := New(WithCallLog(limit))
		for i := range 5 * callBlock {
			s.calls.add(&Call{Op: "GetRecords", Position: int64(i)})
			if n := i + 1; n%257 != 0 && n != limit && n != 5*callBlock {
				continue
			}
			calls := s.Calls()
			require.Len(t, calls, min(i+1, limit))
			for j, call := range calls {
				require.EqualValues(t, i+1-len(calls)+j, call.Position)
			}
			require.Equal(t, i+1, s.CallCount(""))
		}
		s.ClearCalls()
		require.Empty(t, s.Calls())
		require.Zero(t, s.CallCount("GetRecords"))
	}
}

func TestRequestIDs(t *testing.T) {
	for _, n := range []uint64{0, 1, 15, 16, 1<<48 - 1} {
		require.Equal(t, fmt.Sprintf("00000000-0000-4000-8000-%012x", n), requestID(n))
	}
}

func TestHashKeys(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		k := hashKey{rapid.Uint64().Draw(rt, "hi"), rapid.Uint64().Draw(rt, "lo")}
		back, ok, tooBig := parseHashKey(k.String())
		require.True(rt, ok && !tooBig)
		require.Equal(rt, k, back)
		require.Equal(rt, k, k.next().prev())
	})
	for text, want := range map[string][2]bool{
		"": {false, false}, "00": {false, false}, "-1": {false, false}, "0": {true, false},
		"340282366920938463463374607431768211455": {true, false}, "340282366920938463463374607431768211456": {true, true},
		"999999999999999999999999999999999999999": {true, true}, "9999999999999999999999999999999999999990": {false, false},
	} {
		_, ok, tooBig := parseHashKey(text)
		require.Equal(t, want, [2]bool{ok, tooBig}, text)
	}
}
