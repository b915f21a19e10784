package kinesistest

import (
	"net/http"
	"strconv"
	"time"
)

const (
	subscriptionLife  = 5 * time.Minute
	subscriptionGuard = 5 * time.Second // a second subscription is refused for so long
	eventInterval     = time.Second     // between events when there are no records
	maxEventBytes     = 1 << 20
)

// subscribe is the request of SubscribeToShard.
type subscribe struct {
	ConsumerARN      string
	ShardId          string
	StartingPosition *startingPosition
	DryRun           bool
}

func (r *subscribe) describe(_ *Service, call *Call) {
	call.Stream = streamRef{StreamARN: r.ConsumerARN}.name()
	call.Shard, call.Consumer = r.ShardId, r.ConsumerARN
	if p := r.StartingPosition; p != nil {
		call.IteratorType, call.SequenceNumber = p.Type, p.SequenceNumber
		if p.Timestamp != nil {
			call.Timestamp = p.Timestamp.time()
		}
	}
}

func (r *subscribe) run(x *exchange) (any, *apiError) {
	if r.StartingPosition == nil {
		return nil, validation("Value null at 'startingPosition' failed to satisfy constraint: Member must not be null")
	}
	if r.ConsumerARN == "" {
		return nil, validation("Value null at 'consumerARN' failed to satisfy constraint: Member must not be null")
	}
	st, c, fail := x.svc.lockConsumer(&consumerRef{ConsumerARN: r.ConsumerARN})
	if fail != nil {
		return nil, fail
	}
	status := c.status(x.now.UnixMilli())
	fail = st.serves()
	st.mu.Unlock()
	switch {
	case fail != nil:
		return nil, fail
	case status != statusActive:
		return nil, inUse("Consumer %s under account %s is not ACTIVE, instead in state %s", c.arn, x.svc.cfg.accountID, status)
	}
	sh, fail := st.shard(r.ShardId)
	if fail != nil {
		return nil, fail
	}
	ordinal, fail := sh.locate(st, *r.StartingPosition, "SubscribeToShard")
	if fail != nil {
		return nil, fail
	}
	if r.DryRun {
		return nil, errDryRun
	}
	sub := &subscription{st: st, sh: sh, consumer: c, next: ordinal, started: x.now, taken: make(chan struct{})}
	return sub.admit()
}

// subscription is an open SubscribeToShard call.
type subscription struct {
	st       *stream
	sh       *shard
	consumer *consumer
	started  time.Time
	taken    chan struct{} // closed when another subscription takes over

	next  uint64 // ordinal of the next record to send
	meter meter
}

// admit makes it the shard's subscription, unless another one has just begun.
func (sub *subscription) admit() (any, *apiError) {
	sub.st.mu.Lock()
	defer sub.st.mu.Unlock()
	old := sub.consumer.open[sub.sh.id]
	if old != nil {
		if sub.started.Sub(old.started) < subscriptionGuard {
			return nil, inUse("Another active subscription exists for this consumer: %s and shard: %s", sub.consumer.arn, sub.sh.id)
		}
		close(old.taken)
	}
	sub.consumer.open[sub.sh.id] = sub
	return sub, nil
}

// stream sends events until the subscription ends.
func (sub *subscription) stream(x *exchange) {
	x.header()["Content-Type"] = []string{eventStreamType}
	x.w.WriteHeader(http.StatusOK)
	empty, err := x.codec.encode(struct{}{})
	if err != nil || !x.send(eventFrame("initial-response", x.codec, [][]byte{empty})) {
		return
	}
	due := true // the first event goes out at once
	for {
		wake := sub.waker()
		moved := x.svc.clock.changed()
		event, fail := sub.look(x, due)
		switch {
		case fail != nil:
			x.send(exceptionFrame(fail, x.codec))
			return
		case event != nil:
			if !sub.deliver(x, event) || event.iterator == nil {
				return
			}
			due = false
			continue // there may be more
		case x.svc.clock.Now().Sub(sub.started) >= subscriptionLife:
			return
		}
		var open bool
		if due, open = sub.wait(x, wake, moved); !open {
			return
		}
	}
}

// waker returns a channel that the next put to the shard, or its end, closes.
func (sub *subscription) waker() <-chan struct{} {
	sub.sh.mu.Lock()
	defer sub.sh.mu.Unlock()
	if sub.sh.wake == nil {
		sub.sh.wake = make(chan struct{})
	}
	return sub.sh.wake
}

// wait returns when it is worth looking again. due is set if that is because an interval has passed,
// so that an event goes out even without records; open is false if the subscription is over.
func (sub *subscription) wait(x *exchange, wake, moved <-chan struct{}) (due, open bool) {
	timer := time.NewTimer(eventInterval)
	defer timer.Stop()
	select {
	case <-wake:
		return false, true
	case <-moved:
		return true, true
	case <-timer.C:
		return true, true
	case <-sub.st.gone:
		x.send(exceptionFrame(x.svc.noStream(sub.st.name), x.codec))
	case <-sub.consumer.gone:
		x.send(exceptionFrame(notFound("Consumer %s not found.", sub.consumer.arn), x.codec))
	case <-sub.taken:
	case <-x.r.Context().Done():
	case <-x.svc.closing:
	}
	return false, false
}

// look returns the next event: nil if there is nothing to send and none is due. At the end of the
// shard its iterator is nil and it names the children.
func (sub *subscription) look(x *exchange, due bool) (*pageAnswer, *apiError) {
	st, sh := sub.st, sub.sh
	now := x.svc.clock.nowMillis()
	if !st.settle(now) {
		return nil, x.svc.noStream(st.name)
	}
	if x.svc.clock.Now().Sub(sub.started) >= subscriptionLife {
		return nil, nil
	}
	st.mu.RLock()
	horizon := st.horizon(now)
	st.mu.RUnlock()
	sh.trim(horizon)
	q := query{form: x.codec.form, from: sub.next, limit: maxGetRecords, maxBytes: maxEventBytes}
	v := sh.look(q, now)
	event := &pageAnswer{page: v.page, behind: v.behind}
	if event.count == 0 && !v.ended && !due {
		return nil, nil
	}
	if x.svc.cfg.limits && event.count > 0 {
		sub.meter.roll(now, readBytesPerSecond)
		if sub.meter.bytes >= readBytesPerSecond {
			return nil, nil // look again after the next tick
		}
		sub.meter.bytes += event.size
	}
	if v.ended {
		st.mu.RLock()
		event.children = childrenOf(sh)
		st.mu.RUnlock()
	} else {
		event.iterator = []byte(sh.continuation(event.next, now))
	}
	return event, nil
}

// deliver sends an event, or what a fault makes of it; false ends the subscription.
func (sub *subscription) deliver(x *exchange, event *pageAnswer) bool {
	fault := x.svc.faults.plan(opSubscriptionEvent, &x.call, nil)
	if fault.wait > 0 && !sleep(x.r.Context(), x.svc.closing, fault.wait) {
		return false
	}
	payload, err := event.eventParts(x.codec)
	if err != nil {
		return false
	}
	parts := eventFrame("SubscribeToShardEvent", x.codec, payload)
	switch fault.kind {
	case effectError:
		x.send(exceptionFrame(&apiError{fault.code, fault.message}, x.codec))
		return false
	case effectReset:
		x.reset()
		return false
	case effectHang, effectHangMidBody:
		x.hang()
		return false
	case effectBody:
		x.send([][]byte{fault.body})
		return false
	case effectResetMidBody:
		x.writeHalf(parts, (len(parts[0])+len(parts[1]))/2)
		return false
	case effectStoredThenReset: // the client has the event, but not the connection
		if x.send(parts) {
			x.reset()
		}
		return false
	case effectNone, effectDelay, effectPartial, effectEmptyPage, effectNullIterator:
	}
	sub.next = event.next
	return x.send(parts)
}

// send writes the parts of a message and sees to it that they leave now.
func (x *exchange) send(parts [][]byte) bool {
	for _, part := range parts {
		if _, err := x.w.Write(part); err != nil {
			return false
		}
	}
	return http.NewResponseController(x.w).Flush() == nil
}

// eventParts renders the payload of an event; the iterator is its continuation sequence number.
func (a *pageAnswer) eventParts(c *codec) ([][]byte, error) {
	if c.form == formCBOR {
		return a.cbor("ContinuationSequenceNumber")
	}
	a.trimComma()
	head := append(make([]byte, 0, 256), `{"MillisBehindLatest":`...)
	head = strconv.AppendInt(head, a.behind, 10)
	if a.iterator != nil {
		head = append(head, `,"ContinuationSequenceNumber":"`...)
		head = append(head, a.iterator...)
		head = append(head, '"')
	}
	head, err := appendChildren(head, a.children)
	if err != nil {
		return nil, err
	}
	parts := make([][]byte, 0, len(a.chunks)+2)
	parts = append(parts, append(head, `,"Records":[`...))
	parts = append(parts, a.chunks...)
	return append(parts, []byte("]}")), nil
}
