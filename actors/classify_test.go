package actors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/stretchr/testify/require"
)

// wrappings are the ways in which the SDK hands an error out (G4).
var wrappings = map[string]func(err error) error{
	"as it is":  func(err error) error { return err },
	"operation": func(err error) error { return operationError(err) },
	"response": func(err error) error {
		return operationError(&awshttp.ResponseError{
			ResponseError: &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: &http.Response{StatusCode: http.StatusBadRequest}}, Err: err},
			RequestID:     "id",
		})
	},
	"retries": func(err error) error { return operationError(&awsretry.MaxAttemptsError{Attempt: 3, Err: err}) },
	"ours":    func(err error) error { return readError("stream", "shard", "reading", operationError(err)) },
	"twice":   func(err error) error { return fmt.Errorf("outer: %w", fmt.Errorf("inner: %w", operationError(err))) },
	"joined":  func(err error) error { return errors.Join(errors.New("another"), operationError(err)) },
}

func operationError(err error) error {
	return &smithy.OperationError{ServiceID: "Kinesis", OperationName: "GetRecords", Err: err}
}

func genericError(code string) error { return &smithy.GenericAPIError{Code: code, Message: "message"} }

// G4: each kind of failure, however the SDK wraps it.
func TestClassify(t *testing.T) {
	for _, c := range []struct {
		err  error
		want failure
	}{
		// The types of the SDK.
		{&types.ProvisionedThroughputExceededException{}, failureThrottled},
		{&types.LimitExceededException{}, failureThrottled}, // G8
		{&types.KMSThrottlingException{}, failureThrottled},
		{&types.ExpiredIteratorException{}, failureExpired},
		{&types.InvalidArgumentException{}, failureInvalid},
		{&types.ValidationException{}, failureInvalid},
		{&types.ResourceNotFoundException{}, failureNotFound},
		{&types.AccessDeniedException{}, failureDenied},
		{&types.KMSAccessDeniedException{}, failureDenied}, // G13
		{&types.KMSDisabledException{}, failureDenied},
		{&types.KMSInvalidStateException{}, failureDenied},
		{&types.KMSNotFoundException{}, failureDenied},
		{&types.KMSOptInRequired{}, failureDenied},
		{&types.InternalFailureException{}, failureTransient},

		// Codes, with and without a namespace (G15).
		{genericError("ProvisionedThroughputExceededException"), failureThrottled},
		{genericError("com.amazonaws.kinesis.v20131202#ExpiredIteratorException"), failureExpired},
		{genericError("com.amazonaws.kinesis.v20131202#ProvisionedThroughputExceededException"), failureThrottled},
		{genericError("com.amazon.coral.service#UnrecognizedClientException"), failureConfig},
		{genericError("ThrottlingException"), failureThrottled},
		{genericError("Throttling"), failureThrottled},
		{genericError("RequestLimitExceeded"), failureThrottled},
		{genericError("TooManyRequestsException"), failureThrottled},
		{genericError("UnrecognizedClientException"), failureConfig},
		{genericError("InvalidSignatureException"), failureConfig},
		{genericError("IncompleteSignatureException"), failureConfig},
		{genericError("InvalidClientTokenId"), failureConfig},
		{genericError("MissingAuthenticationTokenException"), failureConfig},
		{genericError("SignatureDoesNotMatch"), failureConfig},
		{genericError("InternalFailure"), failureTransient},
		{genericError("ServiceUnavailable"), failureTransient},
		{genericError("SomethingNew"), failureTransient},
		{genericError("NamedLike#"), failureTransient},
		{genericError(""), failureTransient},
		{&entryError{code: "ProvisionedThroughputExceededException"}, failureThrottled},
		{&entryError{code: "InternalFailure"}, failureTransient},

		// The end of a context.
		{context.DeadlineExceeded, failureTimeout},
		{&smithy.CanceledError{Err: context.DeadlineExceeded}, failureTimeout},
		{&aws.RequestCanceledError{Err: context.DeadlineExceeded}, failureTimeout},
		{&url.Error{Op: "Post", URL: "https://kinesis", Err: context.DeadlineExceeded}, failureTimeout},
		{context.Canceled, failureTransient},
		{&smithy.CanceledError{Err: context.Canceled}, failureTransient},

		// The network (G9, G10).
		{io.ErrUnexpectedEOF, failureTransient},
		{&net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, failureTransient},
		{&net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)}, failureTransient},
		{&net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}, failureTransient},
		{&smithy.DeserializationError{Err: errors.New("garbage")}, failureTransient},
		{&net.DNSError{Err: "no such host", Name: "kinesis", IsNotFound: true}, failureConfig},
		{&net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, failureConfig},
		{&aws.MissingRegionError{}, failureConfig},
		{errors.New("get identity: get credentials: failed to refresh cached credentials, no EC2 IMDS role found"), failureConfig},
		{errors.New("anything else"), failureTransient},
	} {
		for name, wrap := range wrappings {
			err := wrap(c.err)
			require.Equal(t, c.want, classify(err), "%s: %v", name, err)
		}
	}
	require.Equal(t, failureTransient, classify(nil))
}

// What passes by itself is not the configuration's fault: a publisher would fail its records at once, and a
// reader would wait as for a person to act.
func TestOutagesOfTheNetworkPass(t *testing.T) {
	for name, err := range map[string]error{
		"name server busy":    &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "server misbehaving", Name: "kinesis", IsTemporary: true}},
		"name server silent":  &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "i/o timeout", Name: "kinesis", IsTimeout: true}},
		"connect timed out":   &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ETIMEDOUT)},
		"no route for now":    &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)},
		"out of file handles": &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", syscall.EMFILE)},
	} {
		t.Run(name, func(t *testing.T) {
			require.False(t, classify(operationError(err)).lasting(), "%v", err)
		})
	}
}

func TestLasting(t *testing.T) {
	for f, want := range map[failure]bool{
		failureTransient: false, failureThrottled: false, failureExpired: false, failureTimeout: false,
		failureInvalid: true, failureNotFound: true, failureDenied: true, failureConfig: true, failure(99): false,
	} {
		require.Equal(t, want, f.lasting(), "%d", f)
	}
}

// What the SDK says by itself, without any service.
func TestClassifyWhatTheSDKSays(t *testing.T) {
	static := credentials.NewStaticCredentialsProvider("test", "test", "")
	broken := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{}, errors.New("no role found")
	})
	answering := func(err error) aws.HTTPClient {
		return smithyhttp.ClientDoFunc(func(*http.Request) (*http.Response, error) { return nil, err })
	}
	for name, c := range map[string]struct {
		cfg  aws.Config
		want failure
	}{
		"no region":       {aws.Config{Credentials: static}, failureConfig},
		"no credentials":  {aws.Config{Region: "eu-west-1", Credentials: broken, HTTPClient: answering(io.EOF)}, failureConfig},
		"cached and none": {aws.Config{Region: "eu-west-1", Credentials: aws.NewCredentialsCache(broken), HTTPClient: answering(io.EOF)}, failureConfig},
		"reset":           {aws.Config{Region: "eu-west-1", Credentials: static, HTTPClient: answering(syscall.ECONNRESET)}, failureTransient},
		"deadline":        {aws.Config{Region: "eu-west-1", Credentials: static, HTTPClient: answering(context.DeadlineExceeded)}, failureTimeout},
		"host not found":  {aws.Config{Region: "eu-west-1", Credentials: static, HTTPClient: answering(&net.DNSError{Err: "no such host", IsNotFound: true})}, failureConfig},
	} {
		t.Run(name, func(t *testing.T) {
			client := NewClients(c.cfg).Data
			_, err := client.GetRecords(t.Context(), &kinesis.GetRecordsInput{ShardIterator: aws.String("iterator")})
			require.Error(t, err)
			require.Equal(t, c.want, classify(err), "%v", err)
		})
	}
}
