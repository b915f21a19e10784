package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/leasestore"
)

// fleet are the nodes of a demo with several. They know of each other by the lease store alone.
type fleet struct {
	*demo
	store *leasestore.Memory
	board *board

	mu   sync.Mutex
	live []*demoNode
	made int
	dead sync.WaitGroup // those that were killed, until nothing is left of them

	result nodesResult // of the disturbing goroutine, and after it
}

const (
	// Leases live shorter than usual, as a demo takes seconds.
	demoTTL   = 3 * time.Second
	demoRenew = time.Second
	// demoSettle is how long the nodes may take to have fair shares; moves take a look or two each.
	demoSettle = 15 * time.Second
	// demoQuiet is how long changes of owners are gathered before they are told of.
	demoQuiet = 100 * time.Millisecond
)

func (f *fleet) timings() protokinesis.Timings {
	return protokinesis.Timings{
		LeaseTTL: demoTTL, RenewEvery: demoRenew, ListEvery: time.Second,
		PollInterval: demoPoll, CheckpointInterval: 2 * demoPoll, ShutdownTimeout: demoShutdown,
	}
}

// workOnNodes reads the stream on several nodes. The demo's own node publishes only.
func (d *demo) workOnNodes(view *view) (err error) {
	f := &fleet{demo: d, store: leasestore.NewMemory(), board: newBoard()}
	d.fleet = f
	ctx, cancel := context.WithCancel(d.app.ctx)
	var group sync.WaitGroup
	defer func() {
		cancel()
		group.Wait()
		err = errors.Join(err, f.close())
	}()
	group.Go(func() { f.narrate(ctx) })
	if err := f.start(ctx); err != nil {
		return f.app.unlessInterrupted(err)
	}
	d.begun = time.Now()
	disturbed := make(chan error, 1)
	group.Go(func() { disturbed <- f.disturb(ctx) })
	if err := d.work(view, func() error { return <-disturbed }); err != nil {
		return err
	}
	f.awaitFair(ctx)
	f.sumUp()
	return nil
}

// start starts the nodes, all at once, and waits until they have divided the shards.
func (f *fleet) start(ctx context.Context) error {
	failed := make([]error, f.Nodes)
	var group sync.WaitGroup
	for i := range f.Nodes {
		group.Go(func() { failed[i] = f.join(ctx) })
	}
	group.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	f.awaitFair(ctx)
	return nil
}

// join adds a node.
func (f *fleet) join(ctx context.Context) error {
	f.mu.Lock()
	f.made++
	name := fmt.Sprintf("node-%d", f.made)
	f.mu.Unlock()
	n, err := f.newDemoNode(ctx, name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.live = append(f.live, n)
	return nil
}

// remove takes the node with the most shards out of those that live.
func (f *fleet) remove() *demoNode {
	owned := f.board.owned()
	f.mu.Lock()
	defer f.mu.Unlock()
	most := slices.MaxFunc(f.live, func(a, b *demoNode) int { return len(owned[a.name]) - len(owned[b.name]) })
	f.live = slices.DeleteFunc(f.live, func(n *demoNode) bool { return n == most })
	return most
}

func (f *fleet) nodes() []*demoNode {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.live)
}

// disturb ends a node when half of the records are published: without warning with --kill, else in order, and then another one joins.
func (f *fleet) disturb(ctx context.Context) error {
	if err := f.published(ctx, max(1, f.Records/2)); err != nil {
		return err
	}
	if f.Kill {
		return f.kill(ctx)
	}
	if err := f.leave(ctx); err != nil {
		return err
	}
	f.say("another node joins")
	return f.join(ctx)
}

func (f *fleet) kill(ctx context.Context) error {
	n := f.remove()
	begun := time.Now()
	had, unsaved := n.kill()
	f.say("%s is killed", n.name)
	f.dead.Go(func() { n.bury(ctx) })
	f.result.Unsaved = &unsaved
	return f.measure(ctx, &f.result.Failover, n, had, begun)
}

func (f *fleet) leave(ctx context.Context) error {
	n := f.remove()
	had := f.board.owned()[n.name]
	f.say("%s leaves", n.name)
	begun := time.Now()
	if err := n.leave(ctx); err != nil {
		return err
	}
	return f.measure(ctx, &f.result.Handover, n, had, begun)
}

// measure is how long it took since begun until the last shard that a node had was read by others; nothing if it had none.
func (f *fleet) measure(ctx context.Context, into **float64, n *demoNode, had []leasestore.Lease, begun time.Time) error {
	last, err := f.board.awaitReadAgain(ctx, had, n.name)
	if err != nil || last.IsZero() {
		return err
	}
	took := seconds(last.Sub(begun))
	*into = &took
	f.say("all that %s had is read again, after %.1f s", n.name, took)
	return nil
}

// spread is by how many shards the nodes differ.
func (f *fleet) spread() int {
	owned := f.board.owned()
	var shares []int
	for _, n := range f.nodes() {
		shares = append(shares, len(owned[n.name]))
	}
	return slices.Max(shares) - slices.Min(shares)
}

// isFair: all open shards are read, by nodes that live, and their shares differ by no more than one.
func (f *fleet) isFair() bool {
	missing := make(map[string]bool)
	for _, s := range f.openShards() {
		missing[s.ID] = true
	}
	owned := f.board.owned()
	for _, n := range f.nodes() {
		for _, lease := range owned[n.name] {
			delete(missing, lease.Shard)
		}
	}
	return len(missing) == 0 && f.spread() <= 1
}

// awaitFair waits for fair shares, but not for ever: the result tells what they are.
func (f *fleet) awaitFair(ctx context.Context) {
	late := time.NewTimer(demoSettle)
	defer late.Stop()
	for {
		changed := f.board.change()
		if f.isFair() {
			return
		}
		select {
		case <-changed:
		case <-late.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// sumUp notes how it is at the end.
func (f *fleet) sumUp() {
	spread, moves := f.spread(), f.board.moved()
	f.result.Balanced, f.result.Moves = &spread, &moves
}

// narrate tells who has which shards, whenever that has changed, and at the end.
func (f *fleet) narrate(ctx context.Context) {
	told := ""
	for goesOn := true; ; goesOn = sleep(ctx, demoQuiet) {
		changed := f.board.change()
		if now := picture(f.board.owned(), names(f.nodes())); now != told {
			f.say("%s", now)
			told = now
		}
		if !goesOn {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

func (f *fleet) say(format string, args ...any) {
	if !f.JSON {
		_, _ = fmt.Fprintf(f.app.stderr, "%s\n", fmt.Sprintf(format, args...))
	}
}

// close ends the nodes that live, in order.
func (f *fleet) close() error {
	nodes := f.nodes()
	failed := make([]error, len(nodes))
	var group sync.WaitGroup
	for i, n := range nodes {
		group.Go(func() { failed[i] = n.leave(f.app.ctx) })
	}
	group.Wait()
	f.dead.Wait()
	return errors.Join(errors.Join(failed...), f.store.Close())
}
