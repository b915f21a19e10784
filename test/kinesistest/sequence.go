package kinesistest

import (
	"errors"
	"math/bits"
)

// A sequence number is the decimal form of 47 hexadecimal digits, which makes it 56 decimal digits
// that sort by shard creation and then by counter:
//
//	2 | creation of the shard, s (9) | low digit of the shard (1) | counter (16) | 00 | time, s (9) | shard (8) | 2
//
// The children of a shard are created at least a second after it, by the number if not by the
// clock, so their sequence numbers are greater than all of their parents'.
type sequence struct {
	created uint64 // second in which the shard was created; 36 bits
	counter uint64 // 0 = the shard's StartingSequenceNumber, n = its n-th record
	time    uint64 // second in which the record was put; 36 bits
	shard   uint32
}

const (
	sequenceDigits = 56
	maxSequenceLen = 129 // longest text the API's pattern 0|([1-9]\d{0,128}) allows
	secondsMask    = 1<<36 - 1
	tenTo19        = 10_000_000_000_000_000_000

	// endCounter marks the EndingSequenceNumber of a closed shard; no record ever gets it.
	endCounter = 1<<63 - 1
)

var (
	errSequenceSyntax = errors.New("not a sequence number")
	errSequenceLayout = errors.New("no shard gave out this sequence number")
)

// words returns the number as three 64-bit words, most significant first.
func (q sequence) words() (hi, mid, lo uint64) {
	created, at := q.created&secondsMask, q.time&secondsMask
	lo = 2 | uint64(q.shard)<<4 | at<<36
	mid = at>>28 | q.counter<<16
	hi = q.counter>>48 | uint64(q.shard&0xf)<<16 | created<<20 | 2<<56
	return hi, mid, lo
}

// put writes the decimal form.
func (q sequence) put(dst *[sequenceDigits]byte) {
	hi, mid, lo := q.words()
	end := sequenceDigits
	for range 2 {
		var low uint64
		hi, mid, lo, low = divide(hi, mid, lo)
		for i := range 19 {
			dst[end-1-i] = byte('0' + low%10)
			low /= 10
		}
		end -= 19
	}
	for end > 0 { // what is left has 18 digits and fits the lowest word
		end--
		dst[end] = byte('0' + lo%10)
		lo /= 10
	}
}

// divide divides a three-word number by 10^19.
func divide(hi, mid, lo uint64) (qhi, qmid, qlo, rest uint64) {
	qhi, rest = hi/tenTo19, hi%tenTo19
	qmid, rest = bits.Div64(rest, mid, tenTo19)
	qlo, rest = bits.Div64(rest, lo, tenTo19)
	return qhi, qmid, qlo, rest
}

func (q sequence) String() string {
	var text [sequenceDigits]byte
	q.put(&text)
	return string(text[:])
}

// parseSequence reads a sequence number. errSequenceSyntax means the text is no sequence number at
// all, errSequenceLayout that it is one this service cannot have given out.
func parseSequence(text string) (sequence, error) {
	if text == "" || len(text) > maxSequenceLen || (text[0] == '0' && len(text) > 1) {
		return sequence{}, errSequenceSyntax
	}
	var hi, mid, lo uint64
	for i := range len(text) {
		digit := uint64(text[i] - '0')
		if digit > 9 {
			return sequence{}, errSequenceSyntax
		}
		if i < sequenceDigits {
			hi, mid, lo = appendDigit3(hi, mid, lo, digit)
		}
	}
	if len(text) != sequenceDigits || hi>>56 != 2 || lo&0xf != 2 {
		return sequence{}, errSequenceLayout
	}
	q := sequence{
		created: hi >> 20 & secondsMask,
		counter: hi<<48 | mid>>16,
		time:    (mid&0xff)<<28 | lo>>36,
		shard:   uint32(lo >> 4),
	}
	if mid>>8&0xff != 0 || hi>>16&0xf != uint64(q.shard&0xf) {
		return sequence{}, errSequenceLayout
	}
	return q, nil
}

func appendDigit3(hi, mid, lo, digit uint64) (uint64, uint64, uint64) {
	c1, lo := bits.Mul64(lo, 10)
	c2, mid := bits.Mul64(mid, 10)
	lo, carry := bits.Add64(lo, digit, 0)
	mid, carry = bits.Add64(mid, c1, carry)
	return hi*10 + c2 + carry, mid, lo
}
