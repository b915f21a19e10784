package wire

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// maxDepth is how deep arrays and maps may lie in one another. In an answer of the service it is four.
const maxDepth = 100

// errCBOR is a body that is not CBOR, or that can't be had as JSON.
var errCBOR = errors.New("the answer can't be read as CBOR")

// toJSON is an answer in CBOR as the service would have sent it in JSON: for the SDK's decoder, which takes what is out of the ordinary,
// errors too. It is at most six times as long.
func toJSON(body []byte) ([]byte, error) {
	if len(body) == 0 {
		return nil, nil
	}
	t := translator{items: items{b: body}, out: make([]byte, 0, len(body)+len(body)/2)}
	t.value(false, 0)
	if t.strange {
		return nil, fmt.Errorf("%w: byte %d of %d", errCBOR, t.i, len(body))
	}
	return t.out, nil
}

// translator writes as JSON what it takes. It is strange when it can't go on.
type translator struct {
	items
	out []byte
}

// value translates a value.
func (t *translator) value(isTime bool, depth int) {
	t.tags()
	switch t.peek() >> 5 {
	case majorBytes:
		t.out = append(t.out, '"')
		t.out = base64.StdEncoding.AppendEncode(t.out, t.pieces(majorBytes))
		t.out = append(t.out, '"')
	case majorText:
		t.out = appendQuoted(t.out, t.pieces(majorText))
	case majorArray, majorMap:
		t.values(depth + 1)
	case majorUint, majorNegative:
		t.integer(isTime)
	default:
		t.simple(isTime)
	}
}

// tags takes tags, which say nothing that is not known.
func (t *translator) tags() {
	for t.peek()>>5 == majorTag && !t.strange {
		t.head()
	}
}

func (t *translator) values(depth int) {
	major := t.peek() >> 5
	open, end := byte('['), byte(']')
	if major == majorMap {
		open, end = '{', '}'
	}
	if depth > maxDepth || len(t.out) > maxBody {
		t.strange = true
	}
	t.out = append(t.out, open)
	elements := t.begin(major)
	for first := true; t.more(&elements); first = false {
		if !first {
			t.out = append(t.out, ',')
		}
		isTime := false
		if major == majorMap {
			t.tags()
			name := t.pieces(majorText)
			t.out = append(appendQuoted(t.out, name), ':')
			isTime = string(name) == "ApproximateArrivalTimestamp"
		}
		t.value(isTime, depth)
	}
	t.out = append(t.out, end)
}

// pieces takes a string, also one that comes in pieces.
func (t *translator) pieces(major byte) []byte {
	if t.peek() != major<<5|indefinite {
		return t.str(major).of(t.b)
	}
	var all []byte
	for elements := t.begin(major); t.more(&elements); {
		all = append(all, t.str(major).of(t.b)...)
	}
	return all
}

func (t *translator) integer(isTime bool) {
	major, _, n := t.head()
	switch {
	case n > math.MaxInt64:
		f := float64(n)
		if major == majorNegative {
			f = -f
		}
		t.out = strconv.AppendFloat(t.out, f, 'e', -1, 64)
	case major == majorNegative:
		t.whole(-1-int64(n), isTime)
	default:
		t.whole(int64(n), isTime)
	}
}

func (t *translator) whole(n int64, isTime bool) {
	if !isTime || -leastMillis < n && n < leastMillis {
		t.out = strconv.AppendInt(t.out, n, 10)
		return
	}
	t.out = strconv.AppendInt(t.out, n/1000, 10)
	part := n % 1000
	if part < 0 {
		part = -part
	}
	// The last digit keeps the SDK, which cuts off what is less than a millisecond, from losing one: not all seconds with three decimals are
	// floating point numbers.
	t.out = append(t.out, '.', byte('0'+part/100), byte('0'+part/10%10), byte('0'+part%10), '2')
}

func (t *translator) simple(isTime bool) {
	switch b := t.peek(); b {
	case cborTrue:
		t.i++
		t.out = append(t.out, "true"...)
		return
	case cborFalse:
		t.i++
		t.out = append(t.out, "false"...)
		return
	case cborNull, cborUndefined:
		t.i++
		t.out = append(t.out, "null"...)
		return
	}
	f := t.float()
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		t.out = append(t.out, "null"...)
	case isTime && math.Abs(f) >= leastMillis && math.Abs(f) < 1<<63:
		t.whole(int64(f), true)
	case f == math.Trunc(f) && math.Abs(f) < 1<<53:
		t.out = strconv.AppendInt(t.out, int64(f), 10)
	default:
		t.out = strconv.AppendFloat(t.out, f, 'e', -1, 64)
	}
}

// appendQuoted appends a text as JSON; what is no UTF-8 becomes U+FFFD, byte by byte.
func appendQuoted(b, text []byte) []byte {
	const hex = "0123456789abcdef"
	if !utf8.Valid(text) {
		text = []byte(string([]rune(string(text))))
	}
	b = append(b, '"')
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ':
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}
