package leasestore_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/protokinesis/protokinesis/leasestore"
)

// checkpoints draws any checkpoint that can be stored.
func checkpoints() *rapid.Generator[leasestore.Checkpoint] {
	return rapid.OneOf(
		rapid.Just(leasestore.Checkpoint{}),
		rapid.Just(leasestore.TrimHorizon()),
		rapid.Just(leasestore.ShardEnd()),
		rapid.Custom(func(t *rapid.T) leasestore.Checkpoint {
			return leasestore.AtTimestamp(time.UnixMilli(rapid.Int64().Draw(t, "millis")))
		}),
		rapid.Custom(func(t *rapid.T) leasestore.Checkpoint {
			return leasestore.AtSequence(rapid.StringMatching(`[0-9]{1,129}`).Draw(t, "sequence"), rapid.Uint64().Draw(t, "sub"))
		}),
		rapid.Custom(func(t *rapid.T) leasestore.Checkpoint {
			return leasestore.Before(rapid.StringMatching(`[0-9]{1,129}`).Draw(t, "sequence"), rapid.Uint64().Draw(t, "sub"))
		}),
		rapid.Custom(func(t *rapid.T) leasestore.Checkpoint { // close neighbours
			kind := rapid.SampledFrom([]func(string, uint64) leasestore.Checkpoint{leasestore.Before, leasestore.AtSequence}).Draw(t, "kind")
			return kind(rapid.StringMatching(`0?[0-2]`).Draw(t, "sequence"), rapid.Uint64Range(0, 1).Draw(t, "sub"))
		}),
	)
}

func TestCheckpointText(t *testing.T) {
	for text, want := range map[string]leasestore.Checkpoint{
		"":                           {},
		"TRIM_HORIZON":               leasestore.TrimHorizon(),
		"SHARD_END":                  leasestore.ShardEnd(),
		"AT_TIMESTAMP@1700000000123": leasestore.AtTimestamp(time.UnixMilli(1_700_000_000_123)),
		"AT_TIMESTAMP@-5":            leasestore.AtTimestamp(time.UnixMilli(-5)),
		"0":                          leasestore.AtSequence("0", 0),
		"007":                        leasestore.AtSequence("007", 0),
		"12:3":                       leasestore.AtSequence("12", 3),
		"<12":                        leasestore.Before("12", 0),
		"<12:3":                      leasestore.Before("12", 3),
	} {
		require.Equal(t, text, want.String())
		got, err := leasestore.ParseCheckpoint(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestParseCheckpointRefuses(t *testing.T) {
	for _, text := range []string{
		"LATEST", "AT_TIMESTAMP", "AT_TIMESTAMP@", "AT_TIMESTAMP@x", "AT_TIMESTAMP@99999999999999999999",
		"trim_horizon", " SHARD_END", "-1", "12:", "12:-1", "12:x", "12:18446744073709551616", ":3", "12:3:4", "<", "<<1", "<SHARD_END", "<:1", strings.Repeat("9", 130),
	} {
		_, err := leasestore.ParseCheckpoint(text)
		require.ErrorContains(t, err, text, "the error quotes what it could not read")
	}
}

func TestCheckpointRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := checkpoints().Draw(t, "checkpoint")
		got, err := leasestore.ParseCheckpoint(want.String())
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

func FuzzParseCheckpoint(f *testing.F) {
	for _, text := range []string{"", "TRIM_HORIZON", "SHARD_END", "AT_TIMESTAMP@1", "12", "12:3", "12:0", "<12", "<12:3", "LATEST"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		first, err := leasestore.ParseCheckpoint(text)
		if err != nil {
			return
		}
		again, err := leasestore.ParseCheckpoint(first.String())
		require.NoError(t, err)
		require.Equal(t, first, again, "what was read is written so that it is read again")
	})
}

func TestCheckpointCompareIsATotalOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := checkpoints().Draw(t, "a"), checkpoints().Draw(t, "b"), checkpoints().Draw(t, "c")
		require.Zero(t, a.Compare(a), "reflexive")
		require.Equal(t, a.Compare(b), -b.Compare(a), "antisymmetric, and any two can be compared")
		if a.Compare(b) <= 0 && b.Compare(c) <= 0 {
			require.LessOrEqual(t, a.Compare(c), 0, "transitive")
		}
		if a.Compare(b) == 0 {
			require.Equal(t, a.Compare(c), b.Compare(c), "equals are interchangeable")
		}
	})
}

func TestCheckpointOrder(t *testing.T) {
	want := []leasestore.Checkpoint{
		{},
		leasestore.TrimHorizon(),
		leasestore.AtTimestamp(time.UnixMilli(-1)),
		leasestore.AtTimestamp(time.UnixMilli(1)),
		leasestore.Before("9", 0),
		leasestore.AtSequence("9", 0),
		leasestore.AtSequence("9", 9),
		leasestore.Before("9", 10),
		leasestore.AtSequence("9", 10),
		leasestore.AtSequence("10", 0),
		leasestore.AtSequence(strings.Repeat("9", 56), 1),
		leasestore.AtSequence("1"+strings.Repeat("0", 56), 0),
		leasestore.ShardEnd(),
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, leasestore.Checkpoint.Compare)
	require.Equal(t, want, got)
}

func TestCheckpointParts(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_123)
	require.True(t, leasestore.Checkpoint{}.IsZero())
	require.True(t, leasestore.AtTimestamp(at.Add(time.Microsecond)).Time().Equal(at), "millisecond resolution")
	sequence, sub := leasestore.AtSequence("12", 3).Sequence()
	require.Equal(t, "12", sequence)
	require.Equal(t, uint64(3), sub)
	require.True(t, leasestore.ShardEnd().IsShardEnd())
	require.False(t, leasestore.AtSequence("SHARD_END", 0).IsShardEnd(), "a sentinel is no sequence number, nor the other way round")
	require.NotEqual(t, leasestore.ShardEnd(), leasestore.AtSequence("SHARD_END", 0))
}
