package wire

import (
	"encoding/base64"
	"math"
	"reflect"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/fxamacker/cbor/v2"
)

// independent decodes CBOR by a library, knowing nothing of the code it is compared with.
var independent = func() cbor.DecMode {
	mode, err := cbor.DecOptions{
		DefaultMapType: reflect.TypeFor[map[any]any](), DupMapKey: cbor.DupMapKeyEnforcedAPF, UTF8: cbor.UTF8DecodeInvalid, MaxNestedLevels: 64,
		MaxArrayElements: 100_000, TimeTag: cbor.DecTagIgnored, IntDec: cbor.IntDecConvertNone, UnrecognizedTagToAny: cbor.UnrecognizedTagContentToAny,
		BignumTag: cbor.BignumTagForbidden,
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return mode
}()

// object is a map of CBOR, of which members are taken one by one. It is odd if one is not what it should be, or there are others.
type object struct {
	members map[any]any
	odd     bool
}

func objectOf(v any) (*object, bool) {
	m, ok := v.(map[any]any)
	return &object{members: m}, ok
}

// take takes a member that is there and not null.
func (o *object) take(name string) (any, bool) {
	v := o.members[name]
	delete(o.members, name)
	return v, v != nil
}

func (o *object) text(name string) *string {
	v, there := o.take(name)
	if !there {
		return nil
	}
	s, ok := v.(string)
	o.odd = o.odd || !ok
	s = string([]rune(s))
	return &s
}

func (o *object) number(name string) *int64 {
	v, there := o.take(name)
	if !there {
		return nil
	}
	n, ok := v.(uint64)
	o.odd = o.odd || !ok || n > math.MaxInt64
	whole := int64(n) //nolint:gosec // it is odd otherwise
	return &whole
}

func (o *object) time(name string) *time.Time {
	v, there := o.take(name)
	if !there {
		return nil
	}
	var ms float64
	switch v := v.(type) {
	case uint64:
		ms = float64(v)
		if v < 1e11 {
			ms *= 1000
		}
	case float64:
		ms = v
		if v < 1e11 {
			ms *= 1000
		}
	default:
		o.odd = true
	}
	o.odd = o.odd || !(ms >= 0 && ms <= 9e12)
	at := time.UnixMilli(int64(ms)).UTC()
	return &at
}

func (o *object) data(name string) []byte {
	v, there := o.take(name)
	if !there {
		return nil
	}
	switch v := v.(type) {
	case []byte:
		return v
	case string:
		b, err := base64.StdEncoding.DecodeString(v)
		o.odd = o.odd || err != nil
		return b
	}
	o.odd = true
	return nil
}

// list takes a list of objects.
func (o *object) list(name string, each func(*object)) (there bool) {
	v, there := o.take(name)
	if !there {
		return false
	}
	elements, ok := v.([]any)
	o.odd = o.odd || !ok
	for _, element := range elements {
		one, ok := objectOf(element)
		if o.odd = o.odd || !ok; o.odd {
			return true
		}
		each(one)
		o.odd = o.odd || !one.done()
	}
	return true
}

// done reports whether all members were taken and good.
func (o *object) done() bool {
	for name, v := range o.members { // what is null is as if it were not there
		if _, ok := name.(string); !ok || v != nil {
			return false
		}
	}
	return !o.odd
}

// pageOf is what a page in CBOR says; false if it says anything out of the ordinary.
func pageOf(body []byte) (*kinesis.GetRecordsOutput, bool) {
	var v any
	if rest, err := independent.UnmarshalFirst(body, &v); err != nil || len(rest) > 0 {
		return nil, false
	}
	o, ok := objectOf(v)
	if !ok {
		return nil, false
	}
	out := &kinesis.GetRecordsOutput{NextShardIterator: o.text("NextShardIterator"), MillisBehindLatest: o.number("MillisBehindLatest")}
	records := []types.Record{}
	if o.list("Records", func(r *object) {
		one := types.Record{
			SequenceNumber: r.text("SequenceNumber"), PartitionKey: r.text("PartitionKey"), Data: r.data("Data"),
			ApproximateArrivalTimestamp: r.time("ApproximateArrivalTimestamp"),
		}
		if cipher := r.text("EncryptionType"); cipher != nil {
			one.EncryptionType = types.EncryptionType(*cipher)
		}
		records = append(records, one)
	}) {
		out.Records = records
	}
	return out, o.done()
}

// receiptOf is what an answer to PutRecords in CBOR says; false if it says anything out of the ordinary.
func receiptOf(body []byte) (*kinesis.PutRecordsOutput, bool) {
	var v any
	if rest, err := independent.UnmarshalFirst(body, &v); err != nil || len(rest) > 0 {
		return nil, false
	}
	o, ok := objectOf(v)
	if !ok {
		return nil, false
	}
	out := new(kinesis.PutRecordsOutput)
	if failed := o.number("FailedRecordCount"); failed != nil {
		o.odd = o.odd || *failed > math.MaxInt32
		out.FailedRecordCount = new(int32(*failed)) //nolint:gosec // it is odd otherwise
	}
	if cipher := o.text("EncryptionType"); cipher != nil {
		out.EncryptionType = types.EncryptionType(*cipher)
	}
	results := []types.PutRecordsResultEntry{}
	if o.list("Records", func(r *object) {
		results = append(results, types.PutRecordsResultEntry{
			SequenceNumber: r.text("SequenceNumber"), ShardId: r.text("ShardId"), ErrorCode: r.text("ErrorCode"), ErrorMessage: r.text("ErrorMessage"),
		})
	}) {
		out.Records = results
	}
	return out, o.done()
}
