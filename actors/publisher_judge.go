package actors

import (
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"

	"github.com/protokinesis/protokinesis/messages"
)

// fate is what became of an entry of a request.
type fate uint8

const (
	fateStored fate = iota
	// fateRefused: its shard takes no more just now. Again, at the shard's pace.
	fateRefused
	// fateFailed: again, after a pause.
	fateFailed
	// fateLost: trying again can't help.
	fateLost
	// fateApart: an aggregated record that the service does not take. Its user records are tried one by one.
	fateApart
)

// judgement is what an answer says of a request as a whole.
type judgement struct {
	stored  int // entries
	refused bool
	// whole: the request failed as a whole; then pause is the first pause before another, of any records.
	whole bool
	pause time.Duration
	// unknown: it may have been carried out all the same.
	unknown bool
	// halve: one of its entries is at fault. Find it, and store the others.
	halve bool
	// gone: there is no such stream.
	gone bool
}

// judge decides what became of each entry, and of the request. worked: the service has stored something before. It is pure.
func judge(entries []putEntry, out *kinesis.PutRecordsOutput, err error, worked bool) judgement {
	if err == nil && len(out.Records) != len(entries) {
		err = fmt.Errorf("PutRecords answered %d entries for %d", len(out.Records), len(entries))
	}
	if err != nil {
		return judgeWhole(entries, err, worked)
	}
	var j judgement
	var last *entryError
	for i := range entries {
		e, answer := &entries[i], &out.Records[i]
		code := aws.ToString(answer.ErrorCode)
		if code == "" && aws.ToString(answer.SequenceNumber) != "" {
			e.fate, e.shard, e.sequence = fateStored, aws.ToString(answer.ShardId), aws.ToString(answer.SequenceNumber)
			j.stored++
			continue
		}
		e.fate, e.unknown = fateFailed, code == ""
		if kind, known := failureByCode[code]; known && kind == failureThrottled {
			e.fate, j.refused = fateRefused, true
		} else if known && kind.lasting() {
			e.fate = fateLost
		}
		if last == nil || !last.is(answer) { // the errors of a request are mostly the same
			last = &entryError{code: code, message: aws.ToString(answer.ErrorMessage)}
		}
		e.cause = last
	}
	return j
}

func judgeWhole(entries []putEntry, err error, worked bool) judgement {
	kind := classify(err)
	j := judgement{whole: true, pause: publishRetryFirst, gone: kind == failureNotFound}
	how := fateFailed
	switch {
	case kind == failureInvalid && len(entries) > 1:
		return judgement{halve: true}
	case kind == failureInvalid && entries[0].bundle != nil:
		how, j.whole = fateApart, false
	case kind == failureConfig && worked: // an endpoint or a source of credentials is away for a while
	case kind.lasting():
		how, j.whole = fateLost, false
	case kind == failureThrottled:
		j.pause = publishThrottled
	default:
		j.unknown = !refused(err)
	}
	for i := range entries {
		entries[i].fate, entries[i].cause = how, err
	}
	return j
}

// publishFailure is what the sender of a record that is given up is told.
func publishFailure(stream string, r *outgoing) *Error {
	e := &Error{
		Kind: messages.ErrorKind_ERROR_KIND_PUBLISH, Stream: stream, Cause: r.cause, OutcomeUnknown: r.unknown,
		Text: fmt.Sprintf("not stored after %d tries", r.failures),
	}
	if r.failures == 0 {
		e.Text = "not sent before its deadline"
		e.Advice = "the service is slow, or many records of one key wait for each other"
		return e
	}
	switch kind := classify(r.cause); {
	case kind == failureConfig || kind == failureCredentials:
		e.Kind, e.Advice = messages.ErrorKind_ERROR_KIND_CONFIG, "check the credentials, the region and the endpoint"
	case kind == failureThrottled:
		e.Advice = "the stream takes no more: give it more shards, or spread the keys"
		if r.queue != nil && r.queue.lane != nil {
			e.Shard = r.queue.lane.shard.id
		}
	}
	return e
}

// entryError is the error of one entry of a PutRecords; it is a smithy.APIError like that of a whole call.
type entryError struct {
	code, message string
}

func (e *entryError) is(answer *types.PutRecordsResultEntry) bool {
	return e.code == aws.ToString(answer.ErrorCode) && e.message == aws.ToString(answer.ErrorMessage)
}

func (e *entryError) Error() string {
	if e.code == "" {
		return "PutRecords answered neither a sequence number nor an error code"
	}
	return e.code + ": " + e.message
}

func (e *entryError) ErrorCode() string    { return e.code }
func (e *entryError) ErrorMessage() string { return e.message }

// ErrorFault implements smithy.APIError.
func (e *entryError) ErrorFault() smithy.ErrorFault { return smithy.FaultUnknown }
