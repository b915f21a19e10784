package wire

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Options are what a client is told.
type Options struct {
	// CBOR asks for it instead of JSON.
	CBOR bool
	// Logger is told when the service does not take CBOR.
	Logger *slog.Logger
}

// Install lets a client speak by this package. A client whose protocol is not the one this package knows, AWS JSON 1.1, stays as it is.
func Install(client *kinesis.Options, o Options) {
	if client.Protocol == nil || client.Protocol.ID().Name != "awsJson1_1" {
		return
	}
	p := &protocol{ClientProtocol: client.Protocol, log: o.Logger}
	client.Protocol = p
	if o.CBOR {
		client.APIOptions = append(client.APIOptions, p.negotiate)
	}
}

// protocol is the SDK's AWS JSON 1.1 with GetRecords and PutRecords done here. The answers that look as the service writes them are decoded
// here, all others by the SDK.
type protocol struct {
	smithyhttp.ClientProtocol
	log   *slog.Logger
	terms terms
}

// SerializeRequest implements smithyhttp.ClientProtocol.
func (p *protocol) SerializeRequest(ctx context.Context, schema *smithy.OperationSchema, in smithy.Serializable, req *smithyhttp.Request) error {
	var empty smithy.Serializable
	var body []byte
	call := callOf(ctx)
	switch in := in.(type) {
	case *kinesis.PutRecordsInput:
		switch empty = new(kinesis.PutRecordsInput); {
		case call.cbor:
			body = putCBOR(in)
		case in.DryRun == nil && in.StreamId == nil:
			body = putBody(in)
		}
	case *kinesis.GetRecordsInput:
		if empty = new(kinesis.GetRecordsInput); call.cbor {
			body = getCBOR(in)
		}
	}
	if body == nil {
		return p.ClientProtocol.SerializeRequest(ctx, schema, in, req)
	}
	if err := p.ClientProtocol.SerializeRequest(ctx, schema, empty, req); err != nil { // all but the body
		return err
	}
	stream, err := req.SetStream(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("the body of %s: %w", schema.ID().Name, err)
	}
	if call.cbor {
		stream.Header.Set("Content-Type", cborType)
	}
	*req = *stream
	return nil
}

// DeserializeResponse implements smithyhttp.ClientProtocol.
func (p *protocol) DeserializeResponse(
	ctx context.Context, schema *smithy.OperationSchema, registry *smithy.TypeRegistry, resp *smithyhttp.Response, out smithy.Deserializable,
) error {
	switch out.(type) {
	case *kinesis.GetRecordsOutput, *kinesis.PutRecordsOutput:
	default:
		return p.ClientProtocol.DeserializeResponse(ctx, schema, registry, resp, out)
	}
	buffer, err := readBody(resp)
	if err != nil {
		return err
	}
	defer putBack(buffer)
	body, binary := *buffer, isCBOR(callOf(ctx), resp, *buffer)
	if resp.StatusCode == http.StatusOK && decode(body, binary, out) {
		return nil
	}
	if binary {
		if body, err = toJSON(body); err != nil {
			return &smithy.DeserializationError{Err: err}
		}
	}
	if err := bearable(body); err != nil {
		return &smithy.DeserializationError{Err: err}
	}
	return p.theirs(ctx, schema, registry, resp, body, out)
}

// decode makes an answer of a body that looks as the service writes it. If it returns false, nothing was done.
func decode(body []byte, binary bool, out smithy.Deserializable) bool {
	switch out := out.(type) {
	case *kinesis.GetRecordsOutput:
		p := newPage()
		defer p.putBack()
		return p.find(body, binary) && p.fill(body, out)
	case *kinesis.PutRecordsOutput:
		p := newReceipt()
		defer p.putBack()
		return p.find(body, binary) && p.fill(body, out)
	}
	return false
}

func (p *page) find(body []byte, binary bool) bool {
	if binary {
		return p.cbor(body)
	}
	return p.json(body)
}

func (p *receipt) find(body []byte, binary bool) bool {
	if binary {
		return p.cbor(body)
	}
	return p.json(body)
}

// theirs lets the SDK decode an answer whose body has been read.
func (p *protocol) theirs(
	ctx context.Context, schema *smithy.OperationSchema, registry *smithy.TypeRegistry, resp *smithyhttp.Response, body []byte, out smithy.Deserializable,
) (err error) {
	original := resp.Body
	resp.Body = io.NopCloser(bytes.NewReader(body))
	defer func() {
		resp.Body = original
		if r := recover(); r != nil { // such as over a time that is "NaN"
			err = &smithy.DeserializationError{Err: fmt.Errorf("the SDK can't take the answer: %v", r)}
		}
	}()
	return p.ClientProtocol.DeserializeResponse(ctx, schema, registry, resp, out)
}

const cborType = "application/x-amz-cbor-1.1"

// isCBOR reports whether an answer is in CBOR: as it says, else as it looks.
func isCBOR(call call, resp *smithyhttp.Response, body []byte) bool {
	said := resp.Header.Get("Content-Type")
	if said == "" {
		return call.cbor && len(body) > 0 && body[0]>>5 == majorMap
	}
	return strings.Contains(said, "cbor")
}
