package actors

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

// pageSpec is what is needed to make deliveries of a page. That is done beside the mailbox, with the call.
type pageSpec struct {
	generation uint64
	stream     string
	shard      string
	iterator   string
	after      string // the last sequence number read before; what is not above it is repeated
	firstID    uint64
	limit      int
}

// fetched makes deliveries of a page. They are one block of memory, ready to be sent; only later attempts are copied.
func (p pageSpec) fetched(out *kinesis.GetRecordsOutput) pageFetched {
	page := pageFetched{
		generation: p.generation, iterator: p.iterator, records: len(out.Records), full: len(out.Records) >= p.limit,
		lag: aws.ToInt64(out.MillisBehindLatest), next: aws.ToString(out.NextShardIterator), children: out.ChildShards,
	}
	if len(out.Records) == 0 {
		return page
	}
	page.deliveries = make([]messages.Delivery, 0, len(out.Records))
	id, after := p.firstID, p.after
	for i := range out.Records {
		rec := &out.Records[i]
		sequence := aws.ToString(rec.SequenceNumber)
		if after != "" && leasestore.CompareSequence(sequence, after) <= 0 {
			continue
		}
		after = sequence
		page.deliveries = page.deliveries[:len(page.deliveries)+1]
		d := &page.deliveries[len(page.deliveries)-1]
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
