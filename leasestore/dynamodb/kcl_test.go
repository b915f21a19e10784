package dynamodb_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
)

// The tables in these tests are written by hand, exactly as KCL 3.5 writes them.

var orders = leasestore.StreamID{Name: "arn:aws:kinesis:eu-west-1:111122223333:stream/orders", CreatedMillis: 1_700_000_000_000}

const (
	ordersKey = "111122223333:orders:1700000000"
	worker    = "ip-10-0-0-7.eu-west-1.compute.internal:0e8400e2-9b41-41d4-a716-446655440000"
	worker2   = "ip-10-0-0-8.eu-west-1.compute.internal:6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	sequence  = "49590338271490256608559692538361571095921575989136588898"
	sequence2 = "49590338271490256608559692540925702759324208523137515618"
)

func shard(n string) string { return "shardId-00000000000" + n }

func shardKey(n string) leasestore.Key { return leasestore.Key{Stream: orders, Shard: shard(n)} }

// kclLease is a lease of a multi-stream application that a worker has and checkpoints.
func kclLease(n string) row {
	return row{
		"leaseKey":                     S(ordersKey + ":" + shard(n)),
		"leaseOwner":                   S(worker),
		"leaseCounter":                 N("4711"),
		"checkpoint":                   S(sequence),
		"checkpointSubSequenceNumber":  N("3"),
		"ownerSwitchesSinceCheckpoint": N("1"),
		"startingHashKey":              S("0"),
		"endingHashKey":                S("170141183460469231731687303715884105727"),
		"throughputKBps":               N("12.5"),
		"streamName":                   S(ordersKey),
		"shardId":                      S(shard(n)),
		"entityType":                   S("LEASE"),
	}
}

// unknown are attributes of every type, such as a later KCL may write.
func unknown() row {
	return row{
		"futureS": S("grüße"), "futureN": N("-0.125"), "futureB": B("\x00\xff"), "futureSS": SS("a", "b"), "futureNS": NS("1", "2.5"),
		"futureBS": BS("\x01", "\x02"), "futureL": L(S("x"), N("1"), NULL()), "futureM": M(row{"deep": M(row{"er": BOOL(true)})}),
		"futureBOOL": BOOL(false), "futureNULL": NULL(),
	}
}

// kclLeases are leases in all states, with what they are to us.
func kclLeases() (rows []row, leases []leasestore.Lease) {
	lease := func(n string, changes row, want leasestore.Lease) {
		rows = append(rows, with(kclLease(n), changes))
		want.Key = shardKey(n)
		leases = append(leases, want)
	}
	held := leasestore.AtSequence(sequence, 3)
	lease("0", unknown(), leasestore.Lease{Owner: worker, Counter: 4712, Checkpoint: held})
	lease("1", row{ // just created, nobody's
		"leaseOwner": nil, "leaseCounter": N("0"), "checkpoint": S("TRIM_HORIZON"), "checkpointSubSequenceNumber": N("0"),
		"ownerSwitchesSinceCheckpoint": N("0"), "throughputKBps": nil, "parentShardId": SS(shard("8"), shard("0")),
	}, leasestore.Lease{Counter: 1, Checkpoint: leasestore.TrimHorizon(), Parents: []string{shard("0"), shard("8")}})
	lease("2", row{"checkpoint": S("LATEST"), "checkpointSubSequenceNumber": N("0")}, leasestore.Lease{Owner: worker, Counter: 4712})
	lease("3", row{"checkpoint": S("AT_TIMESTAMP"), "checkpointSubSequenceNumber": N("0")}, leasestore.Lease{Owner: worker, Counter: 4712})
	lease("4", row{"checkpoint": S("SHARD_END"), "checkpointSubSequenceNumber": N("0"), "childShardIds": SS(shard("5"), shard("6"))},
		leasestore.Lease{Owner: worker, Counter: 4712, Checkpoint: leasestore.ShardEnd()})
	// A graceful handoff: leaseOwner is the next owner already.
	lease("5", row{"leaseOwner": S(worker2), "checkpointOwner": S(worker), "parentShardId": SS(shard("4"))},
		leasestore.Lease{Owner: worker, Next: worker2, Counter: 4712, Checkpoint: held, Parents: []string{shard("4")}})
	// A prepared checkpoint; the state is bytes, or, from the full serializer, a number.
	lease("6", row{
		"pendingCheckpoint": S(sequence2), "pendingCheckpointSubSequenceNumber": N("0"), "pendingCheckpointState": B("state"),
	}, leasestore.Lease{Owner: worker, Counter: 4712, Checkpoint: held})
	lease("7", row{
		"pendingCheckpoint": S(sequence2), "pendingCheckpointSubSequenceNumber": N("0"), "pendingCheckpointState": N("3"), "entityType": nil,
	}, leasestore.Lease{Owner: worker, Counter: 4712, Checkpoint: held})
	return rows, leases
}

// kclOthers are rows of KCL that are no leases, and leases that are none of this stream's.
func kclOthers() []row {
	return []row{
		{
			"leaseKey": S("Leader"), "entityType": S("LEADER"), "ownerName": S(worker), "leaseDuration": S("120000"),
			"recordVersionNumber": S("5f4dcc3b-5aa7-65d6-1d83-27deb882cf99"), "data": B("leader"),
		},
		{
			"leaseKey": S("Migration3.0"), "entityType": S("CLIENT_VERSION_MIGRATION"), "cv": S("CLIENT_VERSION_3X"), "mb": S(worker),
			"mts": N("1700000000000"), "h": L(M(row{"cv": S("CLIENT_VERSION_2X"), "mb": S(worker), "mts": N("1690000000000")})),
		},
		{
			"leaseKey": S("TableMigration3.5"), "entityType": S("TABLE_MIGRATION"), "tm": S("COMPLETE"), "mb": S(worker),
			"mts": N("1700000000000"), "h": L(),
		},
		{"leaseKey": S(ordersKey), "entityType": S("STREAM"), "streamId": S("kinesis-stream-id-1"), "mts": N("1700000000000")},
		{
			"leaseKey": S(worker), "entityType": S("WORKER_METRIC_STATS"), "lut": N("1700000100"), "sup": N("1"), "slu": N("1700000100"),
			"sts": M(row{"C": L(N("12.5"), N("-1"))}), "opr": M(row{"C": L(N("80"))}), "properties": M(row{"az": S("eu-west-1a")}),
		},
		{"leaseKey": S(worker2), "entityType": S("WORKER_METRIC_STATS"), "lut": N("1700000090")},
		{"leaseKey": S("unheard-of"), "entityType": S("OF_A_LATER_KCL"), "leaseCounter": N("1"), "leaseOwner": S(worker)},
		with(kclLease("0"), row{
			"leaseKey": S("111122223333:orders:1600000000:" + shard("0")), "streamName": S("111122223333:orders:1600000000"), // a former life
		}),
		with(kclLease("0"), row{
			"leaseKey": S("111122223333:returns:1700000000:" + shard("0")), "streamName": S("111122223333:returns:1700000000"),
		}),
	}
}

// kclTable is all of it.
func kclTable(t *testing.T) (*raw, []leasestore.Lease) {
	t.Helper()
	rows, leases := kclLeases()
	return newRaw(t, append(rows, kclOthers()...)...), leases
}

func TestKCLTableIsRead(t *testing.T) {
	table, leases := kclTable(t)
	store := table.store()
	view, err := store.View(t.Context(), orders)
	require.NoError(t, err)
	require.Equal(t, leasestore.View{
		Leases: leases,
		State:  leasestore.StreamState{Stream: orders},
		Members: []leasestore.Member{
			{ID: worker, Beat: 1700000100, AllStreams: true, Period: 75 * time.Second},
			{ID: worker2, Beat: 1700000090, AllStreams: true, Period: 75 * time.Second},
		},
		Planner: leasestore.Planner{Owner: worker, Mark: "5f4dcc3b-5aa7-65d6-1d83-27deb882cf99", Period: 2 * time.Minute},
	}, view)

	list, err := store.List(t.Context(), orders)
	require.NoError(t, err)
	require.Equal(t, leases, list)
	for _, want := range leases {
		got, err := store.Get(t.Context(), want.Key)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	streams, err := store.Streams(t.Context())
	require.NoError(t, err)
	former, returns := orders, orders
	former.CreatedMillis = 1_600_000_000_000
	returns.Name = "arn:aws:kinesis:eu-west-1:111122223333:stream/returns"
	require.Equal(t, []leasestore.StreamState{{Stream: former}, {Stream: orders}, {Stream: returns}}, streams,
		"rows do not say the region; it is the table's")
}

func TestKCLLeaderThatIsGoneIsNoPlanner(t *testing.T) {
	leader := kclOthers()[0]
	for name, changes := range map[string]row{
		"released": {"isReleased": S("1")},
		"no owner": {"ownerName": nil},
	} {
		view, err := newRaw(t, with(leader, changes)).store().View(t.Context(), orders)
		require.NoError(t, err)
		require.Zero(t, view.Planner, name)
	}
}

// A node lives a whole life with every lease, and nothing that is not its is touched.
func TestKCLTableIsLeftIntact(t *testing.T) {
	table, leases := kclTable(t)
	before := table.all()
	store := table.store()
	for _, lease := range leases {
		live(t, store, lease)
	}
	beat, err := store.Beat(t.Context(), leasestore.Member{ID: "node-1", Streams: []leasestore.StreamID{orders}})
	require.NoError(t, err)
	_, err = store.SaveState(t.Context(), leasestore.StreamState{Stream: orders, Start: leasestore.TrimHorizon()})
	require.NoError(t, err)
	for _, dead := range []string{worker, worker2} {
		require.NoError(t, store.Forget(t.Context(), leasestore.Member{ID: dead, Beat: 1700000100}), "KCL removes its workers' rows")
	}

	after := table.all()
	require.Len(t, after, len(before)+2)
	delete(after, "node-1")
	delete(after, "protokinesis-stream:"+ordersKey)
	for _, lease := range leases {
		key := ordersKey + ":" + lease.Shard
		require.Equal(t, foreign(before[key]), foreign(after[key]), key)
		require.NotContains(t, after[key], "pendingCheckpointState")
		before[key], after[key] = nil, nil
	}
	require.Equal(t, before, after)

	require.NoError(t, store.Forget(t.Context(), beat))
	for _, lease := range leases {
		now, err := store.Get(t.Context(), lease.Key)
		require.NoError(t, err)
		require.NoError(t, store.Delete(t.Context(), now))
		delete(before, ordersKey+":"+lease.Shard)
	}
	after = table.all()
	delete(after, "protokinesis-stream:"+ordersKey)
	require.Equal(t, before, after)
}

// live takes a lease over, does with it all that can be done, and ends with it released.
func live(t *testing.T, store leasestore.Store, lease leasestore.Lease) {
	t.Helper()
	step := func(want leasestore.Lease, do func(l leasestore.Lease) (leasestore.Lease, error)) {
		t.Helper()
		got, err := do(lease)
		require.NoError(t, err)
		want.Key, want.Parents, want.Counter = lease.Key, lease.Parents, lease.Counter+1
		require.Equal(t, want, got)
		lease = got
	}
	ctx, at := t.Context(), lease.Checkpoint
	step(leasestore.Lease{Owner: "node-1", Checkpoint: at}, func(l leasestore.Lease) (leasestore.Lease, error) { return store.Acquire(ctx, l, "node-1") })
	step(leasestore.Lease{Owner: "node-1", Checkpoint: at}, func(l leasestore.Lease) (leasestore.Lease, error) { return store.Renew(ctx, l) })
	if at.Kind() == leasestore.KindShardEnd {
		at = leasestore.TrimHorizon()
		step(leasestore.Lease{Owner: "node-1", Checkpoint: at, Seek: 1}, func(l leasestore.Lease) (leasestore.Lease, error) { return store.Move(ctx, l, at, 1) })
	}
	for _, next := range []leasestore.Checkpoint{leasestore.AtSequence(sequence, 4), leasestore.AtSequence(sequence2, 0)} {
		step(leasestore.Lease{Owner: "node-1", Checkpoint: next, Seek: lease.Seek}, func(l leasestore.Lease) (leasestore.Lease, error) {
			return store.Checkpoint(ctx, l, next)
		})
	}
	back := leasestore.AtTimestamp(time.UnixMilli(1_700_000_000_123))
	step(leasestore.Lease{Owner: "node-1", Checkpoint: back, Seek: 2}, func(l leasestore.Lease) (leasestore.Lease, error) { return store.Move(ctx, l, back, 2) })
	step(leasestore.Lease{Owner: "node-1", Next: "node-2", Checkpoint: back, Seek: 2}, func(l leasestore.Lease) (leasestore.Lease, error) {
		return store.Offer(ctx, l, "node-2")
	})
	step(leasestore.Lease{Owner: "node-1", Next: "node-2", Checkpoint: back, Seek: 2}, func(l leasestore.Lease) (leasestore.Lease, error) {
		return store.Renew(ctx, l)
	})
	step(leasestore.Lease{Owner: "node-2", Checkpoint: back, Seek: 2}, func(l leasestore.Lease) (leasestore.Lease, error) {
		return store.Acquire(ctx, l, "node-2")
	})
	step(leasestore.Lease{Checkpoint: back, Seek: 2}, func(l leasestore.Lease) (leasestore.Lease, error) { return store.Release(ctx, l) })
}
