package actors

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
)

// S1: what of a listing tells that it may be another stream's, and what does not: R23, closing a shard, resharding and retention.
func TestDoubtsAboutAListing(t *testing.T) {
	open := func(id, start string) shard { return shard{id: id, startingSequence: start} }
	closed := func(id, start string) shard { return shard{id: id, startingSequence: start, closed: true} }
	before := []shard{open("0", "100"), open("1", "101"), closed("2", "50"), {id: "3"}}
	for name, c := range map[string]struct {
		listed []shard
		gone   bool
		want   bool
	}{
		"the same":                        {before, false, false},
		"after it was gone":               {before, true, true},
		"a shard closed":                  {[]shard{closed("0", "100"), open("1", "101"), closed("2", "50"), {id: "3"}, open("4", "200")}, false, false},
		"a closed one trimmed":            {[]shard{open("0", "100"), open("1", "101"), {id: "3"}}, false, false},
		"a start that was not known":      {[]shard{open("0", "100"), open("1", "101"), open("3", "102")}, false, false},
		"a start that is not told":        {[]shard{open("0", ""), open("1", "101"), {id: "3"}}, false, false},
		"another start":                   {[]shard{open("0", "300"), open("1", "301"), {id: "3"}}, false, true},
		"another start of a closed shard": {[]shard{open("0", "100"), open("1", "101"), closed("2", "51"), {id: "3"}}, false, true},
		"an open one is missing":          {[]shard{open("0", "100"), {id: "3"}}, false, true},
		"nothing":                         {nil, false, true},
	} {
		require.Equal(t, c.want, lifeOf(before, c.gone).doubts(c.listed), name)
	}
	require.False(t, lifeOf(nil, false).doubts(before), "the first listing")
}

func TestPastLife(t *testing.T) {
	id := func(name string, created int64) leasestore.StreamID {
		return leasestore.StreamID{Name: name, CreatedMillis: created}
	}
	stored := []leasestore.StreamState{{Stream: id("a", 1)}, {Stream: id("a", 3)}, {Stream: id("a", 2)}, {Stream: id("a/consumer/x", 4)}, {Stream: id("b", 9)}}
	past, found := pastLife(id("a", 7), stored)
	require.True(t, found)
	require.Equal(t, id("a", 3), past)
	past, found = pastLife(id("a", 3), stored)
	require.True(t, found)
	require.Equal(t, id("a", 2), past)
	_, found = pastLife(id("b", 9), stored)
	require.False(t, found)
	_, found = pastLife(id("c", 1), stored)
	require.False(t, found)
}
