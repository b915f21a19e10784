package wire

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// recordOf is a record with one member as given.
func recordOf(member string) string {
	return `{"Records":[{"SequenceNumber":"1","PartitionKey":"k","Data":"YWJj",` + member + `}]}`
}

const longText = "49590338271490256608559692538361571095921575989136588898"

// usualPages are pages as services write them.
var usualPages = map[string]string{
	"empty":      `{"Records":[],"MillisBehindLatest":0,"NextShardIterator":"AAAA"}`,
	"nothing":    `{}`,
	"no records": `{"NextShardIterator":"AAAA"}`,
	"as documented": `{"MillisBehindLatest":2100,"NextShardIterator":"AAA==","Records":[{"Data":"XzxkYXRhPl8w","PartitionKey":"partitionKey",` +
		`"ApproximateArrivalTimestamp":1.441215410867E9,"SequenceNumber":"21269319989652663814458848515492872193"}]}`,
	"spaces":             " {\r\n\t\"Records\" : [ { \"Data\" : \"YWI=\" , \"PartitionKey\" : \"k\" } , {} ] , \"MillisBehindLatest\" : 7 }\n",
	"encrypted":          recordOf(`"EncryptionType":"KMS"`),
	"not encrypted":      recordOf(`"EncryptionType":"NONE"`),
	"encrypted somehow":  recordOf(`"EncryptionType":"TRIPLE-ROT13"`),
	"nulls":              `{"Records":[{"Data":null,"PartitionKey":null,"EncryptionType":null}],"ChildShards":null,"NextShardIterator":null,"Other":null}`,
	"no data":            `{"Records":[{"Data":""}]}`,
	"key of no letters":  `{"Records":[{"PartitionKey":"","SequenceNumber":""}]}`,
	"data of two":        `{"Records":[{"Data":"YWI="},{"Data":"YWJj"},{"Data":"YQ=="}]}`,
	"loose bits":         `{"Records":[{"Data":"YR=="},{"Data":"YWJ="}]}`,
	"UTF-8":              `{"Records":[{"PartitionKey":"ключ 𝄞"}]}`,
	"not UTF-8":          "{\"Records\":[{\"PartitionKey\":\"a\xff\xc0b\"}]}",
	"control behind 127": "{\"Records\":[{\"PartitionKey\":\"a\x7f\x80b\"}]}",
	"whole seconds":      recordOf(`"ApproximateArrivalTimestamp":1441215410`),
	"milliseconds":       recordOf(`"ApproximateArrivalTimestamp":1441215410.001`),
	"microseconds":       recordOf(`"ApproximateArrivalTimestamp":1441215410.86799`),
	"exponent":           recordOf(`"ApproximateArrivalTimestamp":1.4412154e+9`),
	"negative exponent":  recordOf(`"ApproximateArrivalTimestamp":1441215410867e-3`),
	"epoch":              recordOf(`"ApproximateArrivalTimestamp":0`),
	"epoch and a bit":    recordOf(`"ApproximateArrivalTimestamp":0.0015`),
	"long texts":         recordOf(`"EncryptionType":"` + strings.Repeat(longText, 9) + `"`),
}

// unusualPages are for the SDK.
var unusualPages = map[string]string{
	"nothing at all":        ``,
	"null":                  `null`,
	"a number":              `7`,
	"an array":              `[]`,
	"more behind":           `{} {}`,
	"garbage behind":        `{}x`,
	"a byte behind":         "{}\x00",
	"children":              `{"ChildShards":[{"ShardId":"a","ParentShards":["b"],"HashKeyRange":{"StartingHashKey":"0","EndingHashKey":"1"}}]}`,
	"unknown":               `{"Records":[],"Other":[{"a":[1,2,{"b":null}]}]}`,
	"unknown in a record":   recordOf(`"Other":1`),
	"other case":            `{"records":[]}`,
	"records twice":         `{"Records":[{"PartitionKey":"a"}],"Records":[{"PartitionKey":"b"}]}`,
	"key twice":             recordOf(`"PartitionKey":"b"`),
	"iterator twice":        `{"NextShardIterator":"a","NextShardIterator":"b"}`,
	"a null record":         `{"Records":[null,{"PartitionKey":"k"}]}`,
	"record not an object":  `{"Records":["k"]}`,
	"records not an array":  `{"Records":{}}`,
	"escaped key":           recordOf(`"EncryptionType":"a\nb"`),
	"escaped name":          `{"R\u0065cords":[]}`,
	"escaped data":          `{"Records":[{"Data":"YWJj\u0059WJj"}]}`,
	"lines in data":         `{"Records":[{"Data":"YWJj\nYWJj"}]}`,
	"bare line in data":     "{\"Records\":[{\"Data\":\"YWJj\nYWJj\"}]}",
	"line at end of data":   "{\"Records\":[{\"Data\":\"YWI=\r\n\r\n\"}]}",
	"bad base64":            `{"Records":[{"Data":"YWJ*"}]}`,
	"short base64":          `{"Records":[{"Data":"YWJ"}]}`,
	"padding only":          `{"Records":[{"Data":"===="}]}`,
	"padding within":        `{"Records":[{"Data":"YQ==YQ=="}]}`,
	"URL alphabet":          `{"Records":[{"Data":"_-_-"}]}`,
	"data a number":         `{"Records":[{"Data":1}]}`,
	"behind negative":       `{"MillisBehindLatest":-1}`,
	"behind with decimals":  `{"MillisBehindLatest":1.5}`,
	"behind with exponent":  `{"MillisBehindLatest":1E3}`,
	"behind beyond":         `{"MillisBehindLatest":9223372036854775808}`,
	"behind the most":       `{"MillisBehindLatest":9223372036854775807}`,
	"behind in text":        `{"MillisBehindLatest":"1"}`,
	"behind with zeros":     `{"MillisBehindLatest":007}`,
	"time with zeros":       recordOf(`"ApproximateArrivalTimestamp":01.5`),
	"time without decimals": recordOf(`"ApproximateArrivalTimestamp":1.`),
	"time without exponent": recordOf(`"ApproximateArrivalTimestamp":1e`),
	"time far away":         recordOf(`"ApproximateArrivalTimestamp":1e300`),
	"time further away":     recordOf(`"ApproximateArrivalTimestamp":1e400`),
	"time in milliseconds":  recordOf(`"ApproximateArrivalTimestamp":1441215410867000`),
	"time before":           recordOf(`"ApproximateArrivalTimestamp":-1.5`),
	"time with many digits": recordOf(`"ApproximateArrivalTimestamp":1441215410.8670000001`),
	"time a text":           recordOf(`"ApproximateArrivalTimestamp":"Infinity"`),
	"time not a number":     recordOf(`"ApproximateArrivalTimestamp":"NaN"`),
	"time with plus":        recordOf(`"ApproximateArrivalTimestamp":+1`),
	"control character":     "{\"Records\":[{\"PartitionKey\":\"a\tb\"}]}",
	"NUL":                   "{\"Records\":[{\"PartitionKey\":\"a\x00b\"}]}",
	"comma at end":          `{"Records":[],}`,
	"comma at end of array": `{"Records":[{},]}`,
	"comma first":           `{,"Records":[]}`,
	"no comma":              `{"Records":[]"MillisBehindLatest":1}`,
	"no colon":              `{"Records"[]}`,
	"half null":             `{"Records":nul}`,
	"null and more":         `{"Records":nullx}`,
	"deep":                  `{"Other":` + strings.Repeat("[", 9_999) + strings.Repeat("]", 9_999) + `}`,
	"too deep":              `{"Other":` + strings.Repeat(`{"a":`, 20_000),
	"byte order mark":       "\xef\xbb\xbf{}",
}

func TestAUsualPageIsDecodedHere(t *testing.T) {
	for name, body := range usualPages {
		t.Run(name, func(t *testing.T) {
			assert.True(t, getRecords.requireAsTheirs(t, http.StatusOK, []byte(body)), "the SDK was asked")
		})
	}
}

func TestAnUnusualPageIsDecodedByTheSDK(t *testing.T) {
	for name, body := range unusualPages {
		t.Run(name, func(t *testing.T) {
			assert.False(t, getRecords.requireAsTheirs(t, http.StatusOK, []byte(body)))
		})
	}
}

// Wherever a page ends too early, the SDK's error is what comes.
func TestATruncatedPageIsDecodedByTheSDK(t *testing.T) {
	for _, body := range usualPages {
		body = strings.TrimSpace(body)
		for n := range body {
			require.False(t, getRecords.requireAsTheirs(t, http.StatusOK, []byte(body[:n])), body[:n])
		}
	}
}

// One byte of a page is another: the SDK says what comes of it.
func TestAChangedPageIsDecodedAsTheSDKDoes(t *testing.T) {
	for _, body := range usualPages {
		for i := range min(len(body), 250) {
			for _, b := range []byte("\x00\n \"\\,:[]{}=a0-.e\x80\xff") {
				changed := []byte(body)
				changed[i] = b
				getRecords.requireAsTheirs(t, http.StatusOK, changed)
			}
		}
	}
}

func TestAnyPageIsDecodedAsTheSDKDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.StringMatching(`[a-z0-9 ]{0,40}`)
		records := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) map[string]any {
			r := map[string]any{}
			for member, value := range map[string]any{
				"SequenceNumber": texts.Draw(t, "seq"), "PartitionKey": texts.Draw(t, "key"), "Data": rapid.SliceOfN(rapid.Byte(), 0, 99).Draw(t, "data"),
				"ApproximateArrivalTimestamp": rapid.OneOf(
					rapid.Map(rapid.Int64Range(0, 9e12), func(ms int64) float64 { return float64(ms) / 1000 }), rapid.Float64Range(0, 9e9),
				).Draw(t, "time"),
				"EncryptionType": rapid.SampledFrom([]string{"NONE", "KMS", "?"}).Draw(t, "encryption"),
			} {
				if rapid.IntRange(0, 9).Draw(t, "there") > 0 {
					r[member] = value
				}
			}
			return r
		}), 0, 20).Draw(t, "records")
		body, err := json.Marshal(map[string]any{"Records": records, "MillisBehindLatest": rapid.Int64Range(0, 1e17).Draw(t, "behind")})
		require.NoError(t, err)
		getRecords.requireAsTheirs(t, http.StatusOK, body)
	})
}

// A time in milliseconds, however it is written, is what the SDK reads.
func TestATimeIsReadAsTheSDKDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := rapid.Int64Range(0, 9e12).Draw(t, "ms")
		for _, text := range []string{
			fmt.Sprintf("%d.%03d", ms/1000, ms%1000), fmt.Sprintf("%de-3", ms), fmt.Sprintf("%.12E", float64(ms)/1000), fmt.Sprint(float64(ms) / 1000),
		} {
			getRecords.requireAsTheirs(t, http.StatusOK, []byte(recordOf(`"ApproximateArrivalTimestamp":`+text)))
		}
	})
}

func TestAppendingToARecordsDataLeavesTheNextAlone(t *testing.T) {
	data := base64.StdEncoding.EncodeToString([]byte("one"))
	for name, body := range map[string]string{
		jsonType: `{"Records":[{"Data":"` + data + `"},{"Data":"` + data + `"}]}`,
		cborType: "\xa1\x67Records\x82\xa1\x64Data\x43one\xa1\x64Data\x43one",
	} {
		out, err := getRecords.read(&protocol{ClientProtocol: &counting{ClientProtocol: theirs()}}, answerOf(http.StatusOK, name, []byte(body)))
		require.NoError(t, err)
		page, ok := out.(*kinesis.GetRecordsOutput)
		require.True(t, ok)
		longer := append(page.Records[0].Data, '!')
		assert.Equal(t, "one!", string(longer))
		assert.Equal(t, "one", string(page.Records[1].Data), name)
	}
}

// What is decoded is a copy: the memory that the body was read into is used again.
func TestAPageOutlivesItsBody(t *testing.T) {
	p := &protocol{ClientProtocol: theirs()}
	read := func(body string) *kinesis.GetRecordsOutput {
		out, err := getRecords.read(p, answerOf(http.StatusOK, jsonType, []byte(body)))
		require.NoError(t, err)
		page, ok := out.(*kinesis.GetRecordsOutput)
		require.True(t, ok)
		return page
	}
	const body = `{"NextShardIterator":"AAA","Records":[{"SequenceNumber":"1","PartitionKey":"k","Data":"YWJj","EncryptionType":"?"}]}`
	first := read(body)
	for range 10 {
		read(`{"NextShardIterator":"BBB","Records":[{"SequenceNumber":"2","PartitionKey":"l","Data":"ZGVm","EncryptionType":"!"}]}`)
	}
	require.Equal(t, read(body), first)
}

var usualReceipts = map[string]string{
	"all stored": `{"FailedRecordCount":0,"Records":[{"SequenceNumber":"1","ShardId":"shardId-000000000000"},{"SequenceNumber":"2","ShardId":"shardId-000000000001"}]}`,
	"some not": `{"EncryptionType":"KMS","FailedRecordCount":1,"Records":[{"ErrorCode":"ProvisionedThroughputExceededException",` +
		`"ErrorMessage":"Rate exceeded for shard shardId-000000000001 in stream exampleStreamName under account 111111111111."},{"SequenceNumber":"2","ShardId":"s"}]}`,
	"nulls": `{"Records":[{"SequenceNumber":"1","ShardId":"s","ErrorCode":null,"ErrorMessage":null}],"EncryptionType":null}`,
	"none":  `{"Records":[],"EncryptionType":"NONE"}`,
	"empty": `{}`,
}

var unusualReceipts = map[string]string{
	"failed twice":      `{"FailedRecordCount":1,"FailedRecordCount":0}`,
	"failed too many":   `{"FailedRecordCount":2147483648}`,
	"failed negative":   `{"FailedRecordCount":-1}`,
	"null result":       `{"Records":[null]}`,
	"unknown":           `{"Records":[{"Other":{}}],"Other":1}`,
	"escaped message":   `{"Records":[{"ErrorMessage":"a \"b\""}]}`,
	"sequence a number": `{"Records":[{"SequenceNumber":1}]}`,
	"code twice":        `{"Records":[{"ErrorCode":"a","ErrorCode":"b"}]}`,
	"more behind":       `{"Records":[]}]`,
}

func TestAUsualReceiptIsDecodedHere(t *testing.T) {
	for name, body := range usualReceipts {
		t.Run(name, func(t *testing.T) {
			assert.True(t, putRecords.requireAsTheirs(t, http.StatusOK, []byte(body)), "the SDK was asked")
			for n := range body {
				require.False(t, putRecords.requireAsTheirs(t, http.StatusOK, []byte(body[:n])), body[:n])
			}
		})
	}
}

func TestAnUnusualReceiptIsDecodedByTheSDK(t *testing.T) {
	for name, body := range unusualReceipts {
		t.Run(name, func(t *testing.T) {
			assert.False(t, putRecords.requireAsTheirs(t, http.StatusOK, []byte(body)))
		})
	}
}

func TestAnErrorIsTheSDKs(t *testing.T) {
	for _, body := range []string{
		`{"__type":"ExpiredIteratorException","message":"Iterator expired."}`, `{"__type":"com.amazonaws.kinesis.v20131202#ResourceNotFoundException","Message":"?"}`,
		`{"__type":"Unheard"}`, `<html>`, ``, `{}`,
	} {
		for _, status := range []int{400, 413, 500, 503, 302, 204} {
			assert.False(t, getRecords.requireAsTheirs(t, status, []byte(body)))
			assert.False(t, putRecords.requireAsTheirs(t, status, []byte(body)))
		}
	}
}
