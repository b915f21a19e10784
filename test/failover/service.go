package failover

// service is what was published, by shard and by key.
type service struct {
	shards map[string][]Record
	index  map[string]map[string]int // shard → sequence number → index in its shard
	keys   map[string][]place
}

// place is a record and where it is in its shard.
type place struct {
	Record
	index int
}

func newService(records []Record) *service {
	s := &service{shards: map[string][]Record{}, index: map[string]map[string]int{}, keys: map[string][]place{}}
	for _, r := range records {
		if s.index[r.Shard] == nil {
			s.index[r.Shard] = map[string]int{}
		}
		i := len(s.shards[r.Shard])
		s.index[r.Shard][r.Sequence] = i
		s.shards[r.Shard] = append(s.shards[r.Shard], r)
		s.keys[r.Key] = append(s.keys[r.Key], place{r, i})
	}
	return s
}

func (s *service) find(shard, sequence string) (place, bool) {
	i, ok := s.index[shard][sequence]
	if !ok {
		return place{}, false
	}
	return place{s.shards[shard][i], i}, true
}

// position is the index of the first record after a checkpoint, -1 if it is none.
func (s *service) position(shard, checkpoint string) int {
	switch checkpoint {
	case "", "TRIM_HORIZON", "AT_TIMESTAMP": // nothing is published before the instant
		return 0
	case "SHARD_END":
		return len(s.shards[shard])
	}
	i, ok := s.index[shard][checkpoint]
	if !ok {
		return -1
	}
	return i + 1
}
