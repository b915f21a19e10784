package actors

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

// The last look of a coordinator that ends. Whoever hands a shard to a node that is leaving may not know it yet, and nodes that leave together may
// name each other. What is left in this node's name by then, and what it has handed to nodes that are leaving or gone, goes to others, or is
// released. It begins when the others can see that this node leaves. So what is handed to it later is handed by a node that sees so in a look
// that follows, and each one looks again after it has given something away.

const (
	// sweepTime bounds each of the two calls of a sweep, and the wait for its beginning.
	sweepTime = time.Second
	// maxSweeps is how often a coordinator sweeps at most.
	maxSweeps = 4
)

// sweepSeen is what it sees.
type sweepSeen struct {
	view leasestore.View
	err  error
}

// swept: what was left is given away, as far as it could be. rows are the leases as they are now.
type swept struct{ rows []leasestore.Lease }

func (co *coordinator) sweep() {
	co.closing.sweeps++
	store, id := co.store, co.found.id
	co.fx.run(min(co.cfg.Timings.LeaseTTL/3, sweepTime), func(ctx context.Context) any {
		view, err := store.View(ctx, id)
		return sweepSeen{view: view, err: err}
	})
}

func (co *coordinator) onSweepSeen(c actor.Context, m sweepSeen) {
	if m.err != nil {
		co.log().Info("the last look at the leases failed", slog.Any("error", m.err))
		co.finishClose(c)
		return
	}
	co.shares.roster.observe(m.view.Members, m.view.Planner, time.Now())
	var heirs []string
	for _, member := range co.sharing() {
		if member.ID != co.owner {
			heirs = append(heirs, member.ID)
		}
	}
	var left []leasestore.Lease
	for _, row := range m.view.Leases {
		if !row.Checkpoint.IsShardEnd() && (row.Owner == co.owner || co.isLeftBehind(row, heirs)) {
			left = append(left, row)
		}
	}
	if len(left) == 0 {
		co.finishClose(c)
		return
	}
	store, log := co.store, co.log()
	co.fx.run(min(co.cfg.Timings.LeaseTTL/3, sweepTime), func(ctx context.Context) any {
		var m swept
		for i, row := range left {
			var now leasestore.Lease
			var err error
			if len(heirs) > 0 {
				now, err = store.Acquire(ctx, row, heirs[i%len(heirs)])
			} else {
				now, err = store.Release(ctx, row)
			}
			log.Info("a lease that was left behind is given away", slog.String("shard", row.Shard), slog.String("to", now.Owner), slog.Any("error", err))
			if err == nil {
				m.rows = append(m.rows, now)
			}
		}
		return m
	})
}

func (co *coordinator) onSwept(c actor.Context, m swept) {
	given := false
	for _, row := range m.rows {
		co.hintOwner(c, messages.HintKind_HINT_KIND_HANDED, row.Owner)
		if s := co.shards[row.Shard]; s != nil && row.Owner != "" {
			s.heir, given = heir{id: row.Owner, counter: row.Counter}, true
		}
	}
	if given && co.closing.sweeps < maxSweeps {
		co.sweep() // those may be leaving, too
		return
	}
	co.finishClose(c)
}

// isLeftBehind reports whether the row is as this node left it when it handed it to one that is no heir any more.
func (co *coordinator) isLeftBehind(row leasestore.Lease, heirs []string) bool {
	s := co.shards[row.Shard]
	return s != nil && s.heir.id != "" && s.heir.id == row.Owner && s.heir.counter == row.Counter && !slices.Contains(heirs, row.Owner)
}
