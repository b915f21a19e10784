package actors

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
	"github.com/protokinesis/protokinesis/test/probe"
)

// The tip is the instant at which the subscription was opened, whatever happens before the first record is settled.

// panicker makes the next messages of a role panic. install is an option of inBubble.
type panicker struct {
	mu   sync.Mutex
	role role
	at   []string // only at these kinds of message, see kindOf
	left int
}

func (p *panicker) install(c *Config) { c.intercept = p.intercept }

func (p *panicker) arm(r role, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.role, p.at, p.left = r, nil, n
}

// armAt makes the next message of these kinds panic.
func (p *panicker) armAt(r role, kinds ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.role, p.at, p.left = r, kinds, 1
}

// pending are the panics that have not happened yet.
func (p *panicker) pending() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.left
}

func (p *panicker) intercept(r role, message any) {
	p.mu.Lock()
	fire := p.left > 0 && r == p.role && (p.at == nil || slices.Contains(p.at, kindOf(message)))
	if fire {
		p.left--
	}
	p.mu.Unlock()
	if fire {
		panic("injected in the " + string(r))
	}
}

// tipRun is a subscription at the tip of two shards.
type tipRun struct {
	*world
	panics *panicker
	keys   []string
	heir   *pidOf // the broker that takes over
	other  *probe.Probe
}

// whatHappensAtTheTip is what comes between Subscribed, or before it, and the first settlement.
var whatHappensAtTheTip = map[string]struct {
	opening func(r *tipRun) // before Subscribe
	event   func(r *tipRun) // after the first deliveries
}{
	"nothing": {},
	"restart in order": {event: func(r *tipRun) {
		restart(r.world, func() {})
		r.open()
	}},
	"death and restart": {event: func(r *tipRun) {
		r.system.Root.Stop(r.broker)
		time.Sleep(time.Second)
		r.cfg.Name = "heir"
		r.broker = r.spawnBroker()
		r.open()
	}},
	"takeover": {event: func(r *tipRun) {
		r.cfg.Store = r.store.Store
		r.heir, r.other = second(r.world)
		r.store.outage(errOutage, false) // the first is alone with its store's outage
		subscribeAt(r.world, r.heir, r.other)
	}},
	"reader panic":  {event: func(r *tipRun) { r.panics.arm(roleReader, 1) }},
	"reader panics": {event: func(r *tipRun) { r.panics.arm(roleReader, 9) }},
	"coordinator panic": {event: func(r *tipRun) {
		r.panics.arm(roleCoordinator, 1)
		r.me.Request(r.broker, &messages.StatusRequest{})
	}},
	"reader stopped by force": {event: func(r *tipRun) { r.system.Root.Stop(readersOf(r.world)[shardName(0)]) }},
	"lease lost": {event: func(r *tipRun) {
		_, err := r.store.Store.Acquire(r.t.Context(), r.lease(shardName(0)), "thief")
		require.NoError(r.t, err)
	}},
	"iterator fails": {opening: func(r *tipRun) {
		r.service.Fault("GetShardIterator", kinesistest.Match{}, 5, kinesistest.Error("InternalFailure", "no"))
	}},
	"iterator hangs": {opening: func(r *tipRun) {
		r.service.Fault("GetShardIterator", kinesistest.Match{Shard: shardName(0)}, 1, kinesistest.Hang())
	}},
	"iterator is lost on the way": {opening: func(r *tipRun) {
		r.service.Fault("GetShardIterator", kinesistest.Match{}, 2, kinesistest.ResetMidBody())
	}},
	"reads fail": {opening: func(r *tipRun) {
		r.service.Fault("GetRecords", kinesistest.Match{}, 14, kinesistest.Error("InternalFailure", "no"))
	}},
	"iterators expire": {opening: func(r *tipRun) {
		r.service.Fault("GetRecords", kinesistest.Match{}, 6, kinesistest.ExpireIterator())
	}},
	"lease fails at first": {opening: func(r *tipRun) {
		r.cfg.Store.(*badStore).failAcq[shardName(0)] = 2
	}},
	"replies of the store are lost": {opening: func(r *tipRun) { r.store.outage(errOutage, true) }, event: func(r *tipRun) {
		r.store.outage(nil, false)
	}},
	"coordinator panic while opening": {opening: func(r *tipRun) {
		r.service.Fault("GetShardIterator", kinesistest.Match{}, 2, kinesistest.Delay(time.Second))
		time.AfterFunc(500*time.Millisecond, func() { r.panics.arm(roleCoordinator, 1) })
	}},
}

// R1, R2: what was published after Subscribed is delivered, what was before is not, and LATEST is asked for at most once per shard.
func TestTipWithoutLoss(t *testing.T) {
	for name, what := range whatHappensAtTheTip {
		t.Run(name, func(t *testing.T) {
			panics := &panicker{}
			inBubble(t, 2, func(w *world) {
				r := &tipRun{world: w, panics: panics, keys: []string{keyFor(w, shardName(0), false), keyFor(w, shardName(1), true)}}
				r.putAll("old")
				time.Sleep(5 * time.Second)
				if what.opening != nil {
					w.connect()
					what.opening(r)
					w.subscribe()
				} else {
					w.open()
				}
				opened := time.Now()
				r.expectPinned(opened, name == "lease fails at first")
				time.Sleep(1500 * time.Millisecond)
				r.putAll("a")
				time.Sleep(3 * time.Second)
				if what.event != nil {
					what.event(r)
				}
				r.putAll("b")
				r.expectDelivered([]string{"a", "b"})
				require.Zero(w.t, panics.pending())
				for n := range 2 {
					r.expectLatestOnce(shardName(n))
				}
				if r.other != nil {
					shutDown(w, r.heir)
				}
			}, panics.install, func(c *Config) { c.Store = &badStore{Store: c.Store, failAcq: map[string]int{}} })
		})
	}
}

func (r *tipRun) putAll(data string) {
	for _, key := range r.keys {
		r.put(key, data)
	}
}

// expectPinned: each shard's position is the instant of the opening, before Subscribe is answered.
func (r *tipRun) expectPinned(opened time.Time, oneMissing bool) {
	r.t.Helper()
	for n := range 2 {
		lease := r.lease(shardName(n))
		if oneMissing && n == 0 {
			require.Zero(r.t, lease.Counter)
			continue
		}
		require.Equal(r.t, leasestore.KindTimestamp, lease.Checkpoint.Kind(), "%v", lease)
		require.WithinRange(r.t, lease.Checkpoint.Time(), opened.Add(-time.Minute), opened)
	}
}

// expectDelivered waits until all is quiet: the last delivery of each record comes in order, and nothing else came.
func (r *tipRun) expectDelivered(want []string) {
	r.t.Helper()
	reader := r.sub
	if r.other != nil {
		reader = r.other
	}
	got := make(map[string][]string)
	for range 120 {
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		for e, more := reader.TryReceive(); more; e, more = reader.TryReceive() {
			d, ok := e.Message.(*messages.Delivery)
			if !ok {
				continue
			}
			data := string(d.GetData())
			require.Contains(r.t, want, data, "it is older than the subscription")
			at := slices.Index(got[d.GetShardId()], data)
			if at >= 0 { // again: and all after it too
				got[d.GetShardId()] = got[d.GetShardId()][:at]
			}
			got[d.GetShardId()] = append(got[d.GetShardId()], data)
			if data == want[len(want)-1] { // the last one settles; the first has to come again until then
				reader.Send(e.Sender, d.Ack())
			}
		}
	}
	require.Equal(r.t, map[string][]string{shardName(0): want, shardName(1): want}, got)
}

func (r *tipRun) expectLatestOnce(shard string) {
	r.t.Helper()
	kinds := iteratorKinds(r.world, shard)
	require.NotEmpty(r.t, kinds)
	for i, kind := range kinds {
		require.Equal(r.t, i == 0 && kind == "LATEST", kind == "LATEST", "%v", kinds)
		require.NotEqual(r.t, "TRIM_HORIZON", kind)
	}
}

// R3: a shard without records is read on by what each answer says, not from the opening again and again; when its iterator is lost after
// long, nothing is skipped.
func TestIdleShardMovesOn(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		w.open()
		time.Sleep(200 * time.Second)
		require.Greater(w.t, w.service.CallCount("GetRecords"), 180)
		require.Equal(w.t, []string{"LATEST"}, iteratorKinds(w, shardName(0)))
		w.put("k", "a")
		w.service.Fault("GetRecords", kinesistest.Match{}, 1, kinesistest.ExpireIterator())
		require.Equal(w.t, []string{"a"}, w.takeAll(1))
		require.Equal(w.t, []string{"LATEST", "AT_TIMESTAMP"}, iteratorKinds(w, shardName(0)))
	})
}
