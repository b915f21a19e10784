package kinesistest

import (
	"fmt"
	"slices"
	"strings"
)

const (
	maxConsumers         = 20
	defaultListConsumers = 100
)

// consumer is a registered enhanced fan-out consumer of a stream. Its stream's lock protects it.
type consumer struct {
	name      string
	arn       string
	createdAt int64 // ms
	readyAt   int64 // ms; CREATING before
	goneAt    int64 // ms; DELETING before, 0 = not being deleted
	gone      chan struct{}

	open map[string]*subscription // by shard id, the latest one even if it has ended
}

func (c *consumer) status(now int64) string {
	switch {
	case c.goneAt != 0:
		return statusDeleting
	case now < c.readyAt:
		return statusCreating
	default:
		return statusActive
	}
}

// pruneConsumers forgets those whose deletion is complete. The caller holds st.mu for writing.
func (st *stream) pruneConsumers(now int64) {
	for name, c := range st.consumers {
		if c.goneAt != 0 && now >= c.goneAt {
			delete(st.consumers, name)
		}
	}
}

// consumerRef names a consumer by ARN or by stream and name; requests embed it.
type consumerRef struct {
	StreamARN    string
	ConsumerName string
	ConsumerARN  string
}

func (r *consumerRef) describe(_ *Service, call *Call) {
	call.Stream = streamRef{StreamARN: r.StreamARN}.name()
	if r.ConsumerARN != "" {
		call.Stream = streamRef{StreamARN: r.ConsumerARN}.name()
	}
	call.Consumer = r.ConsumerARN
}

// lockConsumer returns the consumer with its stream locked for writing; the caller unlocks it.
func (s *Service) lockConsumer(r *consumerRef) (*stream, *consumer, *apiError) {
	streamARN, name := r.StreamARN, r.ConsumerName
	if r.ConsumerARN != "" {
		arn, rest, ok := strings.Cut(r.ConsumerARN, "/consumer/")
		if !ok {
			return nil, nil, validation("Value '%s' at 'consumerARN' failed to satisfy constraint: "+
				"Member must be the ARN of a consumer", r.ConsumerARN)
		}
		streamARN = arn
		name, _, _ = strings.Cut(rest, ":")
	} else if streamARN == "" || name == "" {
		return nil, nil, invalidArgument("Either ConsumerARN or both StreamARN and ConsumerName must be provided.")
	}
	st, fail := s.find(streamRef{StreamARN: streamARN})
	if fail != nil {
		return nil, nil, fail
	}
	st.mu.Lock()
	st.pruneConsumers(s.clock.nowMillis())
	c := st.consumers[name]
	if c == nil || (r.ConsumerARN != "" && c.arn != r.ConsumerARN) {
		st.mu.Unlock()
		return nil, nil, notFound("Consumer %s, account %s not found.", name+r.ConsumerARN, s.cfg.accountID)
	}
	return st, c, nil
}

// wireConsumer is the API's Consumer; ConsumerDescription has the stream, too.
type wireConsumer struct {
	ConsumerName              string
	ConsumerARN               string
	ConsumerStatus            string
	ConsumerCreationTimestamp epoch
	StreamARN                 string `json:",omitempty"`
}

func (c *consumer) wire(now int64, streamARN string) wireConsumer {
	return wireConsumer{
		ConsumerName: c.name, ConsumerARN: c.arn, ConsumerStatus: c.status(now),
		ConsumerCreationTimestamp: epoch(c.createdAt), StreamARN: streamARN,
	}
}

// registerConsumer is the request of RegisterStreamConsumer.
type registerConsumer struct{ consumerRef }

type registerConsumerAnswer struct{ Consumer wireConsumer }

func (r *registerConsumer) run(x *exchange) (any, *apiError) {
	if !validStreamName(r.ConsumerName) {
		return nil, validation("Value '%s' at 'consumerName' failed to satisfy constraint: "+
			"Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+", r.ConsumerName)
	}
	st, fail := x.svc.find(streamRef{StreamARN: r.StreamARN})
	if fail != nil {
		return nil, fail
	}
	now := x.now.UnixMilli()
	st.mu.Lock()
	defer st.mu.Unlock()
	st.pruneConsumers(now)
	if fail := st.serves(); fail != nil {
		return nil, fail
	}
	if old := st.consumers[r.ConsumerName]; old != nil {
		return nil, inUse("Consumer %s under stream %s already exists for account %s.", r.ConsumerName, st.name, x.svc.cfg.accountID)
	}
	if len(st.consumers) >= maxConsumers {
		return nil, failf(codeLimitExceeded, "Stream %s under account %s already has %d consumers.",
			st.name, x.svc.cfg.accountID, maxConsumers)
	}
	c := &consumer{
		name: r.ConsumerName, arn: fmt.Sprintf("%s/consumer/%s:%d", st.arn, r.ConsumerName, now/1000),
		createdAt: now, readyAt: now + x.svc.cfg.streamDelay.Milliseconds(),
		gone: make(chan struct{}), open: map[string]*subscription{},
	}
	st.consumers[c.name] = c
	return &registerConsumerAnswer{c.wire(now, "")}, nil
}

// describeConsumer is the request of DescribeStreamConsumer.
type describeConsumer struct{ consumerRef }

type describeConsumerAnswer struct{ ConsumerDescription wireConsumer }

func (r *describeConsumer) run(x *exchange) (any, *apiError) {
	st, c, fail := x.svc.lockConsumer(&r.consumerRef)
	if fail != nil {
		return nil, fail
	}
	defer st.mu.Unlock()
	return &describeConsumerAnswer{c.wire(x.now.UnixMilli(), st.arn)}, nil
}

// deregisterConsumer is the request of DeregisterStreamConsumer.
type deregisterConsumer struct{ consumerRef }

func (r *deregisterConsumer) run(x *exchange) (any, *apiError) {
	st, c, fail := x.svc.lockConsumer(&r.consumerRef)
	if fail != nil {
		return nil, fail
	}
	defer st.mu.Unlock()
	if c.goneAt == 0 {
		close(c.gone)
		c.goneAt = x.now.Add(x.svc.cfg.streamDelay).UnixMilli()
		st.pruneConsumers(x.now.UnixMilli())
	}
	return nil, nil
}

// listConsumers is the request of ListStreamConsumers.
type listConsumers struct {
	StreamARN               string
	NextToken               string
	MaxResults              *int
	StreamCreationTimestamp *epoch
}

type listConsumersAnswer struct {
	Consumers []wireConsumer
	NextToken string `json:",omitempty"`
}

func (r *listConsumers) describe(_ *Service, call *Call) {
	call.Stream = streamRef{StreamARN: r.StreamARN}.name()
}

func (r *listConsumers) run(x *exchange) (any, *apiError) {
	st, fail := x.svc.find(streamRef{StreamARN: r.StreamARN})
	if fail != nil {
		return nil, fail
	}
	limit, after := defaultListConsumers, ""
	if r.MaxResults != nil {
		if limit, fail = checkLimit(*r.MaxResults); fail != nil {
			return nil, fail
		}
	}
	if r.NextToken != "" {
		var token pageToken
		if fail := x.svc.readToken(r.NextToken, x.now, &token); fail != nil {
			return nil, fail
		}
		after = token.After
	}
	now := x.now.UnixMilli()
	st.mu.Lock()
	defer st.mu.Unlock()
	st.pruneConsumers(now)
	names := make([]string, 0, len(st.consumers))
	for name := range st.consumers {
		if name > after {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	answer := &listConsumersAnswer{Consumers: []wireConsumer{}}
	for _, name := range names {
		if len(answer.Consumers) == limit {
			last := answer.Consumers[limit-1].ConsumerName
			answer.NextToken = x.svc.writeToken(pageToken{Issued: now, Stream: st.id, After: last})
			break
		}
		answer.Consumers = append(answer.Consumers, st.consumers[name].wire(now, ""))
	}
	return answer, nil
}
