package messages

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
)

// A clone is equal in all fields, also those that will be added, and shares no memory.
func TestCloneOfADelivery(t *testing.T) {
	d := &Delivery{
		Stream: "orders", ShardId: "shardId-000000000001", SequenceNumber: "49", SubSequenceNumber: 3, PartitionKey: "key", Data: []byte("data"),
		Headers: map[string]string{"name": "value"}, ArrivalUnixMillis: 5, Attempt: 2, Generation: 7, DeliveryId: 11,
	}
	for fields, i := d.ProtoReflect().Descriptor().Fields(), 0; i < fields.Len(); i++ {
		require.True(t, d.ProtoReflect().Has(fields.Get(i)), "this test sets every field: %s", fields.Get(i).Name())
	}
	c := d.Clone()
	require.True(t, proto.Equal(d, c))
	require.NotSame(t, &d.Data[0], &c.Data[0])
	for _, pair := range [][2]string{{d.Stream, c.Stream}, {d.ShardId, c.ShardId}, {d.SequenceNumber, c.SequenceNumber}, {d.PartitionKey, c.PartitionKey}} {
		require.NotSame(t, unsafe.StringData(pair[0]), unsafe.StringData(pair[1]), pair[0]) //nolint:gosec // only addresses are compared
	}
	c.Headers["name"] = "other"
	require.Equal(t, "value", d.Headers["name"])
	require.Nil(t, (*Delivery)(nil).Clone())
	require.True(t, proto.Equal(&Delivery{}, (&Delivery{}).Clone()))
}
