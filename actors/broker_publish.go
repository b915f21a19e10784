package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/messages"
)

// onPublish passes a record to the publisher of its stream and options, in the order it came.
func (b *broker) onPublish(c actor.Context, m *messages.Publish) {
	b.pass(c, m.GetStream(), m.GetOptions(), m.GetCorrelation())
}

// onPublishBatch does the same with a batch.
func (b *broker) onPublishBatch(c actor.Context, m *messages.PublishBatch) {
	b.pass(c, m.GetStream(), m.GetOptions(), m.GetCorrelation())
}

func (b *broker) pass(c actor.Context, stream string, options *messages.PublishOptions, correlation uint64) {
	how, err := checkPublishOptions(stream, options)
	if err == nil {
		var outlet *Outlet
		if outlet, err = b.publisher(c, stream, how); err == nil {
			c.Forward(outlet.pid)
			return
		}
	}
	answer(c.ActorSystem(), c.Sender(), err, correlation)
}

func (b *broker) onFindPublisher(c actor.Context, m findPublisher) {
	how, err := checkPublishOptions(m.stream, m.options)
	if err == nil {
		var outlet *Outlet
		if outlet, err = b.publisher(c, m.stream, how); err == nil {
			c.Respond(publisherFound{outlet: outlet, correlation: m.correlation})
			return
		}
	}
	answer(c.ActorSystem(), c.Sender(), err, m.correlation)
}

// publisher finds the publisher of a stream and options, or spawns it.
func (b *broker) publisher(c actor.Context, stream string, how publishing) (*Outlet, *Error) {
	key := publisherKey{stream: stream, how: how}
	if outlet := b.publishers[key]; outlet != nil {
		return outlet, nil
	}
	if _, err := parseStream(stream); err != nil {
		err.Field = "stream"
		return nil, err
	}
	q := b.quotas[stream]
	if q == nil {
		q = &quota{maxRecords: b.cfg.Limits.PendingRecords, maxBytes: b.cfg.Limits.PendingBytes, all: b.cfg.publish}
		b.quotas[stream] = q
	}
	outlet := &Outlet{stream: stream, how: how, limits: b.cfg.Limits, quota: q, root: c.ActorSystem().Root}
	outlet.pid = c.Spawn(publisherProps(publisherSpec{
		cfg: b.cfg, clients: b.clients, stream: stream, how: how, quota: q, outlet: outlet,
	}, c.ActorSystem()))
	b.publishers[key] = outlet
	return outlet, nil
}
