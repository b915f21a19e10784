// Package published checks what the senders of records were told against what the service has stored.
//
// It is pure and knows nothing of the library: aggregated records are taken apart, and hash keys compared, by others' code or by its own.
package published

import (
	"bytes"
	"crypto/md5" //nolint:gosec // the service's hash
	"fmt"
	"math/big"

	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/awslabs/kinesis-aggregation/go/v2/deaggregator"
)

// Stored is a record as the service has it.
type Stored struct {
	Shard, Sequence, PartitionKey string
	Data                          []byte
}

// Shard is the hash keys of a shard, in decimal, both ends inclusive.
type Shard struct{ First, Last string }

// Told is what the sender of a record was told.
type Told struct {
	// PartitionKey and Data are what was sent. No two records have the same data.
	PartitionKey string
	Data         []byte
	// Stored: it is, at this place.
	Stored          bool
	Shard, Sequence string
	Sub             uint64
	Duplicate       bool // maybe more than once
	// Unknown: it is not stored, or that is not known.
	Unknown bool
}

// Report is what Check has found.
type Report struct {
	Faults []string
	// Stored, Failed and Unknown are the records by what was told of them; Twice those that were stored more than once.
	Stored, Failed, Unknown, Twice int
	// Aggregated are the records of the service that have user records within.
	Aggregated int
}

const maxFaults = 20

func (r *Report) fault(format string, args ...any) {
	if len(r.Faults) < maxFaults {
		r.Faults = append(r.Faults, fmt.Sprintf(format, args...))
	}
}

// place is where a user record is.
type place struct {
	shard, sequence string
	sub             uint64
	astray          bool // it does not belong to the shard, or another of its aggregated record does not: some readers drop it
}

// Check compares. The stored records are in the order in which they were stored, the told ones of each key in the order in which they were sent.
//
// Nothing is lost or made up; nothing is said to be stored where it is not, or where readers do not look for it, or once if it is so more often; nothing
// that is said not to be stored is; and, if ordered, the records of each key were first stored in the order in which they were sent, for any reader.
func Check(stored []Stored, shards map[string]Shard, told []Told, ordered bool) *Report {
	r := new(Report)
	places, order := r.places(stored, shards)
	last, lastSeen := make(map[string]int), make(map[string]int)
	for i := range told {
		t := &told[i]
		at := places[string(t.Data)]
		delete(places, string(t.Data))
		r.check(t, at)
		if len(at) == 0 {
			continue
		}
		if ordered {
			r.inOrder(t, last, order.first)
			r.inOrder(t, lastSeen, order.seen)
		}
	}
	for data := range places {
		r.fault("%q is stored and was never sent, or is stored with another key", data)
	}
	return r
}

func (r *Report) check(t *Told, at []place) {
	if len(at) > 1 {
		r.Twice++
	}
	switch {
	case !t.Stored && t.Unknown:
		r.Unknown++
	case !t.Stored:
		if r.Failed++; len(at) > 0 {
			r.fault("%q is said not to be stored, and is", t.Data)
		}
	default:
		r.Stored++
		if len(at) > 1 && !t.Duplicate {
			r.fault("%q is stored %d times, and was not said to be a possible duplicate", t.Data, len(at))
		}
		for _, p := range at {
			if p.shard == t.Shard && p.sequence == t.Sequence && p.sub == t.Sub {
				if p.astray {
					r.fault("%q is said to be stored in %s at %s, where not all readers find it", t.Data, p.shard, p.sequence)
				}
				return
			}
		}
		r.fault("%q is said to be stored in %s at %s (%d), and is at %v", t.Data, t.Shard, t.Sequence, t.Sub, at)
	}
}

// order numbers user records in the order in which they were first stored, and in which they were first so where every reader finds them.
type order struct{ first, seen map[string]int }

// inOrder looks whether a record comes after the last one of its key.
func (r *Report) inOrder(t *Told, last, order map[string]int) {
	at, any := order[string(t.Data)]
	if !any {
		return
	}
	if before, any := last[t.PartitionKey]; any && at < before {
		r.fault("%q of key %q was first stored before one that was sent earlier", t.Data, t.PartitionKey)
	}
	last[t.PartitionKey] = at
}

// places takes the stored records apart: where each user record is.
func (r *Report) places(stored []Stored, shards map[string]Shard) (map[string][]place, order) {
	places, o := make(map[string][]place), order{first: make(map[string]int), seen: make(map[string]int)}
	for i := range stored {
		s := &stored[i]
		users, err := deaggregator.DeaggregateRecords([]types.Record{{Data: s.Data, PartitionKey: &s.PartitionKey}})
		if err != nil {
			r.fault("the record of %s at %s can't be taken apart: %v", s.Shard, s.Sequence, err)
			continue
		}
		whole := len(users) == 1 && bytes.Equal(users[0].Data, s.Data)
		astray := false
		if !whole {
			r.Aggregated++
			for _, u := range users {
				astray = astray || !shards[s.Shard].holds(*u.PartitionKey)
			}
		}
		for sub, u := range users {
			data := string(u.Data)
			if key, _, _ := bytes.Cut(u.Data, []byte("#")); string(key) != *u.PartitionKey {
				r.fault("%q is stored with the key %q", data, *u.PartitionKey)
			}
			if _, known := o.first[data]; !known {
				o.first[data] = len(o.first)
			}
			if _, known := o.seen[data]; !known && !astray {
				o.seen[data] = len(o.seen)
			}
			places[data] = append(places[data], place{s.Shard, s.Sequence, uint64(sub), astray})
		}
	}
	return places, o
}

func (s Shard) holds(key string) bool {
	sum := md5.Sum([]byte(key)) //nolint:gosec // the service's hash
	hash := new(big.Int).SetBytes(sum[:])
	low, ok := new(big.Int).SetString(s.First, 10)
	high, alsoOK := new(big.Int).SetString(s.Last, 10)
	return ok && alsoOK && low.Cmp(hash) <= 0 && hash.Cmp(high) <= 0
}
