package actors

import "github.com/protokinesis/protokinesis/leasestore"

// streamLife is what tells listings of a stream from those of another that was created under its name after it was deleted. Shard ids begin anew then, so
// the shards may look alike.
type streamLife struct {
	starts map[string]string // shard → its starting sequence number, where known
	open   map[string]bool   // shards that take records
	doubt  bool              // the stream was not there at the last look
}

func lifeOf(shards []shard, doubt bool) streamLife {
	l := streamLife{starts: make(map[string]string, len(shards)), open: make(map[string]bool), doubt: doubt}
	for _, s := range shards {
		if s.startingSequence != "" {
			l.starts[s.id] = s.startingSequence
		}
		if !s.closed {
			l.open[s.id] = true
		}
	}
	return l
}

// doubts reports whether a listing may be of another stream, so that it is worth asking: a shard begins elsewhere than it did, or one that took records
// is not listed any more, though it should be listed as closed for as long as its records are retained.
func (l streamLife) doubts(listed []shard) bool {
	seen := make(map[string]bool, len(listed))
	for _, s := range listed {
		seen[s.id] = true
		start, known := l.starts[s.id]
		if known && s.startingSequence != "" && s.startingSequence != start {
			return true
		}
	}
	for id := range l.open {
		if !seen[id] {
			return true
		}
	}
	return l.doubt
}

// pastLife is the latest of the other streams of that name, if there were any.
func pastLife(stream leasestore.StreamID, stored []leasestore.StreamState) (past leasestore.StreamID, found bool) {
	for _, s := range stored {
		other := s.Stream
		if other.Name == stream.Name && other.CreatedMillis != stream.CreatedMillis && (!found || other.CreatedMillis > past.CreatedMillis) {
			past, found = other, true
		}
	}
	return past, found
}
