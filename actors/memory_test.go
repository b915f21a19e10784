package actors

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
)

func windowOfBytes(n int64) func(*messages.StreamDescriptor) {
	return func(d *messages.StreamDescriptor) { d.WindowBytes = &n }
}

// served is how many records of each shard were read.
func (w *world) served() map[string]int {
	records := make(map[string]int)
	for _, c := range w.service.Calls() {
		if c.Op == "GetRecords" && c.RecordsOut > 0 {
			records[c.Shard] += c.RecordsOut
		}
	}
	return records
}

// D6: a subscriber that settles nothing, and pages of 10 MiB: what a shard holds is its window and one page read ahead.
func TestAShardHoldsItsWindowAndAPage(t *testing.T) {
	const mib = 1 << 20
	record := strings.Repeat("x", mib-10)
	for _, size := range []int64{5, 16} {
		inBubble(t, 1, func(w *world) {
			for range 40 {
				w.put("k", record)
			}
			w.open(horizon, windowOfBytes(size*mib))
			time.Sleep(time.Minute)
			records := w.served()
			require.LessOrEqual(w.t, records[shardName(0)], int(size)+10, "MiB read, with a window of %d", size)
			require.GreaterOrEqual(w.t, records[shardName(0)], int(size), "and the window is used")
		})
	}
}

// D6: 100 shards, each with more than a window to read, and a subscriber that settles nothing: a page is delivered, one is read ahead, and
// then no shard is read any more.
func TestAHundredShardsStopReading(t *testing.T) {
	inBubble(t, 100, func(w *world) {
		for i := range 4000 {
			w.put(fmt.Sprint(i), strings.Repeat("x", 1<<10))
		}
		w.open(horizon, windowOfBytes(4<<10), windowOfRecords(10))
		time.Sleep(10 * time.Second)
		records := w.served()
		require.Len(w.t, records, 100)
		for shard, n := range records {
			require.LessOrEqual(w.t, n, 4+10, "%s: the window's bytes and a page of ten", shard)
		}
		calls := len(readTimes(w))
		time.Sleep(time.Minute)
		require.Len(w.t, readTimes(w), calls)
	})
}

// D14: a subscriber slower than the source for a minute: never more in its mailbox than the window.
func TestTheMailboxHoldsNoMoreThanTheWindow(t *testing.T) {
	const window = 20
	inBubble(t, 1, func(w *world) {
		w.open(horizon, windowOfRecords(window))
		for i := range 600 {
			for j := range 5 {
				w.put("k", fmt.Sprint(i, j))
			}
			time.Sleep(100 * time.Millisecond)
			status := w.onlyStatus()
			require.LessOrEqual(w.t, status.GetInFlight(), int64(window))
			require.LessOrEqual(w.t, status.GetBuffered(), int64(window), "read ahead")
			if i%3 == 0 && i > 20 {
				w.next(true)
			}
		}
		waiting := 0
		for more := true; more; waiting++ {
			_, more = w.sub.TryReceive()
		}
		require.LessOrEqual(w.t, waiting-1, window)
	})
}

// D13: idle shards cost calls in proportion to their number, and no goroutine each: one page a poll interval, one renewal each 3 s.
func TestIdleShardsCostNoGoroutines(t *testing.T) {
	cost := func(shards int) (goroutines, reads, renewals int) {
		inBubble(t, shards, func(w *world) {
			w.open()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			r, n := len(readTimes(w)), w.store.count("renew")
			for range 2 {
				time.Sleep(3 * time.Second)
				synctest.Wait()
				goroutines = max(goroutines, runtime.NumGoroutine())
			}
			reads, renewals = len(readTimes(w))-r, w.store.count("renew")-n
			require.Zero(w.t, w.store.count("checkpoint"))
		})
		return goroutines, reads, renewals
	}
	few, _, _ := cost(20)
	many, reads, renewals := cost(1000)
	require.Less(t, many-few, 500, "goroutines, those of the pool that linger after a call included: fewer than one for two shards")
	require.InEpsilon(t, 1000*6, reads, 0.05)
	require.InEpsilon(t, 1000*2, renewals, 0.05)
}

// D10: the service's clock jumps back an hour, and forth, while the subscription runs: no timer stalls, no lease changes hands, and nothing is
// lost. The library counts time on the monotonic clock; what it takes from the service's is where the tip is, once.
func TestTheServicesClockGoesBack(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		shift := new(clockShift)
		w.service = kinesistest.New(kinesistest.WithClock(shift.now))
		w.t.Cleanup(w.service.Close)
		require.NoError(w.t, w.service.CreateStream(testStream, 1))
		w.cfg.Name, w.cfg.Clients = "on-another-clock", inProcess(w.service)
		w.broker = w.spawnBroker()
		w.open()
		for i, by := range []time.Duration{0, -time.Hour, 0, 3 * time.Hour, -time.Hour} {
			shift.set(by)
			w.put("k", fmt.Sprint(i))
			start := time.Now()
			require.Equal(w.t, []string{fmt.Sprint(i)}, w.takeAll(1))
			require.Less(w.t, time.Since(start), 3*time.Second)
			before := w.store.count("renew")
			time.Sleep(time.Minute)
			require.InDelta(w.t, 20, w.store.count("renew")-before, 2)
		}
		require.Equal(w.t, 1, w.store.count("acquire"))
		w.checkpointIs(w.service.Records(testStream)[4].SequenceNumber)
	})
}
