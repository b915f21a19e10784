package wire

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/schemas"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/aws/smithy-go/transport/http/protocol/awsjson"
	"github.com/stretchr/testify/require"
)

const jsonType = "application/x-amz-json-1.1"

// operation is one of those done here.
type operation struct {
	schema *smithy.OperationSchema
	out    func() smithy.Deserializable
}

var (
	getRecords = operation{
		smithy.NewOperationSchema(schemas.GetRecords, schemas.GetRecordsInput, schemas.GetRecordsOutput),
		func() smithy.Deserializable { return new(kinesis.GetRecordsOutput) },
	}
	putRecords = operation{
		smithy.NewOperationSchema(schemas.PutRecords, schemas.PutRecordsInput, schemas.PutRecordsOutput),
		func() smithy.Deserializable { return new(kinesis.PutRecordsOutput) },
	}
)

func theirs() *awsjson.Protocol { return awsjson.New11(schemas.Kinesis_20131202) }

func answerOf(status int, contentType string, body []byte) *smithyhttp.Response {
	return &smithyhttp.Response{Response: &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {contentType}}, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
	}}
}

// read decodes an answer by a protocol. A panic is an error too.
func (o operation) read(p smithyhttp.ClientProtocol, answer *smithyhttp.Response) (out smithy.Deserializable, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &smithy.DeserializationError{Err: fmt.Errorf("the SDK can't take the answer: %v", r)}
		}
	}()
	out = o.out()
	err = p.DeserializeResponse(context.Background(), o.schema, kinesis.TypeRegistry, answer, out)
	return out, err
}

// requireAsTheirs decodes an answer in JSON by the SDK and here. own reports whether it was done here alone.
func (o operation) requireAsTheirs(t require.TestingT, status int, body []byte) (own bool) {
	if h, ok := t.(interface{ Helper() }); ok {
		h.Helper()
	}
	if bearable(body) != nil {
		return false
	}
	want, wantErr := o.read(theirs(), answerOf(status, jsonType, body))
	count := &counting{ClientProtocol: theirs()}
	got, err := o.read(&protocol{ClientProtocol: count}, answerOf(status, jsonType, body))
	if wantErr == nil {
		require.NoError(t, err)
		require.Equal(t, want, got)
	} else {
		require.EqualError(t, err, wantErr.Error())
		require.Equal(t, fmt.Sprintf("%T", wantErr), fmt.Sprintf("%T", err))
	}
	return count.n == 0
}

// counting counts the answers that the SDK decodes.
type counting struct {
	smithyhttp.ClientProtocol
	n int
}

func (c *counting) DeserializeResponse(
	ctx context.Context, schema *smithy.OperationSchema, registry *smithy.TypeRegistry, resp *smithyhttp.Response, out smithy.Deserializable,
) error {
	c.n++
	return c.ClientProtocol.DeserializeResponse(ctx, schema, registry, resp, out)
}
