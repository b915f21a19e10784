package actors

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/probe"
)

// Many shards on one node: what they ask of service and store is spread, from the first moment on.

// farService is the service at a distance: every call takes a while. It notes how many are under way at a time.
type farService struct {
	service http.Handler
	takes   time.Duration

	mu        sync.Mutex
	now, most map[string]int // by operation
}

func (f *farService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if op == "GetShardIterator" {
		op = "GetRecords" // they share connections
	}
	f.mu.Lock()
	f.now[op]++
	f.most[op] = max(f.most[op], f.now[op])
	takes := f.takes
	f.mu.Unlock()
	time.Sleep(takes)
	f.service.ServeHTTP(w, r)
	f.mu.Lock()
	f.now[op]--
	f.mu.Unlock()
}

func (f *farService) slow(takes time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.takes = takes
}

func (f *farService) peak(op string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.most[op]
}

// far moves the service away.
func (w *world) far(takes time.Duration) *farService {
	f := &farService{service: w.service, takes: takes, now: map[string]int{}, most: map[string]int{}}
	w.cfg.Name, w.cfg.Clients = "far", inProcess(f)
	w.broker = w.spawnBroker()
	return f
}

// writeLog notes when a store was written, and how many acquisitions were under way at a time.
type writeLog struct {
	tapStore
	noting                    sync.Mutex
	at                        []time.Time
	acquiring, acquired, most int
	takes                     time.Duration
}

func noted(l *writeLog) func(*Config) {
	return func(c *Config) {
		tapped(&l.tapStore)(c)
		l.onCall(func(ctx context.Context, call storeCall, do func(ctx context.Context) error) error {
			l.note(call.op, 1)
			time.Sleep(l.takes)
			err := do(ctx)
			l.note(call.op, -1)
			return err
		})
	}
}

func (l *writeLog) note(op string, n int) {
	l.noting.Lock()
	defer l.noting.Unlock()
	if op == "acquire" {
		l.acquiring += n
		l.acquired += max(0, n)
		l.most = max(l.most, l.acquiring)
	}
	if n > 0 && op != "view" {
		l.at = append(l.at, time.Now())
	}
}

func (l *writeLog) acquisitions() (all, atOnce int) {
	l.noting.Lock()
	defer l.noting.Unlock()
	return l.acquired, l.most
}

func (l *writeLog) times() []time.Time {
	l.noting.Lock()
	defer l.noting.Unlock()
	return slices.Clone(l.at)
}

// most is how many of the times lie within any span of so long.
func most(times []time.Time, span time.Duration) int {
	slices.SortFunc(times, time.Time.Compare)
	n, from := 0, 0
	for i, at := range times {
		for at.Sub(times[from]) >= span {
			from++
		}
		n = max(n, i-from+1)
	}
	return n
}

// timesOf are those of the calls of an operation.
func timesOf(w *world, op string) (times []time.Time) {
	for _, c := range w.service.Calls() {
		if c.Op == op {
			times = append(times, c.Time)
		}
	}
	return times
}

// since are the times from a moment on.
func since(times []time.Time, from time.Time) []time.Time {
	return slices.DeleteFunc(slices.Clone(times), func(at time.Time) bool { return at.Before(from) })
}

// pollEvery keeps tests with many shards short.
func pollEvery(d time.Duration) func(*Config) {
	return func(c *Config) { c.Timings.PollInterval = d }
}

// D13: many shards that are taken at once ask service and store for so much at a time and no more, and all of them are read soon. From then on reads
// are spread over the poll interval, and renewals over theirs.
func TestManyShardsAreNoBurst(t *testing.T) {
	const shards, calls = 1001, 100
	log := &writeLog{takes: 5 * time.Millisecond}
	inBubble(t, shards, func(w *world) {
		far := w.far(20 * time.Millisecond)
		begun := time.Now()
		w.open()
		require.Less(w.t, time.Since(begun), time.Second, "each lease and each iterator in its turn")
		time.Sleep(time.Second)
		require.Equal(w.t, calls, far.peak("GetRecords"))
		_, atOnce := log.acquisitions()
		require.Equal(w.t, maxAcquisitions, atOnce)
		require.Equal(w.t, 2, w.service.CallCount("ListShards"), "a page for each thousand")
		require.Equal(w.t, shards, w.service.CallCount("GetShardIterator"))
		require.GreaterOrEqual(w.t, w.service.CallCount("GetRecords"), shards)

		time.Sleep(3 * time.Second)
		settled, looked := time.Now(), log.calls("view")
		time.Sleep(9 * time.Second)
		reads := since(timesOf(w, "GetRecords"), settled)
		require.InEpsilon(w.t, 3*shards, len(reads), 0.05)
		require.Less(w.t, most(reads, 300*time.Millisecond), 2*shards/10, "twice what is even")
		require.LessOrEqual(w.t, log.calls("view")-looked, 5, "a look each three seconds, and one after a listing")
		writes := since(log.times(), settled)
		require.InEpsilon(w.t, 3*shards, len(writes), 0.05)
		require.Less(w.t, most(writes, 300*time.Millisecond), 2*shards/10, "twice what is even")
	}, noted(log), pollEvery(3*time.Second), func(c *Config) { c.Limits = Limits{ReadCalls: calls} })
}

// Leases that an outage, or records that came to all shards at once, brought together are renewed apart again.
func TestRenewalsSpreadAgain(t *testing.T) {
	const shards = 400
	spreadIs := func(w *world, log *writeLog) {
		from := time.Now()
		time.Sleep(6 * time.Second)
		require.Less(w.t, most(since(log.times(), from), 300*time.Millisecond), 2*shards/10, "twice what is even")
	}
	t.Run("after an outage", func(t *testing.T) {
		log := new(writeLog)
		inBubble(t, shards, func(w *world) {
			w.open()
			time.Sleep(5 * time.Second)
			w.store.outage(errOutage, false)
			time.Sleep(5 * time.Second)
			w.store.outage(nil, false)
			time.Sleep(5 * time.Second)
			spreadIs(w, log)
		}, noted(log), pollEvery(time.Minute))
	})
	t.Run("after checkpoints", func(t *testing.T) {
		log := new(writeLog)
		inBubble(t, shards, func(w *world) {
			w.sub.SetAutoPilot(func(e probe.Envelope) any {
				if d, ok := e.Message.(*messages.Delivery); ok {
					return d.Ack()
				}
				return nil
			})
			for _, key := range keyOfEach(w, shards) {
				w.put(key, "x")
			}
			w.open(horizon)
			time.Sleep(8 * time.Second)
			spreadIs(w, log)
		}, noted(log), pollEvery(time.Minute))
	})
}

// A service that left all calls without an answer for a while is read again, as before.
func TestManyShardsOfAServiceThatHung(t *testing.T) {
	const shards, calls = 200, 20
	inBubble(t, shards, func(w *world) {
		far := w.far(20 * time.Millisecond)
		w.open()
		time.Sleep(3 * time.Second)
		far.slow(40 * time.Second) // longer than a call may take
		time.Sleep(time.Minute)
		far.slow(20 * time.Millisecond)
		time.Sleep(41 * time.Second)
		from := time.Now()
		time.Sleep(10 * time.Second)
		require.InEpsilon(w.t, 10*shards, len(since(timesOf(w, "GetRecords"), from)), 0.05)
	}, func(c *Config) { c.Limits = Limits{ReadCalls: calls} })
}
