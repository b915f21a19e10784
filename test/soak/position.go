package soak

import (
	"math"
	"strconv"
	"strings"
)

// rank orders the kinds of checkpoint by how far they are into a shard.
type rank int

const (
	rankNone rank = iota
	rankHorizon
	rankTime
	rankRecord
	rankEnd
)

// position is a checkpoint as this package understands it: of a record, index is its place in the shard.
type position struct {
	rank   rank
	millis int64
	index  int
	before bool // just before the record: it has not been handled
}

// parse reads a checkpoint's text; false if it is none, or of a record that the service does not have.
func (s *shardState) parse(text string) (position, bool) {
	switch text {
	case "":
		return position{}, true
	case "TRIM_HORIZON":
		return position{rank: rankHorizon}, true
	case "SHARD_END":
		return position{rank: rankEnd}, true
	}
	if ms, ok := strings.CutPrefix(text, "AT_TIMESTAMP@"); ok {
		n, err := strconv.ParseInt(ms, 10, 64)
		return position{rank: rankTime, millis: n}, err == nil
	}
	sequence, before := strings.CutPrefix(text, "<")
	r := s.bySequence[sequence]
	if r == nil {
		return position{}, false
	}
	return position{rank: rankRecord, index: r.index, before: before}, true
}

// next is the index of the first record to be read at a position of a record.
func (p position) next() int {
	if p.before {
		return p.index
	}
	return p.index + 1
}

func (p position) less(q position) bool {
	switch {
	case p.rank != q.rank:
		return p.rank < q.rank
	case p.rank == rankRecord:
		return p.next() < q.next()
	default:
		return p.millis < q.millis
	}
}

// reads reports whether a reader that starts at the position gets to the record.
func (p position) reads(r *record) bool {
	switch p.rank {
	case rankTime:
		return r.arrival >= p.millis
	case rankRecord:
		return r.index >= p.next()
	case rankEnd:
		return false
	case rankNone, rankHorizon:
	}
	return true
}

// scope is what a shard was last told to read by a seek: records that arrived before since, or come before the record from,
// need not be handled.
type scope struct {
	since int64
	from  int
}

func (s scope) has(r *record) bool { return r.arrival >= s.since && r.index >= s.from }

var everything = scope{since: math.MinInt64}
