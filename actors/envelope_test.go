package actors

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// rawEnvelope is an envelope with any block and any length written before it.
func rawEnvelope(length uint32, block, payload string) []byte {
	out := binary.BigEndian.AppendUint32([]byte("RSK1"), length)
	return append(append(out, block...), payload...)
}

func envelopeOf(block, payload string) []byte {
	return rawEnvelope(uint32(len(block)), block, payload) //nolint:gosec // short
}

func headerMaps() *rapid.Generator[map[string]string] {
	return rapid.MapOfN(rapid.StringMatching(`[^:\n\r\t ]([^:\n\r]{0,8}[^:\n\r\t ])?`), rapid.StringMatching(`[^\n\r]{0,12}`), 1, 5).
		Filter(func(h map[string]string) bool { return checkHeaders("", h) == nil })
}

func TestEnvelopeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		headers := headerMaps().Draw(t, "headers")
		data := rapid.SliceOf(rapid.Byte()).Draw(t, "data")
		raw := wrapEnvelope(headers, data)
		require.Len(t, raw, len(data)+envelopeSize(headers))
		require.Equal(t, raw, wrapEnvelope(headers, data), "the same every time")
		gotHeaders, gotData := openEnvelope(raw)
		require.Equal(t, headers, gotHeaders)
		require.True(t, bytes.Equal(data, gotData), "%q", gotData)
	})
}

func TestEnvelopeBytes(t *testing.T) {
	raw := wrapEnvelope(map[string]string{"b": "2: two", "a": "1"}, []byte("payload"))
	require.Equal(t, "RSK1\x00\x00\x00\x0fa: 1\nb: 2: two\npayload", string(raw))
}

func TestNoHeadersNoEnvelope(t *testing.T) {
	data := []byte("payload")
	for _, none := range []map[string]string{nil, {}} {
		require.Equal(t, data, wrapEnvelope(none, data))
		require.Zero(t, envelopeSize(none))
	}
	require.Nil(t, wrapEnvelope(nil, nil))
}

func TestOpenEnvelope(t *testing.T) {
	for name, c := range map[string]struct {
		raw     []byte
		headers map[string]string
		data    string
	}{
		"one header":              {envelopeOf("a: b\n", "data"), map[string]string{"a": "b"}, "data"},
		"no payload":              {envelopeOf("a: b\n", ""), map[string]string{"a": "b"}, ""},
		"an empty value":          {envelopeOf("a: \n", "x"), map[string]string{"a": ""}, "x"},
		"a value with colons":     {envelopeOf("a: b: c\n", "x"), map[string]string{"a": "b: c"}, "x"},
		"values with space":       {envelopeOf("a:  b \n", "x"), map[string]string{"a": " b "}, "x"},
		"unsorted headers":        {envelopeOf("b: 1\na: 2\n", "x"), map[string]string{"a": "2", "b": "1"}, "x"},
		"an envelope within":      {envelopeOf("a: b\n", string(envelopeOf("c: d\n", "x"))), map[string]string{"a": "b"}, string(envelopeOf("c: d\n", "x"))},
		"a payload of lines":      {envelopeOf("a: b\n", "c: d\n"), map[string]string{"a": "b"}, "c: d\n"},
		"names that look foreign": {envelopeOf("ключ: значение\n", "x"), map[string]string{"ключ": "значение"}, "x"},
	} {
		t.Run(name, func(t *testing.T) {
			headers, data := openEnvelope(c.raw)
			require.Equal(t, c.headers, headers)
			require.Equal(t, c.data, string(data))
		})
	}
}

// What is no envelope, or not quite one, comes back whole.
func TestOpenEnvelopeLeavesTheRestAlone(t *testing.T) {
	for name, raw := range map[string][]byte{
		"nothing":                     {},
		"a text":                      []byte("just some text"),
		"part of the magic":           []byte("RSK"),
		"only the magic":              []byte("RSK1"),
		"a short length":              []byte("RSK1\x00\x00\x00"),
		"another version":             []byte("RSK2\x00\x00\x00\x05a: b\n"),
		"lower case":                  []byte("rsk1\x00\x00\x00\x05a: b\n"),
		"no headers":                  envelopeOf("", "data"),
		"a length beyond the end":     rawEnvelope(6, "a: b\n", ""),
		"a huge length":               rawEnvelope(0xffffffff, "a: b\n", "data"),
		"a length with the top bit":   rawEnvelope(0x80000005, "a: b\n", "data"),
		"a little-endian length":      rawEnvelope(0x05000000, "a: b\n", "data"),
		"a length that cuts a line":   rawEnvelope(4, "a: b\n", "data"),
		"a length that cuts the next": rawEnvelope(7, "a: b\nc: d\n", "data"),
		"a length into the payload":   rawEnvelope(8, "a: b\n", "data"),
		"no line break":               envelopeOf("a: b", "data"),
		"no colon":                    envelopeOf("ab\n", "data"),
		"no space":                    envelopeOf("a:b\n", "data"),
		"no name":                     envelopeOf(": b\n", "data"),
		"a name twice":                envelopeOf("a: b\na: c\n", "data"),
		"an empty line":               envelopeOf("a: b\n\n", "data"),
		"an empty first line":         envelopeOf("\na: b\n", "data"),
		"only a line break":           envelopeOf("\n", "data"),
		"a broken line last":          envelopeOf("a: b\nc\n", "data"),
	} {
		t.Run(name, func(t *testing.T) {
			headers, data := openEnvelope(raw)
			require.Nil(t, headers)
			require.Equal(t, raw, data)
		})
	}
}

// Names and values that could not have been published do not come out of a record either. Otherwise such a record is an
// Invalid one when it has to go to a dead-letter stream with its headers, and holds its shard for ever.
func TestOpenEnvelopeGivesOnlyHeadersThatCanBePublished(t *testing.T) {
	for name, block := range map[string]string{
		"a colon in a name":            "a:b: c\n",
		"space before a name":          " a: b\n",
		"space behind a name":          "a : b\n",
		"a carriage return in a value": "a: b\r\n",
		"a carriage return in a name":  "a\rb: c\n",
		"a value that is not UTF-8":    "a: \xff\n", // a Delivery with it can't be sent to another node
		"a name that is not UTF-8":     "\xff: a\n",
	} {
		t.Run(name, func(t *testing.T) {
			raw := envelopeOf(block, "data")
			headers, data := openEnvelope(raw)
			require.Nil(t, headers)
			require.Equal(t, raw, data)
		})
	}
}

func TestCheckHeaders(t *testing.T) {
	for name, headers := range map[string]map[string]string{
		"no name":                  {"": "x"},
		"a colon":                  {"a:b": "x"},
		"a line break in a name":   {"a\nb": "x"},
		"a carriage return":        {"a\rb": "x"},
		"space before":             {" a": "x"},
		"space behind":             {"a ": "x"},
		"a tab behind":             {"a\t": "x"},
		"only space":               {" ": "x"},
		"a line break in a value":  {"a": "x\ny"},
		"a line break at the end":  {"a": "x\n"},
		"carriage return in value": {"a": "x\ry"},
		"a name not UTF-8":         {"a\xff": "x"},
		"a value not UTF-8":        {"a": "\xff"},
		"one bad among good":       {"a": "x", "b": "\n", "c": "y"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkHeaders("stream", headers)
			require.NotNil(t, err)
			require.ErrorIs(t, err, ErrInvalid)
			require.Equal(t, "headers", err.Field)
			require.Equal(t, "stream", err.Stream)
		})
	}
	for _, headers := range []map[string]string{nil, {}, {"a": ""}, {"a b": "c: d"}, {"ключ": " value "}, {"a": "x\ty"}} {
		require.Nil(t, checkHeaders("stream", headers), "%q", headers)
	}
}

// Whatever the headers are, either they are refused or they come back.
func TestHeadersAreRefusedOrComeBack(t *testing.T) {
	tricky := rapid.StringOf(rapid.SampledFrom([]rune{'a', 'b', ':', ' ', '\n', '\r', '\t', 'é', 0}))
	rapid.Check(t, func(t *rapid.T) {
		headers := rapid.MapOfN(tricky, tricky, 1, 3).Draw(t, "headers")
		if checkHeaders("", headers) != nil {
			return
		}
		got, data := openEnvelope(wrapEnvelope(headers, []byte("data")))
		require.Equal(t, headers, got)
		require.Equal(t, "data", string(data))
	})
}

// One byte of an envelope changed: it is still taken apart without loss, or comes back whole.
func TestDamagedEnvelope(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		raw := wrapEnvelope(headerMaps().Draw(t, "headers"), []byte(rapid.String().Draw(t, "data")))
		raw[rapid.IntRange(0, len(raw)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		raw = raw[:len(raw)-rapid.IntRange(0, 3).Draw(t, "cut")]
		checkOpened(t, raw)
	})
}

// checkOpened checks that opening loses no byte.
func checkOpened(t require.TestingT, raw []byte) {
	before := bytes.Clone(raw)
	headers, data := openEnvelope(raw)
	require.True(t, bytes.Equal(before, raw), "the record was changed")
	if headers == nil {
		require.True(t, bytes.Equal(raw, data), "it must come back whole")
		return
	}
	require.NotEmpty(t, headers)
	require.True(t, bytes.HasPrefix(raw, envelopeMagic))
	require.Len(t, raw, envelopeSize(headers)+len(data), "headers and payload are all there is")
	require.True(t, bytes.HasSuffix(raw, data))
	block := string(raw[envelopePrefix : len(raw)-len(data)])
	for name, value := range headers {
		require.Contains(t, "\n"+block, "\n"+name+": "+value+"\n")
	}
	require.Equal(t, len(headers), strings.Count(block, "\n"))
}

func FuzzOpenEnvelope(f *testing.F) {
	f.Add([]byte("RSK1\x00\x00\x00\x05a: b\ndata"))
	f.Add([]byte("RSK1\x00\x00\x00\x0aa: b\nc: d\n"))
	f.Add([]byte("RSK1\xff\xff\xff\xffa: b\n"))
	f.Add([]byte("RSK1\x00\x00\x00\x00"))
	f.Add([]byte("RSK1"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		checkOpened(t, raw)
		if headers, data := openEnvelope(raw); headers != nil {
			require.Nil(t, checkHeaders("", headers), "%q can't have been published", headers)
			again, payload := openEnvelope(wrapEnvelope(headers, data))
			require.Equal(t, headers, again)
			require.True(t, bytes.Equal(data, payload))
		}
	})
}

func FuzzEnvelopeRoundTrip(f *testing.F) {
	f.Add("name", "value", []byte("data"))
	f.Add("a b", ": ", []byte("RSK1"))
	f.Add("", "\n", []byte{})
	f.Fuzz(func(t *testing.T, name, value string, data []byte) {
		headers := map[string]string{name: value}
		if checkHeaders("", headers) != nil {
			return
		}
		got, payload := openEnvelope(wrapEnvelope(headers, data))
		require.Equal(t, headers, got)
		require.True(t, bytes.Equal(data, payload))
	})
}
