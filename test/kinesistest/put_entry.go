package kinesistest

import (
	"bytes"
	"unicode/utf8"
)

const (
	maxKeyLength  = 256 // code points
	maxPutRecords = 500
	maxPutBytes   = 10 << 20
)

// putEntry is one record of a request. Its slices may lie in the request's body, so it does not
// outlive the request.
type putEntry struct {
	key          []byte
	keyJSON      []byte // the source of the key as a JSON string, without quotes, or nil
	explicitHash []byte // decimal; nil = none
	b64          []byte // the data as canonical base64, or
	raw          []byte // the data itself
	dataLen      int

	hash  hashKey
	shard *shard
}

// size is what the quotas count.
func (p *putEntry) size() int { return len(p.key) + p.dataLen }

// form is the one that costs the least to store it in.
func (p *putEntry) form() form {
	if p.b64 != nil {
		return formJSON
	}
	return formCBOR
}

// setKey takes the key from the source of a JSON string.
func (p *putEntry) setKey(source []byte) error {
	if !validSource(source) {
		return errJSON
	}
	p.keyJSON = source
	var err error
	p.key, err = unescape(source)
	return err
}

// setData takes the data from the source of a JSON string. The text is kept as it came: it is
// stored, and sent, as base64.
func (p *putEntry) setData(source []byte) error {
	text := source
	if bytes.IndexByte(source, '\\') >= 0 { // some encoders write \/
		var err error
		if text, err = unescape(source); err != nil {
			return err
		}
	}
	n, ok := checkBase64(text)
	if !ok {
		return errJSON
	}
	p.b64, p.dataLen = text, n
	if n == 0 {
		p.b64, p.raw = nil, []byte{}
	}
	return nil
}

// missing reports the required member the entry lacks.
func (p *putEntry) missing() string {
	switch {
	case p.key == nil:
		return "partitionKey"
	case p.b64 == nil && p.raw == nil:
		return "data"
	default:
		return ""
	}
}

// check validates the entry and finds its hash.
func (p *putEntry) check() *apiError {
	if name := p.missing(); name != "" {
		return validation("Value null at '%s' failed to satisfy constraint: Member must not be null", name)
	}
	if n := utf8.RuneCount(p.key); n < 1 || n > maxKeyLength {
		return validation("Value '%s' at 'partitionKey' failed to satisfy constraint: "+
			"Member must have length between 1 and %d", p.key, maxKeyLength)
	}
	if p.explicitHash == nil {
		p.hash = hashOfKey(p.key)
		return nil
	}
	hash, ok, tooBig := parseHashKey(string(p.explicitHash))
	switch {
	case !ok:
		return validation("Value '%s' at 'explicitHashKey' failed to satisfy constraint: "+
			"Member must satisfy regular expression pattern: 0|([1-9]\\d{0,38})", p.explicitHash)
	case tooBig:
		return invalidArgument("Invalid ExplicitHashKey. ExplicitHashKey must be in the range: [0, 2^128-1]. "+
			"Specified value was %s", p.explicitHash)
	}
	p.hash = hash
	return nil
}

// checkSize compares the record with the stream's largest.
func (p *putEntry) checkSize(st *stream) *apiError {
	if limit := st.maxRecordKiB << 10; p.size() > limit {
		return invalidArgument("Record of %d bytes (data and partition key) exceeds the maximum record size of %d bytes "+
			"of stream %s under account %s.", p.size(), limit, st.name, st.svc.cfg.accountID)
	}
	return nil
}
