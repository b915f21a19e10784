package wire

import (
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// receipt is where the parts of a PutRecords answer lie in its body.
type receipt struct {
	has     fields
	failed  int64
	encrypt span
	results []result
}

// result is where the parts of one record's result lie.
type result struct {
	has                       fields
	seq, shard, code, message span
}

var receipts = sync.Pool{New: func() any { return new(receipt) }}

func newReceipt() *receipt {
	p, _ := receipts.Get().(*receipt)
	*p = receipt{results: p.results[:0]}
	return p
}

func (p *receipt) putBack() {
	if cap(p.results) <= 2*mostRecords {
		receipts.Put(p)
	}
}

// json finds the parts of an answer in JSON.
func (p *receipt) json(body []byte) bool {
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
			p.jsonResults(&c)
		case "FailedRecordCount":
			one, p.failed = hasFailed, c.number()
		case "EncryptionType":
			one, p.encrypt = hasEncrypt, c.text()
		}
		if one == 0 || !p.has.once(one) {
			return false
		}
	}
	return c.end()
}

func (p *receipt) jsonResults(c *cursor) {
	c.take('[')
	for first := true; c.more(first, ']'); first = false {
		if r := p.another(); r != nil {
			r.json(c)
		} else {
			c.strange = true
		}
	}
}

// another is room for a result, nil if there are too many.
func (p *receipt) another() *result {
	if len(p.results) == mostRecords {
		return nil
	}
	p.results = append(p.results, result{})
	return &p.results[len(p.results)-1]
}

func (r *result) json(c *cursor) {
	c.take('{')
	for first := true; c.more(first, '}'); first = false {
		name, skip := c.name()
		if skip {
			continue
		}
		if one, to := r.member(name); to == nil || !r.has.once(one) {
			c.strange = true
		} else {
			*to = c.text()
		}
	}
}

// member is where a member's text goes; nil if there is none of that name.
func (r *result) member(name []byte) (fields, *span) {
	switch string(name) {
	case "SequenceNumber":
		return hasSeq, &r.seq
	case "ShardId":
		return hasShard, &r.shard
	case "ErrorCode":
		return hasCode, &r.code
	case "ErrorMessage":
		return hasMessage, &r.message
	}
	return 0, nil
}

// fill makes the answer.
func (p *receipt) fill(body []byte, out *kinesis.PutRecordsOutput) bool {
	if p.failed != int64(int32(p.failed)) { //nolint:gosec // that is the question
		return false
	}
	if p.has&hasRecords != 0 {
		out.Records = p.makeResults(body)
	}
	if p.has&hasFailed != 0 {
		failed := int32(p.failed) //nolint:gosec // it has been looked at
		out.FailedRecordCount = &failed
	}
	if p.has&hasEncrypt != 0 {
		out.EncryptionType = types.EncryptionType(p.encrypt.of(body))
	}
	return true
}

func (p *receipt) makeResults(body []byte) []types.PutRecordsResultEntry {
	textLen, count := 0, 0
	for i := range p.results {
		for _, s := range p.results[i].spans() {
			textLen += s.len()
		}
		count += p.results[i].has.count()
	}
	results := make([]types.PutRecordsResultEntry, len(p.results))
	all := make([]string, count)
	var text strings.Builder
	text.Grow(textLen)
	// take is a pointer to a text behind the others, nil if it was not there.
	take := func(there bool, s span) *string {
		if !there {
			return nil
		}
		to := &all[0]
		all = all[1:]
		*to = part(&text, s.of(body))
		return to
	}
	for i := range p.results {
		r := &p.results[i]
		results[i] = types.PutRecordsResultEntry{
			SequenceNumber: take(r.has&hasSeq != 0, r.seq),
			ShardId:        take(r.has&hasShard != 0, r.shard),
			ErrorCode:      take(r.has&hasCode != 0, r.code),
			ErrorMessage:   take(r.has&hasMessage != 0, r.message),
		}
	}
	return results
}

func (r *result) spans() [4]span { return [...]span{r.seq, r.shard, r.code, r.message} }
