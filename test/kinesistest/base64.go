package kinesistest

import (
	"bytes"
	"slices"
	"sync"
)

// scratch holds decoded data for as long as it takes to find that it decodes.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// checkBase64 returns how many bytes a text stands for; ok is false if it is not the one base64 text for them.
func checkBase64(text []byte) (n int, ok bool) {
	buf, _ := scratch.Get().(*[]byte)
	defer scratch.Put(buf)
	const quantum = 4
	room := encoding64.DecodedLen(len(text))
	if cap(*buf) < room+quantum {
		*buf = make([]byte, room+quantum)
	}
	data, last := (*buf)[:room], (*buf)[room:room+quantum]
	n, err := encoding64.Decode(data, text)
	if err != nil || encoding64.EncodedLen(n) != len(text) { // line breaks are ignored, but not here
		return 0, false
	}
	if rest := n % 3; rest > 0 { // some bits of the last quantum stand for nothing, and must be 0
		encoding64.Encode(last, data[n-rest:n])
		return n, bytes.Equal(last, text[len(text)-quantum:])
	}
	return n, true
}

// decodedLen is how many bytes a text that is base64 stands for.
func decodedLen(text []byte) int {
	return encoding64.DecodedLen(len(text)) - (len(text) - len(bytes.TrimRight(text, "=")))
}

func appendBase64(b, data []byte) []byte {
	n := encoding64.EncodedLen(len(data))
	b = slices.Grow(b, n)
	encoding64.Encode(b[len(b):len(b)+n], data)
	return b[:len(b)+n]
}

// appendDecoded appends what a text that is base64 stands for.
func appendDecoded(b, text []byte) []byte {
	n := decodedLen(text)
	b = slices.Grow(b, n)
	n, _ = encoding64.Decode(b[len(b):len(b)+n], text)
	return b[:len(b)+n]
}
