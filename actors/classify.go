package actors

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
)

// failure is what a reader or coordinator makes of an error of the service. One function decides it, and
// only by errors.As and codes: errors arrive wrapped by the SDK.
type failure uint8

const (
	// failureTransient: 5xx, resets, garbage, anything not known to be otherwise. Same call again, exponential backoff.
	failureTransient failure = iota
	// failureThrottled: too many calls or bytes. Same call again after a second or more; not an error.
	failureThrottled
	// failureExpired: the iterator is older than five minutes. Open a new one.
	failureExpired
	// failureInvalid: the service refuses an argument: a broken iterator, or a sequence number that is not of this shard.
	failureInvalid
	// failureNotFound: the stream or shard is gone.
	failureNotFound
	// failureDenied: permission or key trouble that a person must solve. Say so once, try again slowly.
	failureDenied
	// failureConfig: credentials, region or endpoint do not work.
	failureConfig
	// failureCredentials: they have expired. They are fetched anew, see refresh, so the same call again.
	failureCredentials
	// failureTimeout: the call's own deadline passed.
	failureTimeout
)

// Codes from the Kinesis API reference ("Errors" of GetRecords, GetShardIterator, ListShards, PutRecords) and the
// common AWS errors.
var failureByCode = map[string]failure{
	"ProvisionedThroughputExceededException": failureThrottled,
	"LimitExceededException":                 failureThrottled,
	"KMSThrottlingException":                 failureThrottled,
	"Throttling":                             failureThrottled,
	"ThrottlingException":                    failureThrottled,
	"RequestLimitExceeded":                   failureThrottled,
	"TooManyRequestsException":               failureThrottled,
	"ExpiredIteratorException":               failureExpired,
	"InvalidArgumentException":               failureInvalid,
	"ValidationException":                    failureInvalid,
	"ResourceNotFoundException":              failureNotFound,
	"AccessDeniedException":                  failureDenied,
	"KMSAccessDeniedException":               failureDenied,
	"KMSDisabledException":                   failureDenied,
	"KMSInvalidStateException":               failureDenied,
	"KMSNotFoundException":                   failureDenied,
	"KMSOptInRequired":                       failureDenied,
	"OptInRequired":                          failureDenied,
	"ExpiredTokenException":                  failureCredentials,
	"ExpiredToken":                           failureCredentials,
	"UnrecognizedClientException":            failureConfig,
	"InvalidSignatureException":              failureConfig,
	"IncompleteSignatureException":           failureConfig,
	"InvalidClientTokenId":                   failureConfig,
	"MissingAuthenticationTokenException":    failureConfig,
	"SignatureDoesNotMatch":                  failureConfig,
}

// classify decides what kind of failure err is.
func classify(err error) failure {
	if err == nil {
		return failureTransient
	}
	if _, ok := errors.AsType[smithy.APIError](err); ok {
		return failureByCode[codeOf(err)] // what is not in the table is transient
	}
	if _, ok := errors.AsType[smithy.InvalidParamsError](err); ok {
		return failureInvalid // the SDK refuses it before sending
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return failureTimeout
	}
	if isConfiguration(err) {
		return failureConfig
	}
	return failureTransient
}

// codeOf is the service's error code within err without its namespace, or "".
func codeOf(err error) string {
	code := awsCode(err)
	return code[strings.LastIndexByte(code, '#')+1:]
}

// isConfiguration recognises what the SDK says before it reaches a service: no credentials, no
// region, a host that does not exist, a connection that is refused. What passes by itself, such as a name server that does not
// answer, is not the configuration's fault.
func isConfiguration(err error) bool {
	var missingRegion *aws.MissingRegionError
	var dns *net.DNSError
	switch {
	case errors.As(err, &missingRegion), errors.Is(err, syscall.ECONNREFUSED):
		return true
	case errors.As(err, &dns):
		return dns.IsNotFound
	}
	text := err.Error()
	return strings.Contains(text, "failed to refresh cached credentials") ||
		strings.Contains(text, "get credentials:") ||
		strings.Contains(text, "Invalid Configuration: Missing Region")
}

// lasting reports whether repeating the call soon can't help.
func (f failure) lasting() bool {
	switch f {
	case failureInvalid, failureNotFound, failureDenied, failureConfig:
		return true
	case failureTransient, failureThrottled, failureExpired, failureTimeout, failureCredentials:
		return false
	default:
		return false
	}
}

// refused reports whether the service answered that it has not done what was asked, and will not: nothing of it was carried out.
func refused(err error) bool {
	response, ok := errors.AsType[*awshttp.ResponseError](err)
	return ok && response.HTTPStatusCode() >= http.StatusBadRequest && response.HTTPStatusCode() < http.StatusInternalServerError
}
