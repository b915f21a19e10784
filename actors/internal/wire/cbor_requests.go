package wire

import (
	"encoding/binary"
	"math"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// headRoom is the most bytes that an item's head takes.
const headRoom = 9

// putCBOR is a PutRecords as CBOR, in memory of at least its size.
func putCBOR(in *kinesis.PutRecordsInput) []byte {
	size := 128 + roomFor(in.StreamName) + roomFor(in.StreamARN) + roomFor(in.StreamId)
	for i := range in.Records {
		r := &in.Records[i]
		size += len("DataPartitionKeyExplicitHashKey") + 5*headRoom + len(r.Data) + roomFor(r.PartitionKey) + roomFor(r.ExplicitHashKey)
	}
	b := appendHead(make([]byte, 0, size), majorMap, 1+set(in.StreamName)+set(in.StreamARN)+set(in.StreamId)+set(in.DryRun))
	b = appendMember(b, "StreamName", in.StreamName)
	b = appendMember(b, "StreamARN", in.StreamARN)
	b = appendMember(b, "StreamId", in.StreamId)
	b = appendSwitch(b, "DryRun", in.DryRun)
	b = appendHead(appendText(b, "Records"), majorArray, uint64(len(in.Records)))
	for i := range in.Records {
		b = appendEntry(b, &in.Records[i])
	}
	return b
}

func appendEntry(b []byte, r *types.PutRecordsRequestEntry) []byte {
	b = appendHead(b, majorMap, 1+set(r.PartitionKey)+set(r.ExplicitHashKey))
	b = appendMember(b, "PartitionKey", r.PartitionKey)
	b = appendMember(b, "ExplicitHashKey", r.ExplicitHashKey)
	b = appendHead(appendText(b, "Data"), majorBytes, uint64(len(r.Data)))
	return append(b, r.Data...)
}

// getCBOR is a GetRecords as CBOR.
func getCBOR(in *kinesis.GetRecordsInput) []byte {
	members := set(in.ShardIterator) + set(in.StreamARN) + set(in.StreamId) + set(in.DryRun) + set(in.Limit)
	b := appendHead(make([]byte, 0, 128+roomFor(in.ShardIterator)+roomFor(in.StreamARN)+roomFor(in.StreamId)), majorMap, members)
	b = appendMember(b, "ShardIterator", in.ShardIterator)
	b = appendMember(b, "StreamARN", in.StreamARN)
	b = appendMember(b, "StreamId", in.StreamId)
	b = appendSwitch(b, "DryRun", in.DryRun)
	if in.Limit == nil {
		return b
	}
	b = appendText(b, "Limit")
	if limit := int64(*in.Limit); limit < 0 {
		return appendHead(b, majorNegative, uint64(-1-limit))
	}
	return appendHead(b, majorUint, uint64(*in.Limit))
}

// set counts a member that is there.
func set[T any](v *T) uint64 {
	if v == nil {
		return 0
	}
	return 1
}

func roomFor(s *string) int {
	if s == nil {
		return 0
	}
	return len(*s)
}

func appendHead(b []byte, major byte, n uint64) []byte {
	major <<= 5
	switch {
	case n < oneByte:
		return append(b, major|byte(n))
	case n <= math.MaxUint8:
		return append(b, major|oneByte, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, major|twoBytes), uint16(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, major|fourBytes), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, major|eightBytes), n)
}

// appendText appends a text; what is no UTF-8 becomes U+FFFD, byte by byte, as in JSON.
func appendText(b []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = string([]rune(s))
	}
	return append(appendHead(b, majorText, uint64(len(s))), s...)
}

func appendMember(b []byte, name string, value *string) []byte {
	if value == nil {
		return b
	}
	return appendText(appendText(b, name), *value)
}

func appendSwitch(b []byte, name string, value *bool) []byte {
	switch {
	case value == nil:
		return b
	case *value:
		return append(appendText(b, name), cborTrue)
	}
	return append(appendText(b, name), cborFalse)
}
