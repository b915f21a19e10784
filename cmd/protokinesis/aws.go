package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go/logging"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/actors"
)

// defaultRegion goes with test credentials: emulators take any.
const defaultRegion = "us-east-1"

// awsConfig is the AWS configuration that the global flags ask for. The client that comes with it belongs to the caller, who closes its
// idle connections.
func (a *app) awsConfig() (aws.Config, func(), error) {
	// A shard read keeps a connection busy; the SDK's ten idle ones to a host would be opened and closed for every call beyond.
	var transport *http.Transport
	client := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, 1024
		transport = t
	})
	options := []func(*awsconfig.LoadOptions) error{awsconfig.WithHTTPClient(client), awsconfig.WithLogger(sdkLogger(a.log))}
	if a.Region != "" {
		options = append(options, awsconfig.WithRegion(a.Region))
	}
	if a.Endpoint != "" {
		options = append(options, awsconfig.WithBaseEndpoint(string(a.Endpoint)))
	}
	if a.TestCredentials {
		options = append(options, awsconfig.WithCredentialsProvider(credentials.NewStaticCredentialsProvider("test", "test", "")))
		if a.Region == "" {
			options = append(options, awsconfig.WithDefaultRegion(defaultRegion))
		}
	}
	cfg, err := awsconfig.LoadDefaultConfig(a.ctx, options...)
	if err != nil {
		return aws.Config{}, nil, fmt.Errorf("the AWS configuration can't be loaded: %w", err)
	}
	if cfg.Region == "" {
		return aws.Config{}, nil, errors.New("no AWS region: give --region, or set AWS_REGION")
	}
	return cfg, func() {
		if transport != nil {
			transport.CloseIdleConnections()
		}
	}, nil
}

// sdkLogger takes what the SDK logs. Its warnings are of things that it deals with.
func sdkLogger(log *slog.Logger) logging.Logger {
	return logging.LoggerFunc(func(_ logging.Classification, format string, args ...any) {
		log.Debug("AWS SDK", slog.String("message", fmt.Sprintf(format, args...)))
	})
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

const (
	createWait = time.Minute
	createPoll = 250 * time.Millisecond
)

// ensureStream creates a stream that is missing, and waits until it is active.
func ensureStream(ctx context.Context, client actors.Kinesis, stream streamName, shards int) error {
	ctx, cancel := context.WithTimeout(ctx, createWait)
	defer cancel()
	created := false
	for {
		out, err := client.DescribeStreamSummary(ctx, describe(stream))
		var missing *types.ResourceNotFoundException
		switch {
		case err == nil && out.StreamDescriptionSummary.StreamStatus == types.StreamStatusDeleting:
			return fmt.Errorf("stream %q is being deleted: try again when it is gone", stream)
		case err == nil && out.StreamDescriptionSummary.StreamStatus != types.StreamStatusCreating:
			return nil
		case err == nil, errors.As(err, &missing) && created:
		case errors.As(err, &missing):
			if err := create(ctx, client, stream, shards); err != nil {
				return err
			}
			created = true
			continue
		default:
			return fmt.Errorf("stream %q can't be described: %w", stream, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("stream %q did not become active in time: %w", stream, context.Cause(ctx))
		case <-time.After(createPoll):
		}
	}
}

func create(ctx context.Context, client actors.Kinesis, stream streamName, shards int) error {
	_, err := client.CreateStream(ctx, &kinesis.CreateStreamInput{
		StreamName: aws.String(stream.bare()), ShardCount: aws.Int32(int32(shards)), //nolint:gosec // the service knows its bounds
	})
	var exists *types.ResourceInUseException
	if err != nil && !errors.As(err, &exists) {
		return fmt.Errorf("stream %q is missing and can't be created: %w", stream, err)
	}
	return nil
}

func describe(stream streamName) *kinesis.DescribeStreamSummaryInput {
	in := &kinesis.DescribeStreamSummaryInput{}
	in.StreamName, in.StreamARN = target(stream)
	return in
}

// target names the stream to the service: by ARN when that was given, as it may be another account's.
func target(stream streamName) (name, arn *string) {
	if stream.bare() != string(stream) {
		return nil, aws.String(string(stream))
	}
	return aws.String(string(stream)), nil
}
