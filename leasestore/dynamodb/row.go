package dynamodb

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/protokinesis/protokinesis/leasestore"
)

// leaseRow is a lease as it is stored. What a write depends on is taken from it.
type leaseRow struct {
	lease    leasestore.Lease // without Key; Counter 0 when there is no row
	position position
	recorded string // the stream it says it is of, "" if it does not say
	written  string
}

// The table's leaseCounter is one less than Lease.Counter: KCL begins at 0, which means "no row" to us.
func storedCounter(counter int64) int64 { return counter - 1 }

// decodeLease reads a lease row.
//
// A pending handoff, KCL's or ours, has checkpointOwner: that is who owns the lease until the handoff is done, and leaseOwner is who comes next.
func decodeLease(i item) (leaseRow, error) {
	d := decoder{item: i}
	row := leaseRow{position: d.position(), recorded: d.text(ownStream), written: d.text(ownWritten)}
	owner, handoff := d.text(attrOwner), d.text(attrHandoffOwner)
	row.lease = leasestore.Lease{Owner: owner, Counter: d.number(attrCounter), Seek: d.number(ownSeek), Parents: d.set(attrParents)}
	if handoff != "" {
		row.lease.Owner, row.lease.Next = handoff, owner
	}
	if row.lease.Next == row.lease.Owner {
		row.lease.Next = ""
	}
	var err error
	if row.lease.Checkpoint, err = row.position.decode(); d.err == nil {
		d.err = err
	}
	switch entity := d.text(attrEntity); {
	case d.err != nil:
	case entity != "" && entity != entityLease:
		d.err = fmt.Errorf("%s is %q, not %s", attrEntity, entity, entityLease)
	case i[attrCounter] == nil:
		d.err = errors.New("it has no " + attrCounter)
	case row.lease.Counter < 0, row.lease.Counter == math.MaxInt64:
		d.err = fmt.Errorf("%s is %d", attrCounter, row.lease.Counter)
	}
	row.lease.Counter++
	return row, d.err
}

// believed is the row that a caller's lease makes one expect.
func believed(lease leasestore.Lease) leaseRow {
	return leaseRow{lease: lease, position: encodeCheckpoint(lease.Checkpoint)}
}

// of is the row as a lease of that key.
func (r leaseRow) of(key leasestore.Key) leasestore.Lease {
	lease := r.lease
	lease.Key = key
	return lease
}

// isOf reports whether the row can be of that stream.
func (r leaseRow) isOf(stream leasestore.StreamID) bool {
	return r.recorded == "" || r.recorded == stream.String()
}

// stamp is what ownWritten holds after a write at now that left the counter at counter.
func stamp(now time.Time, counter int64) string {
	return strconv.FormatInt(now.UnixMilli(), 10) + "@" + strconv.FormatInt(storedCounter(counter), 10)
}

// date is when the row was last written, if whoever wrote it last was one of us.
func (r leaseRow) date() (time.Time, bool) {
	ms, counter, _ := strings.Cut(r.written, "@")
	at, err := strconv.ParseInt(ms, 10, 64)
	if err != nil || counter != strconv.FormatInt(storedCounter(r.lease.Counter), 10) {
		return time.Time{}, false
	}
	return time.UnixMilli(at), true
}

// parseStreamID is the reverse of StreamID.String.
func parseStreamID(s string) (leasestore.StreamID, error) {
	at := strings.LastIndexByte(s, '@')
	if at < 0 {
		return leasestore.StreamID{}, fmt.Errorf("%q is no stream: it has no creation time", s)
	}
	millis, err := strconv.ParseInt(s[at+1:], 10, 64)
	if err != nil {
		return leasestore.StreamID{}, fmt.Errorf("%q is no stream: %w", s, err)
	}
	return leasestore.StreamID{Name: s[:at], CreatedMillis: millis}, nil
}
