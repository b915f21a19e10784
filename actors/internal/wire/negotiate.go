package wire

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// terms are what is known of a service's CBOR.
type terms struct {
	state  atomic.Int32
	broken atomic.Int32 // answers in a row that were none
}

const (
	unproven int32 = iota
	taken          // an answer in CBOR has come: what fails from now on fails for another reason
	refused        // JSON from now on
)

// call is one call of the client, which may be made twice.
type call struct{ cbor bool }

type callKey struct{}

func callOf(ctx context.Context) call {
	c, _ := ctx.Value(callKey{}).(call)
	return c
}

// negotiate adds the choice of the format to a client.
func (p *protocol) negotiate(stack *middleware.Stack) error {
	return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("WireFormat", p.speak), middleware.Before)
}

// speak makes a call in CBOR, and again in JSON if the service does not know what to do with it. That is found out from the first calls, and
// settled by the first that succeeds in CBOR, or that does not in CBOR and is understood in JSON.
func (p *protocol) speak(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (
	middleware.InitializeOutput, middleware.Metadata, error,
) {
	if p.terms.state.Load() == refused || !spoken(in.Parameters) {
		return next.HandleInitialize(ctx, in)
	}
	out, metadata, err := next.HandleInitialize(context.WithValue(ctx, callKey{}, call{cbor: true}), in)
	switch {
	case err == nil:
		p.terms.state.CompareAndSwap(unproven, taken)
		if p.terms.broken.Load() > 0 {
			p.terms.broken.Store(0)
		}
		return out, metadata, nil
	case errors.Is(err, errCBOR):
		if p.terms.broken.Add(1) >= mostBroken {
			p.refuse(err)
		}
		if reads(in.Parameters) {
			return next.HandleInitialize(ctx, in)
		}
		return out, metadata, err // the records may be stored
	case p.terms.state.Load() == taken || !foreign(err, reads(in.Parameters)):
		return out, metadata, err
	}
	again, metadata, errAgain := next.HandleInitialize(ctx, in)
	if understood(errAgain) {
		p.refuse(err)
	}
	return again, metadata, errAgain
}

// mostBroken is how many answers in a row may say that they are CBOR and not be: emulators cut long ones off, all others are an accident.
const mostBroken = 3

func (p *protocol) refuse(err error) {
	if p.terms.state.Swap(refused) != refused && p.log != nil {
		p.log.Warn("the Kinesis service does not take CBOR; JSON is used from now on", slog.Any("error", err))
	}
}

// spoken reports whether a call is one of those made in CBOR.
func spoken(parameters any) bool {
	switch parameters.(type) {
	case *kinesis.GetRecordsInput, *kinesis.PutRecordsInput:
		return true
	}
	return false
}

func reads(parameters any) bool {
	_, ok := parameters.(*kinesis.GetRecordsInput)
	return ok
}

// understood reports whether a call came so far that the service knew what was asked.
func understood(err error) bool {
	var answer *smithyhttp.ResponseError
	return err == nil || errors.As(err, &answer) && answer.HTTPStatusCode() != 0 && !foreign(err, true) // 0: no answer came
}

// foreign reports whether a service answered as those do that don't know CBOR: it names no error of its own, or that it doesn't know the
// operation or can't read the request. One that breaks down over it (5xx) may have done what was asked, so that only a read is tried again.
func foreign(err error, read bool) bool {
	var answer *smithyhttp.ResponseError
	if !errors.As(err, &answer) {
		return false
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		switch api.ErrorCode() {
		case "SerializationException", "UnknownOperationException", "UnknownError", "UnsupportedMediaTypeException":
		default:
			return false
		}
	}
	switch status := answer.HTTPStatusCode(); status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusUnsupportedMediaType,
		http.StatusNotImplemented:
		return true
	default:
		return read && status >= http.StatusInternalServerError
	}
}
