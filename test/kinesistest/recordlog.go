package kinesistest

import (
	"encoding/base64"
	"encoding/json"
	"sort"
	"strconv"
	"time"
)

// A record is kept as the JSON object GetRecords sends, followed by a comma:
//
//	{"SequenceNumber":"…","ApproximateArrivalTimestamp":1.234,"PartitionKey":"…","Data":"…"},
//
// Records lie one behind the other in segments that never move, so a page is a few slices of them.
const (
	recordHead    = `{"SequenceNumber":"`
	recordArrival = `","ApproximateArrivalTimestamp":`
	recordKey     = `,"PartitionKey":"`
	recordData    = `","Data":"`
	recordTail    = `"},`

	minSegment = 4 << 10
	maxSegment = 1 << 20
)

// segment is a piece of memory records are appended to. buf never grows beyond its capacity, so a
// slice of what was written stays valid without a lock.
type segment struct{ buf []byte }

// entry locates one record.
type entry struct {
	seg     *segment
	off, n  uint32 // the JSON with its comma
	size    uint32 // data and key, as the quotas count
	arrival int64  // ms
}

func (e *entry) json() []byte { return e.seg.buf[e.off : e.off+e.n : e.off+e.n] }

// sequence returns the decimal sequence number.
func (e *entry) sequence() []byte { return e.json()[len(recordHead):][:sequenceDigits] }

// recordLog holds the records of a shard. The first record ever put has ordinal 0; ordinals of
// dropped records are not used again.
type recordLog struct {
	entries []entry // entries[0] has ordinal first
	first   uint64
	open    *segment
	grow    int
}

// next is the ordinal the next record gets.
func (l *recordLog) next() uint64 { return l.first + uint64(len(l.entries)) }

func (l *recordLog) at(ordinal uint64) *entry { return &l.entries[ordinal-l.first] }

// append stores a record; seq is filled in as its sequence number.
func (l *recordLog) append(seq *[sequenceDigits]byte, arrival int64, p *putEntry) {
	dataLen := len(p.b64)
	if p.b64 == nil {
		dataLen = base64.StdEncoding.EncodedLen(len(p.raw))
	}
	need := len(recordHead) + sequenceDigits + len(recordArrival) + 24 + len(recordKey) + len(p.keyJSON) +
		len(recordData) + dataLen + len(recordTail)
	seg := l.room(need)
	off := len(seg.buf)
	b := append(seg.buf, recordHead...)
	b = append(b, seq[:]...)
	b = append(b, recordArrival...)
	b = appendSeconds(b, arrival)
	b = append(b, recordKey...)
	b = append(b, p.keyJSON...)
	b = append(b, recordData...)
	if p.b64 != nil {
		b = append(b, p.b64...)
	} else {
		b = base64.StdEncoding.AppendEncode(b, p.raw)
	}
	b = append(b, recordTail...)
	seg.buf = b
	l.entries = append(l.entries, entry{
		seg: seg, off: uint32(off), n: uint32(len(b) - off), //nolint:gosec // a segment is far below 4 GiB
		size: uint32(p.size()), arrival: arrival, //nolint:gosec // at most 10 MiB
	})
}

// room returns a segment with n bytes free. Segments double, so that a stream of many small shards
// stays small; a record larger than a segment gets its own.
func (l *recordLog) room(n int) *segment {
	if l.open != nil && cap(l.open.buf)-len(l.open.buf) >= n {
		return l.open
	}
	l.grow = min(max(2*l.grow, minSegment), maxSegment)
	l.open = &segment{buf: make([]byte, 0, max(l.grow, n))}
	return l.open
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
	chunks [][]byte // each record with its comma, the last one too
	count  int
	size   int    // data and keys
	next   uint64 // ordinal after the last record
}

// read collects records from ordinal pos on, at least one if there is one.
func (l *recordLog) read(pos uint64, limit, maxSize int) page {
	pos = max(pos, l.first)
	p := page{next: pos}
	if pos >= l.next() {
		return p
	}
	var seg *segment
	var from, to uint32
	for i := pos - l.first; i < uint64(len(l.entries)) && p.count < limit; i++ {
		e := &l.entries[i]
		if p.count > 0 && p.size+int(e.size) > maxSize {
			break
		}
		if e.seg != seg {
			if seg != nil {
				p.chunks = append(p.chunks, seg.buf[from:to:to])
			}
			seg, from = e.seg, e.off
		}
		to = e.off + e.n
		p.count++
		p.size += int(e.size)
	}
	p.chunks = append(p.chunks, seg.buf[from:to:to])
	p.next = pos + uint64(p.count) //nolint:gosec // not negative
	return p
}

// trimComma removes the comma behind the last record.
func (p *page) trimComma() {
	if n := len(p.chunks); n > 0 {
		last := p.chunks[n-1]
		p.chunks[n-1] = last[:len(last)-1]
	}
}

// appendSeconds writes ms as seconds with three decimals, the form of timestamps in JSON 1.1.
func appendSeconds(b []byte, ms int64) []byte {
	b = strconv.AppendInt(b, ms/1000, 10)
	frac := ms % 1000
	return append(b, '.', byte('0'+frac/100), byte('0'+frac/10%10), byte('0'+frac%10))
}

// storedRecord is the decoded form of a record, for CBOR and for [Service.Records].
type storedRecord struct {
	SequenceNumber              string
	ApproximateArrivalTimestamp epoch
	PartitionKey                string
	Data                        []byte
}

// decode parses the records of a page; a slow path, for which a second copy of the data is fine.
func (p *page) decode() ([]storedRecord, error) {
	text := make([]byte, 0, p.size*3/2)
	text = append(text, '[')
	for _, chunk := range p.chunks {
		text = append(text, chunk...)
	}
	if p.count > 0 && text[len(text)-1] == ',' {
		text = text[:len(text)-1]
	}
	records := make([]storedRecord, 0, p.count)
	if err := json.Unmarshal(append(text, ']'), &records); err != nil {
		return nil, err
	}
	return records, nil
}

func millisTime(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
