package kinesistest_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"reflect"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/test/kinesistest"
)

// moment is a time in a request: seconds in JSON, tagged milliseconds in CBOR.
type moment time.Time

func (m moment) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%.3f", float64(time.Time(m).UnixMilli())/1000), nil
}

func (m moment) MarshalCBOR() ([]byte, error) {
	return cbor.Marshal(cbor.Tag{Number: 1, Content: time.Time(m).UnixMilli()})
}

// alike is an answer in what both formats have in common: data in base64, times in seconds, numbers as floats.
// Iterators and tokens differ from service to service; that there is one is what counts.
func alike(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			switch name {
			case "NextShardIterator", "ShardIterator", "NextToken":
				v[name] = member != ""
			default:
				v[name] = alike(member)
			}
		}
	case []any:
		for i := range v {
			v[i] = alike(v[i])
		}
	case []byte:
		return base64.StdEncoding.EncodeToString(v)
	case uint64:
		return float64(v)
	case time.Time: // tag 1, which by the standard has seconds
		return float64(v.Unix()) / 1000
	}
	return v
}

// speaker makes the same calls as another one in another format.
type speaker struct {
	svc      *kinesistest.Service
	f        format
	iterator any
	token    any
}

func (s *speaker) call(t *testing.T, op string, in map[string]any) (int, string, any) {
	t.Helper()
	in = maps.Clone(in)
	if in["ShardIterator"] == "ITERATOR" {
		in["ShardIterator"] = s.iterator
	}
	if in["NextToken"] == "TOKEN" {
		in["NextToken"] = s.token
	}
	body, err := s.f.marshal(in)
	require.NoError(t, err)
	return s.send(t, op, body)
}

func (s *speaker) send(t *testing.T, op string, body []byte) (int, string, any) {
	t.Helper()
	d := newDirect(t, s.svc, s.f, op)
	d.w.keep = &bytes.Buffer{}
	d.r.Body = io.NopCloser(bytes.NewReader(body))
	status := d.call(body)
	if d.w.keep.Len() == 0 {
		return status, "", nil
	}
	var out map[string]any
	require.NoError(t, s.f.unmarshal(d.w.keep.Bytes(), &out))
	for _, name := range []string{"ShardIterator", "NextShardIterator"} {
		if it := out[name]; it != nil {
			s.iterator = it
		}
	}
	if token := out["NextToken"]; token != nil {
		s.token = token
	}
	return status, d.w.header.Get("X-Amzn-Errortype"), alike(out)
}

// Every operation, and what can be wrong with its request, has the same answer in both formats.
func TestFormatsAnswerAlike(t *testing.T) {
	start := time.Date(2026, 11, 1, 12, 0, 0, 123e6, time.UTC)
	mode, err := cbor.DecOptions{DefaultMapType: reflect.TypeFor[map[string]any]()}.DecMode()
	require.NoError(t, err)
	var pair []*speaker
	for _, f := range formats {
		if f.name == "cbor" {
			f.unmarshal = mode.Unmarshal
		}
		clock := kinesistest.WithClock(func() time.Time { return start })
		pair = append(pair, &speaker{svc: kinesistest.New(clock, kinesistest.WithListShardsPage(2)), f: f})
	}
	type in = map[string]any
	const arn = "arn:aws:kinesis:us-east-1:000000000000:stream/s"
	record := func(key string, data []byte, more ...string) in {
		r := in{"PartitionKey": key, "Data": data}
		if len(more) > 0 {
			r["ExplicitHashKey"] = more[0]
		}
		return r
	}
	partial := func() {
		for _, s := range pair {
			s.svc.Fault("PutRecords", kinesistest.Match{}, 1, kinesistest.Partial("InternalFailure", 1))
		}
	}
	for i, c := range []struct {
		op string
		in in
	}{
		{"CreateStream", in{"StreamName": "s", "ShardCount": 3}},
		{"CreateStream", in{"StreamName": "s", "ShardCount": 3}},
		{"CreateStream", in{"StreamName": "d", "StreamModeDetails": in{"StreamMode": "ON_DEMAND"}}},
		{"DescribeStreamSummary", in{"StreamName": "s"}},
		{"DescribeStream", in{"StreamName": "s", "Limit": 2}},
		{"DescribeStream", in{"StreamName": "s", "Limit": 0}},
		{"DescribeLimits", in{}},
		{"ListStreams", in{"Limit": 1}},
		{"ListStreams", in{"NextToken": "TOKEN"}},
		{"ListShards", in{"StreamName": "s", "StreamCreationTimestamp": moment(start)}},
		{"ListShards", in{"NextToken": "TOKEN"}},
		{"ListShards", in{"StreamName": "s", "ShardFilter": in{"Type": "AT_TIMESTAMP", "Timestamp": moment(start)}}},
		{"ListShards", in{"StreamName": "none"}},
		{"PutRecord", in{"StreamName": "s", "PartitionKey": "k", "Data": []byte{0, 255}}},
		{"PutRecord", in{"StreamName": "s", "PartitionKey": "é\"\\<\u2028", "Data": []byte{}, "ExplicitHashKey": "0"}},
		{"PutRecord", in{"StreamARN": arn, "PartitionKey": "k", "Data": []byte("x"), "SequenceNumberForOrdering": ""}},
		{"PutRecord", in{"StreamName": "s", "PartitionKey": "k", "Data": []byte("x"), "DryRun": true}},
		{"PutRecord", in{"StreamName": "s", "PartitionKey": "k"}},
		{"PutRecord", in{"StreamName": "s", "PartitionKey": "", "Data": []byte("x")}},
		{"PutRecord", in{"StreamName": "s", "PartitionKey": nil, "Data": []byte("x")}},
		{"PutRecord", in{"StreamName": "s", "PartitionKey": "k", "Data": []byte("x"), "ExplicitHashKey": ""}},
		{"PutRecord", in{"StreamName": "s", "PartitionKey": 1, "Data": []byte("x")}},
		{"PutRecords", in{"StreamName": "s", "Records": []in{record("a", []byte("1"), "0"), record("b", make([]byte, 700), "1"), record("c", nil, "2")}}},
		{"PutRecords", in{"StreamName": "s", "Records": []in{record("a", []byte("1"), "0"), record("b", make([]byte, 70_000), "1")}}},
		{"PutRecords", in{"StreamName": "s", "Records": []in{record("a", []byte("1"), "0"), record("b", []byte("2"), "1")}}},
		{"PutRecords", in{"StreamName": "s", "Records": []in{record("a", []byte("1"), "x")}}},
		{"PutRecords", in{"StreamName": "s", "Records": []in{}}},
		{"PutRecords", in{"StreamName": "s"}},
		{"PutRecords", in{"StreamName": "s", "Records": "x"}},
		{"PutRecords", in{"StreamName": "s", "Records": make([]in, 501)}},
		{"PutRecords", in{"StreamName": "s", "Records": make([]in, 3), "Unknown": in{"x": []int{1}}}},
		{"GetShardIterator", in{"StreamName": "s", "ShardId": shard0, "ShardIteratorType": "AT_TIMESTAMP", "Timestamp": moment(start)}},
		{"GetRecords", in{"ShardIterator": "ITERATOR", "Limit": 2}},
		{"GetRecords", in{"ShardIterator": "ITERATOR", "StreamARN": arn}},
		{"GetRecords", in{"ShardIterator": "ITERATOR"}},
		{"GetRecords", in{"ShardIterator": "ITERATOR", "Limit": 0}},
		{"GetRecords", in{"ShardIterator": "ITERATOR", "Limit": -1}},
		{"GetRecords", in{"ShardIterator": "ITERATOR", "Limit": "x"}},
		{"GetRecords", in{"ShardIterator": "ITERATOR", "DryRun": true}},
		{"GetRecords", in{"ShardIterator": "x"}},
		{"GetRecords", in{}},
		{"SplitShard", in{"StreamName": "s", "ShardToSplit": shard0, "NewStartingHashKey": "5"}},
		{"GetRecords", in{"ShardIterator": "ITERATOR"}},
		{"GetShardIterator", in{"StreamName": "s", "ShardId": shard0, "ShardIteratorType": "TRIM_HORIZON"}},
		{"GetRecords", in{"ShardIterator": "ITERATOR"}},
		{"GetShardIterator", in{"StreamName": "s", "ShardId": shard0, "ShardIteratorType": "SOME"}},
		{"MergeShards", in{"StreamName": "s", "ShardToMerge": shard1, "AdjacentShardToMerge": "shardId-000000000002"}},
		{"UpdateShardCount", in{"StreamName": "s", "TargetShardCount": 4, "ScalingType": "UNIFORM_SCALING"}},
		{"UpdateMaxRecordSize", in{"StreamARN": arn, "MaxRecordSizeInKiB": 2048}},
		{"IncreaseStreamRetentionPeriod", in{"StreamName": "s", "RetentionPeriodHours": 48}},
		{"DecreaseStreamRetentionPeriod", in{"StreamName": "s", "RetentionPeriodHours": 72}},
		{"RegisterStreamConsumer", in{"StreamARN": arn, "ConsumerName": "c"}},
		{"DescribeStreamConsumer", in{"StreamARN": arn, "ConsumerName": "c"}},
		{"ListStreamConsumers", in{"StreamARN": arn}},
		{"DeregisterStreamConsumer", in{"StreamARN": arn, "ConsumerName": "c"}},
		{"SubscribeToShard", in{"ShardId": shard0}},
		{"DeleteStream", in{"StreamName": "s"}},
		{"NoSuchOperation", in{}},
	} {
		if c.op == "PutRecords" && i%2 == 0 {
			partial()
		}
		status, code, answer := pair[0].call(t, c.op, c.in)
		status2, code2, answer2 := pair[1].call(t, c.op, c.in)
		assert.Equal(t, status, status2, "%d %s", i, c.op)
		assert.Equal(t, code, code2, "%d %s", i, c.op)
		if code != "SerializationException" { // which quotes the decoder
			assert.Equal(t, answer, answer2, "%d %s", i, c.op)
		}
		t.Log(i, c.op, status, code)
	}
	assert.Equal(t, pair[0].svc.Records("d"), pair[1].svc.Records("d"))
	for _, op := range []string{"GetRecords", "PutRecords", "PutRecord", "ListShards"} {
		_, code, _ := pair[0].send(t, op, []byte(`{"StreamName":`))
		_, code2, _ := pair[1].send(t, op, []byte("\xa1\x6aStreamName"))
		assert.Equal(t, "SerializationException", code)
		assert.Equal(t, code, code2)
	}
}
