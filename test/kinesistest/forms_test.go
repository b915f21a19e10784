package kinesistest

import (
	"encoding/base64"
	"encoding/json"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// storedRecord is a record as the general encoders see it: what is written by hand is held against them.
type storedRecord struct {
	SequenceNumber              string
	ApproximateArrivalTimestamp epoch
	PartitionKey                string
	Data                        []byte
}

type pageShape struct {
	Records            []storedRecord
	MillisBehindLatest int64
	NextShardIterator  string       `json:",omitempty"`
	ChildShards        []childShard `json:",omitempty"`
}

type eventShape struct {
	Records                    []storedRecord
	MillisBehindLatest         int64
	ContinuationSequenceNumber string       `json:",omitempty"`
	ChildShards                []childShard `json:",omitempty"`
}

func codecOf(f form) *codec {
	if f == formCBOR {
		return cborCodec
	}
	return jsonCodec
}

func join(parts [][]byte) []byte {
	var all []byte
	for _, part := range parts {
		all = append(all, part...)
	}
	return all
}

// readForm reads a page of a log and decodes it. In CBOR the bytes must be those of the general encoder.
func readForm(tb require.TestingT, l *recordLog, q query) []storedRecord {
	p, ok := l.read(q, false)
	if !ok {
		p, ok = l.read(q, true)
		require.True(tb, ok)
	}
	c := codecOf(q.form)
	parts, err := (&pageAnswer{page: p, behind: 7, iterator: []byte("it")}).parts(c)
	require.NoError(tb, err)
	var got pageShape
	require.NoError(tb, c.decode(join(parts), &got))
	require.Len(tb, got.Records, p.count)
	require.Equal(tb, "it", got.NextShardIterator)
	require.EqualValues(tb, 7, got.MillisBehindLatest)
	if q.form == formCBOR {
		want, err := c.encode(&got)
		require.NoError(tb, err)
		require.Equal(tb, want, join(parts))
	}
	return got.Records
}

// drawEntry makes an entry, as it comes in JSON, in CBOR or past the wire.
func drawEntry(rt *rapid.T) putEntry {
	key := rapid.StringN(1, 40, -1).Draw(rt, "key")
	data := rapid.SliceOfN(rapid.Byte(), 0, 3000).Draw(rt, "data")
	if rapid.Bool().Draw(rt, "raw") {
		return putEntry{key: []byte(key), raw: data, dataLen: len(data)}
	}
	quoted, err := json.Marshal(key)
	require.NoError(rt, err)
	var p putEntry
	require.NoError(rt, p.setKey(quoted[1:len(quoted)-1]))
	require.NoError(rt, p.setData([]byte(base64.StdEncoding.EncodeToString(data))))
	return p
}

// Whatever form the records came in, whoever reads them in whichever form, in whatever turns, while
// more are put and old ones go, gets what was put.
func TestRecordsReadTheSameInBothForms(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var l recordLog
		var model []storedRecord
		now := int64(1_700_000_000_000)
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(rt *rapid.T) {
				for range rapid.IntRange(1, 8).Draw(rt, "n") {
					p := drawEntry(rt)
					now += rapid.Int64Range(0, 2000).Draw(rt, "pause")
					var seq [sequenceDigits]byte
					sequence{created: 1, counter: uint64(len(model)), time: seconds(now)}.put(&seq)
					model = append(model, storedRecord{string(seq[:]), epoch(now), string(p.key), p.data()})
					l.append(&seq, now, &p)
				}
			},
			"drop": func(rt *rapid.T) { l.drop(rapid.IntRange(0, 3).Draw(rt, "n")) },
			"read": func(rt *rapid.T) {
				q := query{
					form:  form(rapid.IntRange(0, 1).Draw(rt, "form")),
					from:  rapid.Uint64Max(l.next()).Draw(rt, "from"),
					limit: rapid.IntRange(1, 40).Draw(rt, "limit"), maxBytes: rapid.IntRange(1, 20_000).Draw(rt, "bytes"),
				}
				got := readForm(rt, &l, q)
				from := max(q.from, l.first)
				require.LessOrEqual(rt, int(from)+len(got), len(model)) //nolint:gosec // small
				require.Equal(rt, from < l.next(), len(got) > 0)
				for i, r := range got {
					require.Equal(rt, model[int(from)+i], r) //nolint:gosec // small
				}
			},
			"": func(rt *rapid.T) {
				for i := range l.entries {
					p, e, want := l.stored(i), &l.entries[i], model[int(l.first)+i] //nolint:gosec // small
					require.Equal(rt, want.SequenceNumber, string(e.sequence()))
					require.Equal(rt, want.PartitionKey, string(p.text()))
					require.Equal(rt, want.Data, p.data())
				}
			},
		})
	})
}

// Records take the memory of one form, that of who reads them, until they are read in the other again.
func TestRecordsAreKeptInTheFormTheyAreReadIn(t *testing.T) {
	var l recordLog
	put := func() {
		var seq [sequenceDigits]byte
		sequence{created: 1}.put(&seq)
		l.append(&seq, 1000, &putEntry{key: []byte("k"), b64: []byte("AAAA"), dataLen: 3})
	}
	has := func(kept ...form) {
		t.Helper()
		want := [forms]bool{}
		for _, f := range kept {
			want[f] = true
		}
		for _, e := range l.entries {
			require.Equal(t, want, [forms]bool{e.seg.bufs[formJSON] != nil, e.seg.bufs[formCBOR] != nil})
		}
	}
	for range 100 {
		put()
	}
	all := query{limit: 1000, maxBytes: 1 << 20}
	has(formJSON)
	all.form = formCBOR
	readForm(t, &l, all)
	has(formCBOR)
	for range 100 {
		put()
	}
	has(formCBOR)
	_, ok := l.read(all, false)
	require.True(t, ok, "what comes behind is stored in the readers' form")
	for range 2 {
		for f := range forms {
			all.form = f
			readForm(t, &l, all)
		}
	}
	has(formJSON, formCBOR)
	for f := range forms {
		all.form = f
		_, ok := l.read(all, false)
		require.True(t, ok, "who reads by turns turns no more")
	}
}

// What is written by hand around the records is what the general encoder writes.
func TestAnswersInCBOR(t *testing.T) {
	st := &stream{svc: New(), byShardID: map[string]*shard{}}
	parent := st.addShard(hashRange{end: maxHashKey}, 1000)
	parent.children = []*shard{st.addShard(hashRange{end: maxHashKey}, 2000, parent)}
	children := childrenOf(parent)
	for _, behind := range []int64{0, 23, 24, 255, 256, 65_535, 65_536, 1 << 32} {
		for _, end := range []bool{false, true} {
			a := &pageAnswer{behind: behind, iterator: []byte("position")}
			page := pageShape{Records: []storedRecord{}, MillisBehindLatest: behind, NextShardIterator: "position"}
			event := eventShape{Records: []storedRecord{}, MillisBehindLatest: behind, ContinuationSequenceNumber: "position"}
			if end {
				a.iterator, a.children = nil, children
				page.NextShardIterator, page.ChildShards = "", children
				event.ContinuationSequenceNumber, event.ChildShards = "", children
			}
			sameCBOR(t, page, a.parts)
			sameCBOR(t, event, a.eventParts)
		}
	}
	ok := putResult{shard: parent}
	sequence{created: 1}.put(&ok.seq)
	a := &putRecordsAnswer{results: []putResult{ok, {fail: &apiError{code: "Code", message: "Text"}}}, failed: 1}
	type result struct {
		SequenceNumber string `json:",omitempty"`
		ShardId        string `json:",omitempty"`
		ErrorCode      string `json:",omitempty"`
		ErrorMessage   string `json:",omitempty"`
	}
	sameCBOR(t, struct {
		FailedRecordCount int
		Records           []result
	}{1, []result{{SequenceNumber: string(ok.seq[:]), ShardId: parent.id}, {ErrorCode: "Code", ErrorMessage: "Text"}}}, a.parts)
	require.NoError(t, cbor.Wellformed(join(a.cbor())))
}

func sameCBOR(t *testing.T, want any, parts func(*codec) ([][]byte, error)) {
	t.Helper()
	general, err := cborCodec.encode(want)
	require.NoError(t, err)
	got, err := parts(cborCodec)
	require.NoError(t, err)
	require.Equal(t, general, join(got))
}
