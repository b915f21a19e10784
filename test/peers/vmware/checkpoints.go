package main

import (
	"sync"
	"time"

	"github.com/vmware/vmware-go-kcl-v2/clientlibrary/checkpoint"
	"github.com/vmware/vmware-go-kcl-v2/clientlibrary/partition"
)

// leaseTime is how long a lease lasts, as by default.
const leaseTime = 10 * time.Second

// checkpoints keeps the leases of a single worker in memory.
type checkpoints struct {
	mu     sync.Mutex
	leases map[string]lease
}

type lease struct {
	owner, position string
	until           time.Time
}

func newCheckpoints() *checkpoints { return &checkpoints{leases: make(map[string]lease)} }

// Init implements checkpoint.Checkpointer.
func (c *checkpoints) Init() error { return nil }

// GetLease takes or renews a lease.
func (c *checkpoints) GetLease(shard *partition.ShardStatus, owner string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.leases[shard.ID]
	if l.owner != "" && l.owner != owner && time.Now().Before(l.until) {
		return checkpoint.ErrLeaseNotAcquired{}
	}
	l.owner, l.until = owner, time.Now().Add(leaseTime).UTC()
	c.leases[shard.ID] = l
	shard.SetLeaseOwner(owner)
	shard.SetLeaseTimeout(l.until)
	return nil
}

// CheckpointSequence saves the position of a shard.
func (c *checkpoints) CheckpointSequence(shard *partition.ShardStatus) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.leases[shard.ID]
	l.position = shard.GetCheckpoint()
	c.leases[shard.ID] = l
	return nil
}

// FetchCheckpoint loads what was saved.
func (c *checkpoints) FetchCheckpoint(shard *partition.ShardStatus) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.leases[shard.ID]
	if l.position == "" {
		return checkpoint.ErrSequenceIDNotFound
	}
	shard.SetCheckpoint(l.position)
	shard.SetLeaseOwner(l.owner)
	shard.SetLeaseTimeout(l.until)
	return nil
}

// RemoveLeaseInfo forgets a shard.
func (c *checkpoints) RemoveLeaseInfo(shard string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.leases, shard)
	return nil
}

// RemoveLeaseOwner lets go of a shard.
func (c *checkpoints) RemoveLeaseOwner(shard string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.leases[shard]
	l.owner = ""
	c.leases[shard] = l
	return nil
}

// GetLeaseOwner implements checkpoint.Checkpointer.
func (c *checkpoints) GetLeaseOwner(shard string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if owner := c.leases[shard].owner; owner != "" {
		return owner, nil
	}
	return "", checkpoint.NoLeaseOwnerErr
}

// ListActiveWorkers is for lease stealing, which is off.
func (c *checkpoints) ListActiveWorkers(map[string]*partition.ShardStatus) (map[string][]*partition.ShardStatus, error) {
	return nil, checkpoint.ErrShardNotAssigned
}

// ClaimShard is for lease stealing, which is off.
func (c *checkpoints) ClaimShard(*partition.ShardStatus, string) error {
	return checkpoint.ErrShardNotAssigned
}
