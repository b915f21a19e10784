package actors

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// The envelope carries headers in front of a payload, only when there are any: the bytes RSK1, the length of the header
// block as a big-endian uint32, the block as "name: value\n" lines, then the payload. What does not read as one exactly is
// plain data and is delivered as it is.

var envelopeMagic = []byte("RSK1")

const envelopePrefix = 8 // magic and length

// checkHeaders refuses what would not come back as it was given.
func checkHeaders(stream string, headers map[string]string) *Error {
	for name, value := range headers {
		if fault := headerFault(name, value); fault != "" {
			return invalid(stream, "headers", "%q: %s", name, fault)
		}
	}
	return nil
}

// headerFault says why a header can't travel in an envelope; "" if it can.
func headerFault(name, value string) string {
	switch {
	case name == "":
		return "a header has no name"
	case strings.ContainsAny(name, ":\n\r") || name != strings.TrimSpace(name):
		return "the name has a colon, a line break, or space around it"
	case strings.ContainsAny(value, "\n\r"):
		return "the value has a line break"
	case !utf8.ValidString(name) || !utf8.ValidString(value):
		return "it is not UTF-8"
	default:
		return ""
	}
}

// envelopeSize is how many bytes the headers add to a payload.
func envelopeSize(headers map[string]string) int {
	if len(headers) == 0 {
		return 0
	}
	n := envelopePrefix
	for name, value := range headers {
		n += len(name) + len(value) + len(": \n")
	}
	return n
}

// wrapEnvelope puts headers in front of data. Without headers it is data itself.
func wrapEnvelope(headers map[string]string, data []byte) []byte {
	if len(headers) == 0 {
		return data
	}
	size := envelopeSize(headers)
	out := make([]byte, 0, size+len(data))
	out = append(out, envelopeMagic...)
	out = binary.BigEndian.AppendUint32(out, uint32(size-envelopePrefix)) //nolint:gosec // a record's size is checked before
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		out = append(out, name...)
		out = append(out, ": "...)
		out = append(out, headers[name]...)
		out = append(out, '\n')
	}
	return append(out, data...)
}

// openEnvelope takes headers and payload apart. What is no envelope, has a false length or a broken line comes back whole,
// as a payload without headers. The payload shares raw's memory.
func openEnvelope(raw []byte) (headers map[string]string, data []byte) {
	if len(raw) < envelopePrefix || !bytes.HasPrefix(raw, envelopeMagic) {
		return nil, raw
	}
	size := int64(binary.BigEndian.Uint32(raw[len(envelopeMagic):]))
	body := raw[envelopePrefix:]
	if size == 0 || size > int64(len(body)) {
		return nil, raw
	}
	headers, ok := parseHeaders(string(body[:size]))
	if !ok {
		return nil, raw
	}
	return headers, body[size:]
}

func parseHeaders(block string) (map[string]string, bool) {
	if !strings.HasSuffix(block, "\n") {
		return nil, false
	}
	headers := make(map[string]string)
	for line := range strings.Lines(block) {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if !ok || headerFault(name, value) != "" {
			return nil, false
		}
		if _, twice := headers[name]; twice {
			return nil, false
		}
		headers[name] = value
	}
	return headers, true
}
