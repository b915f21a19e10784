package file

import (
	"cmp"
	"slices"
	"sync"

	"github.com/protokinesis/protokinesis/leasestore"
)

// members are the brokers of this process that use the store.
type members struct {
	mu   sync.Mutex
	rows map[string]leasestore.Member
}

func (m *members) list() []leasestore.Member {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]leasestore.Member, 0, len(m.rows))
	for _, row := range m.rows {
		row.Streams = slices.Clone(row.Streams)
		all = append(all, row)
	}
	slices.SortFunc(all, func(a, b leasestore.Member) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

func (m *members) beat(member leasestore.Member) (leasestore.Member, error) {
	next, err := leasestore.ApplyBeat(member)
	if err != nil {
		return leasestore.Member{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rows == nil {
		m.rows = make(map[string]leasestore.Member)
	}
	m.rows[next.ID] = next
	next.Streams = slices.Clone(next.Streams)
	return next, nil
}

func (m *members) forget(member leasestore.Member) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := leasestore.ApplyForget(m.rows[member.ID], member); err != nil {
		return err
	}
	delete(m.rows, member.ID)
	return nil
}
