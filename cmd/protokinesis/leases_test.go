package main

import (
	"encoding/json"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/leasestore/file"
)

// listLeases is what the command lists as JSON.
func (s *service) listLeases(args ...string) leaseList {
	s.t.Helper()
	list, r := s.tryLeases(args...)
	require.Equal(s.t, exitDone, r.code, r.stderr)
	return list
}

// tryLeases is listLeases, of a table that may not exist yet.
func (s *service) tryLeases(args ...string) (list leaseList, r result) {
	s.t.Helper()
	r = s.run("", append([]string{"leases", "--output", "json"}, args...)...)
	if r.code == exitDone {
		require.NoError(s.t, json.Unmarshal([]byte(r.stdout), &list))
	}
	return list, r
}

func TestLeases(t *testing.T) {
	s := newService(t)
	s.fill(2, 20, 10)
	store := newStore(t)
	r := s.run("", eager("consume", "s", "--from", "horizon", "--lease-store", store, "--count", "20")...)
	require.Equal(t, exitDone, r.code, r.stderr)

	r = s.run("", "leases", "--lease-store", store)
	require.Equal(t, exitDone, r.code, r.stderr)
	counters := regexp.MustCompile(` {7,8}\d{1,2}    `)
	golden(t, "leases", counters.ReplaceAllString(scrub(r.stdout), "        N    "))

	list := s.listLeases("--lease-store", store)
	require.Empty(t, list.Nodes)
	require.Len(t, list.Leases, 2)
	last := make(map[string]string)
	for _, record := range s.Records("s") {
		last[record.Shard] = record.SequenceNumber
	}
	for _, row := range list.Leases {
		require.Equal(t, "arn:aws:kinesis:us-east-1:000000000000:stream/s", row.Stream)
		require.Equal(t, last[row.Shard], row.Checkpoint)
		require.Empty(t, row.Owner)
		require.Positive(t, row.Counter)
		require.Positive(t, row.Created)
		require.Nil(t, row.Age)
		require.Nil(t, row.Lag)
	}
}

// storedLease is one to be listed.
type storedLease struct {
	shard, owner, next string
	checkpoint         leasestore.Checkpoint
}

// keep stores leases of a stream.
func keep(t *testing.T, store leasestore.Store, stream leasestore.StreamID, leases ...storedLease) {
	t.Helper()
	for _, l := range leases {
		lease := leasestore.Lease{Key: leasestore.Key{Stream: stream, Shard: l.shard}, Checkpoint: l.checkpoint}
		lease, err := store.Acquire(t.Context(), lease, l.owner)
		require.NoError(t, err)
		if l.next != "" {
			_, err = store.Offer(t.Context(), lease, l.next)
			require.NoError(t, err)
		}
	}
}

// The lag is what the service says of the record after the checkpoint; what can't be known is left out, and does not spoil the rest.
func TestLeasesLag(t *testing.T) {
	s := newService(t)
	require.NoError(t, s.CreateStream("s", 1))
	s.put(1, 1, 1)
	s.Clock().Advance(time.Minute)
	s.put(2, 2, 1)
	s.Clock().Advance(time.Minute)
	s.put(3, 3, 1)
	s.Clock().Advance(30 * time.Second)
	records, shard := s.Records("s"), "shardId-000000000000"
	id, err := identify(t.Context(), s.Client(), "s")
	require.NoError(t, err)
	behind := func(r result) *int64 {
		t.Helper()
		require.Equal(t, exitDone, r.code, r.stderr)
		var list leaseList
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &list))
		require.Len(t, list.Leases, 1)
		return list.Leases[0].Lag
	}
	for name, c := range map[string]struct {
		checkpoint leasestore.Checkpoint
		stream     leasestore.StreamID
		minutes    int
		warns      string
	}{
		"at the tip":            {checkpoint: leasestore.AtSequence(records[2].SequenceNumber, 0)},
		"one behind":            {checkpoint: leasestore.AtSequence(records[0].SequenceNumber, 0), minutes: 1},
		"just before a record":  {checkpoint: leasestore.Before(records[0].SequenceNumber, 0), minutes: 2},
		"at the horizon":        {checkpoint: leasestore.TrimHorizon(), minutes: 2},
		"at a time":             {checkpoint: leasestore.AtTimestamp(records[1].Arrival), minutes: 1},
		"of a fan-out consumer": {checkpoint: leasestore.TrimHorizon(), stream: leasestore.StreamID{Name: id.Name + "/consumer/c", CreatedMillis: id.CreatedMillis}, minutes: 2},
		"not begun":             {minutes: -1},
		"finished":              {checkpoint: leasestore.ShardEnd(), minutes: -1},
		"of a stream that is no more": {
			checkpoint: leasestore.TrimHorizon(), stream: leasestore.StreamID{Name: id.Name + "-gone"}, minutes: -1, warns: "s-gone",
		},
		"of a stream without a name": {checkpoint: leasestore.TrimHorizon(), stream: leasestore.StreamID{Name: "a/b"}, minutes: -1, warns: "a/b"},
	} {
		t.Run(name, func(t *testing.T) {
			path := newStore(t)
			store, err := file.Open(path[len(fileScheme):])
			require.NoError(t, err)
			if c.stream == (leasestore.StreamID{}) {
				c.stream = id
			}
			keep(t, store, c.stream, storedLease{shard: shard, owner: "a", checkpoint: c.checkpoint})
			require.NoError(t, store.Close())
			require.Nil(t, behind(s.run("", "leases", "--lease-store", path, "--output", "json")), "not asked for")
			r := s.run("", "leases", "--lease-store", path, "--output", "json", "--lag")
			lag := behind(r)
			if c.minutes < 0 {
				require.Nil(t, lag)
			} else {
				require.NotNil(t, lag)
				require.EqualValues(t, c.minutes, *lag/time.Minute.Milliseconds())
			}
			if c.warns == "" {
				require.Empty(t, r.stderr)
			} else {
				require.Contains(t, r.stderr, c.warns)
			}
		})
	}
}
