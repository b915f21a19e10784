package failover

import (
	"maps"
	"slices"
	"time"
)

// Span is a part of the log.
type Span struct{ From, To time.Duration }

func (s Span) has(at time.Duration) bool { return at >= s.From && at <= s.To }

// Move is a change of a shard's owner.
type Move struct {
	Shard, From, To string
	At              time.Duration
}

// Owners are the owners of all shards at a time.
func (l *Log) Owners(at time.Duration) map[string]string {
	owners := map[string]string{}
	for i := range l.Events {
		if e := &l.Events[i]; e.What == Write && e.At <= at {
			owners[e.Shard] = e.Row.Owner
		}
	}
	return owners
}

// Held are the shards of a node at a time, sorted.
func (l *Log) Held(node string, at time.Duration) []string {
	var held []string
	for shard, owner := range l.Owners(at) {
		if owner == node {
			held = append(held, shard)
		}
	}
	slices.Sort(held)
	return held
}

// Spread is by how many shards the nodes differ; false if not all of so many shards are theirs.
func Spread(owners map[string]string, nodes []string, shards int) (int, bool) {
	counts := make(map[string]int, len(nodes))
	for _, node := range nodes {
		counts[node] = 0
	}
	all := 0
	for _, owner := range owners {
		if _, ok := counts[owner]; ok {
			counts[owner]++
			all++
		}
	}
	values := slices.Collect(maps.Values(counts))
	return slices.Max(values) - slices.Min(values), all == shards
}

// Balanced is how long after the beginning of the span the nodes have had all shards, with a spread of at most 1, and kept them so to its end; false if they
// have not at its end.
func (l *Log) Balanced(nodes []string, shards int, span Span) (time.Duration, bool) {
	owners, since, balanced := map[string]string{}, span.From, false
	look := func(at time.Duration) {
		spread, all := Spread(owners, nodes, shards)
		now := all && spread <= 1
		if now && !balanced {
			since = max(at, span.From)
		}
		balanced = now
	}
	for i := range l.Events {
		if e := &l.Events[i]; e.What == Write && e.At <= span.To && owners[e.Shard] != e.Row.Owner {
			owners[e.Shard] = e.Row.Owner
			look(e.At)
		}
	}
	return since - span.From, balanced
}

// Moves are the changes of owners in a span. A lease that was given back and taken by another has moved once, one that was taken back not at all.
func (l *Log) Moves(span Span) []Move {
	last := map[string]string{}
	var moves []Move
	for i := range l.Events {
		e := &l.Events[i]
		if e.What != Write || e.Row.Owner == "" {
			continue
		}
		from, known := last[e.Shard]
		if known && from != e.Row.Owner && span.has(e.At) {
			moves = append(moves, Move{Shard: e.Shard, From: from, To: e.Row.Owner, At: e.At})
		}
		last[e.Shard] = e.Row.Owner
	}
	return moves
}

// Takes is how often in a span a node has made itself the owner of a lease.
func (l *Log) Takes(span Span) int {
	owners, n := map[string]string{}, 0
	for i := range l.Events {
		e := &l.Events[i]
		if e.What != Write {
			continue
		}
		if e.Row.Owner == e.Node && owners[e.Shard] != e.Node && span.has(e.At) {
			n++
		}
		owners[e.Shard] = e.Row.Owner
	}
	return n
}

// ReadAgain is how long it took from the beginning of the span until others had printed a record of every one of the shards that a node had then, and
// the shards that none was printed of.
func (l *Log) ReadAgain(node string, span Span) (time.Duration, []string) {
	first := map[string]time.Duration{}
	for i := range l.Events {
		if e := &l.Events[i]; e.What == Line && e.Node != node && span.has(e.At) {
			if _, seen := first[e.Shard]; !seen {
				first[e.Shard] = e.At
			}
		}
	}
	return latest(first, l.Held(node, span.From), span.From)
}

// AllRead is how long it took from the beginning of the span until a record of every one of so many shards had been printed, whoever did, and how many shards
// none was printed of.
func (l *Log) AllRead(shards int, span Span) (time.Duration, int) {
	first := map[string]time.Duration{}
	for i := range l.Events {
		if e := &l.Events[i]; e.What == Line && span.has(e.At) {
			if _, seen := first[e.Shard]; !seen {
				first[e.Shard] = e.At
			}
		}
	}
	took, _ := latest(first, slices.Collect(maps.Keys(first)), span.From)
	return took, shards - len(first)
}

func latest(first map[string]time.Duration, shards []string, from time.Duration) (took time.Duration, missing []string) {
	for _, shard := range shards {
		at, seen := first[shard]
		if !seen {
			missing = append(missing, shard)
			continue
		}
		took = max(took, at-from)
	}
	return took, missing
}

// Gap is the longest time in a span in which no record of some shard was printed.
func (l *Log) Gap(span Span) (longest time.Duration, shard string) {
	last := map[string]time.Duration{}
	for _, r := range l.Records {
		last[r.Shard] = span.From
	}
	see := func(of string, at time.Duration) {
		if gap := at - last[of]; gap > longest {
			longest, shard = gap, of
		}
		last[of] = at
	}
	for i := range l.Events {
		if e := &l.Events[i]; e.What == Line && span.has(e.At) {
			see(e.Shard, e.At)
		}
	}
	for of := range last {
		see(of, span.To)
	}
	return longest, shard
}

// Duplicates is how many lines in a span are of records that had been printed before.
func (l *Log) Duplicates(span Span) int {
	seen, n := map[[2]string]bool{}, 0
	for i := range l.Events {
		e := &l.Events[i]
		if e.What != Line {
			continue
		}
		record := [2]string{e.Shard, e.Sequence}
		if seen[record] && span.has(e.At) {
			n++
		}
		seen[record] = true
	}
	return n
}

// Unsettled is how many records a node had printed by then of the shards that it had, beyond the checkpoints stored: so many may come again if it dies.
func (l *Log) Unsettled(node string, at time.Duration) int {
	records := newService(l.Records)
	rows, printed := map[string]Row{}, map[string]int{}
	for i := range l.Events {
		e := &l.Events[i]
		switch {
		case e.At > at:
		case e.What == Write:
			rows[e.Shard] = e.Row
		case e.What == Line && e.Node == node:
			if r, ok := records.find(e.Shard, e.Sequence); ok {
				printed[e.Shard] = max(printed[e.Shard], r.index+1)
			}
		}
	}
	n := 0
	for shard, row := range rows {
		if row.Owner == node {
			n += max(0, printed[shard]-records.position(shard, row.Checkpoint))
		}
	}
	return n
}

// Writes is how many writes of leases were applied in a span.
func (l *Log) Writes(span Span) int {
	n := 0
	for i := range l.Events {
		if e := &l.Events[i]; e.What == Write && span.has(e.At) {
			n++
		}
	}
	return n
}

// Missing is how many records have not been printed.
func (l *Log) Missing() int {
	printed := map[[2]string]bool{}
	for i := range l.Events {
		if e := &l.Events[i]; e.What == Line {
			printed[[2]string{e.Shard, e.Sequence}] = true
		}
	}
	n := 0
	for _, r := range l.Records {
		if !printed[[2]string{r.Shard, r.Sequence}] {
			n++
		}
	}
	return n
}
