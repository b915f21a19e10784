package kinesistest

import (
	"crypto/md5" //nolint:gosec // the hash Kinesis routes by; nothing here is secret
	"encoding/binary"
	"math/big"
	"math/bits"
)

// hashKey is a 128-bit unsigned number: a point in the key space that the shards of a stream share.
type hashKey struct{ hi, lo uint64 }

var maxHashKey = hashKey{^uint64(0), ^uint64(0)}

func (a hashKey) less(b hashKey) bool {
	return a.hi < b.hi || (a.hi == b.hi && a.lo < b.lo)
}

func (a hashKey) next() hashKey {
	lo, carry := bits.Add64(a.lo, 1, 0)
	return hashKey{a.hi + carry, lo}
}

func (a hashKey) prev() hashKey {
	lo, borrow := bits.Sub64(a.lo, 1, 0)
	return hashKey{a.hi - borrow, lo}
}

func (a hashKey) bigInt() *big.Int {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], a.hi)
	binary.BigEndian.PutUint64(raw[8:], a.lo)
	return new(big.Int).SetBytes(raw[:])
}

func (a hashKey) String() string { return a.bigInt().String() }

func hashKeyFromBig(n *big.Int) hashKey {
	var raw [16]byte
	n.FillBytes(raw[:])
	return hashKey{binary.BigEndian.Uint64(raw[:8]), binary.BigEndian.Uint64(raw[8:])}
}

// hashOfKey is the MD5 of the key's UTF-8 bytes, read as a big-endian number.
func hashOfKey(key []byte) hashKey {
	sum := md5.Sum(key) //nolint:gosec // see the import
	return hashKey{binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:])}
}

// parseHashKey reads a decimal hash key. ok is false if the text does not match
// 0|([1-9]\d{0,38}); tooBig tells a well-formed number of 2^128 or more.
func parseHashKey(text string) (key hashKey, ok, tooBig bool) {
	if text == "" || len(text) > 39 || (text[0] == '0' && len(text) > 1) {
		return hashKey{}, false, false
	}
	for i := range len(text) {
		digit := text[i] - '0'
		if digit > 9 {
			return hashKey{}, false, false
		}
		var over bool
		if key, over = key.appendDigit(uint64(digit)); over {
			tooBig = true
		}
	}
	return key, true, tooBig
}

// appendDigit returns a*10+digit and whether that left the 128 bits.
func (a hashKey) appendDigit(digit uint64) (hashKey, bool) {
	carry, lo := bits.Mul64(a.lo, 10)
	over, hi := bits.Mul64(a.hi, 10)
	lo, c := bits.Add64(lo, digit, 0)
	hi, c2 := bits.Add64(hi, carry, c)
	return hashKey{hi, lo}, over+c2 > 0
}

// hashRange is an inclusive range of hash keys.
type hashRange struct{ start, end hashKey }

// endsBefore reports whether next begins right behind r: the two can be merged.
func (r hashRange) endsBefore(next hashRange) bool {
	return r.end != maxHashKey && r.end.next() == next.start
}

// uniformRanges cuts the key space into n ranges of equal size, as CreateStream does.
func uniformRanges(n int) []hashRange {
	space := new(big.Int).Lsh(big.NewInt(1), 128)
	step := new(big.Int).Div(space, big.NewInt(int64(n)))
	ranges := make([]hashRange, n)
	for i := range ranges {
		start := new(big.Int).Mul(step, big.NewInt(int64(i)))
		ranges[i].start = hashKeyFromBig(start)
		if i > 0 {
			ranges[i-1].end = ranges[i].start.prev()
		}
	}
	ranges[n-1].end = maxHashKey
	return ranges
}
