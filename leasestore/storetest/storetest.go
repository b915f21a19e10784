// Package storetest is the conformance suite of leasestore.Store: what every store must do for the
// broker to be right. Run it on your own store:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) leasestore.Store { return mystore.New(t.TempDir()) })
//	}
//
// Run it with -race. The number of random steps of the model test is rapid's: -rapid.checks and -rapid.steps.
package storetest

import (
	"context"
	"reflect"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
)

// Open returns an empty store. It registers with t what has to be cleaned up; the suite closes the store as well, so
// closing twice must be fine.
type Open = func(t *testing.T) leasestore.Store

// Run checks one store against the contract of leasestore.Store, in subtests named after its promises. Each of them
// opens a store of its own.
func Run(t *testing.T, open Open) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(t *testing.T, s *subject)
	}{
		{"Acquire/Creates", testAcquireCreates},
		{"Acquire/CreatesOnce", testAcquireCreatesOnce},
		{"Acquire/TakesOver", testAcquireTakesOver},
		{"Acquire/ForeignCounterIsFenced", testAcquireForeignCounter},
		{"Acquire/NeedsAnOwner", testAcquireNeedsOwner},
		{"Acquire/FinishedShard", testAcquireFinished},
		{"Renew", testRenew},
		{"Checkpoint/GoesForward", testCheckpointForward},
		{"Checkpoint/SameAgain", testCheckpointSame},
		{"Checkpoint/Backwards", testCheckpointBackwards},
		{"Checkpoint/ShardEndIsFinal", testCheckpointShardEnd},
		{"Checkpoint/ComparesNumbers", testCheckpointNumbers},
		{"Checkpoint/KeepsEveryKind", testCheckpointKinds},
		{"Checkpoint/RefusesWhatIsNoCheckpoint", testCheckpointInvalid},
		{"Move", testMove},
		{"Offer/NamesTheNextOwner", testOffer},
		{"Offer/StaysUntilTheOwnerChanges", testOfferKept},
		{"Offer/EndsWithTheOwner", testOfferEnds},
		{"Offer/RefusesWhatCanNotBe", testOfferInvalid},
		{"Release", testRelease},
		{"Delete", testDelete},
		{"Fencing/StaleCounter", testFencingStale},
		{"Fencing/NoSuchLease", testFencingMissing},
		{"Fencing/Zombie", testFencingZombie},
		{"Fencing/CheckpointSaysFencedFirst", testFencedBeforeBackwards},
		{"LostReply/Confirmed", testLostReply},
		{"LostReply/ReleaseConfirmed", testLostRelease},
		{"Expiry/SilentOwner", testExpirySilent},
		{"Expiry/RenewingOwner", testExpiryRenewing},
		{"Expiry/ReleasedIsFree", testExpiryReleased},
		{"Contention/Create", testContentionCreate},
		{"Contention/TakeOver", testContentionTakeOver},
		{"Contention/OneLeaseManyWrites", testContentionOneLease},
		{"Contention/State", testContentionState},
		{"Keys/StreamsDoNotMeet", testKeysStreams},
		{"Keys/OddNames", testKeysOddNames},
		{"Get/NotFound", testGetNotFound},
		{"List/OneStreamOrdered", testList},
		{"Copies", testCopies},
		{"Streams", testStreams},
		{"State", testState},
		{"View/IsAllThereIs", testView},
		{"View/OfNothing", testViewEmpty},
		{"Members/Beat", testBeat},
		{"Members/StreamsAndOrder", testMembersShared},
		{"Members/Forget", testForget},
		{"Members/OddIDs", testMembersOdd},
		{"Members/RefusesWhatCanNotBe", testBeatInvalid},
		{"Members/Contention", testContentionMembers},
		{"Context/Cancelled", testCancelled},
		{"Context/Deadline", testDeadline},
		{"Close", testClose},
		{"Close/WhileBusy", testCloseWhileBusy},
		{"Model", testModel},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, newSubject(t, open(t))) })
	}
}

// subject is the store under test with the test's context, and shorthands for the writes that must succeed.
type subject struct {
	leasestore.Store
	t   *testing.T
	ctx context.Context
}

// deadline ends a test whose store hangs; it is no measure of speed.
const deadline = 5 * time.Minute

func newSubject(t *testing.T, store leasestore.Store) *subject {
	t.Helper()
	require.NotNil(t, store, "open returned no store")
	t.Cleanup(func() { _ = store.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	return &subject{Store: store, t: t, ctx: ctx}
}

// names makes streams unique to a test, should a store be one database shared by all of them.
var names atomic.Int64

func newStream() leasestore.StreamID {
	n := strconv.FormatInt(time.Now().UnixNano(), 36) + "-" + strconv.FormatInt(names.Add(1), 10)
	return leasestore.NewStreamID("arn:aws:kinesis:eu-west-1:111122223333:stream/storetest-"+n, time.UnixMilli(1_700_000_000_123))
}

func newKey() leasestore.Key {
	return leasestore.Key{Stream: newStream(), Shard: "shardId-000000000000"}
}

// owned is a lease of a new stream, just created by owner.
func (s *subject) owned(owner string) leasestore.Lease {
	s.t.Helper()
	return s.acquire(leasestore.Lease{Key: newKey(), Checkpoint: leasestore.TrimHorizon()}, owner)
}

func (s *subject) acquire(lease leasestore.Lease, owner string) leasestore.Lease {
	s.t.Helper()
	got, err := s.Acquire(s.ctx, lease, owner)
	require.NoError(s.t, err)
	return got
}

func (s *subject) checkpoint(lease leasestore.Lease, c leasestore.Checkpoint) leasestore.Lease {
	s.t.Helper()
	got, err := s.Checkpoint(s.ctx, lease, c)
	require.NoError(s.t, err)
	return got
}

func (s *subject) offer(lease leasestore.Lease, next string) leasestore.Lease {
	s.t.Helper()
	got, err := s.Offer(s.ctx, lease, next)
	require.NoError(s.t, err)
	return got
}

func (s *subject) get(key leasestore.Key) leasestore.Lease {
	s.t.Helper()
	got, err := s.Get(s.ctx, key)
	require.NoError(s.t, err)
	return got
}

// equal compares leases; parents are a set.
func equal(t require.TestingT, want, got leasestore.Lease, msg ...any) {
	if h, ok := t.(interface{ Helper() }); ok {
		h.Helper()
	}
	want.Parents, got.Parents = set(want.Parents), set(got.Parents)
	require.Equal(t, want, got, msg...)
}

func set(texts []string) []string { return slices.Compact(slices.Sorted(slices.Values(texts))) }

// everyFieldSet fails when row is of no use for checking that a store keeps every field: one was added, and the test does not know it.
func everyFieldSet(t *testing.T, row any) {
	t.Helper()
	v := reflect.ValueOf(row)
	for n := range v.NumField() {
		require.False(t, v.Field(n).IsZero(), "the suite must give %s.%s a value", v.Type(), v.Type().Field(n).Name)
	}
}

// unchanged checks that the row is still want.
func (s *subject) unchanged(want leasestore.Lease, msg ...any) {
	s.t.Helper()
	equal(s.t, want, s.get(want.Key), msg...)
}
