package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/actors"
)

// awsConfig is the AWS configuration that the global flags ask for. The client that comes with it belongs to the caller, who closes its
// idle connections.
func (a *app) awsConfig() (aws.Config, func(), error) {
	cfg, closeIdle, err := actors.LoadAWS(a.ctx, actors.Config{
		Region: a.Region, Endpoint: string(a.Endpoint), TestCredentials: a.TestCredentials, Logger: a.log,
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
}

// connect starts a node on an AWS configuration.
func (a *app) connect(cfg aws.Config, options ...protokinesis.Option) (*node, error) {
	return connect(a.ctx, a.log, cfg, options...)
}

func connect(ctx context.Context, log *slog.Logger, cfg aws.Config, options ...protokinesis.Option) (*node, error) {
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return log }))
	n := &node{System: protokinesis.New(system, append(options,
		protokinesis.WithAWSConfig(cfg), protokinesis.WithLogger(log))...), actors: system}
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
