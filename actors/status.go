package actors

import (
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/messages"
)

// statusWait bounds how long children are asked for their status; who has not answered by then is left out.
const statusWait = time.Second

// gatherings are the status requests an actor is collecting answers for.
type gatherings struct {
	open map[uint64]*gathering
}

// gathering is one of them.
type gathering struct {
	asker   *actor.PID
	status  *messages.Status
	waiting int
	until   time.Time
}

// begin opens a gathering of so many answers, for so long; its id is what they carry.
func (g *gatherings) begin(asker *actor.PID, correlation uint64, status *messages.Status, waiting int, wait time.Duration) (id uint64) {
	if g.open == nil {
		g.open = make(map[uint64]*gathering)
	}
	id = nextGeneration()
	status.Correlation = correlation
	g.open[id] = &gathering{asker: asker, status: status, waiting: waiting, until: time.Now().Add(wait)}
	return id
}

// got counts one answer and, with the last, answers the asker.
func (g *gatherings) got(c actor.Context, id uint64, add func(status *messages.Status)) {
	one := g.open[id]
	if one == nil {
		return
	}
	add(one.status)
	one.waiting--
	g.settle(c, id)
}

// settle answers if nothing is waited for any more.
func (g *gatherings) settle(c actor.Context, id uint64) {
	one := g.open[id]
	if one == nil || one.waiting > 0 {
		return
	}
	delete(g.open, id)
	if one.asker != nil {
		c.Send(one.asker, one.status)
	}
}

// expireOld answers those that have waited long enough with what there is. It says how long the next one has, if one is left.
func (g *gatherings) expireOld(c actor.Context) (wait time.Duration, more bool) {
	now := time.Now()
	for id, one := range g.open {
		if left := one.until.Sub(now); left > 0 {
			if !more || left < wait {
				wait, more = left, true
			}
			continue
		}
		one.waiting = 0
		g.settle(c, id)
	}
	return wait, more
}

// expire answers all with what there is.
func (g *gatherings) expire(c actor.Context) {
	for id, one := range g.open {
		one.waiting = 0
		g.settle(c, id)
	}
}

func (co *coordinator) onStatusRequest(c actor.Context, m *messages.StatusRequest) {
	state := messages.BrokerState_BROKER_STATE_CONNECTED
	if co.closing.begun {
		state = messages.BrokerState_BROKER_STATE_CLOSING
	}
	subscription := &messages.SubscriptionStatus{Subscription: c.Self(), Stream: co.how.stream.spelling}
	status := &messages.Status{
		State: state, OwnerId: co.owner, Subscriptions: []*messages.SubscriptionStatus{subscription},
	}
	var asked []*actor.PID
	for _, s := range co.ordered() {
		subscription.Shards = append(subscription.Shards, s.status())
		if s.reader != nil {
			asked = append(asked, s.reader)
		}
	}
	id := co.status.begin(c.Sender(), m.GetCorrelation(), status, len(asked), statusWait)
	for _, reader := range asked {
		c.Send(reader, statusQuery{id: id})
	}
	co.status.settle(c, id)
	if !co.timers.armed(timerStatus) {
		co.timers.set(timerStatus, statusWait)
	}
}

func (co *coordinator) onReaderStatus(c actor.Context, m readerStatus) {
	co.status.got(c, m.id, func(status *messages.Status) {
		shards := status.Subscriptions[0].GetShards() // in the order of their ids
		if i, found := slices.BinarySearchFunc(shards, m.status.GetShardId(), func(row *messages.ShardStatus, id string) int {
			return strings.Compare(row.GetShardId(), id)
		}); found {
			row := shards[i]
			m.status.Parents, m.status.StartingHashKey, m.status.EndingHashKey = row.GetParents(), row.GetStartingHashKey(), row.GetEndingHashKey()
			shards[i] = m.status
		}
	})
}

// status is a shard's as its coordinator knows it.
func (s *shardInfo) status() *messages.ShardStatus {
	row := &messages.ShardStatus{
		ShardId: s.id, Parents: s.parents, StartingHashKey: s.startingKey, EndingHashKey: s.endingKey,
		Owner: s.lease.Owner, Checkpoint: s.lease.Checkpoint.String(), MillisBehindLatest: -1,
	}
	switch s.decision.verdict {
	case verdictStart:
		row.State = messages.ShardState_SHARD_STATE_ELSEWHERE
	case verdictWait:
		row.State = messages.ShardState_SHARD_STATE_WAITING
	case verdictFinished:
		row.State = messages.ShardState_SHARD_STATE_FINISHED
	case verdictOutOfScope:
		row.State = messages.ShardState_SHARD_STATE_OUT_OF_SCOPE
	}
	return row
}
