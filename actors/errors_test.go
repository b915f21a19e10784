package actors

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

var sentinels = map[messages.ErrorKind]*Error{
	messages.ErrorKind_ERROR_KIND_INVALID:       ErrInvalid,
	messages.ErrorKind_ERROR_KIND_CONFIG:        ErrConfig,
	messages.ErrorKind_ERROR_KIND_STREAM:        ErrStream,
	messages.ErrorKind_ERROR_KIND_READ:          ErrRead,
	messages.ErrorKind_ERROR_KIND_PUBLISH:       ErrPublish,
	messages.ErrorKind_ERROR_KIND_LEASE:         ErrLease,
	messages.ErrorKind_ERROR_KIND_NOT_CONNECTED: ErrNotConnected,
	messages.ErrorKind_ERROR_KIND_OVERLOADED:    ErrOverloaded,
	messages.ErrorKind_ERROR_KIND_TIMEOUT:       ErrTimeout,
}

// Every kind matches its own sentinel and no other: as it is, wrapped, and after a journey as a message.
func TestErrorsMatchTheirSentinelOnly(t *testing.T) {
	require.Len(t, sentinels, len(messages.ErrorKind_name)-1, "one for each kind but UNSPECIFIED")
	for kind := range messages.ErrorKind_name {
		full := &Error{
			Kind: messages.ErrorKind(kind), Stream: "stream", Shard: "shard", Field: "field", Text: "text", Advice: "advice",
			Cause: errors.New("cause"), OutcomeUnknown: true,
		}
		for name, err := range map[string]error{
			"bare": &Error{Kind: messages.ErrorKind(kind)}, "full": full, "wrapped": fmt.Errorf("outer: %w", full),
			"joined": errors.Join(errors.New("another"), full), "sent": FromMessage(full.Message(3)),
		} {
			for other, sentinel := range sentinels {
				require.Equal(t, messages.ErrorKind(kind) == other, errors.Is(err, sentinel), "%s %v and %v", name, messages.ErrorKind(kind), other)
			}
			require.Equal(t, messages.ErrorKind(kind) == messages.ErrorKind_ERROR_KIND_TIMEOUT, errors.Is(err, context.DeadlineExceeded), name)
			require.NotErrorIs(t, err, context.Canceled)
			var own *Error
			require.ErrorAs(t, err, &own)
			require.Equal(t, messages.ErrorKind(kind), own.Kind)
		}
	}
}

func TestAnErrorMatchesItselfAndNoOtherOfItsKind(t *testing.T) {
	a := &Error{Kind: messages.ErrorKind_ERROR_KIND_READ, Shard: "a"}
	b := &Error{Kind: messages.ErrorKind_ERROR_KIND_READ, Shard: "b"}
	require.ErrorIs(t, fmt.Errorf("outer: %w", a), a)
	require.NotErrorIs(t, a, b)
	require.NotErrorIs(t, ErrRead, a)
}

func TestErrorUnwrapsItsCause(t *testing.T) {
	cause := &types.ResourceNotFoundException{}
	err := streamError("orders", "the stream can't be described", operationError(cause))
	require.ErrorIs(t, err, ErrStream)
	require.ErrorIs(t, err, cause)
	var notFound *types.ResourceNotFoundException
	require.ErrorAs(t, err, &notFound)

	deadline := streamError("orders", "describing", operationError(context.DeadlineExceeded))
	require.ErrorIs(t, deadline, ErrTimeout)
	require.ErrorIs(t, deadline, context.DeadlineExceeded)

	read := &Error{Kind: messages.ErrorKind_ERROR_KIND_READ, Cause: context.DeadlineExceeded}
	require.ErrorIs(t, read, context.DeadlineExceeded, "a cause is found in any kind")
	require.NotErrorIs(t, read, ErrTimeout)
}

func TestKindsOfFailedCalls(t *testing.T) {
	for name, c := range map[string]struct {
		err          error
		stream, read *Error
	}{
		"missing":    {&types.ResourceNotFoundException{}, ErrStream, ErrRead},
		"denied":     {&types.AccessDeniedException{}, ErrStream, ErrRead},
		"throttled":  {&types.LimitExceededException{}, ErrStream, ErrRead},
		"signature":  {genericError("InvalidSignatureException"), ErrConfig, ErrConfig},
		"deadline":   {context.DeadlineExceeded, ErrTimeout, ErrTimeout},
		"own":        {&Error{Kind: messages.ErrorKind_ERROR_KIND_OVERLOADED}, ErrOverloaded, ErrOverloaded},
		"own stream": {&Error{Kind: messages.ErrorKind_ERROR_KIND_STREAM}, ErrStream, ErrRead},
		"none":       {nil, ErrStream, ErrRead},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, streamError("orders", "doing", c.err), c.stream)
			require.ErrorIs(t, readError("orders", "shard", "doing", c.err), c.read)
			require.Equal(t, "shard", readError("orders", "shard", "doing", c.err).Shard)
		})
	}
	lease := leaseError(leasestore.Key{Shard: "shard"}, "orders", "renewing", leasestore.ErrFenced)
	require.ErrorIs(t, lease, ErrLease)
	require.ErrorIs(t, lease, leasestore.ErrFenced)
	require.Equal(t, "shard", lease.Shard)
}

// readError says something more of an error; it does not write into one that others hold, which may be a sentinel.
func TestReadErrorLeavesItsCauseAsItIs(t *testing.T) {
	own := &Error{Kind: messages.ErrorKind_ERROR_KIND_STREAM, Advice: "advice"}
	before := *own
	require.Equal(t, "shard", readError("orders", "shard", "doing", fmt.Errorf("outer: %w", own)).Shard)
	require.Equal(t, before, *own)
}

func TestErrorText(t *testing.T) {
	for want, e := range map[string]*Error{
		"error":           {},
		"invalid":         ErrInvalid,
		"configuration":   ErrConfig,
		"stream":          ErrStream,
		"read":            ErrRead,
		"publish":         ErrPublish,
		"lease":           ErrLease,
		"not connected":   ErrNotConnected,
		"overloaded":      ErrOverloaded,
		"timeout":         ErrTimeout,
		"error: new kind": {Kind: 99, Text: "new kind"},
		`read: stream "orders": shard: field: text: cause (advice)`: {
			Kind: messages.ErrorKind_ERROR_KIND_READ, Stream: "orders", Shard: "shard", Field: "field", Text: "text",
			Advice: "advice", Cause: errors.New("cause"),
		},
	} {
		require.Equal(t, want, e.Error())
	}
}

// What a message can say arrives.
func TestErrorMessageRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{"", "some text"})
		e := &Error{
			Kind:   messages.ErrorKind(rapid.Int32Range(0, 10).Draw(t, "kind")),
			Stream: text.Draw(t, "stream"), Shard: text.Draw(t, "shard"), Field: text.Draw(t, "field"), Text: text.Draw(t, "text"),
			Advice: text.Draw(t, "advice"), OutcomeUnknown: rapid.Bool().Draw(t, "unknown"),
		}
		code := ""
		switch rapid.IntRange(0, 2).Draw(t, "cause") {
		case 1:
			e.Cause = errors.New("a cause")
		case 2:
			code = "ExpiredIteratorException"
			e.Cause = operationError(&types.ExpiredIteratorException{Message: new("too old")})
		}
		correlation := rapid.Uint64().Draw(t, "correlation")
		m := e.Message(correlation)
		require.Equal(t, correlation, m.GetCorrelation())
		require.Equal(t, code, m.GetAwsCode())
		wire, err := proto.Marshal(m)
		require.NoError(t, err)
		received := &messages.Error{}
		require.NoError(t, proto.Unmarshal(wire, received))

		back := FromMessage(received)
		want, got := *e, *back
		want.Cause, got.Cause = nil, nil
		require.Equal(t, want, got)
		require.Equal(t, e.Cause == nil, back.Cause == nil)
		if e.Cause != nil {
			require.Contains(t, back.Cause.Error(), e.Cause.Error())
		}
		require.Equal(t, code, back.Message(0).GetAwsCode(), "the code travels on")
		require.Equal(t, classify(e), classify(back), "and with it what to do")
	})
}

// What others put into their errors may be any bytes; a message that has such can't be sent to another node, and whoever asked would wait in vain.
func TestErrorsOfAnyBytesCanBeSent(t *testing.T) {
	for _, cause := range []error{
		errors.New("garbage: \xff\xfe"), errors.New(strings.Repeat("ä", maxCauseText)), errors.New(strings.Repeat("x", maxCauseText) + "\xff"),
		&smithy.GenericAPIError{Code: "Code\xff", Message: "\xff"},
	} {
		m := leaseError(leasestore.Key{Shard: "shard"}, "stream", "it is written: "+cause.Error(), cause).Message(3)
		wire, err := proto.Marshal(m)
		require.NoError(t, err)
		require.NoError(t, proto.Unmarshal(wire, &messages.Error{}))
	}
}

func TestReceivedErrorHasTheServicesCode(t *testing.T) {
	err := FromMessage(&messages.Error{Kind: messages.ErrorKind_ERROR_KIND_STREAM, AwsCode: "ResourceNotFoundException", Cause: "no such stream"})
	var api smithy.APIError
	require.ErrorAs(t, err, &api)
	require.Equal(t, "ResourceNotFoundException", api.ErrorCode())
	require.NoError(t, FromMessage(&messages.Error{}).Cause)
	require.NoError(t, errors.Unwrap(FromMessage(nil)), "nothing at all")
}

func TestNotConnectedSaysWhy(t *testing.T) {
	texts := make(map[string]bool)
	for state := range messages.BrokerState_name {
		e := notConnected(messages.BrokerState(state))
		require.ErrorIs(t, e, ErrNotConnected)
		require.NotEmpty(t, e.Text)
		texts[e.Text] = true
	}
	require.Len(t, texts, 3, "not yet, no longer, closed")
}
