package actors

import "sync/atomic"

// budget bounds the bytes that all readers of a broker hold together, read and not settled. Each reader adds to it and takes from it, as a metric;
// nobody waits for anybody. Beyond the bound a reader that holds records reads no more until it has settled some, and one that holds none reads
// a few records at a time. So a page too many may be held for each read that was under way, and no shard stands still because of others.
type budget struct {
	limit int64
	used  atomic.Int64
}

const (
	// maxPage is the most bytes of a page: what a reader expects that has seen none yet.
	maxPage = 10 << 20
	minPage = 64 << 10
	// fewRecords is how many a reader without any reads beyond the bound.
	fewRecords = 10
)

// share is one reader's part of the budget. Only that reader uses it, and its coordinator once the reader has stopped.
type share struct {
	of       *budget
	held     int64 // what is read and not settled
	reserved int64 // for a page that is being read
	expected int64 // bytes of the next page
}

func newShare(of *budget) *share { return &share{of: of, expected: maxPage} }

// reserve makes room for a page; false if there is none.
func (s *share) reserve() bool {
	if s.of.used.Add(s.expected) > s.of.limit {
		s.of.used.Add(-s.expected)
		return false
	}
	s.reserved = s.expected
	return true
}

// failed ends a reservation: no page has come.
func (s *share) failed() {
	s.of.used.Add(-s.reserved)
	s.reserved = 0
}

// arrived ends a reservation: a page of so many bytes has come. The next one is expected to be about as large.
func (s *share) arrived(page int) {
	s.failed()
	s.expected = min(maxPage, max(minPage, 2*int64(page)))
}

// holds says what is held now.
func (s *share) holds(bytes int) {
	if n := int64(bytes); n != s.held {
		s.of.used.Add(n - s.held)
		s.held = n
	}
}

// free gives everything back.
func (s *share) free() {
	s.of.used.Add(-s.held - s.reserved)
	s.held, s.reserved = 0, 0
}
