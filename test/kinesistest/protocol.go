package kinesistest

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	targetPrefix = "Kinesis_20131202."
	maxBody      = 64 << 20
)

// request is a parsed request of one operation.
type request interface {
	// describe fills in what the call log and the faults need to know, before anything is done.
	describe(s *Service, call *Call)
	// run does the work and returns the answer: nil for an empty one, a renderer, a streamer or a
	// struct for the codec.
	run(x *exchange) (any, *apiError)
}

// renderer is an answer that encodes itself.
type renderer interface {
	parts(c *codec) ([][]byte, error)
}

// streamer is an answer that goes on for as long as the client listens.
type streamer interface {
	stream(x *exchange)
}

// operation is one entry of the API.
type operation struct {
	parse func(c *codec, body []byte) (request, error)
}

// plain makes an operation whose request goes through the codec's general decoder.
func plain(empty func() request) operation {
	return operation{parse: func(c *codec, body []byte) (request, error) {
		r := empty()
		return r, c.decode(body, r)
	}}
}

// exchange is one call being served.
type exchange struct {
	svc   *Service
	w     http.ResponseWriter
	r     *http.Request
	codec *codec
	id    string
	now   time.Time
	call  Call
	fault plan
}

// bodies recycles the memory requests are read into.
var bodies = sync.Pool{New: func() any { return new([]byte) }}

// ServeHTTP implements [net/http.Handler].
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{svc: s, w: w, r: r, now: s.clock.Now()}
	x.id = requestID(s.requests.Add(1))
	x.codec = codecFor(r.Header.Get("Content-Type"))
	if r.URL.Path == "/healthz" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		x.write(http.StatusOK, nil)
		return
	}
	buf, _ := bodies.Get().(*[]byte)
	defer bodies.Put(buf)
	// The body is read to its end whatever the answer is: answering early would break the client's write.
	if err := readBody(r, buf); err != nil {
		x.fail(failf(codeSerialization, "The request body cannot be read: %v", err))
		return
	}
	x.dispatch(*buf) //nolint:contextcheck // the exchange carries the request and its context
}

func readBody(r *http.Request, buf *[]byte) error {
	if r.ContentLength > maxBody {
		return fmt.Errorf("%d bytes are too many", r.ContentLength)
	}
	b := (*buf)[:0]
	if n := int(r.ContentLength); n > cap(b) {
		b = make([]byte, 0, n)
	}
	for {
		if len(b) == cap(b) {
			if int64(len(b)) == r.ContentLength {
				break
			}
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if len(b) > maxBody {
			return fmt.Errorf("more than %d bytes", maxBody)
		}
	}
	*buf = b
	return nil
}

// dispatch finds the operation and serves it.
func (x *exchange) dispatch(body []byte) {
	if fail := x.authenticate(); fail != nil {
		x.fail(fail)
		return
	}
	name, ok := strings.CutPrefix(x.r.Header.Get("X-Amz-Target"), targetPrefix)
	op, known := operations[name]
	if !ok || !known || x.r.Method != http.MethodPost {
		x.fail(failf(codeUnknownOperation, "The operation %q is not known.", x.r.Header.Get("X-Amz-Target")))
		return
	}
	x.call = Call{Time: x.now, Op: name}
	req, err := op.parse(x.codec, body)
	if err != nil {
		x.finish(nil, failf(codeSerialization, "The request cannot be parsed: %v", err))
		return
	}
	req.describe(x.svc, &x.call)
	x.fault = x.svc.faults.plan(name, &x.call, req)
	if x.fault.kind != effectNone {
		x.call.Fault = effectNames[x.fault.kind]
	}
	if x.fault.wait > 0 && !sleep(x.r.Context(), x.svc.closing, x.fault.wait) {
		return
	}
	x.serve(req)
}

// authenticate turns away what Kinesis would not even look at. Signatures are not checked.
func (x *exchange) authenticate() *apiError {
	header := x.r.Header.Get("Authorization")
	if header == "" {
		return failf(codeMissingToken, "Missing Authentication Token")
	}
	if strings.Contains(header, "Credential=AKIDBAD") {
		return failf(codeUnrecognizedClient, "The security token included in the request is invalid.")
	}
	return nil
}

// serve lets the planned fault act, and runs the request if there is none or it acts later.
func (x *exchange) serve(req request) {
	switch x.fault.kind {
	case effectError:
		x.finish(nil, &apiError{code: x.fault.code, message: x.fault.message})
		return
	case effectReset:
		x.log(nil)
		x.reset()
		return
	case effectHang:
		x.log(nil)
		x.hang()
		return
	case effectBody:
		x.log(nil)
		x.write(x.fault.status, [][]byte{x.fault.body})
		return
	case effectNone, effectDelay, effectResetMidBody, effectHangMidBody, effectPartial, effectStoredThenReset, effectEmptyPage, effectNullIterator:
	}
	if x.svc.cfg.limits {
		if fail := x.svc.rates.allow(&x.call, x.now.UnixMilli()); fail != nil {
			x.finish(nil, fail)
			return
		}
	}
	answer, fail := req.run(x)
	x.finish(answer, fail)
}

// log records the call.
func (x *exchange) log(fail *apiError) {
	if fail != nil {
		x.call.ErrorCode = fail.code
	}
	x.svc.calls.add(&x.call)
}

// finish logs and sends the answer.
func (x *exchange) finish(answer any, fail *apiError) {
	x.log(fail)
	if x.fault.kind == effectStoredThenReset {
		x.reset()
		return
	}
	if fail != nil {
		x.fail(fail)
		return
	}
	if stream, ok := answer.(streamer); ok {
		stream.stream(x)
		return
	}
	parts, err := x.render(answer)
	if err != nil {
		x.fail(failf(codeInternalFailure, "The answer cannot be encoded: %v", err))
		return
	}
	x.write(http.StatusOK, parts)
}

func (x *exchange) render(answer any) ([][]byte, error) {
	switch a := answer.(type) {
	case nil:
		return nil, nil
	case renderer:
		return a.parts(x.codec)
	default:
		b, err := x.codec.encode(a)
		return [][]byte{b}, err
	}
}
