package kinesistest

import (
	"sort"
	"time"
)

const (
	minSegment = 4 << 10
	maxSegment = 1 << 20
)

// segment is a piece of memory records are appended to, one behind the other, so that a page is a few
// slices of segments. It has them in one form, nil in the other, or in both. A buffer never grows
// beyond its capacity, so a slice of what was written stays valid without a lock.
//
// Records are written in the form of who put first and are turned once into that of who reads. Only
// if they are then read in the first form again, both are kept.
type segment struct {
	bufs   [forms][]byte
	turned bool
}

// form is one that the segment has.
func (s *segment) form() form {
	if s.bufs[formJSON] != nil {
		return formJSON
	}
	return formCBOR
}

// entry locates one record. It ends where the next one of its segment begins.
type entry struct {
	seg     *segment
	off     [forms]uint32 // where it begins, in the forms the segment has
	size    uint32        // data and key, as the quotas count
	arrival int64         // ms
}

// sequence returns the decimal sequence number.
func (e *entry) sequence() []byte {
	f := e.seg.form()
	return e.seg.bufs[f][int(e.off[f])+len(heads[f]):][:sequenceDigits]
}

// recordLog holds the records of a shard. The first record ever put has ordinal 0; ordinals of
// dropped records are not used again.
type recordLog struct {
	entries []entry // entries[0] has ordinal first
	first   uint64
	open    *segment
	grow    int
	keeps   [forms]bool // the forms of the next segment
}

// next is the ordinal the next record gets.
func (l *recordLog) next() uint64 { return l.first + uint64(len(l.entries)) }

func (l *recordLog) at(ordinal uint64) *entry { return &l.entries[ordinal-l.first] }

// end is where the i-th entry ends.
func (l *recordLog) end(i int, f form) uint32 {
	seg := l.entries[i].seg
	if i+1 < len(l.entries) && l.entries[i+1].seg == seg {
		return l.entries[i+1].off[f]
	}
	return uint32(len(seg.bufs[f])) //nolint:gosec // a segment is far below 4 GiB
}

// stored returns what the i-th entry was made of.
func (l *recordLog) stored(i int) putEntry {
	e := &l.entries[i]
	f := e.seg.form()
	return f.stored(e.seg.bufs[f][e.off[f]:l.end(i, f)])
}

// append stores a record; seq is its sequence number.
func (l *recordLog) append(seq *[sequenceDigits]byte, arrival int64, p *putEntry) {
	seg := l.room(p)
	e := entry{seg: seg, size: uint32(p.size()), arrival: arrival} //nolint:gosec // at most 10 MiB
	for f := range forms {
		if seg.bufs[f] != nil {
			e.off[f] = uint32(len(seg.bufs[f])) //nolint:gosec // a segment is far below 4 GiB
			seg.bufs[f] = f.append(seg.bufs[f], seq[:], arrival, p)
		}
	}
	l.entries = append(l.entries, e)
}

// room returns a segment with room for a record. Segments double, so that a stream of many small shards
// stays small; a record larger than a segment gets its own.
func (l *recordLog) room(p *putEntry) *segment {
	if l.open != nil && l.open.fits(p) {
		return l.open
	}
	if l.keeps == [forms]bool{} {
		l.keeps[p.form()] = true
	}
	l.grow = min(max(2*l.grow, minSegment), maxSegment)
	l.open = &segment{}
	for f := range forms {
		if l.keeps[f] {
			l.open.bufs[f] = make([]byte, 0, max(l.grow, f.room(p)))
		}
	}
	return l.open
}

func (s *segment) fits(p *putEntry) bool {
	for f := range forms {
		if b := s.bufs[f]; b != nil && cap(b)-len(b) < f.room(p) {
			return false
		}
	}
	return true
}

// turn gives the segment of the i-th entry another form.
func (l *recordLog) turn(i int, to form) {
	seg := l.entries[i].seg
	from, until := i, i+1
	for from > 0 && l.entries[from-1].seg == seg {
		from--
	}
	for until < len(l.entries) && l.entries[until].seg == seg {
		until++
	}
	b := make([]byte, 0, l.sizeTurned(from, until, to))
	for j := from; j < until; j++ {
		p, e := l.stored(j), &l.entries[j]
		off := len(b)
		b = to.append(b, e.sequence(), e.arrival, &p)
		e.off[to] = uint32(off) //nolint:gosec // a segment is far below 4 GiB
	}
	seg.bufs[to] = b
	if !seg.turned {
		seg.turned = true
		seg.bufs[to.other()] = nil
	}
	if seg == l.open {
		for f := range forms {
			l.keeps[f] = seg.bufs[f] != nil
		}
	}
}

// sizeTurned is how large to make the buffer of a segment's other form. The open one stays fit for more.
func (l *recordLog) sizeTurned(from, until int, to form) int {
	seg, n := l.entries[from].seg, 0
	for i := from; i < until; i++ {
		p := l.stored(i)
		n += to.room(&p)
	}
	if seg == l.open {
		n = max(n, cap(seg.bufs[to.other()]))
	}
	return n
}

// drop forgets the oldest n records.
func (l *recordLog) drop(n int) {
	n = min(n, len(l.entries))
	clear(l.entries[:n])
	l.entries = l.entries[n:]
	l.first += uint64(n) //nolint:gosec // not negative
	if len(l.entries) == 0 {
		l.entries, l.open = nil, nil
	}
}

// since returns the ordinal of the first record that arrived at or after ms; next() if none did.
func (l *recordLog) since(ms int64) uint64 {
	i := sort.Search(len(l.entries), func(i int) bool { return l.entries[i].arrival >= ms })
	return l.first + uint64(i) //nolint:gosec // not negative
}

// page is a run of records, as slices of the segments they lie in.
type page struct {
	chunks [][]byte // in JSON each record has its comma, the last one too
	count  int
	size   int    // data and keys
	next   uint64 // ordinal after the last record
}

// query says which records to read.
type query struct {
	form     form
	from     uint64 // ordinal
	limit    int
	maxBytes int // of data and keys
}

// read collects records, at least one if there is one. Unless it may turn the segments that lack the
// form, for which the log must be locked for writing, it stops at the first of them and reports false.
func (l *recordLog) read(q query, turn bool) (p page, ok bool) {
	pos := max(q.from, l.first)
	p = page{next: pos}
	if pos >= l.next() {
		return p, true
	}
	first := int(pos - l.first) //nolint:gosec // below len(entries)
	var seg *segment
	var from uint32
	for i := first; i < len(l.entries) && p.count < q.limit; i++ {
		e := &l.entries[i]
		if p.count > 0 && p.size+int(e.size) > q.maxBytes {
			break
		}
		if e.seg != seg {
			if seg != nil {
				p.cut(seg, q.form, from, l.end(i-1, q.form))
			}
			if e.seg.bufs[q.form] == nil {
				if !turn {
					return page{}, false
				}
				l.turn(i, q.form)
			}
			seg, from = e.seg, e.off[q.form]
		}
		p.count++
		p.size += int(e.size)
	}
	p.cut(seg, q.form, from, l.end(first+p.count-1, q.form))
	p.next = pos + uint64(p.count) //nolint:gosec // not negative
	return p, true
}

func (p *page) cut(seg *segment, f form, from, to uint32) {
	p.chunks = append(p.chunks, seg.bufs[f][from:to:to])
}

// trimComma removes the comma behind the last record, for JSON.
func (p *page) trimComma() {
	if n := len(p.chunks); n > 0 {
		last := p.chunks[n-1]
		p.chunks[n-1] = last[:len(last)-1]
	}
}

func millisTime(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
