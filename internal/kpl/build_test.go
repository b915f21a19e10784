package kpl_test

import (
	"crypto/md5" //nolint:gosec // the format's checksum
	"fmt"
	"strings"
	"testing"

	"github.com/awslabs/kinesis-aggregation/go/v2/records"
	"github.com/golang/protobuf/proto" //nolint:staticcheck // what the module's messages need
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

// What is built is read by AWS's own module, too: its messages, and the checksum that its format asks for.
func TestBuiltRecordsAreReadByAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b kpl.Builder
		users := userRecords().Draw(t, "users")
		for _, u := range users {
			require.True(t, b.AddWithin(u, 1<<20))
		}
		require.False(t, b.AddWithin(kpl.UserRecord{PartitionKey: "one more", Data: []byte("x")}, b.Size()))
		data := b.Bytes()
		require.Equal(t, "\xF3\x89\x9A\xC2", string(data[:4]))
		body := data[4 : len(data)-md5.Size]
		sum := md5.Sum(body) //nolint:gosec // the format's checksum
		require.Equal(t, sum[:], data[len(data)-md5.Size:])
		var m records.AggregatedRecord
		require.NoError(t, proto.Unmarshal(body, &m))
		require.Len(t, m.GetRecords(), len(users))
		for i, r := range m.GetRecords() {
			require.Equal(t, users[i].PartitionKey, m.GetPartitionKeyTable()[r.GetPartitionKeyIndex()])
			if users[i].ExplicitHashKey != "" {
				require.Equal(t, users[i].ExplicitHashKey, m.GetExplicitHashKeyTable()[r.GetExplicitHashKeyIndex()])
			} else {
				require.Nil(t, r.ExplicitHashKeyIndex)
			}
			require.Equal(t, string(users[i].Data), string(r.GetData()))
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
