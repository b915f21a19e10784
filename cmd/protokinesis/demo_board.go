package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/protokinesis/protokinesis/leasestore"
)

// board is who reads which shard of a demo, as its nodes' writes to the lease store and their reads of shards tell.
type board struct {
	mu      sync.Mutex
	shards  map[string]*boardShard
	moves   int           // a shard's owner became another node
	changed chan struct{} // closed and replaced with every change that someone may wait for
}

type boardShard struct {
	lease leasestore.Lease // as last written
	last  string           // the last owner id that was one
	// reader is the node that reads the shard since it owns it, and since when it does; empty when the owner has not read yet.
	reader string
	since  time.Time
}

func newBoard() *board {
	return &board{shards: make(map[string]*boardShard), changed: make(chan struct{})}
}

// nodeOf is the name of the node that an owner id belongs to: a nonce was appended.
func nodeOf(owner string) string {
	if i := strings.LastIndexByte(owner, '-'); i >= 0 {
		return owner[:i]
	}
	return owner
}

func (b *board) shard(id string) *boardShard {
	s := b.shards[id]
	if s == nil {
		s = &boardShard{}
		b.shards[id] = s
	}
	return s
}

// wrote notes a lease as a node has just written it. What comes late, after what was written later, is left out.
func (b *board) wrote(lease leasestore.Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.shard(lease.Shard)
	if lease.Counter <= s.lease.Counter {
		return
	}
	before := s.lease
	s.lease = lease
	if lease.Owner != "" {
		if s.last != "" && s.last != lease.Owner {
			b.moves++
		}
		s.last = lease.Owner
	}
	if before.Owner != lease.Owner {
		s.reader = ""
	}
	if before.Owner != lease.Owner || before.Checkpoint.IsShardEnd() != lease.Checkpoint.IsShardEnd() {
		b.wake()
	}
}

// deleted notes that a lease was removed: its shard is read by nobody again.
func (b *board) deleted(lease leasestore.Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.shards, lease.Shard)
	b.wake()
}

// readBy notes that a node has read a shard.
func (b *board) readBy(shard, node string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.shard(shard); s.reader != node && nodeOf(s.lease.Owner) == node {
		s.reader, s.since = node, time.Now()
		b.wake()
	}
}

func (b *board) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// change is a channel that is closed with the next change.
func (b *board) change() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}

// owned are the leases of the shards that are not finished, by their node.
func (b *board) owned() map[string][]leasestore.Lease {
	b.mu.Lock()
	defer b.mu.Unlock()
	owned := make(map[string][]leasestore.Lease)
	for _, id := range slices.Sorted(maps.Keys(b.shards)) {
		if lease := b.shards[id].lease; lease.Owner != "" && !lease.Checkpoint.IsShardEnd() {
			owned[nodeOf(lease.Owner)] = append(owned[nodeOf(lease.Owner)], lease)
		}
	}
	return owned
}

func (b *board) moved() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.moves
}

// readAgain is when the last of the shards began to be read by another node than the one that had them; finished ones do not count. Unless
// all are, it names those that are missing.
func (b *board) readAgain(shards []leasestore.Lease, had string) (last time.Time, missing []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, lease := range shards {
		s := b.shards[lease.Shard]
		switch {
		case s == nil: // finished and deleted
		case s.reader != had && s.reader != "":
			if s.since.After(last) {
				last = s.since
			}
		case !s.lease.Checkpoint.IsShardEnd():
			missing = append(missing, lease.Shard)
		}
	}
	return last, missing
}

// awaitReadAgain waits until other nodes read the shards, and returns when the last of them began to.
func (b *board) awaitReadAgain(ctx context.Context, shards []leasestore.Lease, had string) (time.Time, error) {
	late := time.NewTimer(demoStalled)
	defer late.Stop()
	for {
		changed := b.change()
		last, missing := b.readAgain(shards, had)
		if len(missing) == 0 {
			return last, nil
		}
		select {
		case <-changed:
		case <-late.C:
			return time.Time{}, fmt.Errorf("nobody has read %s, which %s had, for %v", strings.Join(missing, ", "), had, demoStalled)
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		}
	}
}

// picture shows who has which shards: the nodes that live, and others that have some still.
func picture(owned map[string][]leasestore.Lease, live []string) string {
	nodes := slices.Clone(live)
	for name := range owned {
		if !slices.Contains(live, name) {
			nodes = append(nodes, name)
		}
	}
	slices.Sort(nodes)
	parts := make([]string, len(nodes))
	for i, name := range nodes {
		shards := make([]string, 0, len(owned[name]))
		for _, lease := range owned[name] {
			shards = append(shards, shortShard(lease.Shard))
		}
		if parts[i] = name + ": " + orDash(strings.Join(shards, " ")); !slices.Contains(live, name) {
			parts[i] += " (gone)"
		}
	}
	return strings.Join(parts, "   ")
}

// shortShard is the number of a shard.
func shortShard(id string) string {
	n, err := strconv.Atoi(strings.TrimPrefix(id, "shardId-"))
	if err != nil {
		return id
	}
	return strconv.Itoa(n)
}
