package dynamodb_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/leasestore/dynamodb"
)

// ordersRow is what a lease of orders looks like that a node has created.
func ordersRow(n string, changes row) row {
	return with(row{
		"leaseKey": S(ordersKey + ":" + shard(n)), "leaseOwner": S("a"), "leaseCounter": N("0"), "entityType": S("LEASE"),
		"checkpoint": S("TRIM_HORIZON"), "checkpointSubSequenceNumber": N("0"), "ownerSwitchesSinceCheckpoint": N("0"),
		"streamName": S(ordersKey), "shardId": S(shard(n)), "protokinesisStream": S(orders.String()),
	}, changes)
}

func acquire(t *testing.T, s leasestore.Store, n string, lease leasestore.Lease) leasestore.Lease {
	t.Helper()
	lease.Key = shardKey(n)
	got, err := s.Acquire(t.Context(), lease, "a")
	require.NoError(t, err)
	return got
}

func TestRowsOfALease(t *testing.T) {
	table := newRaw(t)
	s := table.store()
	lease := acquire(t, s, "1", leasestore.Lease{Checkpoint: leasestore.TrimHorizon(), Parents: []string{shard("9"), shard("0")}})
	key := ordersKey + ":" + shard("1")
	expect := func(changes row) {
		t.Helper()
		want := with(ordersRow("1", changes), row{"parentShardId": SS(shard("0"), shard("9"))})
		require.Equal(t, want, undated(t, table.get(key)))
	}
	expect(nil)
	step := func(do func() (leasestore.Lease, error), changes row) {
		t.Helper()
		var err error
		lease, err = do()
		require.NoError(t, err)
		changes["leaseCounter"] = N(strconv.FormatInt(lease.Counter-1, 10))
		expect(changes)
	}
	ctx := t.Context()
	step(func() (leasestore.Lease, error) { return s.Renew(ctx, lease) }, row{})
	step(func() (leasestore.Lease, error) { return s.Offer(ctx, lease, "b") }, row{"leaseOwner": S("b"), "checkpointOwner": S("a")})
	step(func() (leasestore.Lease, error) { return s.Offer(ctx, lease, "") }, row{})
	step(func() (leasestore.Lease, error) { return s.Offer(ctx, lease, "b") }, row{"leaseOwner": S("b"), "checkpointOwner": S("a")})
	step(func() (leasestore.Lease, error) { return s.Acquire(ctx, lease, "b") },
		row{"leaseOwner": S("b"), "ownerSwitchesSinceCheckpoint": N("1")})
	step(func() (leasestore.Lease, error) { return s.Acquire(ctx, lease, "b") },
		row{"leaseOwner": S("b"), "ownerSwitchesSinceCheckpoint": N("1")})
	step(func() (leasestore.Lease, error) { return s.Release(ctx, lease) },
		row{"leaseOwner": nil, "ownerSwitchesSinceCheckpoint": N("2")})
	step(func() (leasestore.Lease, error) { return s.Acquire(ctx, lease, "c") },
		row{"leaseOwner": S("c"), "ownerSwitchesSinceCheckpoint": N("2")}) // as in KCL, whoever takes a free lease is no switch
	step(func() (leasestore.Lease, error) { return s.Checkpoint(ctx, lease, leasestore.AtSequence(sequence, 2)) },
		row{"leaseOwner": S("c"), "checkpoint": S(sequence), "checkpointSubSequenceNumber": N("2")})
	step(func() (leasestore.Lease, error) { return s.Move(ctx, lease, leasestore.ShardEnd(), 5) },
		row{"leaseOwner": S("c"), "checkpoint": S("SHARD_END"), "protokinesisSeek": N("5")})
	require.NoError(t, s.Delete(ctx, lease))
	require.Empty(t, table.all())
}

// What a KCL worker that takes over finds, for every checkpoint there is.
func TestRowsOfCheckpoints(t *testing.T) {
	table := newRaw(t)
	s := table.store()
	instant := time.UnixMilli(1_700_000_000_123)
	for n, c := range []struct {
		checkpoint leasestore.Checkpoint
		changes    row
	}{
		{leasestore.Checkpoint{}, row{"checkpoint": nil}},
		{leasestore.TrimHorizon(), row{}},
		{leasestore.AtTimestamp(instant), row{"checkpoint": S("AT_TIMESTAMP"), "protokinesisCheckpoint": S("AT_TIMESTAMP@1700000000123")}},
		{leasestore.Before(sequence, 0), row{"protokinesisCheckpoint": S("<" + sequence)}},
		{leasestore.Before(sequence, 3), row{
			"checkpoint": S(sequence), "checkpointSubSequenceNumber": N("2"), "protokinesisCheckpoint": S("<" + sequence + ":3"),
		}},
		{leasestore.AtSequence(sequence, 0), row{"checkpoint": S(sequence)}},
		{leasestore.AtSequence(sequence, 1<<64-1), row{"checkpoint": S(sequence), "checkpointSubSequenceNumber": N("18446744073709551615")}},
		{leasestore.ShardEnd(), row{"checkpoint": S("SHARD_END")}},
	} {
		name := strconv.Itoa(n)
		lease := acquire(t, s, name, leasestore.Lease{Checkpoint: c.checkpoint})
		key := ordersKey + ":" + shard(name)
		require.Equal(t, ordersRow(name, c.changes), undated(t, table.get(key)), "created with %q", c.checkpoint)

		moved, err := s.Move(t.Context(), lease, leasestore.Before(sequence2, 7), 0)
		require.NoError(t, err)
		_, err = s.Move(t.Context(), moved, c.checkpoint, 0)
		require.NoError(t, err)
		require.Equal(t, with(ordersRow(name, c.changes), row{"leaseCounter": N("2"), "protokinesisSeek": N("0")}),
			undated(t, table.get(key)), "nothing is left of the position before %q", c.checkpoint)
	}
}

// An exact checkpoint holds only as long as the attributes that KCL writes are what was written with it.
func TestExactCheckpointEndsWhenKCLCheckpoints(t *testing.T) {
	table := newRaw(t)
	s := table.store()
	for n, c := range []leasestore.Checkpoint{
		leasestore.AtTimestamp(time.UnixMilli(7)), leasestore.Before(sequence, 0), leasestore.Before(sequence, 3),
	} {
		name := strconv.Itoa(n)
		lease := acquire(t, s, name, leasestore.Lease{Checkpoint: c})
		key := ordersKey + ":" + shard(name)
		for _, by := range []struct {
			checkpoint, sub string
			want            leasestore.Checkpoint
		}{
			{sequence2, "2", leasestore.AtSequence(sequence2, 2)},
			{sequence, "9", leasestore.AtSequence(sequence, 9)},
			{"SHARD_END", "0", leasestore.ShardEnd()},
			{"LATEST", "0", leasestore.Checkpoint{}},
		} {
			table.put(with(table.get(key), row{"checkpoint": S(by.checkpoint), "checkpointSubSequenceNumber": N(by.sub)}))
			got, err := s.Get(t.Context(), lease.Key)
			require.NoError(t, err)
			require.Equal(t, by.want, got.Checkpoint, "%q was stored", c)
		}
	}
}

// C7, L12: a row may hold no checkpoint in many ways, and a checkpoint can follow on each.
func TestNoCheckpointIsOneWhateverTheWord(t *testing.T) {
	table := newRaw(t)
	s := table.store()
	for n, changes := range []row{
		{"checkpoint": nil},
		{"checkpoint": nil, "checkpointSubSequenceNumber": nil},
		{"checkpoint": S("LATEST"), "checkpointSubSequenceNumber": N("0")},
		{"checkpoint": S("AT_TIMESTAMP"), "checkpointSubSequenceNumber": N("0")},
		{"checkpoint": S("AT_TIMESTAMP"), "checkpointSubSequenceNumber": N("1700000000123")}, // as disney's has it
		{"checkpoint": S("AT_TIMESTAMP"), "protokinesisCheckpoint": S("rubbish")},
	} {
		name := strconv.Itoa(n)
		table.put(with(kclLease(name), changes))
		lease, err := s.Get(t.Context(), shardKey(name))
		require.NoError(t, err)
		require.True(t, lease.Checkpoint.IsZero(), "%v", changes)
		lease, err = s.Acquire(t.Context(), lease, "a")
		require.NoError(t, err)
		lease, err = s.Checkpoint(t.Context(), lease, leasestore.AtSequence(sequence, 0))
		require.NoError(t, err)
		require.Equal(t, leasestore.AtSequence(sequence, 0), lease.Checkpoint)
	}
}

func TestRowOfAStream(t *testing.T) {
	table := newRaw(t, row{"leaseKey": S(ordersKey), "entityType": S("STREAM"), "streamId": S("kinesis-stream-id-1")})
	s := table.store()
	state := leasestore.StreamState{Stream: orders, Seek: 3, Start: leasestore.AtTimestamp(time.UnixMilli(7)), Tip: true}
	state, err := s.SaveState(t.Context(), state)
	require.NoError(t, err)
	key := "protokinesis-stream:" + ordersKey
	want := row{
		"leaseKey": S(key), "entityType": S("STREAM"), "streamId": S(ordersKey), "protokinesisStream": S(orders.String()),
		"protokinesisVersion": N("1"), "protokinesisSeek": N("3"), "protokinesisStart": S("AT_TIMESTAMP@7"), "protokinesisTip": BOOL(true),
	}
	require.Equal(t, want, table.get(key))
	table.put(with(want, row{"future": S("x")}))
	state.Start, state.Tip = leasestore.Checkpoint{}, false
	_, err = s.SaveState(t.Context(), state)
	require.NoError(t, err)
	require.Equal(t, with(want, row{"protokinesisVersion": N("2"), "protokinesisStart": nil, "protokinesisTip": BOOL(false), "future": S("x")}), table.get(key))
	require.Equal(t, row{"leaseKey": S(ordersKey), "entityType": S("STREAM"), "streamId": S("kinesis-stream-id-1")}, table.get(ordersKey))
}

func TestRowOfAMember(t *testing.T) {
	table := newRaw(t)
	s := table.store()
	member := leasestore.Member{ID: "node-1", Beat: 4, Streams: []leasestore.StreamID{orders}, Address: "10.0.0.7:8090", Broker: "broker", System: "sys"}
	_, err := s.Beat(t.Context(), member)
	require.NoError(t, err)
	got := table.get("node-1")
	require.InDelta(t, time.Now().Unix(), seconds(t, got), 59, "a KCL leader gives leases to a worker it has heard of in the last minute")
	want := row{
		"leaseKey": S("node-1"), "entityType": S("WORKER_METRIC_STATS"), "lut": got["lut"], "protokinesisBeat": N("5"),
		"protokinesisStreams": L(S(orders.String())), "protokinesisAddress": S("10.0.0.7:8090"), "protokinesisBroker": S("broker"),
		"protokinesisSystem": S("sys"),
	}
	require.Equal(t, want, got)

	table.put(with(got, row{"future": S("x")}))
	_, err = s.Beat(t.Context(), leasestore.Member{ID: "node-1", Beat: 5, Leaving: true})
	require.NoError(t, err)
	got = table.get("node-1")
	require.Less(t, seconds(t, got), float64(time.Now().Unix()-60), "a KCL leader gives nothing to one that is leaving")
	require.Equal(t, row{
		"leaseKey": S("node-1"), "entityType": S("WORKER_METRIC_STATS"), "lut": got["lut"], "protokinesisBeat": N("6"),
		"protokinesisStreams": L(), "protokinesisLeaving": BOOL(true), "future": S("x"),
	}, got)
}

func seconds(t *testing.T, r row) float64 {
	t.Helper()
	n, err := strconv.ParseFloat(r["lut"].(*types.AttributeValueMemberN).Value, 64)
	require.NoError(t, err)
	return n
}

func TestDates(t *testing.T) {
	table := newRaw(t, kclLease("1"), kclLease("2"))
	s := table.store()
	begin := time.Now().Truncate(time.Millisecond)
	acquire(t, s, "0", leasestore.Lease{})
	lease, err := s.Get(t.Context(), shardKey("1"))
	require.NoError(t, err)
	lease, err = s.Acquire(t.Context(), lease, "a")
	require.NoError(t, err)
	dates, err := s.Dates(t.Context(), orders)
	require.NoError(t, err)
	require.Len(t, dates, 2, "what only KCL has written has no date")
	for _, n := range []string{"0", "1"} {
		require.False(t, dates[shard(n)].Before(begin))
		require.False(t, dates[shard(n)].After(time.Now()))
	}

	// KCL renews it: our date is no longer that of the last write.
	key := ordersKey + ":" + shard("1")
	table.put(with(table.get(key), row{"leaseCounter": N(strconv.FormatInt(lease.Counter, 10))}))
	dates, err = s.Dates(t.Context(), orders)
	require.NoError(t, err)
	require.NotContains(t, dates, shard("1"))
	var _ leasestore.Dater = (*dynamodb.Store)(nil)
}
