package kpl

import (
	"cmp"
	"crypto/md5" //nolint:gosec // the format's checksum
	"encoding/binary"
	"math/big"

	"google.golang.org/protobuf/encoding/protowire"
)

// Builder puts user records together into one aggregated record. Their order is that of their sub-sequence numbers. It knows its size exactly, so
// whoever fills one can stop just before a limit. The zero Builder is empty.
type Builder struct {
	keys, hashKeys table
	records        []record
	size           int // of the protobuf message
}

// table is one of the tables of keys, each of which is written once.
type table struct {
	texts []string
	index map[string]uint64
	last  uint64 // the index found last: the records of a key often come together
}

// find returns the index of the text, and whether it is in the table yet.
func (t *table) find(text string) (index uint64, known bool) {
	if t.last < uint64(len(t.texts)) && t.texts[t.last] == text {
		return t.last, true
	}
	if index, known = t.index[text]; known {
		t.last = index
		return index, true
	}
	return uint64(len(t.texts)), false
}

func (t *table) add(text string) uint64 {
	index, known := t.find(text)
	if !known {
		if t.index == nil {
			t.index = make(map[string]uint64)
		}
		t.index[text], t.last = index, index
		t.texts = append(t.texts, text)
	}
	return index
}

func (t *table) reset() {
	clear(t.texts)
	t.texts, t.last = t.texts[:0], 0
	clear(t.index)
}

// Len is how many user records it holds.
func (b *Builder) Len() int { return len(b.records) }

// Size is how many bytes the aggregated record has.
func (b *Builder) Size() int { return len(magic) + b.size + digestSize }

// SizeWith is how many bytes it would have with u as well.
func (b *Builder) SizeWith(u UserRecord) int {
	_, grows := b.record(u)
	return b.Size() + grows
}

// Add appends a user record. Its data is copied by Bytes, not here.
func (b *Builder) Add(u UserRecord) {
	r, grows := b.record(u)
	b.add(u, r, grows)
}

// AddWithin appends a user record unless the aggregated record would then have more bytes than the limit.
func (b *Builder) AddWithin(u UserRecord, limit int) bool {
	r, grows := b.record(u)
	if b.Size()+grows > limit {
		return false
	}
	b.add(u, r, grows)
	return true
}

func (b *Builder) add(u UserRecord, r record, grows int) {
	b.size += grows
	b.keys.add(u.PartitionKey)
	if r.hasHashKey {
		b.hashKeys.add(u.ExplicitHashKey)
	}
	b.records = append(b.records, r)
}

// record is u as it would be added, and by how much the message would grow.
func (b *Builder) record(u UserRecord) (r record, grows int) {
	var known bool
	r.data = u.Data
	if r.key, known = b.keys.find(u.PartitionKey); !known {
		grows += fieldSize(fieldKeys, len(u.PartitionKey))
	}
	if u.ExplicitHashKey != "" {
		r.hasHashKey = true
		if r.hashKey, known = b.hashKeys.find(u.ExplicitHashKey); !known {
			grows += fieldSize(fieldHashKeys, len(u.ExplicitHashKey))
		}
	}
	return r, grows + fieldSize(fieldRecords, r.size())
}

// size is how many bytes a record has as a message.
func (r *record) size() int {
	n := protowire.SizeTag(fieldKey) + protowire.SizeVarint(r.key) + fieldSize(fieldData, len(r.data))
	if r.hasHashKey {
		n += protowire.SizeTag(fieldHashKey) + protowire.SizeVarint(r.hashKey)
	}
	return n
}

func fieldSize(number protowire.Number, length int) int {
	return protowire.SizeTag(number) + protowire.SizeBytes(length)
}

// Bytes is the aggregated record.
func (b *Builder) Bytes() []byte {
	out := append(make([]byte, 0, b.Size()), magic...)
	for _, key := range b.keys.texts {
		out = protowire.AppendString(protowire.AppendTag(out, fieldKeys, protowire.BytesType), key)
	}
	for _, key := range b.hashKeys.texts {
		out = protowire.AppendString(protowire.AppendTag(out, fieldHashKeys, protowire.BytesType), key)
	}
	for i := range b.records {
		r := &b.records[i]
		out = protowire.AppendVarint(protowire.AppendTag(out, fieldRecords, protowire.BytesType), uint64(r.size())) //nolint:gosec // a length
		out = protowire.AppendVarint(protowire.AppendTag(out, fieldKey, protowire.VarintType), r.key)
		if r.hasHashKey {
			out = protowire.AppendVarint(protowire.AppendTag(out, fieldHashKey, protowire.VarintType), r.hashKey)
		}
		out = protowire.AppendBytes(protowire.AppendTag(out, fieldData, protowire.BytesType), r.data)
	}
	sum := md5.Sum(out[len(magic):]) //nolint:gosec // the format's checksum
	return append(out, sum[:]...)
}

// Reset empties the builder, to be filled again.
func (b *Builder) Reset() {
	b.keys.reset()
	b.hashKeys.reset()
	clear(b.records)
	b.records, b.size = b.records[:0], 0
}

// String is the hash key in decimal, as the service takes it.
func (h Hash) String() string { return new(big.Int).SetBytes(h[:]).String() }

// Compare orders hash keys by their number.
func (h Hash) Compare(other Hash) int {
	const half = len(h) / 2
	if c := cmp.Compare(binary.BigEndian.Uint64(h[:half]), binary.BigEndian.Uint64(other[:half])); c != 0 {
		return c
	}
	return cmp.Compare(binary.BigEndian.Uint64(h[half:]), binary.BigEndian.Uint64(other[half:]))
}
