package dynamodb_test

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
)

// kcl does writes of KCL, with its conditions, as it does them: by the parameters that came before expressions.
type kcl struct{ *raw }

type expected = map[string]types.ExpectedAttributeValue

func is(v types.AttributeValue) types.ExpectedAttributeValue {
	if v == nil {
		return types.ExpectedAttributeValue{Exists: aws.Bool(false)}
	}
	return types.ExpectedAttributeValue{Value: v}
}

// write reports whether the condition held.
func (k kcl) write(key string, condition expected, changes row) bool {
	k.t.Helper()
	updates := map[string]types.AttributeValueUpdate{}
	for name, value := range changes {
		switch {
		case value == nil:
			updates[name] = types.AttributeValueUpdate{Action: types.AttributeActionDelete}
		case name == "leaseCounter+":
			updates["leaseCounter"] = types.AttributeValueUpdate{Action: types.AttributeActionAdd, Value: value}
		default:
			updates[name] = types.AttributeValueUpdate{Action: types.AttributeActionPut, Value: value}
		}
	}
	_, err := k.client.UpdateItem(k.t.Context(), &sdk.UpdateItemInput{
		TableName: &k.table, Key: row{"leaseKey": S(key)}, Expected: condition, AttributeUpdates: updates,
	})
	if _, refused := errors.AsType[*types.ConditionalCheckFailedException](err); refused {
		return false
	}
	require.NoError(k.t, err)
	return true
}

// startHandoff is a leader's, to a worker: the counter stays.
func (k kcl) startHandoff(key, from string) bool {
	k.t.Helper()
	return k.write(key, expected{"leaseOwner": is(S(from)), "checkpointOwner": is(nil), "leaseKey": is(S(key))},
		row{"leaseOwner": S(worker), "checkpointOwner": S(from)})
}

// assign is a leader's, by force or of a free lease, and the former owner's, who ends a handoff.
func (k kcl) assign(key string, owner, handoff types.AttributeValue, to string) bool {
	k.t.Helper()
	return k.write(key, expected{"leaseOwner": is(owner), "checkpointOwner": is(handoff), "leaseKey": is(S(key))},
		row{"leaseOwner": S(to), "checkpointOwner": nil, "leaseCounter+": N("1")})
}

// renew is an owner's.
func (k kcl) renew(key, counter, next string) bool {
	k.t.Helper()
	return k.write(key, expected{"leaseCounter": is(N(counter)), "checkpointOwner": is(nil)}, row{"leaseCounter": N(next), "throughputKBps": N("1.5")})
}

var key0 = ordersKey + ":" + shard("0")

func TestHandoffThatAKCLLeaderStarts(t *testing.T) {
	k := kcl{newRaw(t)}
	s := k.store()
	lease := acquire(t, s, "0", leasestore.Lease{Checkpoint: leasestore.TrimHorizon()})
	require.True(t, k.startHandoff(key0, "a"))

	renewed, err := s.Renew(t.Context(), lease)
	require.NoError(t, err, "the owner is not fenced by it")
	require.Equal(t, worker, renewed.Next, "it learns whom to hand the lease to")
	require.Equal(t, "a", renewed.Owner)
	saved, err := s.Checkpoint(t.Context(), renewed, leasestore.AtSequence(sequence, 0))
	require.NoError(t, err)
	handed, err := s.Acquire(t.Context(), saved, saved.Next)
	require.NoError(t, err)

	// That is what a worker looks for: itself as the owner, and no handoff pending. It goes on where the node stopped.
	got := k.get(key0)
	require.Equal(t, S(worker), got["leaseOwner"])
	require.NotContains(t, got, "checkpointOwner")
	require.Equal(t, S(sequence), got["checkpoint"])
	require.Equal(t, N("3"), got["leaseCounter"])
	require.True(t, k.renew(key0, "3", "4"))
	_, err = s.Renew(t.Context(), saved)
	require.ErrorIs(t, err, leasestore.ErrFenced)
	require.Equal(t, int64(4), handed.Counter)
}

// The owner's lease does not show what a leader began since; each of its writes succeeds all the same.
func TestHandoffThatBeginsBeforeAWrite(t *testing.T) {
	for name, do := range map[string]func(s leasestore.Store, l leasestore.Lease) (leasestore.Lease, error){
		"Checkpoint": func(s leasestore.Store, l leasestore.Lease) (leasestore.Lease, error) {
			return s.Checkpoint(t.Context(), l, leasestore.AtSequence(sequence, 0))
		},
		"Move": func(s leasestore.Store, l leasestore.Lease) (leasestore.Lease, error) {
			return s.Move(t.Context(), l, leasestore.AtSequence(sequence, 0), 1)
		},
		"Renew": func(s leasestore.Store, l leasestore.Lease) (leasestore.Lease, error) { return s.Renew(t.Context(), l) },
	} {
		k := kcl{newRaw(t)}
		s := k.store()
		lease := acquire(t, s, "0", leasestore.Lease{})
		require.True(t, k.startHandoff(key0, "a"))
		got, err := do(s, lease)
		require.NoError(t, err, name)
		require.Equal(t, "a", got.Owner, name)
		require.Equal(t, worker, got.Next, name)
	}
	for name, do := range map[string]func(s leasestore.Store, l leasestore.Lease) (leasestore.Lease, error){
		"Release": func(s leasestore.Store, l leasestore.Lease) (leasestore.Lease, error) {
			return s.Release(t.Context(), l)
		},
		"Acquire": func(s leasestore.Store, l leasestore.Lease) (leasestore.Lease, error) {
			return s.Acquire(t.Context(), l, "c")
		},
	} {
		k := kcl{newRaw(t)}
		s := k.store()
		lease := acquire(t, s, "0", leasestore.Lease{})
		require.True(t, k.startHandoff(key0, "a"))
		got, err := do(s, lease)
		require.NoError(t, err, name)
		require.Empty(t, got.Next, name)
		require.NotContains(t, k.get(key0), "checkpointOwner", name)
		require.Equal(t, N("1"), k.get(key0)["ownerSwitchesSinceCheckpoint"], name)
	}
}

// An offer is a handoff to KCL, too: a leader that finds it pending for too long may end it by force, and then the donor is out.
func TestOfferThatAKCLLeaderEnds(t *testing.T) {
	k := kcl{newRaw(t)}
	s := k.store()
	lease := acquire(t, s, "0", leasestore.Lease{})
	offered, err := s.Offer(t.Context(), lease, "b")
	require.NoError(t, err)
	require.False(t, k.startHandoff(key0, "b"), "a lease that is handed over can not be handed over")
	require.False(t, k.renew(key0, "1", "2"), "no worker may renew it either")
	require.True(t, k.assign(key0, S("b"), S("a"), "b"))
	for name, err := range map[string]error{
		"renew":      second(s.Renew(t.Context(), offered)),
		"checkpoint": second(s.Checkpoint(t.Context(), offered, leasestore.ShardEnd())),
		"acquire":    second(s.Acquire(t.Context(), offered, "b")),
	} {
		require.ErrorIs(t, err, leasestore.ErrFenced, name)
	}
	got, err := s.Get(t.Context(), lease.Key)
	require.NoError(t, err)
	require.Equal(t, "b", got.Owner)
	require.Empty(t, got.Next)
}

func second(_ leasestore.Lease, err error) error { return err }

// A worker that dies is replaced by a node, and the other way round; whoever was thought dead is fenced.
func TestTakeoversBetweenNodeAndKCLWorker(t *testing.T) {
	k := kcl{newRaw(t, kclLease("0"))}
	s := k.store()
	lease, err := s.Get(t.Context(), shardKey("0"))
	require.NoError(t, err)
	lease, err = s.Acquire(t.Context(), lease, "a")
	require.NoError(t, err)
	require.False(t, k.renew(key0, "4711", "4712"), "the worker has lost it")
	require.Equal(t, leasestore.AtSequence(sequence, 3), lease.Checkpoint)

	// KCL 2's take, and a leader's assignment.
	require.True(t, k.write(key0, expected{"leaseCounter": is(N("4712"))},
		row{"leaseOwner": S(worker), "checkpointOwner": nil, "leaseCounter": N("4713")}))
	_, err = s.Renew(t.Context(), lease)
	require.ErrorIs(t, err, leasestore.ErrFenced, "the node has lost it")
	require.True(t, k.assign(key0, S(worker), nil, "a"))
	got, err := s.Get(t.Context(), lease.Key)
	require.NoError(t, err)
	require.Equal(t, "a", got.Owner, "what a leader assigns to a node is the node's")
	_, err = s.Renew(t.Context(), got)
	require.NoError(t, err)
}

// Somebody writes the owner by hand and leaves the counter: the owner of before is out, as it could not know otherwise.
func TestOwnerChangedByHand(t *testing.T) {
	k := kcl{newRaw(t)}
	s := k.store()
	lease := acquire(t, s, "0", leasestore.Lease{Checkpoint: leasestore.TrimHorizon()})
	k.put(with(k.get(key0), row{"leaseOwner": S("z")}))
	before := k.get(key0)
	for name, err := range map[string]error{
		"renew":      second(s.Renew(t.Context(), lease)),
		"checkpoint": second(s.Checkpoint(t.Context(), lease, leasestore.ShardEnd())),
		"move":       second(s.Move(t.Context(), lease, leasestore.ShardEnd(), 1)),
		"offer":      second(s.Offer(t.Context(), lease, "b")),
		"release":    second(s.Release(t.Context(), lease)),
	} {
		require.ErrorIs(t, err, leasestore.ErrFenced, name)
	}
	require.Equal(t, before, k.get(key0))
	got, err := s.Acquire(t.Context(), lease, "b")
	require.NoError(t, err, "for taking a lease the counter alone counts")
	require.Equal(t, "b", got.Owner)
}

// What a caller's lease says of the stored checkpoint is not believed.
func TestCheckpointIsJudgedByTheRow(t *testing.T) {
	s := newRaw(t).store()
	lease := acquire(t, s, "0", leasestore.Lease{Checkpoint: leasestore.AtSequence("100", 0)})
	lie := lease
	lie.Checkpoint = leasestore.TrimHorizon()
	_, err := s.Checkpoint(t.Context(), lie, leasestore.AtSequence("99", 0))
	require.ErrorIs(t, err, leasestore.ErrBackwards)
	lie.Checkpoint = leasestore.ShardEnd()
	got, err := s.Checkpoint(t.Context(), lie, leasestore.AtSequence("101", 0))
	require.NoError(t, err)
	require.Equal(t, leasestore.AtSequence("101", 0), got.Checkpoint)
}
