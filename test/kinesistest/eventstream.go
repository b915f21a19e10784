package kinesistest

import (
	"encoding/binary"
	"hash/crc32"
)

const (
	eventStreamType = "application/vnd.amazon.eventstream"
	headerString    = 7 // type of a string header
	preludeSize     = 12
)

// frame encodes a message of the event stream format:
//
//	length (4) | length of headers (4) | CRC of these (4) | headers | payload | CRC of all before (4)
//
// The payload stays in its parts; headers are name, value, name, value…
func frame(payload [][]byte, headers ...string) [][]byte {
	head := make([]byte, preludeSize, 192)
	for i := 0; i+1 < len(headers); i += 2 {
		name, value := headers[i], headers[i+1]
		head = append(head, byte(len(name))) //nolint:gosec // names are short constants
		head = append(head, name...)
		head = append(head, headerString)
		head = binary.BigEndian.AppendUint16(head, uint16(len(value))) //nolint:gosec // codes and media types
		head = append(head, value...)
	}
	total := len(head) + 4
	for _, part := range payload {
		total += len(part)
	}
	binary.BigEndian.PutUint32(head, uint32(total))                     //nolint:gosec // far below 4 GiB
	binary.BigEndian.PutUint32(head[4:], uint32(len(head)-preludeSize)) //nolint:gosec // as above
	binary.BigEndian.PutUint32(head[8:], crc32.ChecksumIEEE(head[:8]))
	sum := crc32.ChecksumIEEE(head)
	parts := append(make([][]byte, 0, len(payload)+2), head)
	for _, part := range payload {
		sum = crc32.Update(sum, crc32.IEEETable, part)
		parts = append(parts, part)
	}
	return append(parts, binary.BigEndian.AppendUint32(nil, sum))
}

func eventFrame(name string, c *codec, payload [][]byte) [][]byte {
	return frame(payload, ":message-type", "event", ":event-type", name, ":content-type", c.contentType)
}

func exceptionFrame(fail *apiError, c *codec) [][]byte {
	body, err := c.encode(&errorAnswer{Type: fail.code, Message: fail.message})
	if err != nil {
		body = nil // two strings always encode
	}
	return frame([][]byte{body}, ":message-type", "exception", ":exception-type", fail.code, ":content-type", c.contentType)
}
