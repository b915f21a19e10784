package dynamodb

import (
	"fmt"
	"strconv"

	"github.com/protokinesis/protokinesis/leasestore"
)

// KCL's sentinels. LATEST is never written: it means another place every time it is asked for.
const (
	wordTrimHorizon = "TRIM_HORIZON"
	wordTimestamp   = "AT_TIMESTAMP"
	wordLatest      = "LATEST"
	wordShardEnd    = "SHARD_END"
)

// position is a checkpoint as its three attributes are; an absent one is "".
//
//	Checkpoint          checkpoint    ...SubSequenceNumber   protokinesisCheckpoint
//	none                –             0                      –
//	TRIM_HORIZON        TRIM_HORIZON  0                      –
//	an instant          AT_TIMESTAMP  0                      AT_TIMESTAMP@<ms>
//	before (n, 0)       TRIM_HORIZON  0                      <n
//	before (n, sub)     n             sub-1                  <n:sub
//	record (n, sub)     n             sub                    –
//	SHARD_END           SHARD_END     0                      –
//
// A KCL worker that takes over does not see the last column: it starts an instant at its own initial position, and repeats records rather than
// losing any. The last column holds only as long as the others are what we wrote with it.
type position struct{ checkpoint, sub, exact string }

func encodeCheckpoint(c leasestore.Checkpoint) position {
	sequence, sub := c.Sequence()
	switch c.Kind() {
	case leasestore.KindTrimHorizon:
		return position{checkpoint: wordTrimHorizon, sub: "0"}
	case leasestore.KindTimestamp:
		return position{checkpoint: wordTimestamp, sub: "0", exact: c.String()}
	case leasestore.KindBefore:
		if sub == 0 {
			return position{checkpoint: wordTrimHorizon, sub: "0", exact: c.String()}
		}
		return position{checkpoint: sequence, sub: strconv.FormatUint(sub-1, 10), exact: c.String()}
	case leasestore.KindSequence:
		return position{checkpoint: sequence, sub: strconv.FormatUint(sub, 10)}
	case leasestore.KindShardEnd:
		return position{checkpoint: wordShardEnd, sub: "0"}
	case leasestore.KindNone:
		return position{sub: "0"}
	}
	return position{sub: "0"}
}

// decode reads a position, whoever wrote it. What says no more than "as the application is configured" is no checkpoint.
func (p position) decode() (leasestore.Checkpoint, error) {
	if p.exact != "" {
		if c, err := leasestore.ParseCheckpoint(p.exact); err == nil && encodeCheckpoint(c) == p {
			return c, nil
		}
	}
	switch p.checkpoint {
	case "", wordLatest, wordTimestamp:
		return leasestore.Checkpoint{}, nil
	case wordTrimHorizon:
		return leasestore.TrimHorizon(), nil
	case wordShardEnd:
		return leasestore.ShardEnd(), nil
	}
	if !leasestore.ValidSequence(p.checkpoint) {
		return leasestore.Checkpoint{}, fmt.Errorf("%s %q is neither a sequence number nor a known sentinel", attrCheckpoint, p.checkpoint)
	}
	if p.sub == "" {
		return leasestore.AtSequence(p.checkpoint, 0), nil
	}
	sub, err := strconv.ParseUint(p.sub, 10, 64)
	if err != nil {
		return leasestore.Checkpoint{}, fmt.Errorf("%s: %w", attrSub, err)
	}
	return leasestore.AtSequence(p.checkpoint, sub), nil
}

func (d *decoder) position() position {
	return position{checkpoint: d.text(attrCheckpoint), sub: d.digits(attrSub), exact: d.text(ownExact)}
}
