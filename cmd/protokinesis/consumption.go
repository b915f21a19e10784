package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/messages"
)

// consumption is a consumer at work.
type consumption struct {
	*finish
	pid     *actor.PID
	node    *node
	running sync.WaitGroup
	cancel  context.CancelFunc
}

// consume subscribes a consumer.
func consume(ctx context.Context, n *node, stream *messages.StreamDescriptor, cfg consumerConfig) (*consumption, error) {
	co := &consumption{finish: newFinish(), node: n}
	cfg.ctx, co.cancel = context.WithCancel(context.WithoutCancel(ctx))
	cfg.running = &co.running
	co.pid = n.actors.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return newConsumer(cfg, co.finish) }))
	sub, err := n.Subscribe(ctx, stream, protokinesis.Actor(co.pid))
	if err != nil {
		co.cancel()
		return nil, err
	}
	n.actors.Root.Send(co.pid, watchSubscription{sub.PID()})
	return co, nil
}

// killWait is how long jobs may take to see that they are cancelled.
const killWait = 10 * time.Second

// close ends the consumer and its node in order, for as long as timeout; then what still runs is cancelled.
func (co *consumption) close(ctx context.Context, timeout time.Duration) error {
	co.node.actors.Root.Send(co.pid, stopConsuming{})
	err := co.node.close(ctx, timeout)
	co.cancel()
	idle := make(chan struct{})
	go func() {
		co.running.Wait()
		close(idle)
	}()
	select {
	case <-idle:
	case <-time.After(killWait):
		err = errors.Join(err, fmt.Errorf("what handles a record did not end within %v", killWait))
	}
	_ = co.node.actors.Root.PoisonFuture(co.pid).Wait() // it only fails to answer if it is gone
	return firstError(co.failure(), err)
}
