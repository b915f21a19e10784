package wire

import (
	"encoding/binary"
	"math"
	"unicode/utf8"
)

// Major types of CBOR (RFC 8949): the upper three bits of an item's first byte.
const (
	majorUint byte = iota
	majorNegative
	majorBytes
	majorText
	majorArray
	majorMap
	majorTag
	majorSimple
)

// The lower five bits: a value below 24 is the argument itself.
const (
	oneByte    = 24 // the argument follows in one byte; in two, four, eight with the next three
	twoBytes   = 25
	fourBytes  = 26
	eightBytes = 27
	indefinite = 31 // no argument: an array or a map up to the break, a string in pieces, the break itself
)

const (
	cborFalse     = 0xf4
	cborTrue      = 0xf5
	cborNull      = 0xf6
	cborUndefined = 0xf7
	cborBreak     = 0xff
)

// items goes through CBOR as a cursor through JSON.
type items struct {
	b       []byte
	i       int
	strange bool
}

// peek is the next item's first byte; the break at the end.
func (c *items) peek() byte {
	if c.i < len(c.b) {
		return c.b[c.i]
	}
	return cborBreak
}

// head takes the beginning of an item: its major type, the lower bits, and the argument.
func (c *items) head() (major, info byte, argument uint64) {
	first := c.peek()
	major, info = first>>5, first&31
	size := 0
	switch {
	case c.strange || c.i >= len(c.b):
		c.strange = true
		return 0, 0, 0
	case info < oneByte || info == indefinite && major >= majorBytes && major != majorTag:
		c.i++
		return major, info, uint64(info)
	case info <= eightBytes:
		size = 1 << (info - oneByte)
	default:
		c.strange = true
		return 0, 0, 0
	}
	rest := c.b[c.i+1:]
	if len(rest) < size {
		c.strange = true
		return 0, 0, 0
	}
	switch size {
	case 1:
		argument = uint64(rest[0])
	case 2:
		argument = uint64(binary.BigEndian.Uint16(rest))
	case 4:
		argument = uint64(binary.BigEndian.Uint32(rest))
	case 8:
		argument = binary.BigEndian.Uint64(rest)
	}
	c.i += 1 + size
	return major, info, argument
}

// run is what is left of an array or a map.
type run struct {
	left    uint64
	endless bool // up to the break
}

func (c *items) begin(want byte) run {
	major, info, n := c.head()
	if major != want {
		c.strange = true
	}
	return run{n, info == indefinite}
}

// more reports whether there is another element or member.
func (c *items) more(r *run) bool {
	switch {
	case c.strange:
		return false
	case c.i >= len(c.b):
		c.strange = r.endless || r.left > 0
		return false
	case r.endless && c.b[c.i] == cborBreak:
		c.i++
		return false
	case r.endless:
		return true
	case r.left == 0:
		return false
	}
	r.left--
	return true
}

// name is the name of the next member. skip is when its value is null, which is as if it were not there; it is taken then.
func (c *items) name() (name []byte, skip bool) {
	name = c.str(majorText).of(c.b) // one that is no UTF-8 is none that is known
	if b := c.peek(); b == cborNull || b == cborUndefined {
		c.i++
		return nil, true
	}
	return name, false
}

// text takes a text in one piece.
func (c *items) text() span {
	s := c.str(majorText)
	if !utf8.Valid(s.of(c.b)) {
		c.strange = true
	}
	return s
}

// str takes a string in one piece.
func (c *items) str(want byte) span {
	if c.i < len(c.b) && c.b[c.i]>>5 == want && c.b[c.i]&31 < oneByte { // a short one, as most are
		from := c.i + 1
		to := from + int(c.b[c.i]&31)
		if c.strange || to > len(c.b) {
			c.strange = true
			return span{}
		}
		c.i = to
		return span{int32(from), int32(to)} //nolint:gosec // a body has at most maxBody bytes
	}
	major, info, n := c.head()
	if c.strange || major != want || info == indefinite || n > uint64(len(c.b)-c.i) { //nolint:gosec // not negative
		c.strange = true
		return span{}
	}
	s := span{int32(c.i), int32(c.i) + int32(n)} //nolint:gosec // a body has at most maxBody bytes
	c.i += int(n)                                //nolint:gosec // likewise
	return s
}

// blob takes bytes, or a text of base64, which is what kinesis-local sends.
func (c *items) blob() (s span, isBase64 bool) {
	if c.peek()>>5 != majorText {
		return c.str(majorBytes), false
	}
	s = c.str(majorText)
	if s.len()%4 != 0 {
		c.strange = true
	}
	return s, true
}

// number takes a whole number that is not negative.
func (c *items) number() int64 {
	major, _, n := c.head()
	if major != majorUint || n > math.MaxInt64 {
		c.strange = true
		return 0
	}
	return int64(n)
}

// time takes a time and returns milliseconds since 1970.
func (c *items) time() int64 {
	if c.peek()>>5 == majorTag { // that it is a time
		c.head()
	}
	if c.peek()>>5 == majorUint {
		n := c.number()
		if n < leastMillis {
			n *= 1000
		}
		if n > maxSeconds*1000 {
			c.strange = true
			return 0
		}
		return n
	}
	f := c.float()
	if f < leastMillis {
		f *= 1000
	}
	if !(f >= 0 && f <= maxSeconds*1000) {
		c.strange = true
		return 0
	}
	return int64(f)
}

// leastMillis tells milliseconds (from 1973 on) from seconds (before 5138). The service, and what is made for Java, sends whole milliseconds;
// emulators send seconds, with decimals where there are any.
const leastMillis = 1e11

// float takes a floating point number.
func (c *items) float() float64 {
	major, info, n := c.head()
	if major != majorSimple {
		c.strange = true
	}
	switch info {
	case twoBytes:
		return half(uint16(n)) //nolint:gosec // two bytes
	case fourBytes:
		return float64(math.Float32frombits(uint32(n))) //nolint:gosec // four bytes
	case eightBytes:
		return math.Float64frombits(n)
	}
	c.strange = true
	return 0
}

// half is a float of two bytes.
func half(n uint16) float64 {
	exponent, fraction := int(n>>10&31), float64(n&1023)
	sign := 1 - 2*float64(n>>15)
	switch exponent {
	case 0:
		return sign * math.Ldexp(fraction, -24)
	case 31:
		if fraction != 0 {
			return math.NaN()
		}
		return sign * math.Inf(1)
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}

func (c *items) end() bool { return c.i == len(c.b) && !c.strange }
