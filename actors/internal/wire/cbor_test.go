package wire

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

type members = map[string]any

func encode(tb require.TestingT, v any, o cbor.EncOptions) []byte {
	mode, err := o.EncMode()
	require.NoError(tb, err)
	b, err := mode.Marshal(v)
	require.NoError(tb, err)
	return b
}

// readCBOR decodes an answer in CBOR. own reports whether it was done here alone.
func (o operation) readCBOR(body []byte) (out any, own bool, err error) {
	count := &counting{ClientProtocol: theirs()}
	out, err = o.read(&protocol{ClientProtocol: count}, answerOf(http.StatusOK, cborType, body))
	return out, count.n == 0, err
}

// endless is a value in CBOR whose maps and arrays tell no length, as Jackson writes them.
func endless(tb require.TestingT, v any) []byte {
	switch v := v.(type) {
	case members:
		b := []byte{0xbf}
		for name, member := range v {
			b = append(append(b, encode(tb, name, cbor.EncOptions{})...), endless(tb, member)...)
		}
		return append(b, cborBreak)
	case []any:
		b := []byte{0x9f}
		for _, element := range v {
			b = append(b, endless(tb, element)...)
		}
		return append(b, cborBreak)
	}
	return encode(tb, v, cbor.EncOptions{})
}

// A page comes out the same however its CBOR is written, and as the SDK reads the same page in JSON.
func TestAPageInCBORIsThatInJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.OneOf(rapid.String(), rapid.StringMatching("[a-z]{0,300}"))
		binary, text := []any{}, []any{}
		for range rapid.IntRange(0, 8).Draw(t, "records") {
			ms := rapid.Int64Range(1.1e12, 2e12).Draw(t, "ms") // not all seconds before and after are floating point numbers to a millisecond
			data := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "data")
			inText := members{"SequenceNumber": texts.Draw(t, "seq"), "PartitionKey": texts.Draw(t, "key")}
			inBinary := members{"SequenceNumber": inText["SequenceNumber"], "PartitionKey": inText["PartitionKey"]}
			if rapid.Bool().Draw(t, "dated") {
				inText["ApproximateArrivalTimestamp"] = json.Number(secondsOf(ms))
				inBinary["ApproximateArrivalTimestamp"] = rapid.SampledFrom([]any{
					ms, float64(ms), float64(ms) / 1000, cbor.Tag{Number: 1, Content: ms}, cbor.Tag{Number: 1, Content: float64(ms) / 1000},
				}).Draw(t, "time")
			}
			if rapid.Bool().Draw(t, "data") {
				inText["Data"] = data
				inBinary["Data"] = rapid.SampledFrom([]any{data, jsonText(t, data)}).Draw(t, "form")
			}
			if rapid.Bool().Draw(t, "encrypted") {
				inText["EncryptionType"], inBinary["EncryptionType"] = "KMS", "KMS"
			}
			text, binary = append(text, inText), append(binary, inBinary)
		}
		pageText, pageBinary := members{"Records": text, "MillisBehindLatest": 7}, members{"Records": binary, "MillisBehindLatest": 7, "ChildShards": nil}
		inJSON, err := json.Marshal(pageText)
		require.NoError(t, err)
		want, err := getRecords.read(theirs(), answerOf(http.StatusOK, jsonType, inJSON))
		require.NoError(t, err)
		for _, body := range [][]byte{encode(t, pageBinary, cbor.EncOptions{}), encode(t, pageBinary, cbor.CanonicalEncOptions()), endless(t, pageBinary)} {
			got, own, err := getRecords.readCBOR(body)
			require.NoError(t, err)
			require.Equal(t, want, got)
			require.True(t, own || len(body) == 0, "%x", body)
			translated, err := toJSON(body)
			require.NoError(t, err)
			got, err = getRecords.read(theirs(), answerOf(http.StatusOK, jsonType, translated))
			require.NoError(t, err)
			require.Equal(t, want, got, "by way of JSON: %s", translated)
		}
	})
}

// Milliseconds are exact, also where seconds with three decimals are not, and also by way of JSON.
func TestMillisecondsInCBORAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.OneOf(rapid.Int64Range(1e11, 9e12), rapid.Int64Range(1<<31*1000, 1<<41)).Draw(t, "ms") // the latter in 2038 and 2039
		for _, more := range []members{{}, {"Other": 1}} {
			record := maps.Clone(more)
			record["ApproximateArrivalTimestamp"] = ms
			out, own, err := getRecords.readCBOR(encode(t, members{"Records": []any{record}}, cbor.EncOptions{}))
			require.NoError(t, err)
			require.Equal(t, len(more) == 0, own)
			page, ok := out.(*kinesis.GetRecordsOutput)
			require.True(t, ok)
			require.Equal(t, time.UnixMilli(ms).UTC(), *page.Records[0].ApproximateArrivalTimestamp)
		}
	})
}

// secondsOf is a time as the service writes it in JSON, with a digit more that keeps the SDK from cutting off a millisecond.
func secondsOf(ms int64) string {
	t := translator{}
	t.whole(ms, true)
	return string(t.out)
}

func jsonText(t require.TestingT, data []byte) string {
	b, err := json.Marshal(data)
	require.NoError(t, err)
	return strings.Trim(strings.ReplaceAll(string(b), "null", ""), `"`)
}

// What is out of the ordinary in CBOR goes the SDK's way, as it would in JSON.
func TestAnUnusualPageInCBORIsDecodedByTheSDK(t *testing.T) {
	record := func(member string, value any) []byte {
		return encode(t, members{"Records": []any{members{member: value}}}, cbor.EncOptions{})
	}
	children := []types.ChildShard{{
		ShardId: aws.String("a"), ParentShards: []string{"b"}, HashKeyRange: &types.HashKeyRange{StartingHashKey: aws.String("0"), EndingHashKey: aws.String("1")},
	}}
	one := func(r types.Record) *kinesis.GetRecordsOutput {
		return &kinesis.GetRecordsOutput{Records: []types.Record{r}}
	}
	for name, c := range map[string]struct {
		body []byte
		want *kinesis.GetRecordsOutput // nil: an error
	}{
		"children": {encode(t, members{"ChildShards": []any{members{
			"ShardId": "a", "ParentShards": []string{"b"}, "HashKeyRange": members{"StartingHashKey": "0", "EndingHashKey": "1"},
		}}}, cbor.EncOptions{}), &kinesis.GetRecordsOutput{ChildShards: children}},
		"unknown":           {record("Other", []any{1, -1, 1.5, true, false, nil, []byte("a"), "b"}), one(types.Record{})},
		"iterator in parts": {[]byte("\xa1\x71NextShardIterator\x7f\x61a\x62bc\xff"), &kinesis.GetRecordsOutput{NextShardIterator: aws.String("abc")}},
		"data in parts":     {[]byte("\xa1\x67Records\x81\xa1\x64Data\x5f\x41a\x42bc\xff"), one(types.Record{Data: []byte("abc")})},
		"not UTF-8":         {[]byte("\xa1\x71NextShardIterator\x62a\xff"), &kinesis.GetRecordsOutput{NextShardIterator: aws.String("a\ufffd")}},
		"twice": {[]byte("\xa2\x71NextShardIterator\x61a\x71NextShardIterator\x61b"), &kinesis.GetRecordsOutput{
			NextShardIterator: aws.String("b"),
		}},
		"more behind":       {[]byte("\xa0\xa0"), &kinesis.GetRecordsOutput{}},
		"behind as float":   {encode(t, members{"MillisBehindLatest": 5.0}, cbor.EncOptions{}), &kinesis.GetRecordsOutput{MillisBehindLatest: aws.Int64(5)}},
		"behind negative":   {encode(t, members{"MillisBehindLatest": -5}, cbor.EncOptions{}), &kinesis.GetRecordsOutput{MillisBehindLatest: aws.Int64(-5)}},
		"null record":       {encode(t, members{"Records": []any{nil}}, cbor.EncOptions{}), one(types.Record{})},
		"lines in base64":   {record("Data", "YWJj\r\nYWI="), one(types.Record{Data: []byte("abcab")})},
		"time before":       {record("ApproximateArrivalTimestamp", -1500.5), one(types.Record{ApproximateArrivalTimestamp: aws.Time(time.Unix(-1501, 5e8).UTC())})},
		"nothing at all":    {nil, &kinesis.GetRecordsOutput{}},
		"bad base64":        {record("Data", "YWI*"), nil},
		"data a number":     {record("Data", 1), nil},
		"key a number":      {record("PartitionKey", 1), nil},
		"time not a number": {[]byte("\xa1\x67Records\x81\xa1\x78\x1bApproximateArrivalTimestamp\xf9\x7e\x00"), one(types.Record{})},
		"an array":          {[]byte{0x80}, nil},
		"name a number":     {[]byte{0xa1, 0, 0}, nil},
		"bad simple value":  {[]byte("\xa1\x61a\xf8\x20"), nil},
		"reserved length":   {[]byte("\xa1\x61a\x1c"), nil},
		"endless number":    {[]byte("\xa1\x61a\x1f"), nil},
		"deep":              {append([]byte("\xa1\x61a"), strings.Repeat("\x81", 1000)...), nil},
		"long promise":      {[]byte("\xa1\x67Records\x9b\x7f\xff\xff\xff\xff\xff\xff\xff"), nil},
		"long text":         {[]byte("\xa1\x71NextShardIterator\x7b\x7f\xff\xff\xff\xff\xff\xff\xffabc"), nil},
		"longest text":      {[]byte("\xa1\x71NextShardIterator\x7b\xff\xff\xff\xff\xff\xff\xff\xffabc"), nil},
		"a break too many":  {[]byte{0xff}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, own, err := getRecords.readCBOR(c.body)
			assert.False(t, own && err == nil)
			if c.want == nil {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestATruncatedPageInCBORIsAnError(t *testing.T) {
	for name, body := range bodiesOf(t, "*.cbor") {
		o := getRecords
		if strings.Contains(name, "PutRecords") {
			o = putRecords
		}
		for n := 1; n < min(len(body), 2000); n++ {
			_, _, err := o.readCBOR(body[:n])
			require.ErrorIs(t, err, errCBOR)
		}
	}
	_, _, err := getRecords.readCBOR(bodiesOf(t, "kinesalite-GetRecords-1.cbor")["kinesalite-GetRecords-1.cbor"])
	require.ErrorIs(t, err, errCBOR)
}

func TestRequestsInCBORSayWhatWasAsked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.Ptr(rapid.String(), true)
		var want struct {
			StreamName, StreamARN, StreamId *string
			DryRun                          *bool
			Records                         []struct {
				Data                          []byte
				PartitionKey, ExplicitHashKey *string
			}
		}
		in := &kinesis.PutRecordsInput{
			StreamName: texts.Draw(t, "name"), StreamARN: texts.Draw(t, "arn"), StreamId: texts.Draw(t, "id"), DryRun: rapid.Ptr(rapid.Bool(), true).Draw(t, "dry"),
		}
		for range rapid.IntRange(0, 30).Draw(t, "records") {
			in.Records = append(in.Records, types.PutRecordsRequestEntry{
				Data: rapid.SliceOfN(rapid.Byte(), 0, 400).Draw(t, "data"), PartitionKey: texts.Draw(t, "key"), ExplicitHashKey: texts.Draw(t, "hash"),
			})
		}
		require.NoError(t, cbor.Unmarshal(putCBOR(in), &want))
		require.Equal(t, want.StreamName, in.StreamName)
		require.Equal(t, want.StreamARN, in.StreamARN)
		require.Equal(t, want.StreamId, in.StreamId)
		require.Equal(t, want.DryRun, in.DryRun)
		require.Len(t, want.Records, len(in.Records))
		for i, r := range in.Records {
			require.Equal(t, string(r.Data), string(want.Records[i].Data))
			require.Equal(t, r.PartitionKey, want.Records[i].PartitionKey)
			require.Equal(t, r.ExplicitHashKey, want.Records[i].ExplicitHashKey)
		}
		read := &kinesis.GetRecordsInput{
			ShardIterator: texts.Draw(t, "iterator"), Limit: rapid.Ptr(rapid.Int32(), true).Draw(t, "limit"), StreamARN: in.StreamARN, StreamId: in.StreamId,
			DryRun: in.DryRun,
		}
		var asked struct {
			ShardIterator, StreamARN, StreamId *string
			Limit                              *int32
			DryRun                             *bool
		}
		require.NoError(t, cbor.Unmarshal(getCBOR(read), &asked))
		require.Equal(t, []any{read.ShardIterator, read.StreamARN, read.StreamId, read.Limit, read.DryRun},
			[]any{asked.ShardIterator, asked.StreamARN, asked.StreamId, asked.Limit, asked.DryRun})
	})
}

// A key that is no UTF-8 is sent as in JSON.
func TestAKeyThatIsNoUTF8IsSentAsInJSON(t *testing.T) {
	in := &kinesis.PutRecordsInput{Records: []types.PutRecordsRequestEntry{{PartitionKey: aws.String("a\xff\xfeb"), Data: []byte{}}}}
	var asBinary, asText struct {
		Records []struct{ PartitionKey string }
	}
	require.NoError(t, cbor.Unmarshal(putCBOR(in), &asBinary))
	require.NoError(t, json.Unmarshal(putBody(in), &asText))
	require.Equal(t, asText, asBinary)
}

func FuzzGetRecordsCBOR(f *testing.F) {
	seedCorpus(f)
	seed(f, "*-GetRecords-*.cbor")
	for _, body := range usualPages {
		f.Add(fromJSON(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		want, ordinary := pageOf(body)
		requireAs(t, getRecords, body, want, ordinary)
	})
}

func FuzzPutRecordsCBOR(f *testing.F) {
	seedCorpus(f)
	seed(f, "*-PutRecords-*.cbor")
	for _, body := range usualReceipts {
		f.Add(fromJSON(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		want, ordinary := receiptOf(body)
		requireAs(t, putRecords, body, want, ordinary)
	})
}

// requireAs requires what is decoded here to be what it should; and if it should be nothing in particular, not to be decoded here: by way of JSON at most.
func requireAs(t *testing.T, o operation, body []byte, want any, ordinary bool) {
	t.Helper()
	got, own, err := o.readCBOR(body)
	switch {
	case ordinary:
		require.NoError(t, err)
		require.Equal(t, want, got)
	case err == nil:
		require.False(t, own, "decoded here: %x", body)
	case !own || errors.Is(err, errCBOR) || errors.Is(err, errTooLong): // the SDK's error, or nothing to give to it
	default:
		require.NoError(t, err)
	}
}

// fromJSON is JSON in CBOR.
func fromJSON(body string) []byte {
	var v any
	if json.Unmarshal([]byte(body), &v) != nil {
		return nil
	}
	b, err := cbor.Marshal(v)
	if err != nil {
		return nil
	}
	return b
}
