// Package kpl reads the aggregated records of the Kinesis Producer Library: many user records in one Kinesis record. It is pure: no actor, no I/O.
//
// The layout is the magic bytes F3 89 9A C2, a protobuf message, and the MD5 of that message:
//
//	message AggregatedRecord {
//	  repeated string partition_key_table = 1;
//	  repeated string explicit_hash_key_table = 2;
//	  repeated Record records = 3;
//	}
//	message Record {
//	  required uint64 partition_key_index = 1;
//	  optional uint64 explicit_hash_key_index = 2;
//	  required bytes data = 3;
//	}
//
// The format is described in the KPL's repository, aggregation-format.md.
package kpl

import (
	"bytes"
	"crypto/md5" //nolint:gosec // the format's checksum
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

const digestSize = md5.Size

var magic = []byte{0xF3, 0x89, 0x9A, 0xC2}

// UserRecord is one record as its producer handed it to the KPL.
type UserRecord struct {
	// PartitionKey is its own, not that of the Kinesis record it travelled in.
	PartitionKey string
	// ExplicitHashKey is decimal; empty when there is none.
	ExplicitHashKey string
	// Data shares the memory of the Kinesis record.
	Data []byte
}

// MayBeAggregated is a quick look: what it says no to is plain data.
func MayBeAggregated(data []byte) bool { return bytes.HasPrefix(data, magic) }

// Aggregate is an aggregated record that was taken apart. The index of a user record is its sub-sequence number.
type Aggregate struct {
	Users []UserRecord

	from   []uint64        // where in the tables the hash keys of the user records come from
	hashes map[uint64]Hash // by that; a table may have a few long keys for very many user records
}

// Split takes an aggregated record apart. With ok false the data is not an aggregated record, whatever it begins with: it is too short, its checksum differs,
// its protobuf can't be read, it points to a key that its tables do not have, or it has no user record at all. Then it is plain data, to be
// delivered as it is.
func Split(data []byte) (aggregated *Aggregate, ok bool) {
	if !MayBeAggregated(data) || len(data) <= len(magic)+digestSize {
		return nil, false
	}
	body, digest := data[len(magic):len(data)-digestSize], data[len(data)-digestSize:]
	if sum := md5.Sum(body); !bytes.Equal(sum[:], digest) { //nolint:gosec // the format's checksum
		return nil, false
	}
	var a message
	if !a.read(body) || len(a.records) == 0 {
		return nil, false
	}
	return a.resolve()
}

// message is an AggregatedRecord as it was read. The tables may come after the records that point into them.
type message struct {
	keys, hashKeys []string
	records        []record
}

// record is a Record.
type record struct {
	key, hashKey                uint64
	hasKey, hasHashKey, hasData bool
	data                        []byte
}

// Numbers of the fields.
const (
	fieldKeys     = 1
	fieldHashKeys = 2
	fieldRecords  = 3

	fieldKey     = 1
	fieldHashKey = 2
	fieldData    = 3
)

func (a *message) read(body []byte) bool {
	return eachField(body, func(number int, _ uint64, value []byte, isBytes bool) bool {
		if !isBytes {
			return true // a field of another type than it should have is an unknown one
		}
		switch number {
		case fieldKeys:
			a.keys = append(a.keys, string(value))
			return utf8.Valid(value)
		case fieldHashKeys:
			a.hashKeys = append(a.hashKeys, string(value))
		case fieldRecords:
			var r record
			if !r.read(value) {
				return false
			}
			a.records = append(a.records, r)
		}
		return true
	})
}

// read reads a Record; of a field that is there twice, the last counts.
func (r *record) read(body []byte) bool {
	ok := eachField(body, func(number int, n uint64, value []byte, isBytes bool) bool {
		switch {
		case number == fieldKey && !isBytes:
			r.key, r.hasKey = n, true
		case number == fieldHashKey && !isBytes:
			r.hashKey, r.hasHashKey = n, true
		case number == fieldData && isBytes:
			r.data, r.hasData = value, true
		}
		return true
	})
	return ok && r.hasKey && r.hasData
}

// inHashKeys marks a place in the table of explicit hash keys; others are in that of partition keys.
const inHashKeys = 1 << 63

func (a *message) resolve() (*Aggregate, bool) {
	out := &Aggregate{Users: make([]UserRecord, len(a.records)), from: make([]uint64, len(a.records))}
	for i := range a.records {
		r := &a.records[i]
		if r.key >= uint64(len(a.keys)) || (r.hasHashKey && r.hashKey >= uint64(len(a.hashKeys))) {
			return nil, false
		}
		u := &out.Users[i]
		u.PartitionKey, u.Data, out.from[i] = a.keys[r.key], r.data, r.key
		if r.hasHashKey {
			u.ExplicitHashKey = a.hashKeys[r.hashKey]
			if _, err := ParseHash(u.ExplicitHashKey); err == nil {
				out.from[i] = r.hashKey | inHashKeys
			}
		}
	}
	return out, true
}

// eachField calls visit for the varint and bytes fields of a message and passes over the others. It is false when
// the message can't be read, or visit is.
func eachField(body []byte, visit func(number int, n uint64, value []byte, isBytes bool) bool) bool {
	for len(body) > 0 {
		number, wireType, size := protowire.ConsumeTag(body)
		if size < 0 {
			return false
		}
		body = body[size:]
		var n uint64
		var value []byte
		switch wireType {
		case protowire.VarintType:
			n, size = protowire.ConsumeVarint(body)
		case protowire.BytesType:
			value, size = protowire.ConsumeBytes(body)
		case protowire.Fixed32Type, protowire.Fixed64Type, protowire.StartGroupType, protowire.EndGroupType:
			if size = protowire.ConsumeFieldValue(number, wireType, body); size < 0 {
				return false
			}
			body = body[size:]
			continue
		default:
			return false
		}
		if size < 0 || !visit(int(number), n, value, wireType == protowire.BytesType) {
			return false
		}
		body = body[size:]
	}
	return true
}
