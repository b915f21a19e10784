package kinesistest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// form is one of the forms in which a record is kept, which are those in which GetRecords sends it.
type form int

const (
	formJSON form = iota
	formCBOR
	forms
)

func (f form) other() form { return 1 - f }

// In JSON a record is an object with a comma behind it:
//
//	{"SequenceNumber":"…","ApproximateArrivalTimestamp":1.234,"PartitionKey":"…","Data":"…"},
const (
	recordHead    = `{"SequenceNumber":"`
	recordArrival = `","ApproximateArrivalTimestamp":`
	recordKey     = `,"PartitionKey":"`
	recordData    = `","Data":"`
	recordTail    = `"},`
)

// In CBOR it is a map of the same four members; the key and the data have heads that tell their lengths.
const (
	binaryHead    = "\xa4\x6eSequenceNumber\x78\x38" // a text of sequenceDigits follows
	binaryArrival = "\x78\x1bApproximateArrivalTimestamp\xc1\x1b"
	binaryKey     = "\x6cPartitionKey"
	binaryData    = "\x64Data"
	binaryKeyAt   = len(binaryHead) + sequenceDigits + len(binaryArrival) + 8 + len(binaryKey)
)

// heads is what comes before the sequence number.
var heads = [forms]string{recordHead, binaryHead}

// room returns how many bytes a record of p takes at most.
func (f form) room(p *putEntry) int {
	if f == formCBOR {
		return binaryKeyAt + maxItemHead + len(p.text()) + len(binaryData) + maxItemHead + p.dataLen
	}
	return len(recordHead) + sequenceDigits + len(recordArrival) + 24 + len(recordKey) + len(p.jsonKey()) +
		len(recordData) + encoding64.EncodedLen(p.dataLen) + len(recordTail)
}

// append writes a record.
func (f form) append(b, seq []byte, arrival int64, p *putEntry) []byte {
	b = append(b, heads[f]...)
	b = append(b, seq...)
	if f == formCBOR {
		return appendBinaryRecord(b, arrival, p)
	}
	b = append(b, recordArrival...)
	b = appendSeconds(b, arrival)
	b = append(b, recordKey...)
	b = append(b, p.jsonKey()...)
	b = append(b, recordData...)
	if p.b64 != nil {
		b = append(b, p.b64...)
	} else {
		b = appendBase64(b, p.raw)
	}
	return append(b, recordTail...)
}

func appendBinaryRecord(b []byte, arrival int64, p *putEntry) []byte {
	b = append(b, binaryArrival...)
	b = binary.BigEndian.AppendUint64(b, uint64(max(arrival, 0)))
	b = append(b, binaryKey...)
	text := p.text()
	b = append(appendItemHead(b, majorText, len(text)), text...)
	b = append(b, binaryData...)
	b = appendItemHead(b, majorBytes, p.dataLen)
	if p.b64 == nil {
		return append(b, p.raw...)
	}
	return appendDecoded(b, p.b64)
}

// stored returns what a record was made of, as far as its other form needs it. b is the record, to its end.
func (f form) stored(b []byte) putEntry {
	if f == formCBOR {
		in := items{b: b, i: binaryKeyAt}
		key := in.str(majorText)
		in.i += len(binaryData)
		data := in.str(majorBytes)
		return putEntry{key: key, raw: data, dataLen: len(data)}
	}
	in := scanner{b: b, i: len(recordHead) + sequenceDigits + len(recordArrival)}
	in.i += bytes.IndexByte(b[in.i:], ',') + len(recordKey) - 1
	key, _ := in.str() // it was written by append
	p := putEntry{keyJSON: key, b64: b[in.i+len(recordData)-1 : len(b)-len(recordTail)]}
	p.dataLen = decodedLen(p.b64)
	return p
}

// text is the key in UTF-8, which it may not be if it did not come over the wire.
func (p *putEntry) text() []byte {
	switch {
	case p.key == nil && p.keyJSON != nil:
		p.key, _ = unescape(p.keyJSON) // it was valid when it came
	case !utf8.Valid(p.key):
		p.key = bytes.ToValidUTF8(p.key, []byte("\uFFFD"))
	}
	return p.key
}

// jsonKey is the key as the source of a JSON string.
func (p *putEntry) jsonKey() []byte {
	if p.keyJSON == nil {
		p.keyJSON = quote(p.text())
	}
	return p.keyJSON
}

// data returns the data, in memory of its own.
func (p *putEntry) data() []byte {
	if p.b64 == nil {
		return append([]byte{}, p.raw...)
	}
	return appendDecoded([]byte{}, p.b64)
}

// quote returns the source of a JSON string, without the quotes.
func quote(text []byte) []byte {
	for _, c := range text {
		if c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			quoted, err := json.Marshal(string(text))
			if err != nil {
				return nil // a string always encodes
			}
			return quoted[1 : len(quoted)-1]
		}
	}
	return text
}

// appendSeconds writes ms as seconds with three decimals, the form of timestamps in JSON 1.1.
func appendSeconds(b []byte, ms int64) []byte {
	b = strconv.AppendInt(b, ms/1000, 10)
	frac := ms % 1000
	return append(b, '.', byte('0'+frac/100), byte('0'+frac/10%10), byte('0'+frac%10))
}
