package leasestore

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Kind says what a Checkpoint holds.
type Kind uint8

const (
	// KindNone is the zero Checkpoint: nothing is stored, the shard starts where its start policy says.
	KindNone Kind = iota
	// KindTrimHorizon is the oldest record the stream still retains.
	KindTrimHorizon
	// KindTimestamp is the first record that arrived at or after an instant. It is also how a shard opened at
	// the tip is stored: LATEST means another place every time it is asked for, an instant does not.
	KindTimestamp
	// KindBefore is a record that a seek named: it is the next one to be read.
	KindBefore
	// KindSequence is a record: all up to and including it is settled.
	KindSequence
	// KindShardEnd means that the shard is closed and every record of it settled.
	KindShardEnd
)

// Checkpoint is a position in a shard as it is stored: a sum type, so that a sentinel can never be
// taken for a sequence number. The zero value is "nothing stored". Checkpoints are comparable with ==.
type Checkpoint struct {
	kind     Kind
	sequence string
	sub      uint64
	millis   int64
}

// Clone is c with a text of its own. The sequence number of a record that was read is a part of the texts of its page, and keeps all of them.
func (c Checkpoint) Clone() Checkpoint {
	c.sequence = strings.Clone(c.sequence)
	return c
}

// TrimHorizon is the position before the oldest retained record.
func TrimHorizon() Checkpoint { return Checkpoint{kind: KindTrimHorizon} }

// AtTimestamp is the position before the first record that arrived at or after t (millisecond resolution).
func AtTimestamp(t time.Time) Checkpoint {
	return Checkpoint{kind: KindTimestamp, millis: t.UnixMilli()}
}

// AtSequence is the position of a settled record; sub is its index within an aggregated record, 0 otherwise.
func AtSequence(sequence string, sub uint64) Checkpoint {
	return Checkpoint{kind: KindSequence, sequence: sequence, sub: sub}
}

// Before is the position just before a record, as a seek to its sequence number gives it; sub is the
// record's index within an aggregated record, 0 otherwise.
func Before(sequence string, sub uint64) Checkpoint {
	return Checkpoint{kind: KindBefore, sequence: sequence, sub: sub}
}

// ShardEnd is the position behind the last record of a closed shard.
func ShardEnd() Checkpoint { return Checkpoint{kind: KindShardEnd} }

// Kind says what the checkpoint holds.
func (c Checkpoint) Kind() Kind { return c.kind }

// IsZero reports whether nothing is stored.
func (c Checkpoint) IsZero() bool { return c.kind == KindNone }

// IsShardEnd reports whether the shard is finished.
func (c Checkpoint) IsShardEnd() bool { return c.kind == KindShardEnd }

// Sequence returns the sequence number and sub-sequence number of a KindSequence or KindBefore checkpoint.
func (c Checkpoint) Sequence() (sequence string, sub uint64) { return c.sequence, c.sub }

// Time returns the instant of a KindTimestamp checkpoint.
func (c Checkpoint) Time() time.Time { return time.UnixMilli(c.millis) }

// Compare orders checkpoints by how far they are into the shard: none, then the start sentinels
// (TRIM_HORIZON, timestamps), then sequence numbers as numbers (just before a record comes before it), then SHARD_END.
func (c Checkpoint) Compare(other Checkpoint) int {
	if c.isRecord() && other.isRecord() {
		return cmp.Or(
			CompareSequence(c.sequence, other.sequence),
			cmp.Compare(c.sub, other.sub),
			cmp.Compare(c.kind, other.kind),
		)
	}
	return cmp.Or(cmp.Compare(c.kind, other.kind), cmp.Compare(c.millis, other.millis))
}

func (c Checkpoint) isRecord() bool { return c.kind == KindBefore || c.kind == KindSequence }

// Sentinels as they are written; the words are KCL's.
const (
	textTrimHorizon = "TRIM_HORIZON"
	textTimestamp   = "AT_TIMESTAMP"
	textShardEnd    = "SHARD_END"
	textBefore      = "<"
)

// String is the checkpoint as it is stored and shown: "" (none), TRIM_HORIZON, AT_TIMESTAMP@<unix ms>,
// <sequence>, <sequence>:<sub> when sub is not 0 (with "<" in front for just before it), or SHARD_END. ParseCheckpoint reads it back.
func (c Checkpoint) String() string {
	switch c.kind {
	case KindNone:
		return ""
	case KindTrimHorizon:
		return textTrimHorizon
	case KindTimestamp:
		return textTimestamp + "@" + strconv.FormatInt(c.millis, 10)
	case KindBefore:
		return textBefore + c.record()
	case KindSequence:
		return c.record()
	case KindShardEnd:
		return textShardEnd
	default:
		return "unknown"
	}
}

func (c Checkpoint) record() string {
	if c.sub == 0 {
		return c.sequence
	}
	return c.sequence + ":" + strconv.FormatUint(c.sub, 10)
}

// ParseCheckpoint reads what String wrote. Anything else is an error that quotes it, never a guess.
func ParseCheckpoint(s string) (Checkpoint, error) {
	switch {
	case s == "":
		return Checkpoint{}, nil
	case s == textTrimHorizon:
		return TrimHorizon(), nil
	case s == textShardEnd:
		return ShardEnd(), nil
	}
	if ms, ok := strings.CutPrefix(s, textTimestamp+"@"); ok {
		n, err := strconv.ParseInt(ms, 10, 64)
		if err != nil {
			return Checkpoint{}, fmt.Errorf("checkpoint %q: the instant is not a number of milliseconds: %w", s, err)
		}
		return Checkpoint{kind: KindTimestamp, millis: n}, nil
	}
	record, before := strings.CutPrefix(s, textBefore)
	sequence, subText, hasSub := strings.Cut(record, ":")
	if !ValidSequence(sequence) {
		return Checkpoint{}, fmt.Errorf("checkpoint %q: neither a sequence number nor a known sentinel", s)
	}
	var sub uint64
	if hasSub {
		n, err := strconv.ParseUint(subText, 10, 64)
		if err != nil {
			return Checkpoint{}, fmt.Errorf("checkpoint %q: the sub-sequence number is not a number: %w", s, err)
		}
		sub = n
	}
	if before {
		return Before(sequence, sub), nil
	}
	return AtSequence(sequence, sub), nil
}
