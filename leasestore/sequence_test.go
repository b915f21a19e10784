package leasestore_test

import (
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/protokinesis/protokinesis/leasestore"
)

// C6: sequence numbers are compared as numbers, whatever their length.
func TestCompareSequence(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"0", "0", 0},
		{"1", "2", -1},
		{"10", "9", 1},
		{"007", "7", 0},
		{"000", "0", 0},
		{"0010", "9", 1},
		{strings.Repeat("9", 56), "1" + strings.Repeat("0", 56), -1},
		{"49590338271490256608559692538361571095921575989136588898", "49590338271490256608559692540925702759324208523137515618", -1},
	} {
		require.Equal(t, c.want, leasestore.CompareSequence(c.a, c.b), "%s and %s", c.a, c.b)
		require.Equal(t, -c.want, leasestore.CompareSequence(c.b, c.a), "%s and %s", c.b, c.a)
	}
}

func TestCompareSequenceIsThatOfNumbers(t *testing.T) {
	digits := rapid.StringMatching(`0{0,3}(0|[1-9][0-9]{0,125})`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := digits.Draw(t, "a"), digits.Draw(t, "b")
		x, _ := new(big.Int).SetString(a, 10)
		y, _ := new(big.Int).SetString(b, 10)
		require.Equal(t, x.Cmp(y), leasestore.CompareSequence(a, b))
	})
}

func TestValidSequence(t *testing.T) {
	for _, s := range []string{"0", "007", strings.Repeat("9", 129)} {
		require.True(t, leasestore.ValidSequence(s), s)
	}
	for _, s := range []string{"", "-1", "+1", " 1", "1 ", "1a", "1.0", "TRIM_HORIZON", "١", strings.Repeat("9", 130)} {
		require.False(t, leasestore.ValidSequence(s), s)
	}
}

func FuzzCompareSequence(f *testing.F) {
	f.Add("9", "10")
	f.Add("007", "7")
	f.Fuzz(func(t *testing.T, a, b string) {
		got := leasestore.CompareSequence(a, b)
		require.Equal(t, -got, leasestore.CompareSequence(b, a))
		if !leasestore.ValidSequence(a) || !leasestore.ValidSequence(b) {
			return
		}
		x, _ := new(big.Int).SetString(a, 10)
		y, _ := new(big.Int).SetString(b, 10)
		require.Equal(t, x.Cmp(y), got)
	})
}
