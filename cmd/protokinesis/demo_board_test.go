package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
)

// row is a lease of a shard as someone has written it; with an empty node nobody owns it.
func row(shard string, counter int64, node string) leasestore.Lease {
	lease := leasestore.Lease{Key: leasestore.Key{Shard: shard}, Counter: counter}
	if node != "" {
		lease.Owner = node + "-0011223344ff"
	}
	return lease
}

func finished(lease leasestore.Lease) leasestore.Lease {
	lease.Checkpoint = leasestore.ShardEnd()
	return lease
}

func TestBoardCountsMoves(t *testing.T) {
	b := newBoard()
	for i, want := range []struct {
		node  string
		moves int
	}{{"node-1", 0}, {"node-1", 0}, {"", 0}, {"node-1", 0}, {"", 0}, {"node-2", 1}, {"node-1", 2}} {
		b.wrote(row("shardId-000000000003", int64(i+1), want.node))
		require.Equal(t, want.moves, b.moved(), "after write %d", i+1)
	}
	b.wrote(row("shardId-000000000003", 2, "node-2"))
	require.Equal(t, 2, b.moved(), "a write that is told of late")
	require.Len(t, b.owned()["node-1"], 1)
	b.wrote(row("shardId-000000000004", 1, "node-2"))
	require.Equal(t, 2, b.moved(), "the first owner of a shard")
}

func TestBoardLeavesFinishedShardsOut(t *testing.T) {
	b := newBoard()
	b.wrote(row("shardId-000000000000", 1, "node-1"))
	b.wrote(row("shardId-000000000012", 1, "node-1"))
	b.wrote(row("shardId-000000000002", 1, "node-2"))
	b.wrote(row("shardId-000000000007", 1, "node-9"))
	require.Equal(t, "node-1: 0 12   node-2: 2   node-3: -   node-9: 7 (gone)", picture(b.owned(), []string{"node-3", "node-1", "node-2"}))
	b.wrote(finished(row("shardId-000000000000", 2, "node-1")))
	b.wrote(row("shardId-000000000002", 2, ""))
	b.deleted(row("shardId-000000000007", 1, "node-9"))
	require.Equal(t, "node-1: 12   node-2: -", picture(b.owned(), []string{"node-1", "node-2"}))
}

// A shard is read again when the node that owns it now has read it: not when it has taken it, and not by a node that owns it no more.
func TestBoardKnowsWhatIsReadAgain(t *testing.T) {
	b := newBoard()
	shard, other := row("shardId-000000000000", 1, "node-1"), row("shardId-000000000001", 1, "node-1")
	b.wrote(shard)
	b.wrote(other)
	b.readBy(shard.Shard, "node-1")
	had := []leasestore.Lease{shard, other}
	missing := func(want ...string) (last time.Time) {
		t.Helper()
		last, got := b.readAgain(had, "node-1")
		require.Equal(t, want, got)
		return last
	}
	missing(shard.Shard, other.Shard)
	b.wrote(row(shard.Shard, 2, "node-2"))
	missing(shard.Shard, other.Shard)
	b.readBy(shard.Shard, "node-1")
	missing(shard.Shard, other.Shard)
	before := time.Now()
	b.readBy(shard.Shard, "node-2")
	after := time.Now()
	missing(other.Shard)
	b.readBy(shard.Shard, "node-2")
	b.readBy(shard.Shard, "node-1") // a late answer
	missing(other.Shard)
	b.wrote(finished(row(other.Shard, 2, "node-1")))
	last := missing()
	require.False(t, last.Before(before) || last.After(after), "the first read, not the last")
}

// A node that had read the shard before, and gets it back, has to read it anew.
func TestBoardForgetsWhoReadBefore(t *testing.T) {
	b := newBoard()
	const shard = "shardId-000000000000"
	b.wrote(row(shard, 1, "node-2"))
	b.readBy(shard, "node-2")
	b.wrote(row(shard, 2, "node-1"))
	b.wrote(row(shard, 3, "node-2"))
	had := []leasestore.Lease{row(shard, 2, "node-1")}
	_, missing := b.readAgain(had, "node-1")
	require.Equal(t, []string{shard}, missing)
	b.readBy(shard, "node-2")
	_, missing = b.readAgain(had, "node-1")
	require.Empty(t, missing)
}
