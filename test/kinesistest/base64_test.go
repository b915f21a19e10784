package kinesistest

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Base64 is what the standard library takes for it when it is strict, line breaks not being part of it.
func TestBase64IsStrict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "data")
		text := []byte(base64.StdEncoding.EncodeToString(data))
		require.Equal(t, "x"+string(text), string(appendBase64([]byte("x"), data)))
		require.Equal(t, "x"+string(data), string(appendDecoded([]byte("x"), text)))
		for range rapid.IntRange(0, 2).Draw(t, "faults") {
			if len(text) > 0 {
				at := len(text) - 1 - rapid.IntRange(0, min(len(text)-1, rapid.SampledFrom([]int{3, 400}).Draw(t, "near"))).Draw(t, "at")
				text[at] = rapid.SampledFrom([]byte("AB=\n\r-z/+ \x00\xff")).Draw(t, "byte")
			}
		}
		want, err := base64.StdEncoding.Strict().DecodeString(string(text))
		n, ok := checkBase64(text)
		require.Equal(t, err == nil && base64.StdEncoding.EncodedLen(len(want)) == len(text), ok, "%q", text)
		if ok {
			require.Len(t, want, n)
			require.Equal(t, n, decodedLen(text))
		}
	})
}

// Nothing is written beyond the end of a segment.
func TestBase64KeepsWithinItsBounds(t *testing.T) {
	for n := range 400 {
		data := make([]byte, n)
		text := base64.StdEncoding.EncodeToString(data)
		b := make([]byte, len(text)+64)
		for i := range b {
			b[i] = 0xaa
		}
		appendDecoded(b[:0:n], []byte(text))
		require.Equal(t, byte(0xaa), b[n])
		appendBase64(b[:0:len(text)], data)
		require.Equal(t, byte(0xaa), b[len(text)])
	}
}
