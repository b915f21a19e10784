package actors

import (
	"math"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/protokinesis/protokinesis/internal/kpl"
	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

// unpacker makes deliveries of the records of pages: it drops what was read before, opens aggregated records and envelopes, and decides what becomes of
// strays. It is pure state. Plain records pass through a page at a time. An aggregated one may hold many thousand user records, so those
// wait here until the window has room, and so do pages that are larger than the window.
type unpacker struct {
	stream, shard string
	generation    uint64
	keys          kpl.Range // of the shard
	policy        messages.StrayRecords

	queue []types.Record
	pages []part // of the queue
	done  place  // everything up to here is unpacked
	stray strays
}

// part is what is in the queue of one page.
type part struct {
	page    *arena
	records int
}

// strays are user records whose hash key lies outside the shard.
type strays struct {
	count int64
	// at is where the last one was; stuck says that nothing behind it is unpacked, as the policy is to stop there.
	at    leasestore.Checkpoint
	stuck bool
}

// place is how far a shard is unpacked: up to but not including the user record next of the record at sequence.
type place struct {
	sequence string
	next     uint64
}

// wholeRecord as place.next: none of the record is wanted any more.
const wholeRecord = math.MaxUint64

// placeAt is the place that a position stands for.
func placeAt(position leasestore.Checkpoint) place {
	sequence, sub := position.Sequence()
	switch position.Kind() {
	case leasestore.KindBefore:
		return place{sequence: sequence, next: sub}
	case leasestore.KindSequence:
		return place{sequence: sequence, next: sub + 1}
	case leasestore.KindNone, leasestore.KindTrimHorizon, leasestore.KindTimestamp, leasestore.KindShardEnd:
	}
	return place{}
}

// wanted is the first user record that is wanted of the record at sequence; wholeRecord when none is.
func (p place) wanted(sequence string) uint64 {
	if p.sequence == "" {
		return 0
	}
	switch c := leasestore.CompareSequence(sequence, p.sequence); {
	case c > 0:
		return 0
	case c == 0:
		return p.next
	default:
		return wholeRecord
	}
}

// add takes a page in.
func (u *unpacker) add(records []types.Record, page *arena) {
	if len(records) == 0 {
		return
	}
	page.hold()
	u.pages = append(u.pages, part{page, len(records)})
	if len(u.queue) == 0 {
		u.queue = records
		return
	}
	u.queue = append(slices.Clip(u.queue), records...)
}

// waiting reports whether there are records that are not unpacked.
func (u *unpacker) waiting() bool { return len(u.queue) > 0 }

// more makes deliveries of the next records of one page, about as many as there is room for, of an aggregated one all. They are one block
// of memory, ready to be sent; only later attempts are copied.
func (u *unpacker) more(room int, firstID uint64) ([]messages.Delivery, *arena) {
	if len(u.queue) == 0 || u.stray.stuck {
		return nil, nil
	}
	page := u.pages[0].page
	records, parts, total := u.portion(room)
	b := block{u: u, id: firstID, deliveries: make([]messages.Delivery, 0, total)}
	for i := range records {
		rec := &records[i]
		if from := u.done.wanted(aws.ToString(rec.SequenceNumber)); from != wholeRecord {
			b.unpack(rec, parts[i], from)
			if u.stray.stuck {
				u.drop(i)
				return b.deliveries, page
			}
			u.done = place{sequence: aws.ToString(rec.SequenceNumber), next: wholeRecord}
		}
	}
	if len(records) == len(u.queue) {
		u.done.sequence = strings.Clone(u.done.sequence) // nothing is to keep the page
	}
	u.drop(len(records))
	return b.deliveries, page
}

// drop takes the first n records off the queue, which are of one page.
func (u *unpacker) drop(n int) {
	u.queue = u.queue[n:]
	first := &u.pages[0]
	if first.records -= n; first.records == 0 {
		first.page.release()
		u.pages = u.pages[1:]
	}
	if len(u.queue) == 0 {
		u.queue, u.pages = nil, nil // nothing is to keep the page
	}
}

// portion is what to unpack now of the first page: records, the user records of those that are aggregated, and how many there are at most.
func (u *unpacker) portion(room int) (records []types.Record, parts map[int]*kpl.Aggregate, total int) {
	page := u.queue[:u.pages[0].records]
	for i := range page {
		if total > 0 && total >= room {
			return page[:i], parts, total
		}
		if data := page[i].Data; kpl.MayBeAggregated(data) {
			if aggregated, ok := kpl.Split(data); ok {
				if parts == nil {
					parts = make(map[int]*kpl.Aggregate)
				}
				parts[i] = aggregated
				total += len(aggregated.Users)
				continue
			}
		}
		total++
	}
	return page, parts, total
}

// block is the deliveries being made.
type block struct {
	u          *unpacker
	id         uint64
	deliveries []messages.Delivery
}

// unpack adds a record, or, if it is aggregated, its user records from the given one on.
func (b *block) unpack(rec *types.Record, aggregated *kpl.Aggregate, from uint64) {
	if aggregated == nil {
		if from == 0 {
			b.add(rec, aws.ToString(rec.PartitionKey), rec.Data, 0)
		}
		return
	}
	for i := range aggregated.Users {
		user, sub := &aggregated.Users[i], uint64(i)
		if sub >= from && b.u.admits(rec, aggregated.Hash(i), sub) {
			b.add(rec, user.PartitionKey, user.Data, sub)
		}
		if b.u.stray.stuck {
			return
		}
	}
}

func (b *block) add(rec *types.Record, key string, data []byte, sub uint64) {
	b.deliveries = b.deliveries[:len(b.deliveries)+1]
	d := &b.deliveries[len(b.deliveries)-1]
	d.Stream, d.ShardId, d.SequenceNumber, d.SubSequenceNumber = b.u.stream, b.u.shard, aws.ToString(rec.SequenceNumber), sub
	d.PartitionKey = key
	d.Headers, d.Data = openEnvelope(data)
	if rec.ApproximateArrivalTimestamp != nil {
		d.ArrivalUnixMillis = rec.ApproximateArrivalTimestamp.UnixMilli()
	}
	d.Attempt, d.Generation, d.DeliveryId = 1, b.u.generation, b.id
	b.id++
}

// admits decides about a user record by its hash key.
func (u *unpacker) admits(rec *types.Record, key kpl.Hash, sub uint64) bool {
	if !u.keys.Excludes(key) {
		return true
	}
	u.stray.count++
	u.stray.at = leasestore.AtSequence(aws.ToString(rec.SequenceNumber), sub)
	switch u.policy {
	case messages.StrayRecords_STRAY_RECORDS_DROP:
		return false
	case messages.StrayRecords_STRAY_RECORDS_ERROR:
		u.stray.stuck = true
		u.done = place{sequence: aws.ToString(rec.SequenceNumber), next: sub}
		return false
	case messages.StrayRecords_STRAY_RECORDS_UNSPECIFIED, messages.StrayRecords_STRAY_RECORDS_DELIVER:
	}
	return true
}
