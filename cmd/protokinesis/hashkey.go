package main

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"

	"github.com/protokinesis/protokinesis/test/kinesistest"
)

// hashKey reads a decimal hash key; what is none is 0.
func hashKey(decimal string) *big.Int {
	n, ok := new(big.Int).SetString(decimal, 10)
	if !ok {
		return new(big.Int)
	}
	return n
}

// hashRange shows a range of hash keys by the first 32 of their 128 bits, which tells shards apart and fits on a screen.
func hashRange(start, end string) string {
	return fmt.Sprintf("%08x-%08x", new(big.Int).Rsh(hashKey(start), 96), new(big.Int).Rsh(hashKey(end), 96))
}

func sortByRange(shards []kinesistest.Shard) {
	slices.SortFunc(shards, func(a, b kinesistest.Shard) int {
		return cmp.Or(hashKey(a.StartHash).Cmp(hashKey(b.StartHash)), cmp.Compare(a.ID, b.ID))
	})
}
