package actors

import (
	"slices"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

// nodes are the nodes of the application, in order of their ids: this one, the members of the lease store, and whoever else holds a lease of a shard that is
// not finished.
func (a *application) nodes(me, address string) []*messages.NodeStatus {
	all := map[string]*messages.NodeStatus{me: {OwnerId: me, Address: shownAddress(address)}}
	for _, m := range a.members {
		all[m.ID] = &messages.NodeStatus{OwnerId: m.ID, Address: shownAddress(m.Address), Leaving: m.Leaving}
	}
	for _, l := range a.leases {
		if l.Owner != "" && !l.Checkpoint.IsShardEnd() && all[l.Owner] == nil {
			all[l.Owner] = &messages.NodeStatus{OwnerId: l.Owner}
		}
	}
	nodes := make([]*messages.NodeStatus, 0, len(all))
	for id, n := range all {
		if answer := a.answers[id]; answer != nil {
			n.State, n.Subscriptions = answer.GetState(), answer.GetSubscriptions()
		} else {
			n.Subscriptions = subscriptionsOf(id, a.leases)
		}
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, func(a, b *messages.NodeStatus) int { return compareStrings(a.GetOwnerId(), b.GetOwnerId()) })
	return nodes
}

// shownAddress is an address as others can use it.
func shownAddress(address string) string {
	if address == noAddress {
		return ""
	}
	return address
}

// subscriptionsOf is what the leases say of a node: the shards that it reads, of each stream.
func subscriptionsOf(owner string, leases []leasestore.Lease) []*messages.SubscriptionStatus {
	streams := make(map[string]*messages.SubscriptionStatus)
	for _, l := range leases {
		if l.Owner != owner || l.Checkpoint.IsShardEnd() {
			continue
		}
		s := streams[l.Stream.Name]
		if s == nil {
			s = &messages.SubscriptionStatus{Stream: l.Stream.Name}
			streams[l.Stream.Name] = s
		}
		s.Shards = append(s.Shards, &messages.ShardStatus{
			ShardId: l.Shard, Parents: slices.Clone(l.Parents), State: messages.ShardState_SHARD_STATE_ELSEWHERE, Owner: l.Owner,
			Checkpoint: l.Checkpoint.String(), MillisBehindLatest: -1,
		})
	}
	all := make([]*messages.SubscriptionStatus, 0, len(streams))
	for _, s := range streams {
		slices.SortFunc(s.Shards, func(a, b *messages.ShardStatus) int { return compareStrings(a.GetShardId(), b.GetShardId()) })
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *messages.SubscriptionStatus) int { return compareStrings(a.GetStream(), b.GetStream()) })
	return all
}
