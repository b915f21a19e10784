package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/protokinesis/protokinesis/actors"
)

// benchTarget is the stream of a benchmark and the service it is in.
type benchTarget struct {
	stream streamName
	cfg    aws.Config
	// free is whether there are no limits to keep to: the service is not AWS.
	free  bool
	close func() error
}

// cleanUp bounds the deletion of a stream at the end, when a.ctx may have ended.
const cleanUp = 10 * time.Second

// target starts the service, if it is the embedded one, and makes the stream, if none was named.
func (f *benchFlags) target(a *app) (t *benchTarget, err error) {
	t = &benchTarget{stream: f.Stream, free: a.Endpoint != "" || f.Stream == "", close: func() error { return nil }}
	on := *a
	if a.Endpoint == "" && f.Stream == "" {
		server, err := startServer(a)
		if err != nil {
			return nil, err
		}
		t.close = server.close
		on.Endpoint, on.TestCredentials = server.url, true
		if on.Region == "" {
			on.Region = "us-east-1" // any will do
		}
	}
	var closeIdle func()
	if t.cfg, closeIdle, err = on.awsConfig(); err != nil {
		return nil, errors.Join(err, t.close())
	}
	t.before(func() error { closeIdle(); return nil })
	if t.stream == "" {
		if err := t.makeStream(a.ctx, f.shards()); err != nil {
			return nil, errors.Join(err, t.close())
		}
	}
	return t, nil
}

// before adds what close does first.
func (t *benchTarget) before(first func() error) {
	then := t.close
	t.close = func() error { return errors.Join(first(), then()) }
}

func (t *benchTarget) makeStream(ctx context.Context, shards int) error {
	t.stream = streamName(fmt.Sprintf("protokinesis-bench-%08x", rand.Uint32())) //nolint:gosec // a name
	if err := ensureStream(ctx, actors.NewClients(t.cfg).Control, t.stream, shards); err != nil {
		return err
	}
	t.before(func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
		defer cancel()
		if _, err := kinesis.NewFromConfig(t.cfg).DeleteStream(ctx, &kinesis.DeleteStreamInput{StreamName: aws.String(string(t.stream))}); err != nil {
			return fmt.Errorf("the stream %s, made for the benchmark, can't be deleted: %w", t.stream, err)
		}
		return nil
	})
	return nil
}
