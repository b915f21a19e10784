package main

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/test/kinesistest"
)

// numbersIn hides what differs between runs, and keeps the width.
var numbersIn = regexp.MustCompile(`\d{56}`)

func scrub(s string) string {
	return numbersIn.ReplaceAllString(s, "49000000000000000000000000000000000000000000000000000000")
}

func TestShards(t *testing.T) {
	s := &service{kinesistest.Start(t, kinesistest.WithListShardsPage(2)), t}
	require.NoError(t, s.CreateStream("s", 3))
	_, err := s.Client().MergeShards(t.Context(), &kinesis.MergeShardsInput{
		StreamName: aws.String("s"), ShardToMerge: aws.String("shardId-000000000000"), AdjacentShardToMerge: aws.String("shardId-000000000001"),
	})
	require.NoError(t, err)
	r := s.run("", "shards", "s")
	require.Equal(t, exitDone, r.code, r.stderr)
	golden(t, "shards", scrub(r.stdout))

	r = s.run("", "shards", "arn:aws:kinesis:us-east-1:000000000000:stream/s", "--output", "json")
	require.Equal(t, exitDone, r.code, r.stderr)
	var rows []shardRow
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &rows))
	require.Len(t, rows, 4)
	require.Equal(t, []string{"shardId-000000000000", "shardId-000000000001"}, rows[3].Parents)
	require.True(t, rows[3].Open)
	require.False(t, rows[0].Open)
	require.NotEmpty(t, rows[0].EndingSequence)
	require.Equal(t, "0", rows[3].StartingHashKey)
}
