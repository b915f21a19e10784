package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/protokinesis/protokinesis/actors"
)

type shardsCmd struct {
	Stream streamName `arg:"" help:"The stream's name or ARN."`
	Output string     `enum:"text,json" default:"text" placeholder:"FORM" help:"text (a table) or json (an array) (${default})."`
}

// shardRow is a shard as JSON.
type shardRow struct {
	Shard            string   `json:"shard"`
	Parents          []string `json:"parents"`
	StartingHashKey  string   `json:"starting_hash_key"`
	EndingHashKey    string   `json:"ending_hash_key"`
	Open             bool     `json:"open"`
	StartingSequence string   `json:"starting_sequence"`
	EndingSequence   string   `json:"ending_sequence,omitempty"`
}

// Run implements the command.
func (s *shardsCmd) Run(a *app) error {
	cfg, closeIdle, err := a.awsConfig()
	if err != nil {
		return err
	}
	defer closeIdle()
	rows, err := listShards(a.ctx, actors.NewClients(cfg).Control, s.Stream)
	if err != nil {
		return explainStream(s.Stream, err)
	}
	if s.Output == formatJSON {
		return encodeJSON(a.stdout, rows)
	}
	return printShards(a.stdout, rows)
}

func explainStream(stream streamName, err error) error {
	if _, missing := errors.AsType[*types.ResourceNotFoundException](err); missing {
		return fmt.Errorf("stream %q does not exist: %w (check the name and the region)", stream, err)
	}
	return fmt.Errorf("the shards of stream %q can't be listed: %w (check the endpoint, the region and the credentials)", stream, err)
}

// listShards lists all pages.
func listShards(ctx context.Context, client actors.Kinesis, stream streamName) ([]shardRow, error) {
	rows := []shardRow{}
	in := &kinesis.ListShardsInput{}
	in.StreamName, in.StreamARN = target(stream)
	for {
		out, err := client.ListShards(ctx, in)
		if err != nil {
			return nil, err
		}
		for i := range out.Shards {
			rows = append(rows, newShardRow(&out.Shards[i]))
		}
		if aws.ToString(out.NextToken) == "" {
			return rows, nil
		}
		in = &kinesis.ListShardsInput{NextToken: out.NextToken} // with the stream it would be refused
	}
}

func newShardRow(s *types.Shard) shardRow {
	row := shardRow{Shard: aws.ToString(s.ShardId), Parents: []string{}}
	for _, p := range []*string{s.ParentShardId, s.AdjacentParentShardId} {
		if aws.ToString(p) != "" {
			row.Parents = append(row.Parents, *p)
		}
	}
	if r := s.HashKeyRange; r != nil {
		row.StartingHashKey, row.EndingHashKey = aws.ToString(r.StartingHashKey), aws.ToString(r.EndingHashKey)
	}
	if r := s.SequenceNumberRange; r != nil {
		row.StartingSequence, row.EndingSequence = aws.ToString(r.StartingSequenceNumber), aws.ToString(r.EndingSequenceNumber)
	}
	row.Open = row.EndingSequence == ""
	return row
}

func printShards(to io.Writer, rows []shardRow) error {
	t := newTable("shard", "parents", "range", "state", "starting sequence", "ending sequence")
	for _, r := range rows {
		state := "closed"
		if r.Open {
			state = "open"
		}
		t.AppendRow(table.Row{
			r.Shard, orDash(strings.Join(r.Parents, ", ")), hashRange(r.StartingHashKey, r.EndingHashKey), state,
			r.StartingSequence, orDash(r.EndingSequence),
		})
	}
	_, err := fmt.Fprintln(to, t.Render())
	return err
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
