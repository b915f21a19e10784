package dynamodb_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/leasestore/dynamodb"
	"github.com/protokinesis/protokinesis/leasestore/storetest"
)

// An application conforms whatever rows of others are in its table.
func TestApplicationsConform(t *testing.T) {
	others, _ := kclLeases()
	others = append(others, kclOthers()...)
	for _, other := range others {
		if key := other["leaseKey"].(*types.AttributeValueMemberS).Value; key != worker {
			others = append(others, with(other, row{"leaseKey": S("other/" + key), "protokinesisApplication": S("other")}))
		}
	}
	storetest.Run(t, func(t *testing.T) leasestore.Store {
		t.Helper()
		return newRaw(t, others...).store(dynamodb.Application("app:1/%"))
	})
}

func TestApplicationsSeeNothingOfEachOther(t *testing.T) {
	table := newRaw(t)
	stores := map[string]*dynamodb.Store{
		"": table.store(), "a": table.store(dynamodb.Application("a")), "a/b": table.store(dynamodb.Application("a/b")),
		"111122223333:orders": table.store(dynamodb.Application("111122223333:orders")), "a%2Fb": table.store(dynamodb.Application("a%2Fb")),
	}
	for name, s := range stores {
		lease, err := s.Acquire(t.Context(), leasestore.Lease{Key: shardKey("0")}, "owner of "+name)
		require.NoError(t, err, name)
		_, err = s.SaveState(t.Context(), leasestore.StreamState{Stream: orders, Seek: int64(len(name))})
		require.NoError(t, err, name)
		for _, id := range []string{"node-1", "b/node-1", "a/node-1"} {
			_, err = s.Beat(t.Context(), leasestore.Member{ID: id, Address: name})
			require.NoError(t, err, name)
		}
		require.Equal(t, int64(1), lease.Counter)
	}
	require.Len(t, table.all(), 5*len(stores))
	for name, s := range stores {
		view, err := s.View(t.Context(), orders)
		require.NoError(t, err)
		require.Len(t, view.Leases, 1, name)
		require.Equal(t, "owner of "+name, view.Leases[0].Owner)
		require.Equal(t, int64(len(name)), view.State.Seek)
		require.Len(t, view.Members, 3, name)
		for _, member := range view.Members {
			require.Equal(t, name, member.Address)
		}
	}
	require.Contains(t, table.all(), "a/"+key0, "the name is what the key begins with")
	require.Equal(t, S("a"), table.get("a/" + key0)["protokinesisApplication"])
}

// The key has no region, as in KCL: of two streams that agree in all else the second is refused, not mixed up with the first.
func TestStreamOfAnotherRegionIsRefused(t *testing.T) {
	table := newRaw(t)
	s := table.store()
	acquire(t, s, "0", leasestore.Lease{})
	far := leasestore.StreamID{Name: strings.Replace(orders.Name, "eu-west-1", "us-east-1", 1), CreatedMillis: orders.CreatedMillis}
	refused := func(what string) {
		t.Helper()
		lease := leasestore.Lease{Key: leasestore.Key{Stream: far, Shard: shard("0")}, Owner: "a", Counter: 1}
		errs := everyCall(t.Context(), s, lease)
		_, errs["Acquire"] = s.Acquire(t.Context(), leasestore.Lease{Key: lease.Key}, "b")
		for name, err := range errs {
			switch {
			case name == "Streams" || name == "Dates" || name == "Beat" || name == "Forget":
				require.NoError(t, err, name)
			case what == "leases" && (name == "State" || name == "SaveState"):
			case what == "state" && name != "State" && name != "SaveState" && name != "View":
			default:
				require.ErrorIs(t, err, leasestore.ErrInvalid, name)
				require.ErrorContains(t, err, orders.Name, name)
				require.ErrorContains(t, err, far.Name, name)
			}
		}
	}
	refused("leases")
	require.Equal(t, N("0"), table.get(key0)["leaseCounter"])

	table = newRaw(t)
	s = table.store()
	_, err := s.SaveState(t.Context(), leasestore.StreamState{Stream: orders})
	require.NoError(t, err)
	refused("state")
	require.Equal(t, N("1"), table.get("protokinesis-stream:" + ordersKey)["protokinesisVersion"])
}

// bareLease is a lease of an application that reads one stream.
func bareLease(n string, changes row) row {
	return with(with(kclLease(n), row{"leaseKey": S(shard(n)), "streamName": nil, "shardId": nil}), changes)
}

func TestBareTableIsReadAndLeftIntact(t *testing.T) {
	rows := []row{bareLease("0", unknown()), bareLease("1", row{"parentShardId": SS(shard("0")), "leaseOwner": nil, "leaseCounter": N("0")})}
	rows = append(rows, kclOthers()...)
	table := newRaw(t, rows...)
	before := table.all()
	s := table.store(dynamodb.SingleStream())
	view, err := s.View(t.Context(), orders)
	require.NoError(t, err)
	require.Equal(t, []leasestore.Lease{
		{Key: shardKey("0"), Owner: worker, Counter: 4712, Checkpoint: leasestore.AtSequence(sequence, 3)},
		{Key: shardKey("1"), Counter: 1, Checkpoint: leasestore.AtSequence(sequence, 3), Parents: []string{shard("0")}},
	}, view.Leases)
	require.Equal(t, worker, view.Planner.Owner)
	require.Len(t, view.Members, 2)
	streams, err := s.Streams(t.Context())
	require.NoError(t, err)
	require.Equal(t, []leasestore.StreamState{{Stream: orders}}, streams)

	for _, lease := range view.Leases {
		live(t, s, lease)
	}
	created := acquire(t, s, "2", leasestore.Lease{Checkpoint: leasestore.TrimHorizon()})
	require.Equal(t, row{
		"leaseKey": S(shard("2")), "leaseOwner": S("a"), "leaseCounter": N("0"), "entityType": S("LEASE"), "checkpoint": S("TRIM_HORIZON"),
		"checkpointSubSequenceNumber": N("0"), "ownerSwitchesSinceCheckpoint": N("0"), "protokinesisStream": S(orders.String()),
	}, undated(t, table.get(shard("2"))))
	require.NoError(t, s.Delete(t.Context(), created))
	after := table.all()
	for _, n := range []string{"0", "1"} {
		require.Equal(t, foreign(before[shard(n)]), foreign(after[shard(n)]))
		before[shard(n)], after[shard(n)] = nil, nil
	}
	require.Equal(t, before, after)
}

// A store of bare shard ids is one stream's.
func TestBareTableIsOfOneStream(t *testing.T) {
	reborn, other := orders, leasestore.StreamID{Name: strings.Replace(orders.Name, "orders", "returns", 1), CreatedMillis: orders.CreatedMillis}
	reborn.CreatedMillis++
	for name, fill := range map[string]func(s leasestore.Store){
		"by a lease": func(s leasestore.Store) { acquire(t, s, "0", leasestore.Lease{}) },
		"by a state": func(s leasestore.Store) {
			_, err := s.SaveState(t.Context(), leasestore.StreamState{Stream: orders})
			require.NoError(t, err)
		},
		"by a call": nil,
	} {
		table := newRaw(t, bareLease("1", nil))
		s := table.store(dynamodb.SingleStream())
		if fill != nil {
			fill(s)
			before := table.all()
			for _, stream := range []leasestore.StreamID{reborn, other} {
				s := table.store(dynamodb.SingleStream()) // another node, that comes with another stream
				for _, n := range []string{"0", "1", "2"} {
					lease := leasestore.Lease{Key: leasestore.Key{Stream: stream, Shard: shard(n)}, Owner: worker, Counter: 4712}
					bound(t, s, lease, name)
					_, err := s.Acquire(t.Context(), leasestore.Lease{Key: lease.Key}, "b")
					require.ErrorIs(t, err, leasestore.ErrInvalid, "%s: not even a new one", name)
				}
				states, err := s.Streams(t.Context())
				require.NoError(t, err)
				require.Len(t, states, 1)
				require.Equal(t, orders, states[0].Stream, "who asks hears which")
			}
			require.Equal(t, before, table.all())
		}
		_, err := s.View(t.Context(), orders)
		require.NoError(t, err)
		bound(t, s, leasestore.Lease{Key: leasestore.Key{Stream: reborn, Shard: shard("1")}, Owner: worker, Counter: 4712}, name)
	}
}

// bound checks that nothing can be done with the lease's stream.
func bound(t *testing.T, s *dynamodb.Store, lease leasestore.Lease, name string) {
	t.Helper()
	for call, err := range everyCall(t.Context(), s, lease) {
		if call == "Streams" || call == "Beat" || call == "Forget" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorIs(t, err, leasestore.ErrInvalid, "%s: %s", name, call)
		require.ErrorContains(t, err, orders.String(), "%s: %s", name, call)
	}
}

// A table that changes under a bound store: somebody empties it and uses it for another stream.
func TestBareRowsOfAnotherStreamAreNeverTaken(t *testing.T) {
	table := newRaw(t)
	s := table.store(dynamodb.SingleStream())
	lease := acquire(t, s, "0", leasestore.Lease{Checkpoint: leasestore.TrimHorizon()})
	other := with(table.get(shard("0")), row{"protokinesisStream": S("other@1")})
	table.put(other)
	for name, err := range map[string]error{
		"get": second(s.Get(t.Context(), lease.Key)), "renew": second(s.Renew(t.Context(), lease)),
		"acquire": second(s.Acquire(t.Context(), lease, "b")), "delete": s.Delete(t.Context(), lease),
		"create": second(s.Acquire(t.Context(), leasestore.Lease{Key: lease.Key}, "b")),
	} {
		require.ErrorIs(t, err, leasestore.ErrInvalid, name)
	}
	_, err := s.View(t.Context(), orders)
	require.ErrorIs(t, err, leasestore.ErrInvalid)
	require.Equal(t, sorted(other), table.get(shard("0")))
}

// One row that can not be understood hides no other, is told of once, and is not taken for free.
func TestDamagedRowsAreLeftOut(t *testing.T) {
	damaged := map[string]row{
		"1": {"leaseCounter": nil},
		"2": {"leaseCounter": S("4711")},
		"3": {"leaseCounter": N("-1")},
		"4": {"checkpoint": S("rubbish")},
		"5": {"checkpoint": N("5")},
		"6": {"checkpointOwner": NULL()},
		"7": {"parentShardId": L(S("p"))},
		"8": {"checkpointSubSequenceNumber": N("-1")},
	}
	rows := []row{
		kclLease("0"),
		{"leaseKey": S("node-1"), "entityType": S("WORKER_METRIC_STATS"), "protokinesisBeat": S("x")},
		{"leaseKey": S("node-2"), "entityType": S("WORKER_METRIC_STATS"), "protokinesisBeat": N("1"), "protokinesisStreams": L(S("no time"))},
		{"leaseKey": S("Leader"), "entityType": S("LEADER"), "ownerName": S(worker), "leaseDuration": S("soon")},
		{"leaseKey": S("protokinesis-stream:x:1"), "entityType": S("STREAM"), "protokinesisVersion": N("0")},
		{"leaseKey": S("typeless"), "entityType": N("1")},
		bareLease("0", nil),
	}
	for n, changes := range damaged {
		rows = append(rows, with(kclLease(n), changes))
	}
	table := newRaw(t, rows...)
	before := table.all()
	var said bytes.Buffer
	s := table.store(dynamodb.Logger(slog.New(slog.NewTextHandler(&said, nil))))
	for range 3 {
		view, err := s.View(t.Context(), orders)
		require.NoError(t, err)
		require.Len(t, view.Leases, 1)
		require.Empty(t, view.Members)
		require.Zero(t, view.Planner)
	}
	require.Equal(t, len(rows)-1, strings.Count(said.String(), "is left out"), said.String())
	require.Equal(t, 1, strings.Count(said.String(), "SingleStream"), "what to do about bare shard ids")
	for n := range damaged {
		key := shardKey(n)
		lease := leasestore.Lease{Key: key, Owner: worker, Counter: 4712}
		for name, err := range map[string]error{
			"get": second(s.Get(t.Context(), key)), "create": second(s.Acquire(t.Context(), leasestore.Lease{Key: key}, "a")),
		} {
			require.ErrorIs(t, err, dynamodb.ErrCorrupt, "%s %s", name, n)
			noVerdict(t, err, name)
			require.ErrorContains(t, err, key.Shard)
		}
		if n < "4" { // there the counter itself is damaged
			require.ErrorIs(t, second(s.Renew(t.Context(), lease)), dynamodb.ErrCorrupt)
		}
	}
	require.Equal(t, before, table.all())
}

func TestNewRefusesWhatCanNotBe(t *testing.T) {
	client := newClient(t, "http://127.0.0.1:1")
	for name, c := range map[string]struct {
		client  dynamodb.API
		table   string
		options []dynamodb.Option
	}{
		"no client":         {nil, "leases", nil},
		"no table":          {client, "", nil},
		"an odd table":      {client, "leases of mine", nil},
		"no application":    {client, "leases", []dynamodb.Option{dynamodb.Application("")}},
		"an odd one":        {client, "leases", []dynamodb.Option{dynamodb.Application("\xff")}},
		"a very long one":   {client, "leases", []dynamodb.Option{dynamodb.Application(strings.Repeat("x", 256))}},
		"a very long table": {client, strings.Repeat("x", 256), nil},
	} {
		_, err := dynamodb.New(c.client, c.table, c.options...)
		require.ErrorIs(t, err, leasestore.ErrInvalid, name)
	}
	s, err := dynamodb.New(client, "arn:aws:dynamodb:eu-west-1:111122223333:table/leases")
	require.NoError(t, err, "New does no I/O: nobody listens there")
	require.True(t, s.Shared())
	require.NoError(t, s.Close())
}

func TestKeysThatAreTooLongAreRefused(t *testing.T) {
	s := newRaw(t).store()
	long := strings.Repeat("x", 1025)
	_, err := s.Acquire(t.Context(), leasestore.Lease{Key: leasestore.Key{Stream: orders, Shard: long}}, "a")
	require.ErrorIs(t, err, leasestore.ErrInvalid)
	_, err = s.SaveState(t.Context(), leasestore.StreamState{Stream: leasestore.StreamID{Name: long}})
	require.ErrorIs(t, err, leasestore.ErrInvalid)
	_, err = s.Beat(t.Context(), leasestore.Member{ID: long})
	require.ErrorIs(t, err, leasestore.ErrInvalid)
	_, err = s.Acquire(t.Context(), leasestore.Lease{Key: shardKey("0")}, strings.Repeat("x", 2049))
	require.ErrorIs(t, err, leasestore.ErrInvalid)
	_, err = s.Acquire(t.Context(), leasestore.Lease{Key: shardKey("0")}, strings.Repeat("x", 2048))
	require.NoError(t, err)
}
