package actors

import (
	"slices"
	"sort"

	"github.com/protokinesis/protokinesis/internal/kpl"
)

// shardMap predicts which shard a record goes to: the open shard whose range has its hash key. It is a guess, as a reshard may have been
// since the shards were listed; the service tells with each stored record where it went. It is pure, and does not change once made.
type shardMap struct {
	open []openShard // in order of their hash keys
}

type openShard struct {
	id          string
	first, last kpl.Hash
}

// newShardMap takes the open ones of the listed shards. Without hash keys that can be read, or with holes between them, it is not complete and
// predicts what it can.
func newShardMap(listed []shard) *shardMap {
	m := &shardMap{}
	for _, s := range listed {
		first, err := kpl.ParseHash(s.startingKey)
		if err != nil || s.closed {
			continue
		}
		last, err := kpl.ParseHash(s.endingKey)
		if err != nil {
			continue
		}
		m.open = append(m.open, openShard{id: s.id, first: first, last: last})
	}
	slices.SortFunc(m.open, func(a, b openShard) int { return a.first.Compare(b.first) })
	return m
}

// find returns the shard that a hash key goes to.
func (m *shardMap) find(h kpl.Hash) (openShard, bool) {
	i := sort.Search(len(m.open), func(i int) bool { return m.open[i].first.Compare(h) > 0 }) - 1
	if i < 0 || m.open[i].last.Compare(h) < 0 {
		return openShard{}, false
	}
	return m.open[i], true
}

// has reports whether the shard is one of the open ones.
func (m *shardMap) has(id string) bool {
	return slices.ContainsFunc(m.open, func(s openShard) bool { return s.id == id })
}
