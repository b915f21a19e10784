package dynamodb

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Attributes as the Kinesis Client Library (KCL) 3.5 names and types them.
const (
	attrKey           = "leaseKey"                     // S
	attrOwner         = "leaseOwner"                   // S, absent if free; the next owner while a handoff is pending
	attrHandoffOwner  = "checkpointOwner"              // S, the owner while a handoff is pending, absent otherwise
	attrCounter       = "leaseCounter"                 // N
	attrCheckpoint    = "checkpoint"                   // S
	attrSub           = "checkpointSubSequenceNumber"  // N
	attrSwitches      = "ownerSwitchesSinceCheckpoint" // N
	attrPending       = "pendingCheckpoint"            // S
	attrPendingSub    = "pendingCheckpointSubSequenceNumber"
	attrPendingState  = "pendingCheckpointState"
	attrParents       = "parentShardId" // SS
	attrStreamName    = "streamName"    // S, of multi-stream leases
	attrShard         = "shardId"       // S, of multi-stream leases
	attrEntity        = "entityType"    // S
	attrStreamID      = "streamId"      // S, of stream rows
	attrUpdated       = "lut"           // N, epoch seconds, of workers' rows
	attrLeader        = "ownerName"     // these four are the leader's
	attrLeaderVersion = "recordVersionNumber"
	attrLeaderPeriod  = "leaseDuration"
	attrLeaderGone    = "isReleased"
)

// Attributes of ours; their prefix is nobody else's.
const (
	ownExact       = "protokinesisCheckpoint"  // S: the exact checkpoint, where KCL's words can not say it
	ownSeek        = "protokinesisSeek"        // N: Lease.Seek, StreamState.Seek
	ownStream      = "protokinesisStream"      // S: StreamID.String
	ownWritten     = "protokinesisWritten"     // S: <unix ms>@<leaseCounter>, for people
	ownApplication = "protokinesisApplication" // S: whose row it is, if Application is used

	ownVersion = "protokinesisVersion" // N: StreamState's
	ownStart   = "protokinesisStart"   // S
	ownTip     = "protokinesisTip"     // BOOL

	ownBeat       = "protokinesisBeat"    // N: Member's
	ownLeaving    = "protokinesisLeaving" // BOOL
	ownStreams    = "protokinesisStreams" // L of S: StreamID.String
	ownAddress    = "protokinesisAddress" // S
	ownBroker     = "protokinesisBroker"  // S
	ownSystem     = "protokinesisSystem"  // S
	ownPeriod     = "protokinesisPeriod"  // N: milliseconds
	ownAllStreams = "protokinesisAllStreams"
)

// Values of entityType.
const (
	entityLease  = "LEASE"
	entityStream = "STREAM"
	entityMember = "WORKER_METRIC_STATS"
	entityLeader = "LEADER"
)

// item is a row as the service has it.
type item map[string]types.AttributeValue

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

func flag(b bool) types.AttributeValue { return &types.AttributeValueMemberBOOL{Value: b} }

// text is the value of an S attribute; absent is "".
func (i item) text(name string) (string, error) {
	switch v := i[name].(type) {
	case nil:
		return "", nil
	case *types.AttributeValueMemberS:
		return v.Value, nil
	default:
		return "", fmt.Errorf("%s is %T, not a string", name, v)
	}
}

// digits is the value of an N attribute as it is written; absent is "".
func (i item) digits(name string) (string, error) {
	switch v := i[name].(type) {
	case nil:
		return "", nil
	case *types.AttributeValueMemberN:
		return v.Value, nil
	default:
		return "", fmt.Errorf("%s is %T, not a number", name, v)
	}
}

// number is the value of an N attribute; absent is 0.
func (i item) number(name string) (int64, error) {
	digits, err := i.digits(name)
	if err != nil || digits == "" {
		return 0, err
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return n, nil
}

// flag is the value of a BOOL attribute; absent is false.
func (i item) flag(name string) (bool, error) {
	switch v := i[name].(type) {
	case nil:
		return false, nil
	case *types.AttributeValueMemberBOOL:
		return v.Value, nil
	default:
		return false, fmt.Errorf("%s is %T, not a boolean", name, v)
	}
}

// set is the value of an SS attribute, sorted; absent is nil.
func (i item) set(name string) ([]string, error) {
	switch v := i[name].(type) {
	case nil:
		return nil, nil
	case *types.AttributeValueMemberSS:
		return slices.Sorted(slices.Values(v.Value)), nil
	default:
		return nil, fmt.Errorf("%s is %T, not a set of strings", name, v)
	}
}

// list is the value of an L attribute of strings; absent is nil.
func (i item) list(name string) ([]string, error) {
	list, ok := i[name].(*types.AttributeValueMemberL)
	if !ok {
		if i[name] != nil {
			return nil, fmt.Errorf("%s is %T, not a list", name, i[name])
		}
		return nil, nil
	}
	var texts []string
	for _, v := range list.Value {
		s, ok := v.(*types.AttributeValueMemberS)
		if !ok {
			return nil, fmt.Errorf("%s has a %T in it, not strings only", name, v)
		}
		texts = append(texts, s.Value)
	}
	return texts, nil
}

// decoder reads attributes until one is not as it should be.
type decoder struct {
	item item
	err  error
}

func (d *decoder) text(name string) string   { return read(d, d.item.text, name) }
func (d *decoder) digits(name string) string { return read(d, d.item.digits, name) }
func (d *decoder) number(name string) int64  { return read(d, d.item.number, name) }
func (d *decoder) flag(name string) bool     { return read(d, d.item.flag, name) }
func (d *decoder) set(name string) []string  { return read(d, d.item.set, name) }
func (d *decoder) list(name string) []string { return read(d, d.item.list, name) }

func read[T any](d *decoder, get func(string) (T, error), name string) T {
	value, err := get(name)
	if d.err == nil {
		d.err = err
	}
	return value
}

func digits(n string) types.AttributeValue { return &types.AttributeValueMemberN{Value: n} }

// distinct are the texts as a set has them.
func distinct(texts []string) []string { return slices.Compact(slices.Sorted(slices.Values(texts))) }
