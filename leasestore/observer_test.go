package leasestore_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
)

const ttl = 10 * time.Second

func leaseOf(owner string, counter int64) leasestore.Lease {
	return leasestore.Lease{Key: testKey, Owner: owner, Counter: counter}
}

var testKey = leasestore.Key{Stream: leasestore.StreamID{Name: "orders", CreatedMillis: 1}, Shard: "shardId-000000000000"}

// watch observes lease every second for d and returns the time after that.
func watch(o *leasestore.Observer, lease leasestore.Lease, now time.Time, d time.Duration) time.Time {
	for end := now.Add(d); now.Before(end); now = now.Add(time.Second) {
		o.Observe([]leasestore.Lease{lease}, now)
	}
	return now
}

func TestObserverFirstSightIsFresh(t *testing.T) {
	o, now := leasestore.NewObserver(ttl), time.Now()
	require.False(t, o.Expired(testKey, now), "never seen")
	require.False(t, o.Free(leaseOf("a", 7), now), "never seen")
	now = watch(o, leaseOf("a", 7), now, ttl)
	require.False(t, o.Expired(testKey, now.Add(-1)))
	require.True(t, o.Expired(testKey, now))
	require.True(t, o.Free(leaseOf("a", 7), now))
}

func TestObserverAnyChangeIsLife(t *testing.T) {
	for name, next := range map[string]leasestore.Lease{
		"counter":         leaseOf("a", 8),
		"owner":           leaseOf("b", 7),
		"counter lowered": leaseOf("a", 1), // deleted and created anew
	} {
		t.Run(name, func(t *testing.T) {
			o := leasestore.NewObserver(ttl)
			now := watch(o, leaseOf("a", 7), time.Now(), ttl)
			require.True(t, o.Expired(testKey, now))
			o.Observe([]leasestore.Lease{next}, now)
			require.False(t, o.Expired(testKey, now.Add(ttl-1)))
			require.True(t, o.Expired(testKey, now.Add(ttl)))
		})
	}
}

func TestObserverOtherFieldsAreNoLife(t *testing.T) {
	o := leasestore.NewObserver(ttl)
	now := watch(o, leaseOf("a", 7), time.Now(), ttl)
	lease := leaseOf("a", 7)
	lease.Checkpoint, lease.Seek = leasestore.ShardEnd(), 3
	o.Observe([]leasestore.Lease{lease}, now)
	require.True(t, o.Expired(testKey, now))
}

func TestObserverForgetsRowsThatVanished(t *testing.T) {
	o := leasestore.NewObserver(ttl)
	now := watch(o, leaseOf("a", 7), time.Now(), ttl)
	o.Observe(nil, now)
	require.False(t, o.Expired(testKey, now))
	o.Observe([]leasestore.Lease{leaseOf("a", 7)}, now)
	require.False(t, o.Expired(testKey, now.Add(ttl-1)), "back again, it is new")
}

func TestObserverFree(t *testing.T) {
	o := leasestore.NewObserver(ttl)
	now := watch(o, leaseOf("a", 7), time.Now(), ttl)
	require.True(t, o.Free(leaseOf("", 3), now), "without an owner, seen or not")
	require.False(t, o.Free(leaseOf("a", 8), now), "another counter than the one that stood still")
	require.False(t, o.Free(leaseOf("b", 7), now), "another owner than the one that was silent")

	now = watch(o, leaseOf("", 9), now, 3*ttl)
	require.False(t, o.Expired(testKey, now), "nobody can not be silent")
	o.Observe([]leasestore.Lease{leaseOf("b", 9)}, now)
	require.False(t, o.Free(leaseOf("b", 9), now))
}

func TestObserverTellsKeysApart(t *testing.T) {
	silent, busy, reborn := leaseOf("a", 7), leaseOf("a", 7), leaseOf("a", 7)
	busy.Stream.Name = "payments"
	reborn.Stream.CreatedMillis++
	o, now := leasestore.NewObserver(ttl), time.Now()
	for range 11 {
		busy.Counter++
		reborn.Counter++
		o.Observe([]leasestore.Lease{silent, busy, reborn}, now)
		now = now.Add(time.Second)
	}
	require.True(t, o.Expired(silent.Key, now))
	require.False(t, o.Expired(busy.Key, now))
	require.False(t, o.Expired(reborn.Key, now))
}

// L6: One broker renews and dies, another watches and takes over: with real timers, on a clock that costs no time.
func TestTakeoverWithinTTLAndOneScan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const renewEvery, scanEvery, dies = 3 * time.Second, time.Second, time.Minute
		store, began := leasestore.NewMemory(), time.Now()
		lease, err := store.Acquire(t.Context(), leasestore.Lease{Key: testKey}, "a")
		require.NoError(t, err)
		go func() {
			for time.Since(began) < dies {
				time.Sleep(renewEvery)
				if lease, err = store.Renew(context.Background(), lease); err != nil {
					return
				}
			}
		}()

		observer := leasestore.NewObserver(ttl)
		for {
			time.Sleep(scanEvery)
			rows, err := store.List(t.Context(), testKey.Stream)
			require.NoError(t, err)
			now := time.Now()
			observer.Observe(rows, now)
			if observer.Free(rows[0], now) {
				_, err := store.Acquire(t.Context(), rows[0], "b")
				require.NoError(t, err)
				break
			}
		}
		require.GreaterOrEqual(t, time.Since(began), dies+ttl, "not while the owner was alive")
		require.LessOrEqual(t, time.Since(began), dies+renewEvery+ttl+scanEvery)
	})
}
