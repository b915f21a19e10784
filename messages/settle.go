package messages

import "time"

// Ack says that the record is handled. Respond to the delivery with it.
func (d *Delivery) Ack() *Settle { return d.settle(Outcome_OUTCOME_ACK, 0) }

// Drop gives the record up: the shard advances past it. Respond to the delivery with it.
func (d *Delivery) Drop() *Settle { return d.settle(Outcome_OUTCOME_DROP, 0) }

// Retry asks for the record again after the backoff of its attempt. Respond to the delivery with it.
func (d *Delivery) Retry() *Settle { return d.settle(Outcome_OUTCOME_RETRY, 0) }

// RetryAfter asks for the record again after delay (in whole milliseconds, at least one). Respond to the delivery with it.
func (d *Delivery) RetryAfter(delay time.Duration) *Settle {
	return d.settle(Outcome_OUTCOME_RETRY, max(1, delay.Milliseconds()))
}

// Arrival is when the service received the record.
func (d *Delivery) Arrival() time.Time { return time.UnixMilli(d.GetArrivalUnixMillis()) }

func (d *Delivery) settle(outcome Outcome, delay int64) *Settle {
	return &Settle{
		ShardId: d.GetShardId(), Generation: d.GetGeneration(),
		First: d.GetDeliveryId(), Last: d.GetDeliveryId(), Outcome: outcome, DelayMillis: delay,
	}
}

// Ack says that all records of the batch are handled. Respond to the batch with it.
func (b *DeliveryBatch) Ack() *Settle { return b.settle(Outcome_OUTCOME_ACK, 0) }

// Drop gives all records of the batch up. Respond to the batch with it.
func (b *DeliveryBatch) Drop() *Settle { return b.settle(Outcome_OUTCOME_DROP, 0) }

// Retry asks for all records of the batch again. Respond to the batch with it.
func (b *DeliveryBatch) Retry() *Settle { return b.settle(Outcome_OUTCOME_RETRY, 0) }

// RetryAfter asks for all records of the batch again after delay. Respond to the batch with it.
func (b *DeliveryBatch) RetryAfter(delay time.Duration) *Settle {
	return b.settle(Outcome_OUTCOME_RETRY, max(1, delay.Milliseconds()))
}

// settle names the batch's records as ranges of ids: one in the usual case, more when retried records came in between.
func (b *DeliveryBatch) settle(outcome Outcome, delay int64) *Settle {
	if len(b.GetDeliveries()) == 0 {
		return &Settle{Outcome: outcome, First: 1} // names nothing: its range is empty
	}
	s := b.Deliveries[0].settle(outcome, delay)
	last := &s.Last
	for _, d := range b.Deliveries[1:] {
		if d.GetDeliveryId() == *last+1 {
			*last++
			continue
		}
		s.More = append(s.More, d.GetDeliveryId(), d.GetDeliveryId())
		last = &s.More[len(s.More)-1]
	}
	return s
}

// EachRange calls f with every range of delivery ids, first and last inclusive.
func (s *Settle) EachRange(f func(first, last uint64)) {
	if s.GetFirst() <= s.GetLast() {
		f(s.GetFirst(), s.GetLast())
	}
	for i := 0; i+1 < len(s.GetMore()); i += 2 {
		if s.More[i] <= s.More[i+1] {
			f(s.More[i], s.More[i+1])
		}
	}
}
