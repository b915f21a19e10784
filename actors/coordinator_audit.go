package actors

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

const (
	// auditAgain is the pause before a listing that lacks something is asked for again.
	auditAgain = 900 * time.Millisecond
	// auditGrace is how often that is done before it is believed.
	auditGrace = 3
)

// auditState is how long something has been missing from the listings.
type auditState struct {
	// lacking counts the listings in a row that lacked something: holeKey, or a shard that was lost.
	lacking map[string]int
	told    map[string]bool
	// absent counts the listings in a row that lacked a shard whose children wait for it. Unlike lacking, holes do not matter: they may stay.
	absent map[string]int
	// whole counts the listings in a row that lacked nothing.
	whole int
	// retiredTo is the last shard whose lease was to be removed; the next turn begins after it.
	retiredTo string
}

// holeKey stands for hash keys without a shard; no shard has this name.
const holeKey = ""

// doubtful: the next listing that has a hole, too, is believed.
func (st *auditState) doubtful() bool { return st.lacking[holeKey] >= auditGrace && !st.told[holeKey] }

// audit looks for what a complete listing lacks. What is missing is listed again soon; what stays missing is told once.
func (co *coordinator) audit(c actor.Context, m scanned) {
	l := newLineage(nil, nil, co.state, false)
	l.leases = co.rows
	decisions, missed := make(map[string]decision, len(co.shards)), false
	for id, s := range co.shards {
		l.shards[id], decisions[id] = s.shard, s.decision
		missed = missed || s.missed == 1
	}
	f := l.audit(decisions)
	lacking, st := make(map[string]int), &co.audits
	if len(f.holes) > 0 {
		lacking[holeKey] = st.lacking[holeKey] + 1
	} else if st.told[holeKey] {
		delete(st.told, holeKey)
		co.log().Info("all hash keys have a shard again")
	}
	for _, lease := range f.lost {
		lacking[lease.Shard] = st.lacking[lease.Shard] + 1
	}
	st.lacking = lacking
	for id := range st.told {
		_, listed := l.shards[id]
		if _, stored := co.rows[id]; id != holeKey && (listed || !stored) {
			delete(st.told, id)
		}
	}
	doubted, believed := st.countAbsent(l)
	missed = missed || doubted
	for _, n := range lacking {
		missed = missed || n <= auditGrace
	}
	if missed {
		co.listDue = true
		co.soon(spread(auditAgain))
	}
	if missed || !m.listed || !f.whole() {
		st.whole = 0
	} else if st.whole++; st.whole >= retireAfter {
		co.retire(l)
	}
	if lacking[holeKey] > auditGrace && !m.updating {
		co.tellMissing(c, holeKey, co.holeError(f.holes))
	}
	for _, lease := range f.lost {
		if lacking[lease.Shard] > auditGrace {
			co.tellMissing(c, lease.Shard, co.lostError(lease))
		}
	}
	if believed {
		co.reconcile(c) // the children start now
	}
}

// countAbsent counts the listings in a row that lacked a parent which is leased and not finished. It reports whether there is one that may
// only have been left out by mistake, and whether it is believed of one by now that it is gone.
func (st *auditState) countAbsent(l *lineage) (doubted, believed bool) {
	absent := make(map[string]int)
	for _, s := range l.shards {
		for _, parent := range s.parents {
			_, listed := l.shards[parent]
			row, leased := l.leases[parent]
			if listed || !leased || row.Seek != l.state.Seek || row.Checkpoint.IsShardEnd() || absent[parent] > 0 {
				continue
			}
			absent[parent] = st.absent[parent] + 1
			doubted = doubted || absent[parent] <= auditGrace
			believed = believed || absent[parent] == auditGrace+1
		}
	}
	st.absent = absent
	return doubted, believed
}

// isAbsent: the row is of a shard that is not listed and may be all the same. That is believed to be gone when it was missing from a few
// listings in a row and nobody reads it.
func (co *coordinator) isAbsent(row leasestore.Lease, now time.Time) bool {
	if row.Seek != co.state.Seek || row.Checkpoint.IsShardEnd() {
		return false
	}
	return co.audits.absent[row.Shard] <= auditGrace || !co.observer.Free(row, now)
}

func (co *coordinator) tellMissing(c actor.Context, key string, e *Error) {
	if co.audits.told[key] {
		return
	}
	co.audits.told[key] = true
	co.log().Warn(e.Text, slog.String("shard", e.Shard))
	co.tell(c, e, false)
}

func (co *coordinator) holeError(holes []keyRange) *Error {
	text := "no shard is listed for the hash keys " + holes[0].String()
	if len(holes) > 1 {
		text += fmt.Sprintf(", and for %d ranges more", len(holes)-1)
	}
	return &Error{
		Kind: messages.ErrorKind_ERROR_KIND_READ, Stream: co.how.stream.spelling, Text: text,
		Advice: "records with these keys are read once a listing shows their shard; the library goes on listing",
	}
}

// lostError says which shard was trimmed away before it was read to its end. For its children it counts as finished.
func (co *coordinator) lostError(lease leasestore.Lease) *Error {
	return &Error{
		Kind: messages.ErrorKind_ERROR_KIND_READ, Stream: co.how.stream.spelling, Shard: lease.Shard,
		Text:   fmt.Sprintf("the shard is listed no more and was not read to its end (checkpoint %s): its last records may be lost", lease.Checkpoint),
		Advice: "its children are read; lengthen the stream's retention if consumers may stand still for as long",
	}
}

// isUpdating reports whether the stream is being resharded.
func isUpdating(out *kinesis.DescribeStreamSummaryOutput) bool {
	return out.StreamDescriptionSummary.StreamStatus == types.StreamStatusUpdating
}
