package actors

import (
	"github.com/protokinesis/protokinesis/internal/kpl"
	"github.com/protokinesis/protokinesis/leasestore"
)

// recordFields are what a record to be published says, by whatever message it came.
type recordFields struct {
	data    []byte
	key     string
	keyless bool // none was given
	hashKey string
	headers map[string]string
}

func fieldsOf(m interface {
	GetData() []byte
	GetPartitionKey() string
	GetExplicitHashKey() string
	GetHeaders() map[string]string
}, key *string,
) recordFields {
	return recordFields{
		data: m.GetData(), key: m.GetPartitionKey(), keyless: key == nil, hashKey: m.GetExplicitHashKey(), headers: m.GetHeaders(),
	}
}

// check finds what is wrong with a record whose stream's name is known to be right, and its size. Bytes count as the service counts them: data, with
// the header envelope, and partition key in UTF-8.
func (f *recordFields) check(stream string, l Limits) (size int, err *Error) {
	size = len(f.data) + envelopeSize(f.headers) + len(f.key)
	if f.keyless {
		size += randomKeySize
	} else if fault := partitionKeyFault(f.key); fault != "" {
		return 0, invalid(stream, "partition_key", "%s", fault)
	}
	if h := f.hashKey; h != "" {
		if !leasestore.ValidSequence(h) || (len(h) > 1 && h[0] == '0') || leasestore.CompareSequence(h, maxHashKey) > 0 {
			return 0, invalid(stream, "explicit_hash_key", "%q is not a decimal number below 2^128 without leading zeros", h)
		}
	}
	if err := checkHeaders(stream, f.headers); err != nil {
		return 0, err
	}
	if limit := maxRecordSize(f.headers, l); size > limit {
		e := invalid(stream, "data", "the record has %d bytes with its partition key and headers: %d are possible", size, limit)
		e.Advice = "a stream can allow up to 10 MiB: raise its MaxRecordSize and Limits.MaxRecordSize"
		return 0, e
	}
	return size, nil
}

// prepare makes of what was given what is stored.
func (f *recordFields) prepare() {
	f.data, f.headers = wrapEnvelope(f.headers, f.data), nil
	if f.keyless {
		f.key = randomKey()
	}
}

// hash is the hash key of a prepared record.
func (f *recordFields) hash() kpl.Hash {
	return kpl.UserRecord{PartitionKey: f.key, ExplicitHashKey: f.hashKey}.Hash()
}

func (r *outgoing) userRecord() kpl.UserRecord {
	return kpl.UserRecord{PartitionKey: r.key, ExplicitHashKey: r.hashKey, Data: r.data}
}
