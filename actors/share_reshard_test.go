package actors

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// checkLineage requires that no record of a shard was delivered before all of its parents had been settled.
func (cr *crew) checkLineage() {
	cr.t.Helper()
	require.Empty(cr.t, cr.early())
}

// early are deliveries of children whose parents had not been settled.
func (cr *crew) early() (wrong []string) {
	parents := make(map[string][]string)
	for _, s := range cr.service.Shards(testStream) {
		for _, p := range []string{s.Parent, s.AdjacentParent} {
			if p != "" {
				parents[s.ID] = append(parents[s.ID], p)
			}
		}
	}
	settled := make(map[string]time.Time) // when the last record of a shard was
	cr.mu.Lock()
	for _, g := range cr.got {
		if at := cr.acked[numberOf(g.d)]; at.After(settled[g.d.GetShardId()]) {
			settled[g.d.GetShardId()] = at
		}
	}
	cr.mu.Unlock()
	for _, g := range cr.deliveries() {
		for _, p := range parents[g.d.GetShardId()] {
			if g.at.Before(settled[p]) {
				wrong = append(wrong, fmt.Sprintf("%v, and its parent %s was settled at %s", g, p, settled[p].Format("04:05.000")))
			}
		}
	}
	return wrong
}

// open are the shards that take records, in the order of their hash keys.
func (cr *crew) open() []string { return openShards(cr.world) }

// R4, R8: on three nodes shards are split and merged at the same time, whose parents and children are read by different nodes.
func TestReshardsOnSeveralNodes(t *testing.T) {
	for _, work := range []time.Duration{0, 3 * time.Second} {
		t.Run(fmt.Sprint(work), func(t *testing.T) {
			inCrew(t, 6, func(cr *crew) {
				cr.join("a", "b", "c")
				cr.pass(3 * time.Second)
				cr.balanced()
				cr.works(work)
				cr.pass(3 * time.Second)
				open := cr.open()
				split(cr.world, open[0])
				merge(cr.world, open[2], open[3])
				split(cr.world, open[5])
				cr.pass(3 * time.Second)
				open = cr.open()
				for i := 0; i+1 < len(open); i += 2 { // of every two neighbours one is made, most of them read by two nodes
					merge(cr.world, open[i], open[i+1])
				}
				cr.pass(12 * time.Second)
				cr.calm()
				cr.checkLineage()
				require.Zero(cr.t, cr.twice())
				for _, s := range cr.service.Shards(testStream) {
					if s.EndSequence != "" {
						require.True(cr.t, cr.lease(s.ID).Checkpoint.IsShardEnd(), s.ID)
					}
				}
			})
		})
	}
}

// Two halves of a merge are finished by two nodes, and the one that finishes last, or a third, reads the child; also when the first
// has gone by then.
func TestAMergeOfTwoNodesShards(t *testing.T) {
	for _, what := range []string{"stays", "leaves", "dies"} {
		t.Run(what, func(t *testing.T) {
			inCrew(t, 2, func(cr *crew) {
				cr.join("a", "b", "c")
				cr.pass(3 * time.Second)
				owners := []string{nodeOf(cr.lease(shardName(0)).Owner), nodeOf(cr.lease(shardName(1)).Owner)}
				require.NotEqual(cr.t, owners[0], owners[1])
				cr.worksLike(func(g gotten) time.Duration {
					if g.d.GetShardId() == shardName(1) {
						return 4 * time.Second // the other is finished long before
					}
					return 0
				})
				cr.pass(2 * time.Second)
				merge(cr.world, shardName(0), shardName(1))
				cr.pass(2 * time.Second)
				require.True(cr.t, cr.lease(shardName(0)).Checkpoint.IsShardEnd())
				require.Zero(cr.t, cr.lease(shardName(2)).Counter)
				switch what {
				case "leaves":
					cr.leave(owners[1]) // which holds the last records
				case "dies":
					cr.kill(owners[1])
				}
				cr.pass(18 * time.Second)
				cr.calm()
				cr.checkLineage()
			})
		})
	}
}

// R11, L7: a node dies as it writes SHARD_END, or just after: its children are read by others, once, from their first record.
func TestANodeDiesAtAShardsEnd(t *testing.T) {
	for _, written := range []bool{false, true} {
		t.Run(fmt.Sprint("written=", written), func(t *testing.T) {
			inCrew(t, 3, func(cr *crew) {
				cr.join("a", "b", "c")
				cr.pass(4 * time.Second)
				owner := nodeOf(cr.lease(shardName(1)).Owner)
				died := make(chan time.Time, 1)
				p := cr.living[owner].process
				p.tap.onCall(p.around(func(c storeCall) bool {
					if c.op != "checkpoint" || !c.mark.IsShardEnd() || len(died) > 0 {
						return false
					}
					died <- time.Now()
					return true
				}, written))
				split(cr.world, shardName(1))
				cr.pass(17 * time.Second)
				require.Len(cr.t, died, 1)
				delete(cr.living, owner)
				require.LessOrEqual(cr.t, cr.gap(<-died), takeoverTime+time.Second)
				cr.calm()
				cr.checkLineage()
			})
		})
	}
}
