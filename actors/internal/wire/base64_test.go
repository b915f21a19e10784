package wire

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Base64 of every length is that of the standard library, and nothing is written beyond it.
func TestBase64KeepsWithinItsBounds(t *testing.T) {
	for n := range 700 {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(n*31 + i*i) //nolint:gosec // what is left of it
		}
		text := []byte(base64.StdEncoding.EncodeToString(data))
		got := make([]byte, n+64)
		for i := range got {
			got[i] = 0xaa
		}
		want := append(append([]byte{}, data...), got[n:]...)
		written, err := encoding64.Decode(got[:n:n], text)
		require.NoError(t, err)
		require.Equal(t, n, written)
		require.Equal(t, want, got)

		room := make([]byte, len(text)+64)
		want = append(append([]byte{}, text...), room[len(text):]...)
		encoding64.Encode(room[:len(text):len(text)], data)
		require.Equal(t, want, room)
	}
}

// What is not base64 is not base64 to the standard library either.
func TestBase64IsThatOfTheStandardLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(base64.StdEncoding.EncodeToString(rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "data")))
		for range rapid.IntRange(0, 2).Draw(t, "faults") {
			if len(text) > 0 {
				text[rapid.IntRange(0, len(text)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
			}
		}
		want := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
		got := make([]byte, len(want))
		n, err := base64.StdEncoding.Decode(want, text)
		m, errHere := encoding64.Decode(got, text)
		require.Equal(t, err == nil, errHere == nil)
		if err == nil {
			require.Equal(t, want[:n], got[:m])
		}
	})
}
