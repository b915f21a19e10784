package kpl_test

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/awslabs/kinesis-aggregation/go/v2/records"
	"github.com/golang/protobuf/proto" //nolint:staticcheck // what the module's messages need
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/protokinesis/protokinesis/internal/kpl"
	"github.com/protokinesis/protokinesis/internal/kpl/kpltest"
)

// golden was written by the Python module aws-kinesis-agg 1.2.3.
const golden = "f3899ac20a05616c7068610a04626574610a08c3bc6d6cc3a47574121431323334353637383930313233343536373839301a0908001a0566697273741a0c080110001a067365636f6e" +
	"641a0408001a001a0c08021a08746869726420ff001cc4cc761c0cff78efbce7e01b2bcee2"

func goldenRecord(tb testing.TB) []byte {
	tb.Helper()
	data, err := hex.DecodeString(golden)
	require.NoError(tb, err)
	return data
}

func TestSplitReadsWhatAnotherModuleWrote(t *testing.T) {
	got, ok := kpl.Split(goldenRecord(t))
	require.True(t, ok)
	assert.Equal(t, []kpl.UserRecord{
		{PartitionKey: "alpha", Data: []byte("first")},
		{PartitionKey: "beta", ExplicitHashKey: "12345678901234567890", Data: []byte("second")},
		{PartitionKey: "alpha", Data: []byte{}},
		{PartitionKey: "ümläut", Data: []byte("third \xff\x00")},
	}, got.Users)
}

// K2, K3, K8: what is not wholly an aggregated record is plain data.
func TestWhatIsNoAggregateIsPlain(t *testing.T) {
	one := kpltest.Aggregate(t, kpl.UserRecord{PartitionKey: "k", Data: []byte("v")})
	record := func(change func(*records.Record)) []byte {
		r := &records.Record{PartitionKeyIndex: proto.Uint64(0), Data: []byte("v")}
		change(r)
		return kpltest.Message(t, &records.AggregatedRecord{
			PartitionKeyTable: []string{"a", "b"}, ExplicitHashKeyTable: []string{"1"}, Records: []*records.Record{r},
		})
	}
	field := func(number protowire.Number, value []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
	}
	flipped := bytes.Clone(one)
	flipped[len(flipped)-1] ^= 1
	changed := bytes.Clone(one)
	changed[6] ^= 1
	for name, data := range map[string][]byte{
		"nothing":                       {},
		"the magic alone":               one[:4],
		"the magic and a little":        []byte("\xF3\x89\x9A\xC2 and plain text"),
		"a checksum of nothing":         kpltest.Wrap(nil),
		"no magic":                      one[1:],
		"a bit of the checksum flipped": flipped,
		"a bit of the message flipped":  changed,
		"the last byte missing":         one[:len(one)-1],
		"a byte too many":               append(bytes.Clone(one), 0),
		"a message cut short":           kpltest.Wrap(one[4 : len(one)-17]),
		"not protobuf":                  kpltest.Wrap([]byte(strings.Repeat("\xff", 30))),
		"no user record":                kpltest.Wrap(field(1, []byte("key"))),
		"a key index out of range":      record(func(r *records.Record) { r.PartitionKeyIndex = proto.Uint64(7) }),
		"a huge key index":              record(func(r *records.Record) { r.PartitionKeyIndex = proto.Uint64(1<<64 - 1) }),
		"a hash key index out of range": record(func(r *records.Record) { r.ExplicitHashKeyIndex = proto.Uint64(1) }),
		"a record without key":          kpltest.Wrap(append(field(1, []byte("k")), field(3, field(3, []byte("v")))...)),
		"a record without data":         kpltest.Wrap(append(field(1, []byte("k")), field(3, []byte{8, 0})...)),
		"a broken record":               kpltest.Wrap(append(field(1, []byte("k")), field(3, []byte{8})...)),
		"a key that is not UTF-8":       kpltest.Wrap(append(field(1, []byte{0xff}), field(3, []byte{8, 0, 26, 0})...)),
	} {
		_, ok := kpl.Split(data)
		assert.False(t, ok, name)
	}
}

// K8: fields that are not known, in any order, are passed over.
func TestUnknownFieldsArePassedOver(t *testing.T) {
	record := protowire.AppendTag(nil, 4, protowire.BytesType) // a tag, of which nothing is made
	record = protowire.AppendBytes(record, []byte("tag"))
	record = protowire.AppendTag(record, 3, protowire.BytesType)
	record = protowire.AppendBytes(record, []byte("v"))
	record = protowire.AppendTag(record, 9, protowire.Fixed64Type)
	record = protowire.AppendFixed64(record, 1)
	record = protowire.AppendTag(record, 1, protowire.VarintType)
	record = protowire.AppendVarint(record, 0)
	body := protowire.AppendTag(nil, 3, protowire.BytesType)
	body = protowire.AppendBytes(body, record)
	body = protowire.AppendTag(body, 8, protowire.StartGroupType)
	body = protowire.AppendTag(body, 8, protowire.EndGroupType)
	body = protowire.AppendTag(body, 1, protowire.BytesType)
	body = protowire.AppendBytes(body, []byte("the table comes last"))
	got, ok := kpl.Split(kpltest.Wrap(body))
	require.True(t, ok)
	assert.Equal(t, []kpl.UserRecord{{PartitionKey: "the table comes last", Data: []byte("v")}}, got.Users)
}

func TestSplitGivesBackWhatWasAggregated(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		user := rapid.Custom(func(rt *rapid.T) kpl.UserRecord {
			return kpl.UserRecord{
				PartitionKey:    rapid.SampledFrom([]string{"", "a", "b", "ключ"}).Draw(rt, "key"),
				ExplicitHashKey: rapid.SampledFrom([]string{"", "0", "340282366920938463463374607431768211455"}).Draw(rt, "hash"),
				Data:            append([]byte{}, rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(rt, "data")...),
			}
		})
		users := rapid.SliceOfN(user, 1, 50).Draw(rt, "users")
		got, ok := kpl.Split(kpltest.Aggregate(t, users...))
		require.True(rt, ok)
		require.Equal(rt, users, got.Users)
		for i, u := range users {
			require.Equal(rt, u.Hash(), got.Hash(i))
		}
	})
}

// FuzzSplit compares with the module of AWS: whatever the message, both say the same of it.
func FuzzSplit(f *testing.F) {
	whole := goldenRecord(f)
	f.Add(whole[4 : len(whole)-16])
	f.Add([]byte{})
	f.Add([]byte{26, 4, 8, 0, 26, 0, 10, 1, 'k'})
	f.Fuzz(func(t *testing.T, body []byte) {
		got, ok := kpl.Split(kpltest.Wrap(body))
		want, wantOK := reference(body)
		require.Equal(t, wantOK, ok)
		if ok {
			require.Equal(t, want, got.Users)
		}
		_, _ = kpl.Split(body) // and anything at all does not panic
	})
}

// reference reads a message by the other module, with the rules of Split.
func reference(body []byte) (out []kpl.UserRecord, ok bool) {
	var m records.AggregatedRecord
	if proto.Unmarshal(body, &m) != nil || len(m.Records) == 0 {
		return nil, false
	}
	for _, key := range m.PartitionKeyTable {
		if !utf8.ValidString(key) {
			return nil, false
		}
	}
	for _, r := range m.Records {
		if r.GetPartitionKeyIndex() >= uint64(len(m.PartitionKeyTable)) {
			return nil, false
		}
		u := kpl.UserRecord{PartitionKey: m.PartitionKeyTable[r.GetPartitionKeyIndex()], Data: r.Data}
		if r.ExplicitHashKeyIndex != nil {
			if r.GetExplicitHashKeyIndex() >= uint64(len(m.ExplicitHashKeyTable)) {
				return nil, false
			}
			u.ExplicitHashKey = m.ExplicitHashKeyTable[r.GetExplicitHashKeyIndex()]
		}
		out = append(out, u)
	}
	return out, true
}
