package wire

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// span is a part of a body.
type span struct{ from, to int32 }

func (s span) len() int              { return int(s.to - s.from) }
func (s span) of(body []byte) []byte { return body[s.from:s.to] }

// cursor goes through JSON that looks as the service writes it. What looks otherwise, right or wrong, makes it strange, and it ends.
type cursor struct {
	b       []byte
	i       int
	strange bool
}

// space skips white space and returns the byte after it, without taking it; 0 at the end.
func (c *cursor) space() byte {
	for c.i < len(c.b) {
		switch b := c.b[c.i]; b {
		case ' ', '\t', '\n', '\r':
			c.i++
		default:
			return b
		}
	}
	return 0
}

func (c *cursor) take(want byte) {
	if c.space() != want {
		c.strange = true
		return
	}
	c.i++
}

// more reports whether there is another member or element before end, which it takes if not.
func (c *cursor) more(first bool, end byte) bool {
	b := c.space()
	switch {
	case c.strange:
		return false
	case b == end:
		c.i++
		return false
	case !first:
		c.take(',')
	}
	return !c.strange
}

// name is the name of the next member. skip is when its value is null, which is as if it were not there; it is taken then.
func (c *cursor) name() (name []byte, skip bool) {
	name = c.text().of(c.b)
	c.take(':')
	if c.space() != 'n' {
		return name, false
	}
	if !bytes.HasPrefix(c.b[c.i:], []byte("null")) {
		c.strange = true
		return nil, false
	}
	c.i += len("null")
	return nil, true
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// text takes a string that is as it stands: without escapes. Bytes that are no UTF-8 stay, as with the SDK.
func (c *cursor) text() span {
	if c.take('"'); c.strange {
		return span{}
	}
	i := c.i
	for ; i+8 <= len(c.b); i += 8 {
		v := binary.LittleEndian.Uint64(c.b[i:])
		quote, escape := v^ones*'"', v^ones*'\\'
		// The lowest bit that is set is right, those above it may be wrong.
		found := ((v - ones*0x20) &^ v) | ((quote - ones) &^ quote) | ((escape - ones) &^ escape)
		if found &= highs; found != 0 {
			return c.endText(i + bits.TrailingZeros64(found)/8)
		}
	}
	for ; i < len(c.b); i++ {
		if b := c.b[i]; b < ' ' || b == '"' || b == '\\' {
			return c.endText(i)
		}
	}
	c.strange = true
	return span{}
}

func (c *cursor) endText(i int) span {
	if c.b[i] != '"' {
		c.strange = true
		return span{}
	}
	s := span{int32(c.i), int32(i)} //nolint:gosec // a body has at most maxBody bytes
	c.i = i + 1
	return s
}

// blob takes a string of base64, of which only the length is looked at.
func (c *cursor) blob() span {
	c.take('"')
	n := bytes.IndexByte(c.b[c.i:], '"')
	if c.strange || n < 0 || n%4 != 0 {
		c.strange = true
		return span{}
	}
	s := span{int32(c.i), int32(c.i + n)} //nolint:gosec // a body has at most maxBody bytes
	c.i += n + 1
	return s
}

// digits takes decimal digits, at most so many, and returns what they are and how many.
func (c *cursor) digits(n uint64, most int) (uint64, int) {
	from := c.i
	for c.i < len(c.b) && '0' <= c.b[c.i] && c.b[c.i] <= '9' {
		n = n*10 + uint64(c.b[c.i]-'0')
		c.i++
	}
	if count := c.i - from; 0 < count && count <= most {
		return n, count
	}
	c.strange = true
	return 0, 0
}

// whole takes digits that don't begin with a 0, unless it is all.
func (c *cursor) whole(most int) (uint64, int) {
	zero := c.space() == '0'
	n, count := c.digits(0, most)
	if zero && count > 1 {
		c.strange = true
	}
	return n, count
}

// number takes a whole number that is not negative.
func (c *cursor) number() int64 {
	n, _ := c.whole(18)
	return int64(n) //nolint:gosec // 18 digits
}

// exactDigits is how many decimal digits a float64 holds whatever they are; then one division or multiplication by a power of ten that it
// holds too gives what strconv.ParseFloat does.
const exactDigits = 15

var powersOfTen = [...]float64{
	1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
}

// time takes seconds since 1970, such as 1441215410.867 or 1.441215410867E9, and returns milliseconds.
func (c *cursor) time() int64 {
	n, used := c.whole(exactDigits)
	exponent := 0
	if c.i < len(c.b) && c.b[c.i] == '.' {
		c.i++
		n, exponent = c.digits(n, exactDigits-used)
		exponent = -exponent
	}
	if c.i < len(c.b) && c.b[c.i]|0x20 == 'e' {
		c.i++
		exponent += c.exponent()
	}
	switch {
	case c.strange || exponent <= -len(powersOfTen) || exponent >= len(powersOfTen):
		c.strange = true
		return 0
	case exponent < 0:
		return c.millis(float64(n) / powersOfTen[-exponent])
	}
	return c.millis(float64(n) * powersOfTen[exponent])
}

func (c *cursor) exponent() int {
	sign := 1
	if c.i < len(c.b) && (c.b[c.i] == '+' || c.b[c.i] == '-') {
		sign = 44 - int(c.b[c.i]) // '+' is 43, '-' is 45
		c.i++
	}
	n, _ := c.digits(0, 2)
	return sign * int(n) //nolint:gosec // two digits
}

// millis is what the SDK makes of seconds.
func (c *cursor) millis(seconds float64) int64 {
	if seconds > maxSeconds {
		c.strange = true
		return 0
	}
	return int64(float64(seconds * 1000))
}

// maxSeconds keeps times within what nanoseconds since 1970 hold.
const maxSeconds = 9e9

// end is after the last value.
func (c *cursor) end() bool { return c.space() == 0 && c.i == len(c.b) && !c.strange }
