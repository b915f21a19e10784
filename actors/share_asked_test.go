package actors

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
)

// leader plays somebody else who plans, on the same table: the leader of KCL workers. It names next owners without raising a counter, and
// its own row shows that it lives.
type leader struct {
	leasestore.Store

	mu    sync.Mutex
	next  map[string]string // by shard, until its owner changes
	lives bool
	beats int
}

func led(l *leader) func(*Config) {
	l.next = make(map[string]string)
	return func(c *Config) { l.Store, c.Store = c.Store, l }
}

// ask names the next owner of a shard.
func (l *leader) ask(shard, next string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next[shard] = next
}

func (l *leader) setAlive(lives bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lives = lives
}

// seen is a row as everybody sees it.
func (l *leader) seen(row leasestore.Lease, err error) (leasestore.Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if next, asked := l.next[row.Shard]; asked && err == nil {
		row.Next = next
	}
	return row, err
}

func (l *leader) Get(ctx context.Context, key leasestore.Key) (leasestore.Lease, error) {
	return l.seen(l.Store.Get(ctx, key))
}

func (l *leader) Renew(ctx context.Context, lease leasestore.Lease) (leasestore.Lease, error) {
	return l.seen(l.Store.Renew(ctx, lease))
}

func (l *leader) Checkpoint(ctx context.Context, lease leasestore.Lease, to leasestore.Checkpoint) (leasestore.Lease, error) {
	return l.seen(l.Store.Checkpoint(ctx, lease, to))
}

func (l *leader) Acquire(ctx context.Context, lease leasestore.Lease, owner string) (leasestore.Lease, error) {
	row, err := l.Store.Acquire(ctx, lease, owner)
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.next, lease.Shard)
	}
	return row, err
}

func (l *leader) View(ctx context.Context, stream leasestore.StreamID) (leasestore.View, error) {
	view, err := l.Store.View(ctx, stream)
	for i, row := range view.Leases {
		view.Leases[i], _ = l.seen(row, nil)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lives {
		l.beats++
	}
	if l.beats > 0 {
		view.Planner = leasestore.Planner{Owner: "kcl-leader", Mark: fmt.Sprint(l.beats), Period: 20 * time.Second}
	}
	return view, err
}

// A next owner that somebody else has named in the row gets the shard, in flight or not, and nothing is lost or comes twice.
func TestALeaseThatIsAskedForIsHandedOver(t *testing.T) {
	for _, work := range []time.Duration{0, 4 * time.Second} {
		l := &leader{lives: true}
		inCrew(t, 3, func(cr *crew) {
			cr.join("a", "b")
			cr.works(work)
			cr.pass(8 * time.Second)
			require.Equal(cr.t, map[string]int{"a": 3, "b": 0}, cr.counts(), "the leader lives, so nothing is given")
			l.ask(shardName(1), cr.all["b"].owner)
			l.ask(shardName(2), cr.all["a"].owner) // who has it
			began := time.Now()
			for cr.lease(shardName(1)).Owner != cr.all["b"].owner {
				cr.pass(250 * time.Millisecond)
			}
			require.LessOrEqual(cr.t, time.Since(began), 3*time.Second+work)
			cr.pass(4 * time.Second)
			require.LessOrEqual(cr.t, cr.gap(began), work+2*time.Second, "a poll, and a hint's pause")
			require.Equal(cr.t, map[string]int{"a": 2, "b": 1}, cr.counts())
			cr.works(0)
			cr.pass(20 * time.Second)
			require.Equal(cr.t, 1, cr.moves())
			require.Zero(cr.t, cr.twice())
			cr.check()
		}, led(l))
	}
}

// A next owner that is no node of ours, and does not read, gets the shard all the same; when it has been silent for a ttl, it is taken from it.
func TestALeaseIsAskedForByOneWhoNeverReads(t *testing.T) {
	l := &leader{}
	inCrew(t, 2, func(cr *crew) {
		cr.join("a", "b")
		cr.pass(8 * time.Second)
		cr.balanced()
		began := time.Now()
		l.ask(shardName(1), "kcl-worker")
		cr.pass(20 * time.Second)
		require.LessOrEqual(cr.t, cr.gap(began), takeoverTime+time.Second)
		cr.calm()
	}, led(l))
}

// A row that somebody else has made this node's is read at the next look.
func TestALeaseThatIsAssignedIsRead(t *testing.T) {
	l := &leader{lives: true}
	inCrew(t, 3, func(cr *crew) {
		cr.join("first")
		cr.pass(2 * time.Second)
		cr.leave("first")
		row, err := cr.store.Acquire(cr.t.Context(), cr.lease(shardName(1)), "kcl-worker")
		require.NoError(cr.t, err)
		cr.join("a")
		cr.pass(5 * time.Second)
		require.Equal(cr.t, 2, cr.counts()["a"])
		began := time.Now()
		_, err = cr.store.Acquire(cr.t.Context(), row, cr.all["a"].owner)
		require.NoError(cr.t, err)
		cr.pass(5 * time.Second)
		require.Equal(cr.t, 3, cr.counts()["a"])
		require.LessOrEqual(cr.t, cr.gap(began), 4*time.Second, "a look and a poll")
		cr.check()
	}, led(l))
}

// While somebody else plans, nothing is given away, but shards of the dead are taken, and who leaves hands over. When it has been silent for its
// period, nodes balance by themselves.
func TestSomebodyElsePlans(t *testing.T) {
	l := &leader{lives: true}
	inCrew(t, 6, func(cr *crew) {
		cr.join("a")
		cr.pass(2 * time.Second)
		cr.join("b", "c")
		cr.pass(30 * time.Second)
		require.Equal(cr.t, map[string]int{"a": 6, "b": 0, "c": 0}, cr.counts())
		died := time.Now()
		cr.kill("a")
		cr.pass(16 * time.Second)
		require.LessOrEqual(cr.t, cr.gap(died), takeoverTime)
		require.Equal(cr.t, map[string]int{"b": 3, "c": 3}, cr.counts())
		began := time.Now()
		cr.leave("b")
		require.Equal(cr.t, map[string]int{"c": 6}, cr.counts())
		cr.join("d")
		cr.pass(20 * time.Second)
		require.LessOrEqual(cr.t, cr.gap(began), 2*time.Second)
		require.Equal(cr.t, map[string]int{"c": 6, "d": 0}, cr.counts())
		l.setAlive(false)
		cr.pass(17 * time.Second)
		require.Equal(cr.t, map[string]int{"c": 6, "d": 0}, cr.counts())
		cr.pass(10 * time.Second)
		cr.balanced()
		cr.calm()
	}, led(l))
}
