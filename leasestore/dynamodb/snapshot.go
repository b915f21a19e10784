package dynamodb

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/protokinesis/protokinesis/leasestore"
)

// snapshot is what a scan found. Rows that are not ours to read are not in it.
type snapshot struct {
	leases  map[string][]shardRow // by what precedes the shard id in the key: "" for bare ones
	states  map[string]stateRow   // by the same
	members []leasestore.Member
	planner leasestore.Planner
}

// shardRow is a lease's row with what its key says.
type shardRow struct {
	leaseRow

	key, shard string
}

func newSnapshot() *snapshot {
	return &snapshot{leases: map[string][]shardRow{}, states: map[string]stateRow{}}
}

// errBare is why leases of a KCL application with one stream are not read as those of many.
var errBare = errors.New("its key is a bare shard id, as in the table of an application that reads one stream: use SingleStream for it")

// sort puts a row where it belongs. What is damaged is logged, once, and left out: one row must not cost the sight of all others.
func (s *Store) sort(found *snapshot, i item) {
	key, err := i.text(attrKey)
	rest, own := s.keys.own(key)
	if err != nil || !own || s.keys.prefix == "" && i[ownApplication] != nil {
		return
	}
	entity, err := i.text(attrEntity)
	if err == nil {
		switch entity {
		case "", entityLease:
			err = s.sortLease(found, key, rest, i)
		case entityStream:
			err = sortState(found, key, i)
		case entityMember:
			err = s.sortMember(found, rest, i)
		case entityLeader:
			if rest == leaderKey {
				found.planner, err = decodeLeader(i)
			}
		default: // KCL's, of no concern to us
		}
	}
	if err != nil {
		s.notices.once(s.log, key, err)
	}
}

func (s *Store) sortLease(found *snapshot, key, rest string, i item) error {
	stream, shard, ok := s.keys.parseLease(rest)
	if !ok {
		if plainShard.MatchString(rest) {
			return errBare
		}
		return nil // such as a lease of a multi-stream application in the table of a single one
	}
	row, err := decodeLease(i)
	if err != nil {
		return corrupt(key, err)
	}
	found.leases[stream] = append(found.leases[stream], shardRow{leaseRow: row, key: key, shard: shard})
	return nil
}

// of are the stream's leases, ordered by shard id. The slices in them are copies.
func (f *snapshot) of(k keys, stream leasestore.StreamID) ([]leasestore.Lease, error) {
	rows := f.rows(k, stream)
	leases := make([]leasestore.Lease, 0, len(rows))
	for _, row := range rows {
		if !row.isOf(stream) {
			return nil, elsewhere(row.key, row.recorded, stream)
		}
		lease := row.leaseRow.of(leasestore.Key{Stream: stream, Shard: row.shard})
		lease.Parents = slices.Clone(lease.Parents)
		leases = append(leases, lease)
	}
	slices.SortFunc(leases, func(a, b leasestore.Lease) int { return cmp.Compare(a.Shard, b.Shard) })
	return leases, nil
}

func (f *snapshot) rows(k keys, stream leasestore.StreamID) []shardRow {
	if k.single {
		return f.leases[""]
	}
	return f.leases[k.stream(stream)]
}

// notices keeps the log from saying at every scan what it has said before.
type notices struct {
	mu   sync.Mutex
	said map[string]string
}

const maxNotices = 1000

func (n *notices) once(log *slog.Logger, key string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.said == nil || len(n.said) >= maxNotices {
		n.said = map[string]string{}
	}
	if n.said[key] == err.Error() {
		return
	}
	n.said[key] = err.Error()
	log.Warn("a row of the lease table is left out", slog.String("key", fmt.Sprintf("%.200s", key)), slog.Any("error", err))
}
