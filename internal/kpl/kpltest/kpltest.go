// Package kpltest makes aggregated records for tests, by another's hand: the messages are those of AWS's own module.
package kpltest

import (
	"crypto/md5" //nolint:gosec // the format's checksum
	"slices"
	"testing"

	"github.com/awslabs/kinesis-aggregation/go/v2/records"
	"github.com/golang/protobuf/proto" //nolint:staticcheck // what the module's messages need
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/internal/kpl"
)

// Aggregate is an aggregated record of the given user records.
func Aggregate(tb testing.TB, users ...kpl.UserRecord) []byte {
	tb.Helper()
	var m records.AggregatedRecord
	for _, u := range users {
		r := &records.Record{Data: u.Data, PartitionKeyIndex: index(&m.PartitionKeyTable, u.PartitionKey)}
		if r.Data == nil {
			r.Data = []byte{}
		}
		if u.ExplicitHashKey != "" {
			r.ExplicitHashKeyIndex = index(&m.ExplicitHashKeyTable, u.ExplicitHashKey)
		}
		m.Records = append(m.Records, r)
	}
	return Message(tb, &m)
}

// Message is the aggregated record of a message, whatever it says.
func Message(tb testing.TB, m *records.AggregatedRecord) []byte {
	tb.Helper()
	body, err := proto.Marshal(m)
	require.NoError(tb, err)
	return Wrap(body)
}

// Wrap puts magic and checksum around a protobuf message.
func Wrap(body []byte) []byte {
	sum := md5.Sum(body) //nolint:gosec // the format's checksum
	return slices.Concat([]byte{0xF3, 0x89, 0x9A, 0xC2}, body, sum[:])
}

// index is the place of a value in a table, to which it is added if it is not there.
func index(table *[]string, value string) *uint64 {
	at := slices.Index(*table, value)
	if at < 0 {
		at = len(*table)
		*table = append(*table, value)
	}
	return new(uint64(at))
}
