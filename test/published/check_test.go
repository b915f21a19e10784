package published_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/internal/kpl"
	"github.com/protokinesis/protokinesis/internal/kpl/kpltest"
	"github.com/protokinesis/protokinesis/test/published"
)

const maxHash = "340282366920938463463374607431768211455"

// run is a log in which everything is right: three records of the key k, the first two of them stored twice, and two of the key l that failed.
type run struct {
	stored []published.Stored
	told   []published.Told
}

func rightRun(t *testing.T) *run {
	t.Helper()
	user := func(i int) kpl.UserRecord {
		return kpl.UserRecord{PartitionKey: "k", Data: fmt.Appendf(nil, "k#%d", i)}
	}
	both := kpltest.Aggregate(t, user(0), user(1))
	return &run{
		stored: []published.Stored{
			{Shard: "whole", Sequence: "1", PartitionKey: "a", Data: both},
			{Shard: "whole", Sequence: "2", PartitionKey: "a", Data: both},
			{Shard: "whole", Sequence: "3", PartitionKey: "k", Data: []byte("k#2")},
		},
		told: []published.Told{
			{PartitionKey: "k", Data: []byte("k#0"), Stored: true, Shard: "whole", Sequence: "2", Duplicate: true},
			{PartitionKey: "k", Data: []byte("k#1"), Stored: true, Shard: "whole", Sequence: "2", Sub: 1, Duplicate: true},
			{PartitionKey: "k", Data: []byte("k#2"), Stored: true, Shard: "whole", Sequence: "3"},
			{PartitionKey: "l", Data: []byte("l#0")},
			{PartitionKey: "l", Data: []byte("l#1"), Unknown: true},
		},
	}
}

func (r *run) check(ordered bool) *published.Report {
	shards := map[string]published.Shard{"whole": {First: "0", Last: maxHash}, "one hash key": {First: "0", Last: "0"}}
	return published.Check(r.stored, shards, r.told, ordered)
}

func TestNothingIsWrong(t *testing.T) {
	r := rightRun(t).check(true)
	require.Empty(t, r.Faults)
	assert.Equal(t, published.Report{Stored: 3, Failed: 1, Unknown: 1, Twice: 2, Aggregated: 2}, *r)
}

func TestEveryFaultIsFound(t *testing.T) {
	for name, spoil := range map[string]func(r *run){
		"a record is lost":                 func(r *run) { r.stored = r.stored[:2] },
		"a record was never sent":          func(r *run) { r.told = r.told[:2] },
		"a record has another key":         func(r *run) { r.stored[2].PartitionKey = "l" },
		"a receipt has another shard":      func(r *run) { r.told[2].Shard = "one hash key" },
		"a receipt has another place":      func(r *run) { r.told[2].Sequence = "2" },
		"a receipt has another index":      func(r *run) { r.told[1].Sub = 0 },
		"a duplicate is not owned up to":   func(r *run) { r.told[1].Duplicate = false },
		"what is stored is said not to be": func(r *run) { r.told[2] = published.Told{PartitionKey: "k", Data: []byte("k#2")} },
		"a later record is stored first":   func(r *run) { r.stored[0], r.stored[1], r.stored[2] = r.stored[2], r.stored[0], r.stored[1] },
		"it is where not all readers look": func(r *run) {
			r.stored[1].Shard, r.told[0].Shard, r.told[1].Shard = "one hash key", "one hash key", "one hash key"
		},
		"an aggregated record is out of order": func(r *run) {
			r.told[0].Data, r.told[1].Data = r.told[1].Data, r.told[0].Data
			r.told[0].Sub, r.told[1].Sub = 1, 0
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := rightRun(t)
			spoil(r)
			assert.NotEmpty(t, r.check(true).Faults)
		})
	}
}

func TestOrderMayNotMatter(t *testing.T) {
	r := rightRun(t)
	r.stored[0], r.stored[1], r.stored[2] = r.stored[2], r.stored[0], r.stored[1]
	require.Empty(t, r.check(false).Faults)
}
