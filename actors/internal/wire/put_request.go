package wire

import (
	"encoding/json"
	"slices"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// putBody is a PutRecords as JSON, in memory of its exact size. The SDK's serializer (seen in smithy-go 1.28.9) appends to a buffer that it
// doubles, which for requests of megabytes is half of all that a client does.
func putBody(in *kinesis.PutRecordsInput) []byte {
	size := len(`{"Records":[]}`)
	for i := range in.Records {
		r := &in.Records[i]
		size += len(`{"Data":"","PartitionKey":,"ExplicitHashKey":},`) + encoding64.EncodedLen(len(r.Data)) +
			textSize(r.PartitionKey) + textSize(r.ExplicitHashKey)
	}
	size += len(`"StreamName":,"StreamARN":,`) + textSize(in.StreamName) + textSize(in.StreamARN)
	b := append(make([]byte, 0, size), '{')
	b = appendField(b, "StreamName", in.StreamName)
	b = appendField(b, "StreamARN", in.StreamARN)
	b = append(b, `"Records":[`...)
	for i := range in.Records {
		b = append(appendRecord(b, &in.Records[i]), ',')
	}
	if len(in.Records) > 0 {
		b = b[:len(b)-1]
	}
	return append(b, `]}`...)
}

func appendRecord(b []byte, r *types.PutRecordsRequestEntry) []byte {
	b = append(b, '{')
	b = appendField(b, "PartitionKey", r.PartitionKey)
	b = appendField(b, "ExplicitHashKey", r.ExplicitHashKey)
	b = append(b, `"Data":"`...)
	from, n := len(b), encoding64.EncodedLen(len(r.Data))
	b = slices.Grow(b, n)[:from+n] // it grows if texts had escapes, which were not counted
	encoding64.Encode(b[from:], r.Data)
	return append(b, `"}`...)
}

// appendField appends a field and a comma, if it is set.
func appendField(b []byte, name string, value *string) []byte {
	if value == nil {
		return b
	}
	b = append(b, '"')
	b = append(b, name...)
	b = append(b, `":`...)
	if !isPlain(*value) {
		text, err := json.Marshal(*value)
		if err == nil { // a string always encodes
			return append(append(b, text...), ',')
		}
	}
	b = append(b, '"')
	b = append(b, *value...)
	return append(b, `",`...)
}

// textSize is about how many bytes a text has as JSON: exactly, if it is plain.
func textSize(s *string) int {
	if s == nil {
		return 0
	}
	return len(*s) + len(`""`)
}

// isPlain reports whether a text is itself as JSON.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
