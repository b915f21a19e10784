package kpl_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/protokinesis/protokinesis/internal/kpl"
)

func userRecords() *rapid.Generator[[]kpl.UserRecord] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) kpl.UserRecord {
		u := kpl.UserRecord{
			PartitionKey: rapid.SampledFrom([]string{"a", "b", "ключ", strings.Repeat("k", 200), ""}).Draw(t, "key"),
			Data:         rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "data"),
		}
		if rapid.Bool().Draw(t, "explicit") {
			u.ExplicitHashKey = fmt.Sprint(rapid.Uint64Range(0, 200).Draw(t, "hash"))
		}
		return u
	}), 1, 300)
}

// K5: the size is exact, with every record added, so that no limit is missed by a byte; and what is built is read back.
func TestBuilderSizeIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b kpl.Builder
		users := userRecords().Draw(t, "users")
		for range 2 { // a builder that was used is as a new one
			b.Reset()
			for i, u := range users {
				with := b.SizeWith(u)
				b.Add(u)
				require.Equal(t, with, b.Size())
				if i%16 == 0 || i == len(users)-1 {
					require.Len(t, b.Bytes(), with)
				}
			}
			require.Equal(t, len(users), b.Len())
			a, ok := kpl.Split(b.Bytes())
			require.True(t, ok)
			require.Len(t, a.Users, len(users))
			for i, u := range users {
				require.Equal(t, u.PartitionKey, a.Users[i].PartitionKey)
				require.Equal(t, u.ExplicitHashKey, a.Users[i].ExplicitHashKey)
				require.Equal(t, string(u.Data), string(a.Users[i].Data))
			}
		}
	})
}

func TestHashString(t *testing.T) {
	for _, decimal := range []string{"0", "1", halfHash, maxHash} {
		h, err := kpl.ParseHash(decimal)
		require.NoError(t, err)
		require.Equal(t, decimal, h.String())
		require.Zero(t, h.Compare(h))
	}
	low, _ := kpl.ParseHash("255")
	high, _ := kpl.ParseHash("256")
	require.Negative(t, low.Compare(high))
}
