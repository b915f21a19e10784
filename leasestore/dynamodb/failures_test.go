package dynamodb_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/leasestore/dynamodb"
)

// behind is a store whose requests go through a proxy.
func behind(t *testing.T, options ...dynamodb.Option) (*proxy, *dynamodb.Store, string) {
	t.Helper()
	p, table := newProxy(t), newTable()
	return p, newStore(t, impatient(p.url), table, options...), table
}

// impatient is a client that tries as often as the SDK's own, and waits less between the tries.
func impatient(endpoint string) *sdk.Client {
	return sdk.New(sdk.Options{
		Region:       "eu-west-1",
		BaseEndpoint: &endpoint,
		Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
		Retryer: retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts, o.MaxBackoff = 4, time.Millisecond
		}),
	})
}

// noVerdict checks that an error is an outage: it says nothing of leases.
func noVerdict(t *testing.T, err error, name string) {
	t.Helper()
	require.Error(t, err, name)
	for _, verdict := range []error{
		leasestore.ErrFenced, leasestore.ErrNotFound, leasestore.ErrBackwards, leasestore.ErrInvalid, leasestore.ErrClosed,
	} {
		require.NotErrorIs(t, err, verdict, name)
	}
}

// everyCall does every call of a store that reads or writes, of a lease that a owns.
func everyCall(ctx context.Context, s *dynamodb.Store, lease leasestore.Lease) map[string]error {
	errs := map[string]error{}
	_, errs["Get"] = s.Get(ctx, lease.Key)
	_, errs["List"] = s.List(ctx, lease.Stream)
	_, errs["View"] = s.View(ctx, lease.Stream)
	_, errs["Streams"] = s.Streams(ctx)
	_, errs["Dates"] = s.Dates(ctx, lease.Stream)
	_, errs["Acquire"] = s.Acquire(ctx, lease, "b")
	_, errs["Offer"] = s.Offer(ctx, lease, "b")
	_, errs["Renew"] = s.Renew(ctx, lease)
	_, errs["Checkpoint"] = s.Checkpoint(ctx, lease, leasestore.ShardEnd())
	_, errs["Move"] = s.Move(ctx, lease, leasestore.ShardEnd(), 1)
	_, errs["Release"] = s.Release(ctx, lease)
	errs["Delete"] = s.Delete(ctx, lease)
	_, errs["State"] = s.State(ctx, lease.Stream)
	_, errs["SaveState"] = s.SaveState(ctx, leasestore.StreamState{Stream: lease.Stream})
	_, errs["Beat"] = s.Beat(ctx, leasestore.Member{ID: "m"})
	errs["Forget"] = s.Forget(ctx, leasestore.Member{ID: "m", Beat: 1})
	return errs
}

// L3: the reply of a write is lost, the SDK tries again, and the second try is refused because of the first.
func TestLostRepliesAreConfirmed(t *testing.T) {
	for name, c := range map[string]struct {
		owner string
		do    func(ctx context.Context, s leasestore.Store, l leasestore.Lease) (leasestore.Lease, error)
	}{
		"Acquire": {"b", func(ctx context.Context, s leasestore.Store, l leasestore.Lease) (leasestore.Lease, error) {
			return s.Acquire(ctx, l, "b")
		}},
		"Offer": {"a", func(ctx context.Context, s leasestore.Store, l leasestore.Lease) (leasestore.Lease, error) {
			return s.Offer(ctx, l, "b")
		}},
		"Renew": {"a", func(ctx context.Context, s leasestore.Store, l leasestore.Lease) (leasestore.Lease, error) {
			return s.Renew(ctx, l)
		}},
		"Checkpoint": {"a", func(ctx context.Context, s leasestore.Store, l leasestore.Lease) (leasestore.Lease, error) {
			return s.Checkpoint(ctx, l, leasestore.AtSequence(sequence, 1))
		}},
		"Move": {"a", func(ctx context.Context, s leasestore.Store, l leasestore.Lease) (leasestore.Lease, error) {
			return s.Move(ctx, l, leasestore.Before(sequence, 0), 1)
		}},
		"Release": {"", func(ctx context.Context, s leasestore.Store, l leasestore.Lease) (leasestore.Lease, error) {
			return s.Release(ctx, l)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			p, s, _ := behind(t)
			before := acquire(t, s, "0", leasestore.Lease{Checkpoint: leasestore.TrimHorizon()})
			for _, lost := range []int{1, 100} {
				p.reset(only("UpdateItem", lost, loseReply))
				_, err := c.do(t.Context(), s, before)
				if lost == 1 {
					require.ErrorIs(t, err, leasestore.ErrFenced, "the second try meets what the first has done")
				} else {
					noVerdict(t, err, "no reply at all")
				}
				p.reset(nil)
				var held leasestore.Lease
				if c.owner == "" {
					held, err = leasestore.ConfirmRelease(t.Context(), s, before, err)
				} else {
					held, err = leasestore.Confirm(t.Context(), s, before, c.owner, err)
				}
				require.NoError(t, err)
				require.Equal(t, before.Counter+1, held.Counter)
				require.Equal(t, c.owner, held.Owner)
				before, err = s.Acquire(t.Context(), held, "a")
				require.NoError(t, err)
			}
		})
	}
}

func TestLostReplyOfACreationIsConfirmed(t *testing.T) {
	p, s, _ := behind(t)
	_, err := s.Streams(t.Context())
	require.NoError(t, err)
	p.reset(only("UpdateItem", 1, loseReply))
	before := leasestore.Lease{Key: shardKey("0")}
	_, err = s.Acquire(t.Context(), before, "a")
	require.ErrorIs(t, err, leasestore.ErrFenced)
	held, err := leasestore.Confirm(t.Context(), s, before, "a", err)
	require.NoError(t, err)
	require.Equal(t, int64(1), held.Counter)
}

func TestThrottlingIsAnOutage(t *testing.T) {
	p, s, _ := behind(t)
	lease := acquire(t, s, "0", leasestore.Lease{})
	for _, code := range []string{"ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded", "InternalServerError"} {
		status := http.StatusBadRequest
		if code == "InternalServerError" {
			status = http.StatusInternalServerError
		}
		p.reset(all(refuse(status, code)))
		for name, err := range everyCall(t.Context(), s, lease) {
			noVerdict(t, err, name)
			var said interface{ ErrorCode() string }
			require.ErrorAs(t, err, &said, "%s: what the SDK said is in the error", name)
			require.Equal(t, code, said.ErrorCode(), name)
			require.ErrorContains(t, err, "leases-", name)
		}
	}
	// Only writes: it is not taken for a condition that failed.
	var throttled *types.ProvisionedThroughputExceededException
	p.reset(only("UpdateItem", 1000, refuse(http.StatusBadRequest, "ProvisionedThroughputExceededException")))
	_, err := s.Renew(t.Context(), lease)
	require.ErrorAs(t, err, &throttled)
	require.NotContains(t, p.counted(), "GetItem")

	p.reset(nil)
	_, err = s.Renew(t.Context(), lease)
	require.NoError(t, err, "the lease is as it was")
}

// L18: a throttled request is tried again, within the call.
func TestThrottledRequestsAreTriedAgain(t *testing.T) {
	p, s, _ := behind(t)
	lease := acquire(t, s, "0", leasestore.Lease{})
	p.reset(func(_ string, n int) handler {
		if n <= 2 {
			return refuse(http.StatusBadRequest, "ProvisionedThroughputExceededException")
		}
		return nil
	})
	_, err := s.Renew(t.Context(), lease)
	require.NoError(t, err)
	_, err = s.View(t.Context(), lease.Stream)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"UpdateItem": 3, "Scan": 3}, p.counted())
}

func TestServiceOutOfReachIsAnOutage(t *testing.T) {
	p, s, _ := behind(t)
	lease := acquire(t, s, "0", leasestore.Lease{})
	p.reset(all(cut))
	for name, err := range everyCall(t.Context(), s, lease) {
		noVerdict(t, err, name)
	}
	p.reset(nil)
	_, err := s.Renew(t.Context(), lease)
	require.NoError(t, err)
}

func TestCallsEndWithTheirContextAlthoughTheServiceHangs(t *testing.T) {
	p, s, _ := behind(t)
	lease := acquire(t, s, "0", leasestore.Lease{})
	p.reset(all(hang))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for name, err := range everyCall(ctx, s, lease) {
		require.ErrorIs(t, err, context.DeadlineExceeded, name)
		noVerdict(t, err, name)
	}
	p.reset(nil)
	_, err := s.Renew(t.Context(), lease)
	require.NoError(t, err)
}

func TestCloseEndsAScanThatHangs(t *testing.T) {
	p, s, _ := behind(t)
	lease := acquire(t, s, "0", leasestore.Lease{})
	begun := make(chan struct{})
	p.reset(only("Scan", 1, func(w http.ResponseWriter, r *http.Request, f http.Handler) {
		close(begun)
		hang(w, r, f)
	}))
	failed := make(chan error)
	go func() { _, err := s.View(t.Context(), lease.Stream); failed <- err }()
	<-begun
	require.NoError(t, s.Close())
	require.ErrorIs(t, <-failed, leasestore.ErrClosed)
	for name, err := range everyCall(t.Context(), s, lease) {
		require.ErrorIs(t, err, leasestore.ErrClosed, name)
	}
}

func deleteTable(t *testing.T, client *sdk.Client, table string) {
	t.Helper()
	_, err := client.DeleteTable(t.Context(), &sdk.DeleteTableInput{TableName: &table})
	require.NoError(t, err)
	require.NoError(t, sdk.NewTableNotExistsWaiter(client, func(o *sdk.TableNotExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = 10*time.Millisecond, 50*time.Millisecond
	}).Wait(t.Context(), &sdk.DescribeTableInput{TableName: &table}, time.Minute))
}

func TestDeletedTableIsAnOutageAndCreatedAgain(t *testing.T) {
	table := newRaw(t)
	for name, do := range map[string]func(s *dynamodb.Store, l leasestore.Lease) error{
		"Renew": func(s *dynamodb.Store, l leasestore.Lease) error { return second(s.Renew(t.Context(), l)) },
		"Get":   func(s *dynamodb.Store, l leasestore.Lease) error { return second(s.Get(t.Context(), l.Key)) },
		"View":  func(s *dynamodb.Store, l leasestore.Lease) error { _, err := s.View(t.Context(), l.Stream); return err },
		"Delete": func(s *dynamodb.Store, l leasestore.Lease) error {
			return s.Delete(t.Context(), l)
		},
		"Beat": func(s *dynamodb.Store, _ leasestore.Lease) error {
			_, err := s.Beat(t.Context(), leasestore.Member{ID: "m"})
			return err
		},
	} {
		s := table.store()
		lease := acquire(t, s, "0", leasestore.Lease{})
		deleteTable(t, table.client, table.table)
		err := do(s, lease)
		noVerdict(t, err, name)
		var missing *types.ResourceNotFoundException
		require.ErrorAs(t, err, &missing, name)

		_, err = s.Renew(t.Context(), lease)
		require.ErrorIs(t, err, leasestore.ErrFenced, "%s: there is a table again, and the lease is not in it", name)
		acquire(t, s, "0", leasestore.Lease{})
		require.NoError(t, s.Close())
		table.drop(ordersKey + ":" + shard("0"))
	}
}

func TestNeverCreate(t *testing.T) {
	client, table := impatient(newProxy(t).url), newTable()
	s := newStore(t, client, table, dynamodb.NeverCreate())
	for range 2 {
		for name, err := range everyCall(t.Context(), s, leasestore.Lease{Key: shardKey("0"), Owner: "a", Counter: 1}) {
			noVerdict(t, err, name)
			require.ErrorContains(t, err, table, name)
			require.ErrorContains(t, err, "must not be created", name)
		}
	}
	acquire(t, newStore(t, client, table), "0", leasestore.Lease{})
	_, err := s.Get(t.Context(), shardKey("0"))
	require.NoError(t, err, "somebody created it meanwhile")
	deleteTable(t, client, table)
	_, err = s.Get(t.Context(), shardKey("0"))
	noVerdict(t, err, "deleted")
	_, err = s.Get(t.Context(), shardKey("0"))
	require.ErrorContains(t, err, "must not be created")
}

func TestTableIsCreatedOnceByManyNodes(t *testing.T) {
	p, table := newProxy(t), newTable()
	var wait sync.WaitGroup
	for range 10 {
		s := newStore(t, impatient(p.url), table)
		for range 3 {
			wait.Go(func() {
				_, err := s.View(t.Context(), orders)
				assert.NoError(t, err)
				_, err = s.Get(t.Context(), shardKey("0"))
				assert.ErrorIs(t, err, leasestore.ErrNotFound)
			})
		}
	}
	wait.Wait()
	out, err := impatient(p.url).DescribeTable(t.Context(), &sdk.DescribeTableInput{TableName: &table})
	require.NoError(t, err)
	require.Equal(t, types.BillingModePayPerRequest, out.Table.BillingModeSummary.BillingMode)
	require.Len(t, out.Table.GlobalSecondaryIndexes, 1)
	index := out.Table.GlobalSecondaryIndexes[0]
	require.Equal(t, "LeaseOwnerToLeaseKeyIndex", *index.IndexName)
	require.Equal(t, types.ProjectionTypeKeysOnly, index.Projection.ProjectionType)
	require.Equal(t, []types.KeySchemaElement{
		{AttributeName: aws.String("leaseOwner"), KeyType: types.KeyTypeHash},
		{AttributeName: aws.String("leaseKey"), KeyType: types.KeyTypeRange},
	}, index.KeySchema)
}

func TestTableOfAnotherKindIsRefused(t *testing.T) {
	client := impatient(newProxy(t).url)
	for name, schema := range map[string]struct {
		keys  []types.KeySchemaElement
		kinds []types.AttributeDefinition
	}{
		"another key": {
			[]types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
			[]types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: "S"}},
		},
		"a number": {
			[]types.KeySchemaElement{{AttributeName: aws.String("leaseKey"), KeyType: types.KeyTypeHash}},
			[]types.AttributeDefinition{{AttributeName: aws.String("leaseKey"), AttributeType: "N"}},
		},
		"a range key": {
			[]types.KeySchemaElement{
				{AttributeName: aws.String("leaseKey"), KeyType: types.KeyTypeHash}, {AttributeName: aws.String("shard"), KeyType: types.KeyTypeRange},
			},
			[]types.AttributeDefinition{
				{AttributeName: aws.String("leaseKey"), AttributeType: "S"}, {AttributeName: aws.String("shard"), AttributeType: "S"},
			},
		},
	} {
		table := newTable()
		_, err := client.CreateTable(t.Context(), &sdk.CreateTableInput{
			TableName: &table, BillingMode: types.BillingModePayPerRequest, KeySchema: schema.keys, AttributeDefinitions: schema.kinds,
		})
		require.NoError(t, err)
		s := newStore(t, client, table)
		for range 2 {
			_, err = s.View(t.Context(), orders)
			require.ErrorIs(t, err, leasestore.ErrInvalid, name)
			require.ErrorContains(t, err, "not HASH leaseKey (S)", name)
			require.ErrorContains(t, err, table, name)
		}
	}
}

func TestTableThatMustNotBeDescribedIsUsed(t *testing.T) {
	p, s, table := behind(t)
	acquire(t, newStore(t, impatient(p.url), table), "0", leasestore.Lease{})
	p.reset(only("DescribeTable", 100, refuse(http.StatusBadRequest, "AccessDeniedException")))
	_, err := s.Get(t.Context(), shardKey("0"))
	require.NoError(t, err)
	require.Equal(t, map[string]int{"DescribeTable": 1, "GetItem": 1}, p.counted())
}

// reasons is a client whose service says what the row was that a condition failed on.
type reasons struct {
	dynamodb.API
	rows func(key string) row
}

func (r reasons) UpdateItem(ctx context.Context, in *sdk.UpdateItemInput, o ...func(*sdk.Options)) (*sdk.UpdateItemOutput, error) {
	out, err := r.API.UpdateItem(ctx, in, o...)
	var refused *types.ConditionalCheckFailedException
	if errors.As(err, &refused) && in.ReturnValuesOnConditionCheckFailure == types.ReturnValuesOnConditionCheckFailureAllOld {
		refused.Item = r.rows(in.Key["leaseKey"].(*types.AttributeValueMemberS).Value)
	}
	return out, err
}

// The real service tells with the refusal what the row was, and that is enough; the emulator does not, and is asked.
func TestRefusalsCostNoReadWhereTheServiceTellsTheRow(t *testing.T) {
	p, _, table := behind(t)
	rows := &raw{t: t, client: impatient(p.url), table: table}
	s := newStore(t, reasons{rows.client, rows.get}, table)
	lease := acquire(t, s, "0", leasestore.Lease{Checkpoint: leasestore.AtSequence("5", 0)})
	rows.client = impatient(newProxy(t).url) // not counted
	s2 := newStore(t, reasons{impatient(p.url), rows.get}, table)
	_, err := s2.Streams(t.Context())
	require.NoError(t, err)

	p.reset(nil)
	_, err = s2.Checkpoint(t.Context(), leasestore.Lease{Key: lease.Key, Owner: "a", Counter: lease.Counter}, leasestore.AtSequence("4", 0))
	require.ErrorIs(t, err, leasestore.ErrBackwards)
	stale := lease
	stale.Counter++
	_, err = s2.Renew(t.Context(), stale)
	require.ErrorIs(t, err, leasestore.ErrFenced)
	require.Equal(t, map[string]int{"UpdateItem": 2}, p.counted())
}
