package actors

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
)

// R7: only grandchildren are left, and nothing but the row of the first generation, or not even that.
func TestLineageOfGrandchildren(t *testing.T) {
	grandchildren := []shard{openShard("5", "2"), openShard("6", "3", "2")}
	for _, c := range []lineageCase{
		{name: "horizon", state: horizonAt(1), want: map[string]string{"5": "TRIM_HORIZON", "6": "TRIM_HORIZON"}},
		{name: "timestamp", state: timestampAt(900, 1), want: map[string]string{"5": "AT_TIMESTAMP@900", "6": "AT_TIMESTAMP@900"}},
		{name: "tip", state: tipAt(1000, 1), want: map[string]string{"5": "TRIM_HORIZON", "6": "TRIM_HORIZON"}},
	} {
		c.shards = grandchildren
		t.Run(c.name+", no row", c.run)
		c.leases = []leasestore.Lease{leaseAt("0", "100", 1)}
		t.Run(c.name+", a row", c.run)
	}
}

// R17, R18: of a hundred finished shards none is started; the open ones are, all at once.
func TestFinishedShardsAreNeverStarted(t *testing.T) {
	var c lineageCase
	c.state, c.want = tipAt(1000, 0), make(map[string]string)
	for n := range 100 {
		id := fmt.Sprintf("%03d", n)
		c.shards, c.leases = append(c.shards, closedShard(id)), append(c.leases, leaseAt(id, "SHARD_END", 0))
		c.want[id] = "finished"
	}
	for n := range 4 {
		id := fmt.Sprint("open", n)
		c.shards, c.want[id] = append(c.shards, openShard(id, fmt.Sprintf("%03d", n))), "TRIM_HORIZON"
	}
	c.run(t)
}

// R23: what of a shard may change decides nothing about where it goes on.
func TestShardIdentityIsItsID(t *testing.T) {
	leases := []leasestore.Lease{leaseAt("0", "SHARD_END", 0), leaseAt("1", "77", 0), childLease(leaseAt("2", "5", 0), "gone")}
	want := map[string]string{"0": "finished", "1": "77", "2": "5"}
	for _, state := range []leasestore.StreamState{horizonAt(0), tipAt(1000, 0), timestampAt(9, 0)} {
		for _, shards := range [][]shard{
			{closedShard("0"), openShard("1"), openShard("2")},
			{openShard("0"), closedShard("1"), closedShard("2")},
			{keys(openShard("0"), 0, 4), keys(closedShard("1", "0"), 4, 8), openShard("2", "1", "0")},
		} {
			lineageCase{shards: shards, leases: leases, state: state, want: want}.run(t)
		}
	}
}

// R27: a listing that has closed and finished shards in it, though it was asked for less, gives the same readers.
func TestAListingWithMoreThanNeededChangesNothing(t *testing.T) {
	needed := []shard{openShard("3", "1"), closedShard("4", "2"), openShard("5", "4")}
	more := []shard{closedShard("0"), closedShard("1", "0"), closedShard("2", "0")}
	for _, state := range []leasestore.StreamState{horizonAt(0), tipAt(1000, 0), timestampAt(9, 0)} {
		leases := []leasestore.Lease{leaseAt("0", "SHARD_END", 0), leaseAt("1", "SHARD_END", 0), leaseAt("2", "SHARD_END", 0), leaseAt("3", "8", 0)}
		few := newLineage(needed, leases, state, false).decide()
		all := newLineage(append(more, needed...), leases, state, false).decide()
		for _, s := range needed {
			require.Equal(t, decisionText(few[s.id]), decisionText(all[s.id]), s.id)
		}
		for _, s := range more {
			require.Equal(t, verdictFinished, all[s.id].verdict)
		}
	}
}
