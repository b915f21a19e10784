package kpl_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/internal/kpl"
)

const (
	maxHash  = "340282366920938463463374607431768211455"
	halfHash = "170141183460469231731687303715884105728"
)

// K6: a record belongs where its explicit hash key says, else where its partition key does.
func TestHashOfAUserRecord(t *testing.T) {
	parse := func(decimal string) kpl.Hash {
		h, err := kpl.ParseHash(decimal)
		require.NoError(t, err)
		return h
	}
	// MD5 of "a" is 0cc175b9c0f1b6a831c399e269772661.
	ofA := parse("16955237001963240173058271559858726497")
	assert.Equal(t, ofA, kpl.UserRecord{PartitionKey: "a"}.Hash())
	assert.Equal(t, parse("5"), kpl.UserRecord{PartitionKey: "a", ExplicitHashKey: "5"}.Hash())
	assert.Equal(t, ofA, kpl.UserRecord{PartitionKey: "a", ExplicitHashKey: "undefined"}.Hash())
}

func TestParseHash(t *testing.T) {
	for _, bad := range []string{strings.Repeat("9", 300_000), strings.Repeat("0", 40), "", "a", "-1", "340282366920938463463374607431768211456", "0x10", "1.5"} {
		_, err := kpl.ParseHash(bad)
		assert.Error(t, err, bad)
	}
	last, err := kpl.ParseHash(maxHash)
	require.NoError(t, err)
	for _, b := range last {
		assert.Equal(t, byte(0xff), b)
	}
}

func TestRangeExcludes(t *testing.T) {
	upper := kpl.ParseRange(halfHash, maxHash)
	at := func(explicit string) kpl.Hash { return kpl.UserRecord{ExplicitHashKey: explicit}.Hash() }
	assert.False(t, upper.Excludes(at(halfHash)), "the first key belongs to it")
	assert.False(t, upper.Excludes(at(maxHash)), "the last key belongs to it")
	assert.True(t, upper.Excludes(at("170141183460469231731687303715884105727")))
	assert.True(t, kpl.ParseRange("0", "5").Excludes(at("6")))
	for _, unknown := range []kpl.Range{{}, kpl.ParseRange("", ""), kpl.ParseRange("0", "x")} {
		assert.False(t, unknown.Excludes(at("6")), "what is not known excludes nothing")
	}
}
