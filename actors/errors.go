package actors

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/smithy-go"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

// Sentinels, one per kind of failure, for errors.Is. They match every *Error of their kind, whether it was
// made here or came as a message from another node.
var (
	ErrInvalid      = &Error{Kind: messages.ErrorKind_ERROR_KIND_INVALID}
	ErrConfig       = &Error{Kind: messages.ErrorKind_ERROR_KIND_CONFIG}
	ErrStream       = &Error{Kind: messages.ErrorKind_ERROR_KIND_STREAM}
	ErrRead         = &Error{Kind: messages.ErrorKind_ERROR_KIND_READ}
	ErrPublish      = &Error{Kind: messages.ErrorKind_ERROR_KIND_PUBLISH}
	ErrLease        = &Error{Kind: messages.ErrorKind_ERROR_KIND_LEASE}
	ErrNotConnected = &Error{Kind: messages.ErrorKind_ERROR_KIND_NOT_CONNECTED}
	ErrOverloaded   = &Error{Kind: messages.ErrorKind_ERROR_KIND_OVERLOADED}
	ErrTimeout      = &Error{Kind: messages.ErrorKind_ERROR_KIND_TIMEOUT}
)

// Error is the Go form of messages.Error. It says which stream and shard it is about, what happened
// and what to do, and wraps its cause: errors.As finds the SDK's error in it.
type Error struct {
	// Kind is the row in the table of failures.
	Kind messages.ErrorKind
	// Stream and Shard are what it is about; empty when it is about none.
	Stream, Shard string
	// Field is the part of a request that is wrong (ErrInvalid).
	Field string
	// Text says what happened, Advice what to do about it.
	Text, Advice string
	// Cause is the error beneath; nil when there is none.
	Cause error
	// OutcomeUnknown: the request may have been carried out all the same.
	OutcomeUnknown bool
}

// Error is one line: kind, stream/shard, what happened, the cause, what to do.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(kindText(e.Kind))
	if e.Stream != "" {
		fmt.Fprintf(&b, ": stream %q", e.Stream)
	}
	if e.Shard != "" {
		fmt.Fprintf(&b, ": %s", e.Shard)
	}
	if e.Field != "" {
		fmt.Fprintf(&b, ": %s", e.Field)
	}
	if e.Text != "" {
		fmt.Fprintf(&b, ": %s", e.Text)
	}
	if e.Cause != nil {
		fmt.Fprintf(&b, ": %s", shortened(e.Cause.Error()))
	}
	if e.Advice != "" {
		fmt.Fprintf(&b, " (%s)", e.Advice)
	}
	return b.String()
}

// maxCauseText bounds what is logged and sent of a cause: a service, or what stands before it, can answer with megabytes.
const maxCauseText = 4 << 10

func shortened(text string) string {
	if len(text) <= maxCauseText {
		return sendable(text)
	}
	return strings.ToValidUTF8(text[:maxCauseText], "") + " …"
}

// sendable is a text that a message may have: one with other bytes than UTF-8 can't be sent to another node.
func sendable(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Is matches the sentinel of the same kind, and context.DeadlineExceeded for time-outs.
func (e *Error) Is(target error) bool {
	if e.Kind == messages.ErrorKind_ERROR_KIND_TIMEOUT && target == context.DeadlineExceeded {
		return true
	}
	var other *Error
	ok := errors.As(target, &other)
	return ok && other.isSentinel() && other.Kind == e.Kind
}

func (e *Error) isSentinel() bool {
	return *e == Error{Kind: e.Kind}
}

func kindText(k messages.ErrorKind) string {
	switch k {
	case messages.ErrorKind_ERROR_KIND_INVALID:
		return "invalid"
	case messages.ErrorKind_ERROR_KIND_CONFIG:
		return "configuration"
	case messages.ErrorKind_ERROR_KIND_STREAM:
		return "stream"
	case messages.ErrorKind_ERROR_KIND_READ:
		return "read"
	case messages.ErrorKind_ERROR_KIND_PUBLISH:
		return "publish"
	case messages.ErrorKind_ERROR_KIND_LEASE:
		return "lease"
	case messages.ErrorKind_ERROR_KIND_NOT_CONNECTED:
		return "not connected"
	case messages.ErrorKind_ERROR_KIND_OVERLOADED:
		return "overloaded"
	case messages.ErrorKind_ERROR_KIND_TIMEOUT:
		return "timeout"
	case messages.ErrorKind_ERROR_KIND_UNSPECIFIED:
		return "error"
	default:
		return "error"
	}
}

// Message is the error as it is sent.
func (e *Error) Message(correlation uint64) *messages.Error {
	m := &messages.Error{
		Kind: e.Kind, Stream: e.Stream, ShardId: e.Shard, Field: e.Field, Text: sendable(e.Text), Advice: e.Advice,
		OutcomeUnknown: e.OutcomeUnknown, Correlation: correlation,
	}
	if e.Cause != nil {
		m.Cause = shortened(e.Cause.Error())
		m.AwsCode = sendable(awsCode(e.Cause))
	}
	return m
}

// FromMessage is the Go form of a received error. The SDK's error does not travel; its code does, and is there again for
// errors.As as a smithy.APIError.
func FromMessage(m *messages.Error) *Error {
	e := &Error{
		Kind: m.GetKind(), Stream: m.GetStream(), Shard: m.GetShardId(), Field: m.GetField(), Text: m.GetText(),
		Advice: m.GetAdvice(), OutcomeUnknown: m.GetOutcomeUnknown(),
	}
	switch {
	case m.GetAwsCode() != "":
		e.Cause = &smithy.GenericAPIError{Code: m.GetAwsCode(), Message: m.GetCause()}
	case m.GetCause() != "":
		e.Cause = errors.New(m.GetCause())
	}
	return e
}

// awsCode is the service's error code within err, or "".
func awsCode(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}

func invalid(stream, field, format string, args ...any) *Error {
	return &Error{
		Kind: messages.ErrorKind_ERROR_KIND_INVALID, Stream: stream, Field: field, Text: fmt.Sprintf(format, args...),
	}
}

func notConnected(state messages.BrokerState) *Error {
	e := &Error{Kind: messages.ErrorKind_ERROR_KIND_NOT_CONNECTED}
	switch state {
	case messages.BrokerState_BROKER_STATE_CONFIGURED, messages.BrokerState_BROKER_STATE_CONNECTING:
		e.Text, e.Advice = "the broker is not connected yet", "send Connect and wait for Connected"
	case messages.BrokerState_BROKER_STATE_CLOSING:
		e.Text = "the broker is shutting down"
	case messages.BrokerState_BROKER_STATE_CLOSED, messages.BrokerState_BROKER_STATE_CONNECTED,
		messages.BrokerState_BROKER_STATE_UNSPECIFIED:
		e.Text = "the broker is closed"
	}
	return e
}

// streamError gives a failed control-plane call its kind: what is wrong with the set-up is ErrConfig, a time-out
// ErrTimeout, the rest is about the stream.
func streamError(stream, doing string, err error) *Error {
	if own, ok := errors.AsType[*Error](err); ok {
		return own
	}
	e := &Error{Kind: messages.ErrorKind_ERROR_KIND_STREAM, Stream: stream, Text: doing, Cause: err}
	switch classify(err) {
	case failureConfig, failureCredentials:
		e.Kind = messages.ErrorKind_ERROR_KIND_CONFIG
		e.Advice = "check the credentials, the region and the endpoint"
	case failureTimeout:
		e.Kind = messages.ErrorKind_ERROR_KIND_TIMEOUT
	case failureNotFound:
		e.Advice = "check the name and the region, or ask for create_if_missing"
	case failureThrottled, failureExpired, failureInvalid, failureDenied, failureTransient:
	}
	return e
}

func readError(stream, shard, doing string, err error) *Error {
	e := *streamError(stream, doing, err) // a copy: it may be one that others hold
	if e.Kind == messages.ErrorKind_ERROR_KIND_STREAM {
		e.Kind = messages.ErrorKind_ERROR_KIND_READ
		e.Advice = ""
	}
	e.Shard = shard
	return &e
}

func leaseError(key leasestore.Key, stream, doing string, err error) *Error {
	return &Error{
		Kind: messages.ErrorKind_ERROR_KIND_LEASE, Stream: stream, Shard: key.Shard, Text: doing, Cause: err,
		Advice: "check the lease store",
	}
}
