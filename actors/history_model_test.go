package actors

import (
	"fmt"
	"strconv"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
)

// historyModel says what must be delivered, and in which order.
type historyModel struct {
	records []*historyRecord // in the order of their numbers
	parents map[string][]string
	last    map[string]int // number of the newest record of a key that was delivered for the first time
	gens    map[uint64]bool
	old     map[uint64]bool // generations that a seek has made void
	strict  bool            // what is out of range must not be delivered
	wrong   []string
}

// historyRecord is a record; number is its place in the order of puts.
type historyRecord struct {
	number     int
	key, shard string
	sequence   string
	needed     bool // it is in range of the last seek
	delivered  bool // since that
	settled    bool // since that
}

func newHistoryModel() *historyModel {
	return &historyModel{parents: make(map[string][]string), last: make(map[string]int), gens: make(map[uint64]bool), old: make(map[uint64]bool)}
}

func (m *historyModel) fail(format string, args ...any) {
	m.wrong = append(m.wrong, fmt.Sprintf(format, args...))
}

// stored takes in new records, which are in range whatever the position.
func (m *historyModel) stored(records []kinesistest.Record) {
	for _, r := range records {
		n, _ := strconv.Atoi(string(r.Data))
		if n == len(m.records)+1 {
			m.records = append(m.records, &historyRecord{number: n, key: r.PartitionKey, shard: r.Shard, sequence: r.SequenceNumber, needed: true})
			return
		}
	}
}

func (m *historyModel) shards(shards []kinesistest.Shard) {
	for _, s := range shards {
		m.parents[s.ID] = nil
		for _, p := range []string{s.Parent, s.AdjacentParent} {
			if p != "" {
				m.parents[s.ID] = append(m.parents[s.ID], p)
			}
		}
	}
}

func (m *historyModel) generations() map[uint64]bool {
	out := make(map[uint64]bool, len(m.gens))
	for g := range m.gens {
		out[g] = true
	}
	return out
}

// moved begins anew: with the records in range, of one shard or, if it is "", of all.
func (m *historyModel) moved(records []kinesistest.Record, shard string, in func(kinesistest.Record) bool, old map[uint64]bool) {
	for _, r := range records {
		n, _ := strconv.Atoi(string(r.Data))
		rec := m.records[n-1]
		if shard != "" && rec.shard != shard {
			continue
		}
		rec.needed, rec.delivered, rec.settled = in(r), false, false
		if in(r) && m.last[rec.key] >= n {
			m.last[rec.key] = n - 1
		}
	}
	if shard == "" {
		m.old = old
	}
}

// delivered checks a delivery against what came before.
func (m *historyModel) delivered(d *messages.Delivery) {
	m.gens[d.GetGeneration()] = true
	if m.old[d.GetGeneration()] {
		return // on its way when the seek was asked for
	}
	n, _ := strconv.Atoi(string(d.GetData()))
	r := m.records[n-1]
	if r.delivered {
		return
	}
	r.delivered = true
	if !r.needed {
		if m.strict {
			m.fail("record %d is out of range", n)
		}
		return
	}
	if n <= m.last[r.key] {
		m.fail("record %d of %s was first delivered after record %d", n, r.key, m.last[r.key])
	}
	m.last[r.key] = n
	for _, parent := range m.ancestors(r.shard) {
		for _, p := range m.records {
			if p.shard == parent && p.needed && !p.settled {
				m.fail("record %d of %s was delivered before record %d of its parent %s was settled", n, r.shard, p.number, parent)
			}
		}
	}
}

func (m *historyModel) ancestors(shard string) (all []string) {
	for _, p := range m.parents[shard] {
		all = append(append(all, p), m.ancestors(p)...)
	}
	return all
}

func (m *historyModel) settled(d *messages.Delivery) {
	n, _ := strconv.Atoi(string(d.GetData()))
	if !m.old[d.GetGeneration()] {
		m.records[n-1].settled = true
	}
}

// ended: everything in range was delivered.
func (m *historyModel) ended() {
	for _, r := range m.records {
		if r.needed && !r.delivered {
			m.fail("record %d of %s in %s was lost", r.number, r.key, r.shard)
		}
	}
}
