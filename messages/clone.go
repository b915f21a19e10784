package messages

import (
	"bytes"
	"maps"
	"strings"
)

// Clone is a copy of d with memory of its own. The records that were read together share theirs: who keeps a delivery, its data, its
// key or its sequence number for longer than it takes to settle it keeps all of up to 10,000 records or 10 MiB. Clone what is kept.
func (d *Delivery) Clone() *Delivery {
	if d == nil {
		return nil
	}
	return &Delivery{
		Stream: strings.Clone(d.Stream), ShardId: strings.Clone(d.ShardId), SequenceNumber: strings.Clone(d.SequenceNumber),
		SubSequenceNumber: d.SubSequenceNumber, PartitionKey: strings.Clone(d.PartitionKey), Data: bytes.Clone(d.Data),
		Headers: maps.Clone(d.Headers), ArrivalUnixMillis: d.ArrivalUnixMillis, Attempt: d.Attempt, Generation: d.Generation, DeliveryId: d.DeliveryId,
	}
}
