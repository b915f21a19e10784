package actors

import (
	"slices"
	"sort"

	"github.com/protokinesis/protokinesis/internal/kpl"
)

// shardMap predicts which shard a record goes to: the open shard whose range has its hash key. It is a guess, as a reshard may have been
// since the shards were listed; the service tells with each stored record where it went. It is pure, and does not change once made.
type shardMap struct {
	open   []hashShard          // in order of their hash keys
	listed map[string]hashShard // closed ones too
}

type hashShard struct {
	id          string
	first, last kpl.Hash
}

// newShardMap takes the open ones of the listed shards. Without hash keys that can be read, or with holes between them, it is not complete and
// predicts what it can.
func newShardMap(listed []shard) *shardMap {
	m := &shardMap{listed: make(map[string]hashShard, len(listed))}
	for _, s := range listed {
		first, err := kpl.ParseHash(s.startingKey)
		if err != nil {
			continue
		}
		last, err := kpl.ParseHash(s.endingKey)
		if err != nil {
			continue
		}
		m.listed[s.id] = hashShard{id: s.id, first: first, last: last}
		if !s.closed {
			m.open = append(m.open, m.listed[s.id])
		}
	}
	slices.SortFunc(m.open, func(a, b hashShard) int { return a.first.Compare(b.first) })
	return m
}

// find returns the shard that a hash key goes to.
func (m *shardMap) find(h kpl.Hash) (hashShard, bool) {
	i := sort.Search(len(m.open), func(i int) bool { return m.open[i].first.Compare(h) > 0 }) - 1
	if i < 0 || m.open[i].last.Compare(h) < 0 {
		return hashShard{}, false
	}
	return m.open[i], true
}

// hasSame reports whether the shard is one of the open ones, with the same range.
func (m *shardMap) hasSame(s hashShard) bool {
	found, ok := m.find(s.first)
	return ok && found == s
}

// holds reports whether a record with this hash key belongs to the shard.
func (s hashShard) holds(h kpl.Hash) bool { return s.first.Compare(h) <= 0 && s.last.Compare(h) >= 0 }

// equal reports whether both predict the same.
func (m *shardMap) equal(other *shardMap) bool {
	if m == nil || other == nil {
		return m == other
	}
	return slices.Equal(m.open, other.open)
}
