package wire

import (
	"math/bits"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// page is where the parts of a GetRecords answer lie in its body.
type page struct {
	has      fields
	iterator span
	behind   int64
	records  []record
}

// record is where the parts of a record lie.
type record struct {
	has                    fields
	data, key, seq, cipher span
	base64                 bool // data is base64
	millis                 int64
}

// fields are the members that were there.
type fields uint8

// Of answers.
const (
	hasRecords fields = 1 << iota
	hasIterator
	hasBehind
	hasFailed
	hasEncrypt
)

// Of records and results.
const (
	hasData fields = 1 << iota
	hasKey
	hasSeq
	hasTime
	hasCipher
	hasShard
	hasCode
	hasMessage
)

func (f fields) count() int { return bits.OnesCount8(uint8(f)) }

// once notes a member and reports whether it was there before: then the last counts, which is the SDK's to do.
func (f *fields) once(one fields) bool {
	again := *f&one != 0
	*f |= one
	return !again
}

// mostRecords is more than a page has.
const mostRecords = 20_000

var pages = sync.Pool{New: func() any { return new(page) }}

func newPage() *page {
	p, _ := pages.Get().(*page)
	*p = page{records: p.records[:0]}
	return p
}

func (p *page) putBack() {
	if cap(p.records) <= 2*mostRecords {
		pages.Put(p)
	}
}

// json finds the parts of a page in JSON.
func (p *page) json(body []byte) bool {
	c := cursor{b: body}
	c.take('{')
	for first := true; c.more(first, '}'); first = false {
		name, skip := c.name()
		if skip {
			continue
		}
		one := fields(0)
		switch string(name) {
		case "Records":
			one = hasRecords
			p.jsonRecords(&c)
		case "NextShardIterator":
			one, p.iterator = hasIterator, c.text()
		case "MillisBehindLatest":
			one, p.behind = hasBehind, c.number()
		}
		if one == 0 || !p.has.once(one) { // ChildShards too, which come once in a shard's life
			return false
		}
	}
	return c.end()
}

func (p *page) jsonRecords(c *cursor) {
	c.take('[')
	for first := true; c.more(first, ']'); first = false {
		if r := p.another(); r != nil {
			r.json(c)
		} else {
			c.strange = true
		}
	}
}

// another is room for a record, nil if there are too many.
func (p *page) another() *record {
	if len(p.records) == mostRecords {
		return nil
	}
	p.records = append(p.records, record{})
	return &p.records[len(p.records)-1]
}

func (r *record) json(c *cursor) {
	c.take('{')
	for first := true; c.more(first, '}'); first = false {
		name, skip := c.name()
		if skip {
			continue
		}
		one := fields(0)
		switch string(name) {
		case "SequenceNumber":
			one, r.seq = hasSeq, c.text()
		case "ApproximateArrivalTimestamp":
			one, r.millis = hasTime, c.time()
		case "Data":
			one, r.data, r.base64 = hasData, c.blob(), true
		case "PartitionKey":
			one, r.key = hasKey, c.text()
		case "EncryptionType":
			one, r.cipher = hasCipher, c.text()
		}
		if one == 0 || !r.has.once(one) {
			c.strange = true
		}
	}
}

// dataLen is how long the data of a record is.
func (r *record) dataLen(body []byte) int {
	n := r.data.len()
	if !r.base64 || n == 0 {
		return n
	}
	n = n / 4 * 3
	if body[r.data.to-1] == '=' {
		n--
		if body[r.data.to-2] == '=' {
			n--
		}
	}
	return n
}

// parts are what a record points to. Those of a page lie together.
type parts struct {
	key, seq string
	arrival  time.Time
}

// fill makes the answer: the records, what they point to, their data and their texts are one piece of memory each, of just the size needed.
// It returns false, with nothing done, if what should be base64 is not.
func (p *page) fill(body []byte, out *kinesis.GetRecordsOutput) bool {
	var records []types.Record
	if p.has&hasRecords != 0 {
		var ok bool
		if records, ok = p.makeRecords(body); !ok {
			return false
		}
		out.Records = records
	}
	if p.has&hasIterator != 0 {
		iterator := string(p.iterator.of(body)) // on its own: it is kept for longer than the page
		out.NextShardIterator = &iterator
	}
	if p.has&hasBehind != 0 {
		behind := p.behind
		out.MillisBehindLatest = &behind
	}
	return true
}

func (p *page) makeRecords(body []byte) ([]types.Record, bool) {
	dataLen, textLen := 0, 0
	for i := range p.records {
		r := &p.records[i]
		dataLen += r.dataLen(body)
		textLen += r.key.len() + r.seq.len() + r.cipher.len()
	}
	records := make([]types.Record, len(p.records))
	all := make([]parts, len(p.records))
	data := make([]byte, dataLen)
	var text strings.Builder
	text.Grow(textLen)
	for i := range p.records {
		r, to, points := &p.records[i], &records[i], &all[i]
		if r.has&hasData != 0 {
			n := r.dataLen(body)
			to.Data = data[:n:n] // who appends to it does not reach the next record
			if !r.copyData(to.Data, body) {
				return nil, false
			}
			data = data[n:]
		}
		if r.has&hasKey != 0 {
			points.key = part(&text, r.key.of(body))
			to.PartitionKey = &points.key
		}
		if r.has&hasSeq != 0 {
			points.seq = part(&text, r.seq.of(body))
			to.SequenceNumber = &points.seq
		}
		if r.has&hasTime != 0 {
			points.arrival = time.Unix(0, r.millis*1e6).UTC()
			to.ApproximateArrivalTimestamp = &points.arrival
		}
		if r.has&hasCipher != 0 {
			to.EncryptionType = encryption(&text, r.cipher.of(body))
		}
	}
	return records, true
}

func (r *record) copyData(to, body []byte) bool {
	if !r.base64 {
		copy(to, r.data.of(body))
		return true
	}
	n, err := encoding64.Decode(to, r.data.of(body))
	return err == nil && n == len(to)
}

// part copies a text behind others. The builder has room, so that it does not move.
func part(text *strings.Builder, s []byte) string {
	text.Write(s)
	all := text.String()
	return all[len(all)-len(s):]
}

func encryption(text *strings.Builder, name []byte) types.EncryptionType {
	switch types.EncryptionType(name) {
	case types.EncryptionTypeNone:
		return types.EncryptionTypeNone
	case types.EncryptionTypeKms:
		return types.EncryptionTypeKms
	}
	return types.EncryptionType(part(text, name))
}
