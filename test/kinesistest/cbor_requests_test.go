package kinesistest

import (
	"encoding/binary"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// writer writes CBOR as different clients do.
type writer struct {
	rt   *rapid.T
	b    []byte
	odds bool // what the hand-written parsers leave to the general decoder, and what is wrong
}

func (w *writer) chance(label string, oneIn int) bool {
	return rapid.IntRange(1, oneIn).Draw(w.rt, label) == 1
}

// head writes an item's beginning, not always in its shortest form.
func (w *writer) head(major byte, n int) {
	if w.chance("wide", 8) {
		w.b = binary.BigEndian.AppendUint64(append(w.b, major<<5|27), uint64(n)) //nolint:gosec // not negative
		return
	}
	w.b = appendItemHead(w.b, major, n)
}

func (w *writer) str(major byte, s string) {
	if w.odds && w.chance("pieces", 12) {
		w.b = append(w.b, major<<5|indefinite)
		w.head(major, len(s))
		w.b = append(append(w.b, s...), cborBreak)
		return
	}
	w.head(major, len(s))
	w.b = append(w.b, s...)
}

func (w *writer) run(major byte, n int, one func(i int)) {
	endless := w.chance("endless", 3)
	if endless {
		w.b = append(w.b, major<<5|indefinite)
	} else {
		w.head(major, n)
	}
	for i := range n {
		one(i)
	}
	if endless {
		w.b = append(w.b, cborBreak)
	}
}

// members writes some of these members, in an order of its own.
func (w *writer) members(values map[string]func()) {
	names := make([]string, 0, len(values))
	for _, name := range []string{
		"StreamName", "StreamARN", "Records", "Data", "PartitionKey", "ExplicitHashKey",
		"SequenceNumberForOrdering", "DryRun", "ShardIterator", "Limit",
	} {
		if values[name] != nil && !w.chance("absent", 5) {
			names = append(names, name)
		}
	}
	names = rapid.Permutation(names).Draw(w.rt, "order")
	if len(names) > 0 && w.odds && w.chance("twice", 12) {
		names = append(names, names[0])
	}
	w.run(majorMap, len(names), func(i int) {
		name := names[i]
		if w.odds && w.chance("name", 20) {
			name = rapid.SampledFrom([]string{"", "data", "Unknown", "STREAMNAME"}).Draw(w.rt, "other")
		}
		w.str(majorText, name)
		if w.odds && w.chance("odd", 15) {
			w.b = append(w.b, rapid.SampledFrom([]string{"\xf6", "\xf7", "\x05", "\x80", "\xa0", "\xf9\x00\x00", "\xc1\x05", "\x41a", "\x61a"}).
				Draw(w.rt, "value")...)
			return
		}
		values[names[i]]()
	})
}

func (w *writer) text(name string) func() {
	return func() { w.str(majorText, rapid.String().Draw(w.rt, name)) }
}

func (w *writer) flag() {
	w.b = append(w.b, rapid.SampledFrom([]byte{cborTrue, cborFalse}).Draw(w.rt, "flag"))
}

func (w *writer) record() map[string]func() {
	return map[string]func(){
		"Data":         func() { w.str(majorBytes, string(rapid.SliceOf(rapid.Byte()).Draw(w.rt, "data"))) },
		"PartitionKey": w.text("key"), "ExplicitHashKey": w.text("hash"),
	}
}

func (w *writer) request(op string) {
	switch op {
	case "GetRecords":
		w.members(map[string]func(){
			"ShardIterator": w.text("iterator"), "StreamARN": w.text("arn"), "DryRun": w.flag,
			"Limit": func() {
				w.head(rapid.SampledFrom([]byte{majorUint, majorNegative}).Draw(w.rt, "sign"), rapid.IntMin(0).Draw(w.rt, "limit"))
			},
		})
	case "PutRecord":
		all := w.record()
		all["StreamName"], all["StreamARN"], all["DryRun"] = w.text("name"), w.text("arn"), w.flag
		all["SequenceNumberForOrdering"] = w.text("ordering")
		w.members(all)
	default:
		w.members(map[string]func(){
			"StreamName": w.text("name"), "StreamARN": w.text("arn"), "DryRun": w.flag,
			"Records": func() {
				w.run(majorArray, rapid.IntRange(0, 30).Draw(w.rt, "n"), func(int) { w.members(w.record()) })
			},
		})
	}
}

// spoil changes some bytes.
func (w *writer) spoil() {
	for w.chance("spoil", 2) && len(w.b) > 0 {
		at := rapid.IntRange(0, len(w.b)-1).Draw(w.rt, "at")
		if w.chance("cut", 4) {
			w.b = w.b[:at]
		} else {
			w.b[at] = rapid.Byte().Draw(w.rt, "byte")
		}
	}
}

// sameRequest holds a hand-written parser against the general decoder: what it takes, that takes too, to the same effect.
func sameRequest(tb require.TestingT, op string, body []byte) (taken bool) {
	var fast, slow request
	var err error
	switch op {
	case "GetRecords":
		fast, taken = fastGetRecords(body)
		slow, err = slowGetRecords(body)
	case "PutRecord":
		fast, taken = fastPutRecord(body)
		slow, err = slowPutRecord(body)
	default:
		fast, taken = fastPutRecords(body)
		slow, err = slowPutRecords(body)
		if in, ok := slow.(*putRecords); ok && len(in.entries) == 0 { // as an empty array and none do
			in.entries = nil
		}
		if in, ok := fast.(*putRecords); ok && len(in.entries) == 0 {
			in.entries = nil
		}
	}
	if taken {
		require.NoError(tb, err)
		require.Equal(tb, slow, fast)
	}
	return taken
}

var cborOps = []string{"GetRecords", "PutRecord", "PutRecords"}

// What the hand-written parsers take, the general decoder takes to the same effect; and they do take
// what clients send.
func TestRequestsInCBOR(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		op := rapid.SampledFrom(cborOps).Draw(rt, "op")
		w := &writer{rt: rt, odds: rapid.Bool().Draw(rt, "odds")}
		w.request(op)
		taken := sameRequest(rt, op, w.b)
		require.True(rt, taken || w.odds, "%x", w.b)
		w.spoil()
		sameRequest(rt, op, w.b)
	})
}

func FuzzRequestsCBOR(f *testing.F) {
	f.Add([]byte("\xa2\x6aStreamName\x61a\x67Records\x81\xa2\x64Data\x41a\x6cPartitionKey\x61k"))
	f.Add([]byte("\xbf\x6aStreamName\x61a\x67Records\x9f\xbf\x64Data\x41a\x6cPartitionKey\x61k\xff\xff\xff"))
	f.Add([]byte("\xa2\x6dShardIterator\x61a\x65Limit\x19\x27\x10"))
	f.Add([]byte("\xa4\x6aStreamName\x61a\x64Data\x41a\x6cPartitionKey\x61k\x6fExplicitHashKey\x610"))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, op := range cborOps {
			sameRequest(t, op, body)
		}
	})
}

// A body that is not what it says is an error and does not cost more memory than it has bytes.
func TestHostileBodies(t *testing.T) {
	deep := make([]byte, 1<<20)
	for i := range deep {
		deep[i] = 0x81
	}
	bodies := map[string][]byte{
		"truncated":              []byte("\xa2\x6aStreamName\x61a\x67Records\x81\xa2\x64Data\x4aab"),
		"many members":           []byte("\xbb\x7f\xff\xff\xff\xff\xff\xff\xff\x6aStreamName\x61a"),
		"more than there can be": []byte("\xa1\x67Records\x9b\xff\xff\xff\xff\xff\xff\xff\xff"),
		"many records":           []byte("\xa1\x67Records\x9b\x00\x00\x00\x7f\xff\xff\xff\xff\xa0"),
		"long data":              []byte("\xa1\x67Records\x81\xa1\x64Data\x5b\x00\x00\x00\x7f\xff\xff\xff\xffa"),
		"long name":              []byte("\xa1\x7b\x7f\xff\xff\xff\xff\xff\xff\xffx"),
		"deep":                   deep,
		"deep inside":            append([]byte("\xa1\x67Records"), deep...),
		"deep in an unknown one": append([]byte("\xa1\x61x"), deep...),
		"records are a text":     []byte("\xa1\x67Records\x61a"),
		"data is a text":         []byte("\xa1\x67Records\x81\xa1\x64Data\x61a"),
		"key is bytes":           []byte("\xa1\x67Records\x81\xa1\x6cPartitionKey\x41a"),
		"key is no UTF-8":        []byte("\xa1\x67Records\x81\xa1\x6cPartitionKey\x61\xff"),
		"no map":                 []byte("\x80"),
		"something behind":       []byte("\xa0\xa0"),
		"a break":                []byte("\xff"),
		"no end":                 []byte("\xbf\x67Records\x9f"),
	}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			_, taken := fastPutRecords(body)
			assert.False(t, taken)
			var err error
			assert.Less(t, allocated(func() { _, err = parsePutRecordsCBOR(body) }), uint64(256<<10+len(body)))
			require.Error(t, err)
		})
	}
}

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A million records are counted, not kept.
func TestTooManyRecords(t *testing.T) {
	const n = 1 << 20
	for _, c := range []struct {
		codec *codec
		body  string
	}{
		{jsonCodec, `{"Records":[` + strings.Repeat("{},", n-1) + `{}]}`},
		{cborCodec, "\xa1\x67Records\x9a\x00\x10\x00\x00" + strings.Repeat("\xa0", n)},
	} {
		var r request
		var err error
		body := []byte(c.body)
		assert.Less(t, allocated(func() { r, err = parsePutRecords(c.codec, body) }), uint64(1<<20))
		require.NoError(t, err)
		puts, ok := r.(*putRecords)
		require.True(t, ok)
		assert.ErrorContains(t, puts.check(), "Value of length 1048576 at 'records'")
	}
}
