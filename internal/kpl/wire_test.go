package kpl_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/awslabs/kinesis-aggregation/go/v2/deaggregator"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/protokinesis/protokinesis/internal/kpl"
)

func build(users ...kpl.UserRecord) []byte {
	var b kpl.Builder
	for _, u := range users {
		b.Add(u)
	}
	return b.Bytes()
}

// Written by the Python module aws-kinesis-agg 1.2.3, as golden is.
const (
	goldenOne   = "f3899ac20a016b1a0508001a0176af432b94f7591d2072f4e0b7ea0faac2"
	goldenEmpty = "f3899ac20a016b1a0408001a001a0408001a00ac79742493b272b76b937630e9561158"
	goldenEnds  = "f3899ac20a01610a01621201301227333430323832333636393230393338343633343633333734363037343331373638323131343535" +
		"1a07080010001a01311a07080110011a0132bc48d4a9c362000380b2c7b0b6a6b911"
	// goldenLong is the SHA-256 of 18105 bytes.
	goldenLong = "cc69a43809cff07bea9a5ebc40a87b9ff200f8cab3cfe9423672d4311e8ba58d"
)

// What is built is, byte for byte, what another module writes.
func TestBuilderWritesWhatOthersDo(t *testing.T) {
	require.Equal(t, golden, hex.EncodeToString(build(
		kpl.UserRecord{PartitionKey: "alpha", Data: []byte("first")},
		kpl.UserRecord{PartitionKey: "beta", ExplicitHashKey: "12345678901234567890", Data: []byte("second")},
		kpl.UserRecord{PartitionKey: "alpha", Data: []byte{}},
		kpl.UserRecord{PartitionKey: "ümläut", Data: []byte("third \xff\x00")},
	)))
	for name, vector := range map[string]struct {
		users []kpl.UserRecord
		hex   string
	}{
		"one":              {[]kpl.UserRecord{{PartitionKey: "k", Data: []byte("v")}}, goldenOne},
		"nothing of a key": {[]kpl.UserRecord{{PartitionKey: "k"}, {PartitionKey: "k"}}, goldenEmpty},
		"the ends of the range": {[]kpl.UserRecord{
			{PartitionKey: "a", ExplicitHashKey: "0", Data: []byte("1")}, {PartitionKey: "b", ExplicitHashKey: maxHash, Data: []byte("2")},
		}, goldenEnds},
	} {
		require.Equal(t, vector.hex, hex.EncodeToString(build(vector.users...)), name)
	}
	long := sha256.Sum256(build(longUsers()...))
	require.Equal(t, goldenLong, hex.EncodeToString(long[:]))
}

// longUsers have keys, data and table indexes whose lengths and numbers take two bytes.
func longUsers() []kpl.UserRecord {
	users := make([]kpl.UserRecord, 0, 130)
	for i := range 130 {
		users = append(users, kpl.UserRecord{PartitionKey: strings.Repeat("k", 1+i), Data: []byte(strings.Repeat("d", 1+i))})
	}
	return users
}

// K5: an independent module takes apart what was built, whatever the user records are. It is one that looks at the checksum, too.
func TestDeaggregatorReadsWhatIsBuilt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		users := userRecords().Draw(t, "users")
		key, sequence := "a", "1"
		got, err := deaggregator.DeaggregateRecords([]types.Record{{Data: build(users...), PartitionKey: &key, SequenceNumber: &sequence}})
		require.NoError(t, err)
		require.Len(t, got, len(users))
		for i, u := range users {
			require.Equal(t, u.PartitionKey, *got[i].PartitionKey)
			require.Equal(t, string(u.Data), string(got[i].Data))
		}
	})
}
