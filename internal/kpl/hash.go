package kpl

import (
	"bytes"
	"crypto/md5" //nolint:gosec // the service's hash
	"errors"
	"fmt"
	"math/big"
)

var errHashKey = errors.New("not a decimal number below 2^128")

// Hash is a 128-bit hash key, big-endian: what decides which shard a record belongs to.
type Hash [16]byte

// maxDigits is how many decimal digits 2^128-1 has.
const maxDigits = 39

// ParseHash reads a decimal hash key.
func ParseHash(decimal string) (Hash, error) {
	var h Hash
	if len(decimal) > maxDigits { // big.Int would take its time
		return Hash{}, fmt.Errorf("hash key of %d digits: %w", len(decimal), errHashKey)
	}
	n, ok := new(big.Int).SetString(decimal, 10)
	if !ok || n.Sign() < 0 || n.BitLen() > 8*len(h) {
		return Hash{}, fmt.Errorf("hash key %q: %w", decimal, errHashKey)
	}
	n.FillBytes(h[:])
	return h, nil
}

// Hash is the record's place among the hash keys: its explicit hash key, else the MD5 of its partition key. An explicit hash key that is none is
// passed over.
func (u UserRecord) Hash() Hash {
	if u.ExplicitHashKey != "" {
		if h, err := ParseHash(u.ExplicitHashKey); err == nil {
			return h
		}
	}
	return md5.Sum([]byte(u.PartitionKey)) //nolint:gosec // the service's hash
}

// Hash is the place of a user record among the hash keys.
func (a *Aggregate) Hash(i int) Hash {
	h, known := a.hashes[a.from[i]]
	if !known {
		if a.hashes == nil {
			a.hashes = make(map[uint64]Hash)
		}
		h = a.Users[i].Hash()
		a.hashes[a.from[i]] = h
	}
	return h
}

// Range is a shard's hash key range, both ends inclusive. The zero Range is unknown.
type Range struct {
	first, last Hash
	known       bool
}

// ParseRange reads a range of decimal hash keys; what is no range is unknown.
func ParseRange(first, last string) Range {
	from, err := ParseHash(first)
	if err != nil {
		return Range{}
	}
	to, err := ParseHash(last)
	if err != nil {
		return Range{}
	}
	return Range{first: from, last: to, known: true}
}

// Excludes reports whether a hash key is known to lie outside.
func (r Range) Excludes(h Hash) bool {
	return r.known && (bytes.Compare(h[:], r.first[:]) < 0 || bytes.Compare(h[:], r.last[:]) > 0)
}
