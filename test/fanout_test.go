package test

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// Enhanced fan-out reads a shard, its end and its children by SubscribeToShard alone, resumes after the five minutes of a subscription
// (E1), and its consumers are subscriptions of their own.
func TestEnhancedFanOut(t *testing.T) {
	t.Parallel()
	srv := kinesistest.Start(t)
	require.NoError(t, srv.Service.CreateStream("pushed", 1))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	system := probe.NewSystem(t)
	sys := protokinesis.New(system, protokinesis.WithEndpoint(srv.URL()), protokinesis.WithTestCredentials(), wire(embedded))
	require.NoError(t, sys.Connect(ctx))
	sub := probe.New(t, system, "subscriber")
	sub.SetTimeout(20 * time.Second)
	put := func(data string) {
		_, _, err := srv.Service.Put("pushed", "k", []byte(data))
		require.NoError(t, err)
	}
	expect := func(want string) {
		d := probe.Fish(sub, func(*messages.Delivery) bool { return true })
		require.Equal(t, want, string(d.GetData()))
		sub.Reply(d.Ack())
	}
	put("a")
	_, err := sys.Subscribe(ctx, protokinesis.Stream("pushed", protokinesis.EnhancedFanOut("one"),
		protokinesis.StartAt(protokinesis.TrimHorizon())), protokinesis.Actor(sub.PID()))
	require.NoError(t, err)
	expect("a")
	put("b")
	expect("b")
	srv.Service.Clock().Advance(6 * time.Minute)
	put("c")
	expect("c")
	_, err = srv.Client().SplitShard(ctx, &kinesis.SplitShardInput{
		StreamName: aws.String("pushed"), ShardToSplit: aws.String("shardId-000000000000"),
		NewStartingHashKey: aws.String("170141183460469231731687303715884105728"),
	})
	require.NoError(t, err)
	put("d")
	expect("d")
	require.Zero(t, srv.Service.CallCount("GetRecords"))

	other := probe.New(t, system, "other")
	_, err = sys.Subscribe(ctx, protokinesis.Stream("pushed", protokinesis.EnhancedFanOut("one")), protokinesis.Actor(other.PID()))
	require.ErrorIs(t, err, protokinesis.ErrInvalid, "the same consumer twice")
	_, err = sys.Subscribe(ctx, protokinesis.Stream("pushed", protokinesis.EnhancedFanOut("two"),
		protokinesis.StartAt(protokinesis.TrimHorizon())), protokinesis.Actor(other.PID()))
	require.NoError(t, err)
	require.Equal(t, "a", string(probe.Fish(other, func(*messages.Delivery) bool { return true }).GetData()))
	short, stop := context.WithTimeout(ctx, 500*time.Millisecond)
	defer stop()
	require.ErrorIs(t, sys.Shutdown(short), protokinesis.ErrTimeout, "what the second did not settle")
}
