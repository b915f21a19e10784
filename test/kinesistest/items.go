package kinesistest

import (
	"encoding/binary"
	"math"
	"unicode/utf8"
)

// Major types of CBOR: the upper three bits of an item's first byte.
const (
	majorUint byte = iota
	majorNegative
	majorBytes
	majorText
	majorArray
	majorMap
)

const (
	maxItemHead = 9
	indefinite  = 31 // in the lower five bits: up to the break

	cborFalse = 0xf4
	cborTrue  = 0xf5
	cborBreak = 0xff
)

// items reads CBOR in place, for the operations that are called often. Whatever it is not made for
// (strings in pieces, nulls, other types, unknown and repeated members, what is no CBOR at all) makes
// it odd: the request then goes through the general decoder, which also has the words for what is
// wrong with it. Lengths are believed only as far as there are bytes.
type items struct {
	b   []byte
	i   int
	odd bool
}

// head takes the beginning of an item and checks its type. endless is that it goes up to a break.
func (in *items) head(major byte) (n int, endless bool) {
	if in.odd || in.i >= len(in.b) || in.b[in.i]>>5 != major {
		in.odd = true
		return 0, false
	}
	info := in.b[in.i] & 31
	in.i++
	if info < 24 {
		return int(info), false
	}
	if info == indefinite {
		return 0, true
	}
	size := 1 << (info - 24)
	if info > 27 || len(in.b)-in.i < size {
		in.odd = true
		return 0, false
	}
	var wide [8]byte
	copy(wide[8-size:], in.b[in.i:])
	in.i += size
	v := binary.BigEndian.Uint64(wide[:])
	if v > math.MaxInt64 {
		in.odd = true
		return 0, false
	}
	return int(v), false
}

// str takes a string in one piece.
func (in *items) str(major byte) []byte {
	n, endless := in.head(major)
	if in.odd || endless || n > len(in.b)-in.i {
		in.odd = true
		return nil
	}
	in.i += n
	return in.b[in.i-n : in.i : in.i]
}

// text takes a text; it is not nil if there is one.
func (in *items) text() []byte {
	s := in.str(majorText)
	if !utf8.Valid(s) {
		in.odd = true
	}
	return s
}

// each calls one for every element of an array or member of a map.
func (in *items) each(major byte, one func()) {
	n, endless := in.head(major)
	for i := 0; endless || i < n; i++ {
		if in.odd || in.i >= len(in.b) {
			in.odd = true
			return
		}
		if endless && in.b[in.i] == cborBreak {
			in.i++
			return
		}
		one()
	}
}

// members calls one with the name of every member of a map, to take its value. one returns a bit that
// stands for the name, 0 if it does not know it.
func (in *items) members(one func(name []byte) uint) {
	seen := uint(0)
	in.each(majorMap, func() {
		bit := one(in.str(majorText))
		if bit == 0 || seen&bit != 0 {
			in.odd = true
		}
		seen |= bit
	})
}

// number takes a whole number.
func (in *items) number() int64 {
	if in.i < len(in.b) && in.b[in.i]>>5 == majorNegative {
		n, endless := in.head(majorNegative)
		in.odd = in.odd || endless
		return -1 - int64(n)
	}
	n, endless := in.head(majorUint)
	in.odd = in.odd || endless
	return int64(n)
}

func (in *items) boolean() bool {
	if in.odd || in.i >= len(in.b) || in.b[in.i] != cborTrue && in.b[in.i] != cborFalse {
		in.odd = true
		return false
	}
	in.i++
	return in.b[in.i-1] == cborTrue
}

// end reports whether all of it was read and nothing was odd.
func (in *items) end() bool { return !in.odd && in.i == len(in.b) }

// appendItemHead writes the beginning of an item, in its shortest form.
func appendItemHead(b []byte, major byte, n int) []byte {
	major <<= 5
	switch {
	case n < 24:
		return append(b, major|byte(n)) //nolint:gosec // below 24
	case n <= math.MaxUint8:
		return append(b, major|24, byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, major|25), uint16(n))
	case n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(b, major|27), uint64(n))
}

func appendItemText[T string | []byte](b []byte, s T) []byte {
	return append(appendItemHead(b, majorText, len(s)), s...)
}
