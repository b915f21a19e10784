package actors

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// crew are the nodes that share a stream, the subscriber of them all, and a ledger of the leases: who delivered what, who held it then, and
// what of it is allowed.
type crew struct {
	*world
	ledger tapStore // beneath all nodes
	keys   []string // one for each shard, at first
	living map[string]*crewNode
	all    map[string]*crewNode

	mu    sync.Mutex
	work  func(g gotten) time.Duration // how long a record is handled; negative: for ever
	got   []gotten
	acked map[int]time.Time // when a record was first acked
	puts  []time.Time       // when each record was put, by number
}

// crewNode is a node in a process of its own.
type crewNode struct {
	*node
	*process
	name string
}

// inCrew runs test with a stream of so many shards, and no node yet.
func inCrew(t *testing.T, shards int, test func(cr *crew), options ...func(*Config)) {
	t.Helper()
	cr := &crew{living: make(map[string]*crewNode), all: make(map[string]*crewNode), acked: make(map[int]time.Time)}
	inBubble(t, shards, func(w *world) {
		cr.world = w
		cr.work = func(gotten) time.Duration { return 0 }
		byShard := keyOfEach(w, shards)
		for _, shard := range slices.Sorted(maps.Keys(byShard)) {
			cr.keys = append(cr.keys, byShard[shard])
		}
		w.sub.SetAutoPilot(cr.receive)
		defer cr.end()
		test(cr)
	}, append([]func(*Config){tapped(&cr.ledger)}, options...)...)
}

// join starts nodes that read the stream, the first of all from the horizon.
func (cr *crew) join(names ...string) {
	cr.t.Helper()
	for _, name := range names {
		n := cr.spawn(name)
		if len(cr.all) == 1 {
			n.subscribe(horizon)
		} else {
			n.subscribe()
		}
	}
}

// spawn starts a node that reads nothing yet.
func (cr *crew) spawn(name string, change ...func(*Config)) *crewNode {
	cr.t.Helper()
	p := &process{w: cr.world}
	n := &crewNode{process: p, name: name}
	n.node = cr.world.join(name, append(change, p.install)...)
	cr.living[name], cr.all[name] = n, n
	return n
}

// leave shuts a node down in order.
func (cr *crew) leave(name string) {
	cr.t.Helper()
	cr.living[name].leave()
	cr.living[name].closed()
	delete(cr.living, name)
}

// goes shuts a node down that does not wait for what is in flight.
func (cr *crew) goes(name string, timeout time.Duration) (unfinished []string) {
	cr.t.Helper()
	cr.me.Request(cr.living[name].broker, &messages.Shutdown{Timeout: durationOf(timeout)})
	delete(cr.living, name)
	return probe.Fish(cr.me, func(*messages.Closed) bool { return true }).GetUnfinished()
}

// kill ends a node without a word.
func (cr *crew) kill(name string) {
	cr.living[name].process.kill()
	delete(cr.living, name)
}

// end stops whoever is left.
func (cr *crew) end() {
	for _, n := range cr.all {
		n.process.open()
		cr.system.Root.Stop(n.broker)
	}
	synctest.Wait()
}

// receive notes what comes, and settles it when its time has come.
func (cr *crew) receive(e probe.Envelope) any {
	d, ok := e.Message.(*messages.Delivery)
	if !ok {
		return nil
	}
	by, _, _ := strings.Cut(e.Sender.GetId(), "/")
	g := gotten{at: time.Now(), d: d, by: by}
	cr.mu.Lock()
	defer cr.mu.Unlock()
	cr.got = append(cr.got, g)
	number := numberOf(d)
	ack := func() any {
		if _, known := cr.acked[number]; !known {
			cr.acked[number] = time.Now()
		}
		return d.Ack()
	}
	switch takes := cr.work(g); {
	case takes == 0:
		return ack()
	case takes > 0:
		time.AfterFunc(takes, func() {
			cr.mu.Lock()
			defer cr.mu.Unlock()
			cr.system.Root.Send(e.Sender, ack())
		})
	}
	return nil
}

// works sets how long records are handled from now on; negative: for ever.
func (cr *crew) works(d time.Duration) {
	cr.worksLike(func(gotten) time.Duration { return d })
}

func (cr *crew) worksLike(work func(gotten) time.Duration) {
	cr.mu.Lock()
	defer cr.mu.Unlock()
	cr.work = work
}

func (cr *crew) ackedCount() int {
	cr.mu.Lock()
	defer cr.mu.Unlock()
	return len(cr.acked)
}

func (g gotten) String() string {
	return fmt.Sprintf("%s of %s by %s at %s", g.d.GetData(), g.d.GetShardId(), g.by, g.at.Format("04:05.000"))
}

func numberOf(d *messages.Delivery) (n int) {
	_, _ = fmt.Sscan(string(d.GetData()), &n)
	return n
}

// putOne puts a record with the key.
func (cr *crew) putOne(key string) {
	cr.t.Helper()
	cr.put(key, fmt.Sprint(len(cr.puts)))
	cr.puts = append(cr.puts, time.Now())
}

// putEach puts a record into every shard.
func (cr *crew) putEach() {
	cr.t.Helper()
	for _, key := range cr.keys {
		cr.putOne(key)
	}
}

// pass lets time pass while every shard gets four records a second.
func (cr *crew) pass(d time.Duration) {
	cr.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(250 * time.Millisecond) {
		cr.putEach()
	}
}

// gap is the longest that a record put since then has had to wait for its first delivery.
func (cr *crew) gap(since time.Time) (longest time.Duration) {
	first := make(map[int]time.Time)
	for _, g := range cr.deliveries() {
		if n := numberOf(g.d); first[n].IsZero() {
			first[n] = g.at
		}
	}
	for n, at := range cr.puts {
		if at.Before(since) {
			continue
		}
		if first[n].IsZero() {
			first[n] = time.Now()
		}
		longest = max(longest, first[n].Sub(at))
	}
	return longest
}

func (cr *crew) deliveries() []gotten {
	cr.mu.Lock()
	defer cr.mu.Unlock()
	return slices.Clone(cr.got)
}

// history is what was written, for a look at what went wrong.
func (cr *crew) history(shard string) (lines []string) {
	for _, c := range cr.ledger.done() {
		if shard == "" && (c.op == "acquire" || c.op == "release" || c.op == "offer") || c.lease.Shard == shard {
			lines = append(lines, fmt.Sprintf("%s %s %s: %s → %s %q, counter %d, checkpoint %v", c.at.Format("05.000"), c.lease.Shard, c.op, nodeOf(c.lease.Owner),
				nodeOf(c.after.Owner), c.to, c.after.Counter, c.after.Checkpoint))
		}
	}
	return lines
}

// moves is how often a lease went from one node to another.
func (cr *crew) moves() (n int) {
	for _, c := range cr.ledger.done() {
		if c.op == "acquire" && c.lease.Owner != "" && c.lease.Owner != c.to {
			n++
		}
	}
	return n
}

// counts are the shards of each living node that are not read to their end.
func (cr *crew) counts() map[string]int {
	cr.t.Helper()
	counts := make(map[string]int)
	for name := range cr.living {
		counts[name] = 0
	}
	for _, s := range cr.service.Shards(testStream) {
		if l := cr.lease(s.ID); !l.Checkpoint.IsShardEnd() {
			counts[nodeOf(l.Owner)]++
		}
	}
	return counts
}

// nodeOf is the name of the node that an owner id is of.
func nodeOf(owner string) string {
	name, _, _ := strings.Cut(owner, "-")
	return name
}

// balanced requires that living nodes have all shards, and none two more than another.
func (cr *crew) balanced() {
	cr.t.Helper()
	require.Empty(cr.t, cr.unbalanced())
}

func (cr *crew) unbalanced() string {
	cr.t.Helper()
	counts := cr.counts()
	values := slices.Collect(maps.Values(counts))
	if len(counts) != len(cr.living) || slices.Max(values)-slices.Min(values) > 1 {
		return fmt.Sprint("shards by node, with living nodes ", slices.Sorted(maps.Keys(cr.living)), ": ", counts)
	}
	return ""
}

// calm lets things settle, sees that nothing moves any more, and checks all that must hold.
func (cr *crew) calm() {
	cr.t.Helper()
	cr.works(0)
	time.Sleep(7 * time.Second)
	cr.balanced()
	moves := cr.moves()
	cr.pass(10 * time.Second)
	cr.balanced()
	require.Equal(cr.t, moves, cr.moves(), "nothing moves once it is balanced")
	cr.check()
}

// check requires that nothing was lost, nothing came out of order, and nobody delivered of a shard that was another's.
func (cr *crew) check() {
	cr.t.Helper()
	time.Sleep(2 * time.Second) // what was put last is read
	require.Empty(cr.t, cr.lost(time.Time{}))
	require.Empty(cr.t, cr.disorder())
	cr.checkOwners()
}

// lost are the records that were not delivered since then.
func (cr *crew) lost(since time.Time) (lost []string) {
	seen := make(map[int]bool)
	for _, g := range cr.deliveries() {
		seen[numberOf(g.d)] = seen[numberOf(g.d)] || !g.at.Before(since)
	}
	for n, at := range cr.puts {
		if !seen[n] {
			lost = append(lost, fmt.Sprintf("%d of %d, put at %s", n, len(cr.puts), at.Format("04:05.000")))
		}
	}
	return lost
}

// disorder are the first deliveries of records that came after younger ones of their key.
func (cr *crew) disorder() (wrong []string) {
	seen, last := make(map[int]bool), make(map[string]int)
	for _, g := range cr.deliveries() {
		n, key := numberOf(g.d), g.d.GetPartitionKey()
		if seen[n] {
			continue
		}
		if n < last[key] {
			wrong = append(wrong, fmt.Sprintf("%v, after %d of key %s", g, last[key], key))
		}
		seen[n], last[key] = true, max(n, last[key])
	}
	return wrong
}

// checkOwners requires of every delivery that its node held the lease at that instant.
func (cr *crew) checkOwners() {
	cr.t.Helper()
	require.Empty(cr.t, cr.usurped())
}

// usurped are deliveries by nodes that did not hold the lease.
func (cr *crew) usurped() (wrong []string) {
	history := make(map[string][]storeCall)
	for _, c := range cr.ledger.done() {
		_, stream, _ := strings.Cut(c.lease.Stream.Name, "/")
		key := stream + "/" + c.lease.Shard
		history[key] = append(history[key], c)
	}
	for _, g := range cr.deliveries() {
		if owners := ownersAt(history[g.d.GetStream()+"/"+g.d.GetShardId()], g.at); !slices.Contains(owners, g.by) {
			wrong = append(wrong, fmt.Sprintf("%v, while it was %v's", g, owners))
		}
	}
	return wrong
}

// ownersAt are the nodes that held the lease at an instant; at that of a write, whoever held it before and after.
func ownersAt(history []storeCall, at time.Time) (owners []string) {
	i, _ := slices.BinarySearchFunc(history, at, func(c storeCall, at time.Time) int { return c.at.Compare(at) })
	for i = max(0, i-1); i < len(history) && !history[i].at.After(at); i++ {
		owners = append(owners, nodeOf(history[i].after.Owner))
	}
	return owners
}

// again are the deliveries of records that had been acked before, by then: settled, and delivered all the same.
func (cr *crew) again(by time.Time) (found []string) {
	cr.mu.Lock()
	defer cr.mu.Unlock()
	seen := make(map[int]bool)
	for _, g := range cr.got {
		n := numberOf(g.d)
		if acked, known := cr.acked[n]; seen[n] && known && acked.Before(g.at) && acked.Before(by) {
			found = append(found, fmt.Sprintf("%v, acked at %s", g, acked.Format("05.000")))
		}
		seen[n] = true
	}
	return found
}

// twice is how many deliveries were not the first of their record.
func (cr *crew) twice() int {
	distinct := make(map[int]bool)
	all := cr.deliveries()
	for _, g := range all {
		distinct[numberOf(g.d)] = true
	}
	return len(all) - len(distinct)
}

func subscribeTo(stream string, subscriber *probe.Probe) *messages.Subscribe {
	return &messages.Subscribe{Stream: &messages.StreamDescriptor{Name: stream}, Subscriber: subscriber.PID()}
}

// instant is a time that is noted by one goroutine and read by another.
type instant struct{ nanos atomic.Int64 }

func (i *instant) now()          { i.nanos.Store(time.Now().UnixNano()) }
func (i *instant) at() time.Time { return time.Unix(0, i.nanos.Load()) }
func (i *instant) noted() bool   { return i.nanos.Load() != 0 }
