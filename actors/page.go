package actors

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

// pageSpec is what is needed to make deliveries of a page.
type pageSpec struct {
	generation uint64
	stream     string
	shard      string
	after      string // the last sequence number read before; what is not above it is repeated
	firstID    uint64
}

// fetched makes deliveries of a page: one block of memory, ready to be sent; only later attempts are copied.
func (p pageSpec) fetched(out *kinesis.GetRecordsOutput) []messages.Delivery {
	if len(out.Records) == 0 {
		return nil
	}
	page := make([]messages.Delivery, 0, len(out.Records))
	id, after := p.firstID, p.after
	for i := range out.Records {
		rec := &out.Records[i]
		sequence := aws.ToString(rec.SequenceNumber)
		if after != "" && leasestore.CompareSequence(sequence, after) <= 0 {
			continue
		}
		after = sequence
		page = page[:len(page)+1]
		d := &page[len(page)-1]
		d.Stream, d.ShardId, d.SequenceNumber = p.stream, p.shard, sequence
		d.PartitionKey = aws.ToString(rec.PartitionKey)
		d.Headers, d.Data = openEnvelope(rec.Data)
		if rec.ApproximateArrivalTimestamp != nil {
			d.ArrivalUnixMillis = rec.ApproximateArrivalTimestamp.UnixMilli()
		}
		d.Attempt, d.Generation, d.DeliveryId = 1, p.generation, id
		id++
	}
	return page
}
