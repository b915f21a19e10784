package kinesistest

import (
	"fmt"
	"net/http"

	"github.com/aws/smithy-go"
)

var _ smithy.APIError = (*apiError)(nil)

// Error codes of Amazon Kinesis that the service answers with; they serve [Error] and [Partial] too.
const (
	codeExpiredIterator    = "ExpiredIteratorException"
	codeExpiredNextToken   = "ExpiredNextTokenException"
	codeInternalFailure    = "InternalFailure"
	codeInvalidArgument    = "InvalidArgumentException"
	codeLimitExceeded      = "LimitExceededException"
	codeMissingToken       = "MissingAuthenticationTokenException"
	codeResourceInUse      = "ResourceInUseException"
	codeResourceNotFound   = "ResourceNotFoundException"
	codeSerialization      = "SerializationException"
	codeThroughputExceeded = "ProvisionedThroughputExceededException"
	codeUnknownOperation   = "UnknownOperationException"
	codeUnrecognizedClient = "UnrecognizedClientException"
	codeValidation         = "ValidationException"
	codeDryRun             = "DryRunOperationException"
)

// apiError is an answer other than 200.
type apiError struct {
	code    string
	message string
}

func (e *apiError) Error() string { return e.code + ": " + e.message }

// ErrorCode, ErrorMessage and ErrorFault make the error a [smithy.APIError], like those of the SDK.
func (e *apiError) ErrorCode() string { return e.code }

func (e *apiError) ErrorMessage() string { return e.message }

func (e *apiError) ErrorFault() smithy.ErrorFault {
	if e.status() == http.StatusBadRequest {
		return smithy.FaultClient
	}
	return smithy.FaultServer
}

// status is the HTTP status that goes with the code: everything is the client's fault except the
// failures that name the service.
func (e *apiError) status() int {
	switch e.code {
	case codeInternalFailure, "InternalFailureException", "InternalServerError", "InternalServerException":
		return http.StatusInternalServerError
	case "ServiceUnavailable", "ServiceUnavailableException":
		return http.StatusServiceUnavailable
	default:
		return http.StatusBadRequest
	}
}

func failf(code, format string, args ...any) *apiError {
	return &apiError{code: code, message: fmt.Sprintf(format, args...)}
}

func invalidArgument(format string, args ...any) *apiError {
	return failf(codeInvalidArgument, format, args...)
}

func validation(format string, args ...any) *apiError {
	return failf(codeValidation, "1 validation error detected: "+format, args...)
}

func notFound(format string, args ...any) *apiError {
	return failf(codeResourceNotFound, format, args...)
}

func inUse(format string, args ...any) *apiError {
	return failf(codeResourceInUse, format, args...)
}

var errDryRun = &apiError{code: codeDryRun, message: "Request would have succeeded, but DryRun was set."}
