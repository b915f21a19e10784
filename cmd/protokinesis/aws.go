package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/actors"
)

// awsConfig is the AWS configuration that the global flags ask for. The client that comes with it belongs to the caller, who closes its
// idle connections.
func (a *app) awsConfig() (aws.Config, func(), error) { return a.awsConfigFor(a.Endpoint) }

// awsConfigFor is awsConfig with another service's endpoint; an empty one is what the AWS environment says.
func (a *app) awsConfigFor(endpoint endpointURL) (aws.Config, func(), error) {
	cfg, closeIdle, err := actors.LoadAWS(a.ctx, actors.Config{
		Region: a.Region, Endpoint: string(endpoint), TestCredentials: a.TestCredentials, Logger: a.log,
	})
	if err != nil {
		return aws.Config{}, nil, fmt.Errorf("the AWS configuration can't be loaded: %w; give --region, or set AWS_REGION", err)
	}
	return cfg, closeIdle, nil
}

// node is a System in an actor system of its own.
type node struct {
	*protokinesis.System
	actors *actor.ActorSystem
	remote *remote.Remote // nil: no other node reaches it
	log    mutable        // of the actor system
}

// connect starts a node on an AWS configuration, which others reach at an address if one is given.
func (a *app) connect(cfg aws.Config, at hostPort, options ...protokinesis.Option) (*node, error) {
	return connect(a.ctx, a.log, cfg, at, append(options, a.wire())...)
}

// wire is what --wire asks for.
func (g *globals) wire() protokinesis.Option {
	switch g.Wire {
	case "sdk":
		return protokinesis.WithSDKProtocol()
	case "cbor":
		return protokinesis.WithWireFormat(protokinesis.CBOR)
	}
	return protokinesis.WithWireFormat(protokinesis.JSON)
}

func connect(ctx context.Context, log *slog.Logger, cfg aws.Config, at hostPort, options ...protokinesis.Option) (*node, error) {
	n := &node{}
	n.actors = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return n.log.logger(log) }))
	if at.given() { // before anything is spawned
		var err error
		if n.remote, err = at.listen(n.actors, log); err != nil {
			return nil, err
		}
	}
	n.System = protokinesis.New(n.actors, append(options, protokinesis.WithAWSConfig(cfg), protokinesis.WithLogger(log))...)
	if err := n.Connect(ctx); err != nil {
		return nil, errors.Join(err, n.close(ctx, time.Second))
	}
	return n, nil
}

// close drains the node, for as long as timeout, also when ctx has ended.
func (n *node) close(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	err := n.Shutdown(ctx)
	if n.remote != nil {
		hangUp(n.remote, &n.log)
	}
	n.actors.Shutdown()
	return err
}

// createWait bounds the creation of a stream.
const createWait = time.Minute

// ensureStream creates a stream that is missing, and waits until it is active.
func ensureStream(ctx context.Context, client actors.Kinesis, stream streamName, shards int) error {
	ctx, cancel := context.WithTimeout(ctx, createWait)
	defer cancel()
	return actors.EnsureStream(ctx, client, string(stream), int32(shards)) //nolint:gosec // the service knows its bounds
}

// target names the stream to the service: by ARN when that was given, as it may be another account's.
func target(stream streamName) (name, arn *string) {
	if stream.bare() != string(stream) {
		return nil, aws.String(string(stream))
	}
	return aws.String(string(stream)), nil
}
