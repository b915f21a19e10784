package actors

import (
	"testing"

	"github.com/protokinesis/protokinesis/leasestore"
)

// R26: children do not wait for their parents, and the parents are read to their end all the same.
func TestRelaxedLineage(t *testing.T) {
	for _, c := range []lineageCase{
		{
			name: "at the horizon all start at once", state: horizonAt(1),
			shards: []shard{closedShard("0"), closedShard("1", "0"), openShard("2", "0"), openShard("3", "1")},
			want:   map[string]string{"0": "TRIM_HORIZON", "1": "TRIM_HORIZON", "2": "TRIM_HORIZON", "3": "TRIM_HORIZON"},
		},
		{
			name: "at a timestamp all start there", state: timestampAt(900, 1),
			shards: []shard{closedShard("0"), openShard("1", "0")},
			want:   map[string]string{"0": "AT_TIMESTAMP@900", "1": "AT_TIMESTAMP@900"},
		},
		{
			name: "a parent goes on where it is, its child is read whole", state: tipAt(1000, 0),
			shards: []shard{closedShard("0"), openShard("1", "0")}, leases: []leasestore.Lease{leaseAt("0", "77", 0)},
			want: map[string]string{"0": "77", "1": "TRIM_HORIZON"},
		},
		{
			name: "a child that was leased and not read yet starts", state: tipAt(1000, 0),
			shards: []shard{closedShard("0"), openShard("1", "0")},
			leases: []leasestore.Lease{leaseAt("0", "77", 0), leaseAt("1", "TRIM_HORIZON", 0)},
			want:   map[string]string{"0": "77", "1": "TRIM_HORIZON"},
		},
		{
			name: "a merged child needs neither parent", state: tipAt(1000, 0),
			shards: []shard{closedShard("0"), closedShard("1"), openShard("2", "0", "1")},
			leases: []leasestore.Lease{leaseAt("0", "77", 0), leaseAt("1", "SHARD_END", 0)},
			want:   map[string]string{"0": "77", "1": "finished", "2": "TRIM_HORIZON"},
		},
		{
			name: "the opening at the tip is the same", state: tipAt(1000, 0), opening: true,
			shards: []shard{closedShard("0"), openShard("1", "0"), openShard("2")},
			want:   map[string]string{"0": "out of scope", "1": "tip AT_TIMESTAMP@1000", "2": "tip AT_TIMESTAMP@1000"},
		},
		{
			name: "after the tip a child waits for its parent to have a lease", state: tipAt(1000, 0),
			shards: []shard{closedShard("0"), closedShard("1", "0"), openShard("2", "1"), openShard("3")},
			leases: []leasestore.Lease{leaseAt("3", "5", 0)},
			want:   map[string]string{"0": "AT_TIMESTAMP@1000", "1": "wait", "2": "wait", "3": "5"},
		},
		{
			name: "a lease that is only taken for granted will not do after the tip", state: tipAt(1000, 0),
			shards: []shard{closedShard("0"), openShard("1", "0")}, leases: []leasestore.Lease{leaseAt("0", "77", 0)}, assumed: []string{"0"},
			want: map[string]string{"0": "77", "1": "wait"},
		},
		{
			name: "nor will one of before the last seek", state: tipAt(2000, 1),
			shards: []shard{closedShard("0"), openShard("1", "0")},
			leases: []leasestore.Lease{leaseAt("0", "77", 0), leaseAt("1", "88", 0)},
			want:   map[string]string{"0": "AT_TIMESTAMP@2000", "1": "wait"},
		},
		{
			name: "a seek to the horizon starts all at once", state: horizonAt(2),
			shards: []shard{closedShard("0"), openShard("1", "0")},
			leases: []leasestore.Lease{leaseAt("0", "SHARD_END", 1), leaseAt("1", "88", 1)},
			want:   map[string]string{"0": "TRIM_HORIZON", "1": "TRIM_HORIZON"},
		},
	} {
		c.relaxed = true
		t.Run(c.name, c.run)
	}
}
