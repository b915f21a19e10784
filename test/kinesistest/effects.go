package kinesistest

import (
	"slices"
	"time"
)

type effectKind int

const (
	effectNone effectKind = iota
	effectError
	effectDelay
	effectReset
	effectResetMidBody
	effectHang
	effectHangMidBody
	effectBody
	effectPartial
	effectStoredThenReset
	effectEmptyPage
	effectNullIterator
)

var effectNames = map[effectKind]string{
	effectError: "error", effectDelay: "delay", effectReset: "reset", effectResetMidBody: "reset mid body",
	effectHang: "hang", effectHangMidBody: "hang mid body", effectBody: "body", effectPartial: "partial", effectStoredThenReset: "stored then reset",
	effectEmptyPage: "empty page", effectNullIterator: "null iterator",
}

// Effect is what a fault does to a call; make one with the functions of this package that return it.
type Effect struct {
	kind    effectKind
	code    string
	message string
	delay   time.Duration
	status  int
	body    []byte
	indexes []int
	every   int
}

// Error answers with an error code such as "ProvisionedThroughputExceededException" and does nothing
// else. The HTTP status follows the code: 500 for InternalFailure, 503 for ServiceUnavailable, 400
// for all others.
func Error(code, message string) Effect {
	return Effect{kind: effectError, code: code, message: message}
}

// ExpireIterator answers GetRecords with ExpiredIteratorException, however young the iterator is.
func ExpireIterator() Effect { return Error(codeExpiredIterator, "Iterator expired.") }

// Delay holds the call for d of real time before it is served. Other faults that match the call
// still take effect afterwards.
func Delay(d time.Duration) Effect { return Effect{kind: effectDelay, delay: d} }

// Reset breaks the connection before anything is done or answered.
func Reset() Effect { return Effect{kind: effectReset} }

// ResetMidBody serves the call but breaks the connection after half of the answer's body.
func ResetMidBody() Effect { return Effect{kind: effectResetMidBody} }

// StoredThenReset serves the call, so that its records are stored, and breaks the connection instead
// of answering.
func StoredThenReset() Effect { return Effect{kind: effectStoredThenReset} }

// Hang does nothing and never answers: the call ends when the client gives up or the service closes.
func Hang() Effect { return Effect{kind: effectHang} }

// HangMidBody serves the call, answers with half of the body and never with the rest: the call ends when the client gives up or the service closes.
func HangMidBody() Effect { return Effect{kind: effectHangMidBody} }

// Body answers with this HTTP status and body, which may be garbage, and does nothing else.
func Body(status int, body []byte) Effect {
	return Effect{kind: effectBody, status: status, body: slices.Clone(body)}
}

// Partial makes PutRecords fail the entries with these indexes, all if none is given, with an error
// code; they are not stored. Of the entries only those count that fit the fault's [Match].
func Partial(code string, indexes ...int) Effect {
	return Effect{kind: effectPartial, code: code, indexes: slices.Clone(indexes)}
}

// PartialEvery makes PutRecords fail every k-th entry of those that fit the fault's [Match], starting
// with the k-th; they are not stored.
func PartialEvery(code string, k int) Effect {
	return Effect{kind: effectPartial, code: code, every: max(k, 1)}
}

// EmptyPage makes GetRecords answer without records and with an iterator for the same position, as
// Kinesis does now and then for shards that do have records.
func EmptyPage() Effect { return Effect{kind: effectEmptyPage} }

// NullIterator makes GetRecords answer with records but with neither a next iterator nor child
// shards, which is what an answer looks like that must not be taken for the end of the shard.
func NullIterator() Effect { return Effect{kind: effectNullIterator} }

// fits reports whether the effect means anything to the operation.
func (e *Effect) fits(op string) bool {
	switch e.kind {
	case effectPartial:
		return op == "PutRecords"
	case effectEmptyPage, effectNullIterator:
		return op == "GetRecords"
	case effectNone, effectError, effectDelay, effectReset, effectResetMidBody, effectHang, effectHangMidBody, effectBody, effectStoredThenReset:
		return true
	default:
		return true
	}
}
