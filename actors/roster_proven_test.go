package actors

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
)

// A row that was there at the first look may be of a node that is dead.
func TestWhoIsProvenToLive(t *testing.T) {
	r, now := newRoster(10*time.Second), time.Now()
	proven := func(members ...leasestore.Member) (ids []string) {
		now = now.Add(time.Second)
		r.observe(members, leasestore.Planner{}, now)
		for _, m := range members {
			if r.isProven(m.ID) {
				ids = append(ids, m.ID)
			}
		}
		return ids
	}
	there, worker := leasestore.Member{ID: "there", Beat: 7}, leasestore.Member{ID: "worker", Beat: 1, Period: 30 * time.Second}
	require.Equal(t, []string{"worker"}, proven(there, worker), "another's worker is believed")
	require.Equal(t, []string{"worker"}, proven(there, worker))
	require.Equal(t, []string{"came"}, proven(there, leasestore.Member{ID: "came", Beat: 1}), "it was not there before")
	there.Beat++
	require.Equal(t, []string{"there"}, proven(there), "a sign of life")
	require.Equal(t, []string{"there"}, proven(there), "and for as long as its row is there")
	require.Empty(t, proven())
	require.False(t, r.isProven("there"))
}
