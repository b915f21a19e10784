package wire

import (
	"context"
	"encoding/json"
	"io"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// write is a request for PutRecords as a protocol writes it, and its body.
func write(t require.TestingT, p smithyhttp.ClientProtocol, in *kinesis.PutRecordsInput) (*smithyhttp.Request, []byte) {
	req, ok := smithyhttp.NewStackRequest().(*smithyhttp.Request)
	require.True(t, ok)
	require.NoError(t, p.SerializeRequest(context.Background(), putRecords.schema, in, req))
	length, known, err := req.StreamLength()
	require.NoError(t, err)
	body, err := io.ReadAll(req.GetStream())
	require.NoError(t, err)
	require.True(t, known)
	require.EqualValues(t, len(body), length)
	return req, body
}

// What is written is what the SDK would write, whatever the records are.
func TestPutRecordsIsWrittenAsTheSDKDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.OneOf(rapid.Just("k"), rapid.String(), rapid.Just(`"quoted" \ <&> 	 ключ 𝄞`))
		optional := rapid.Ptr(texts, true)
		in := &kinesis.PutRecordsInput{StreamName: optional.Draw(t, "name"), StreamARN: optional.Draw(t, "arn")}
		in.Records = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) types.PutRecordsRequestEntry {
			return types.PutRecordsRequestEntry{
				Data: rapid.SliceOf(rapid.Byte()).Draw(t, "data"), PartitionKey: optional.Draw(t, "key"), ExplicitHashKey: optional.Draw(t, "hash"),
			}
		}), 1, 20).Draw(t, "records")
		if rapid.IntRange(0, 20).Draw(t, "dry") == 0 {
			in.DryRun = new(true)
		}
		wantReq, want := write(t, theirs(), in)
		gotReq, got := write(t, &protocol{ClientProtocol: theirs()}, in)
		var a, b any
		require.NoError(t, json.Unmarshal(want, &a))
		require.NoError(t, json.Unmarshal(got, &b))
		require.Equal(t, a, b)
		require.Equal(t, wantReq.Header, gotReq.Header)
		require.Equal(t, wantReq.Method, gotReq.Method)
		require.Equal(t, wantReq.URL, gotReq.URL)
	})
}

// The size is known before: nothing grows.
func TestPutRecordsIsWrittenAtOnce(t *testing.T) {
	in := &kinesis.PutRecordsInput{StreamName: new("orders")}
	for range 500 {
		in.Records = append(in.Records, types.PutRecordsRequestEntry{Data: make([]byte, 511), PartitionKey: new("key"), ExplicitHashKey: new("7")})
	}
	require.LessOrEqual(t, testing.AllocsPerRun(10, func() { putBody(in) }), 1.0)
}
