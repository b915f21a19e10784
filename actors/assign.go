package actors

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strings"
)

// fleet is the picture that a plan is made of: the shards of one stream and the nodes that share them, as one look at the lease store
// showed them.
type fleet struct {
	// me is this node's owner id.
	me string
	// salt is the stream, so that the node which gets the odd shard is another from stream to stream.
	salt string
	// members are the nodes that take shards of the stream: alive, not leaving, in order of their ids. This node is among them unless it
	// is leaving.
	members []string
	// shards are those that may be read now, in order of their ids: finished ones, ones that wait for a parent and ones out of scope hold
	// no quota.
	shards []fleetShard
}

// fleetShard is one shard of a fleet.
type fleetShard struct {
	id string
	// owner is who has the shard: its lease's next owner while a handover to a live member is pending, else its owner until that one's
	// lease has expired, member or not. Empty: it is free to be taken.
	owner string
	// holder is who reads it and alone may give it away; it differs from owner while a handover is pending.
	holder string
	// looks is in how many looks in a row it has been free.
	looks int
}

// plan is what this node is to do about a fleet.
type plan struct {
	// take are the free shards that fall to this node now.
	take []string
	// give are the shards that this node is to hand over, and to whom.
	give map[string]string
}

const (
	// looksOfOne is for how many looks a free shard is left to the one member that it falls to.
	looksOfOne = 2
	// looksOfFew is for how many looks it is left to the members that have no more than their share, before anyone may take it.
	looksOfFew = 4
)

// assign decides what this node takes and gives. before is the picture of the look before this one, nil if there is none.
//
// Every member's quota is the number of shards divided by the number of members, and one more for as many members as the division leaves
// shards over. All nodes make the same plan of the same picture, and carry out their part of it: no two take one shard, and nobody is given
// more than its quota. The plan is also such that it stays the same when parts of it have been carried out, so nodes that look at different
// moments agree, too; where they do not, because one looked before a node joined and one after, it costs moves and nothing else.
//
//   - Shards without a member as their owner fall to members below their quota (deal). Free ones are taken by whom they fall to. Those of a
//     node that is leaving are handed to whom they fall. Those of a node that is dead, and whose lease has not expired, are nobody's yet; but
//     they are in the count and in the deal, so that nobody gives or takes what would have to come back when they are free, or
//     when that node turns out to be alive.
//   - Members above their quota give what they have too many to those below it (receivers).
func assign(now, before *fleet) plan {
	d := divide(now)
	p := d.deal(now)
	mine := d.find(now.me)
	if mine == nil {
		return p
	}
	if n := d.givable(mine, now, before); n > 0 {
		if p.give == nil {
			p.give = make(map[string]string, n)
		}
		shards := d.leastMine(mine)
		for i, receiver := range d.receivers(mine)[:n] {
			p.give[shards[i]] = receiver
		}
	}
	return p
}

// expects reports whether this node is about to be given shards: some are on their way to it, or it has less than its share and nothing that is free
// makes up for it.
func expects(f *fleet) bool {
	if slices.ContainsFunc(f.shards, func(s fleetShard) bool { return s.owner == f.me && s.holder != f.me && s.holder != "" }) {
		return true
	}
	d := divide(f)
	d.deal(f)
	mine := d.find(f.me)
	return mine != nil && mine.room > 0
}

// portion is a member's part of a division.
type portion struct {
	id   string
	hash uint64
	// owns is how many shards the member has, movable how many of them it may give away.
	owns, movable int
	// quota is how many it is to have; room is how many it lacks and does not get by the deal.
	quota, room int
}

// excess is how many shards the member has too many and can give.
func (p *portion) excess() int { return max(0, min(p.owns-p.quota, p.movable)) }

// division is a fleet's shards divided by its members.
type division struct {
	// portions are in an order of their own for each stream, and the same for all nodes.
	portions []portion
	// index is where a member's portion is.
	index map[string]int
	// floor is the smallest quota, ceiling the largest.
	floor, ceiling int
	// shards are the fleet's, in order of their ids.
	shards []fleetShard
}

// divide gives every member its quota. The shards that are left over stay where they are: the members that have more than the
// others' quota come first, and then it is the order of the portions that counts. More than that must not count, or the quotas would change
// while shards are on their way.
func divide(f *fleet) *division {
	d := &division{shards: inOrder(f.shards), index: make(map[string]int, len(f.members))}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(f.members))) {
		d.portions = append(d.portions, portion{id: id, hash: hashOf(f.salt, id)})
	}
	slices.SortFunc(d.portions, func(a, b portion) int {
		return cmp.Or(cmp.Compare(b.hash, a.hash), strings.Compare(a.id, b.id))
	})
	for i, s := range d.portions {
		d.index[s.id] = i
	}
	for _, s := range d.shards {
		if owner := d.find(s.owner); owner != nil {
			owner.owns++
			if s.holder == s.owner {
				owner.movable++
			}
		}
	}
	d.setQuotas()
	return d
}

func (d *division) setQuotas() {
	if len(d.portions) == 0 {
		return
	}
	d.floor = len(d.shards) / len(d.portions)
	over := len(d.shards) % len(d.portions)
	d.ceiling = d.floor + min(over, 1)
	for _, above := range []bool{true, false} {
		for i := range d.portions {
			s := &d.portions[i]
			if (s.owns > d.floor) != above {
				continue
			}
			s.quota = d.floor
			if over > 0 {
				s.quota, over = d.ceiling, over-1
			}
			s.room = max(0, s.quota-s.owns)
		}
	}
}

// find returns the member's portion, nil if it is none.
func (d *division) find(id string) *portion {
	if i, ok := d.index[id]; ok {
		return &d.portions[i]
	}
	return nil
}

// deal lets every shard that has no member as its owner fall to a member with room: the one that this shard prefers. It returns the ones
// that this node takes, or, if it is leaving, gives.
func (d *division) deal(f *fleet) plan {
	p := plan{}
	open := make([]*portion, 0, len(d.portions))
	for i := range d.portions {
		if d.portions[i].room > 0 {
			open = append(open, &d.portions[i])
		}
	}
	for _, s := range d.shards {
		if d.find(s.owner) != nil || len(d.portions) == 0 {
			continue
		}
		hash := hashOf("", s.id)
		at := preferred(open, hash)
		to := open[at]
		if to.room--; to.room == 0 {
			open = slices.Delete(open, at, at+1)
		}
		switch {
		case s.owner == "" && (to.id == f.me || d.isTurn(f, s, hash, len(p.take))):
			p.take = append(p.take, s.id)
		case s.owner == f.me && s.holder == f.me:
			if p.give == nil {
				p.give = map[string]string{}
			}
			p.give[s.id] = to.id
		}
	}
	return p
}

// preferred returns the index of the portion that a shard prefers to all others.
func preferred(portions []*portion, shard uint64) int {
	best, at := uint64(0), 0
	for i, s := range portions {
		if score := mix(s.hash ^ shard); i == 0 || score > best {
			best, at = score, i
		}
	}
	return at
}

// isTurn reports whether this node takes a free shard that fell to another, who did not take it for some looks: first those may that have
// not more than their share, then anyone, one at a time.
func (d *division) isTurn(f *fleet, s fleetShard, hash uint64, taken int) bool {
	mine := d.find(f.me)
	if mine == nil || s.looks <= looksOfOne {
		return false
	}
	few := s.looks <= looksOfFew
	if few && mine.owns+taken > d.floor {
		return false
	}
	own, rank, of := mix(mine.hash^hash), 0, 0
	for i := range d.portions {
		other := &d.portions[i]
		if few && other.owns > d.floor {
			continue
		}
		of++
		if mix(other.hash^hash) > own {
			rank++
		}
	}
	return (s.looks-looksOfOne)%of == rank
}

// givable is how many shards this member gives now. Nothing is given before the members were the same for two looks, and no more than was too
// much in both. What is above every quota is given while shards come and go; what only others may have more of is not.
func (d *division) givable(mine *portion, now, before *fleet) int {
	excess := mine.excess()
	if excess == 0 || before == nil {
		return 0
	}
	was := divide(before)
	if !slices.EqualFunc(d.portions, was.portions, func(a, b portion) bool { return a.id == b.id }) {
		return 0
	}
	then := was.find(now.me)
	excess = min(excess, then.owns-then.quota)
	if !slices.EqualFunc(d.shards, was.shards, func(a, b fleetShard) bool { return a.id == b.id }) {
		excess = min(excess, mine.owns-d.ceiling)
	}
	return max(0, excess)
}

// receivers are those that this member gives its excess to: the members' excess, one after the other, goes to the room of the
// members, one after the other.
func (d *division) receivers(mine *portion) []string {
	skip, need := 0, mine.excess()
	for i := range d.portions {
		if d.portions[i].id == mine.id {
			break
		}
		skip += d.portions[i].excess()
	}
	to := make([]string, 0, need)
	for i := range d.portions {
		s := &d.portions[i]
		room := max(0, s.room-skip)
		skip = max(0, skip-s.room)
		for range min(room, need-len(to)) {
			to = append(to, s.id)
		}
	}
	return to
}

// leastMine are the shards that the member may give, those first that prefer it least.
func (d *division) leastMine(mine *portion) []string {
	type scored struct {
		id    string
		score uint64
	}
	all := make([]scored, 0, mine.movable)
	for _, s := range d.shards {
		if s.owner == mine.id && s.holder == mine.id {
			all = append(all, scored{s.id, mix(mine.hash ^ hashOf("", s.id))})
		}
	}
	slices.SortFunc(all, func(a, b scored) int {
		return cmp.Or(cmp.Compare(a.score, b.score), strings.Compare(a.id, b.id))
	})
	ids := make([]string, len(all))
	for i, s := range all {
		ids[i] = s.id
	}
	return ids
}

func inOrder(shards []fleetShard) []fleetShard {
	byID := func(a, b fleetShard) int { return strings.Compare(a.id, b.id) }
	if slices.IsSortedFunc(shards, byID) {
		return shards
	}
	return slices.SortedFunc(slices.Values(shards), byID)
}

// hashOf is the same on all nodes, so it must stay the same in all versions of this library. mix makes up for FNV's weakness in texts
// that differ in their last letters only.
func hashOf(salt, id string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(salt))
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(id))
	return mix(h.Sum64())
}

// mix is the finalizer of splitmix64.
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
