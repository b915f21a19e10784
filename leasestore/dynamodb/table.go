package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/protokinesis/protokinesis/leasestore"
)

// ownerIndex is the index by which KCL workers find what was assigned to them.
const ownerIndex = "LeaseOwnerToLeaseKeyIndex"

// How often a table that is being made is looked at.
const (
	firstLook = 200 * time.Millisecond
	lastLook  = 2 * time.Second
	// longestWait is for the waiter, which needs a bound; ctx has an earlier one.
	longestWait = time.Hour
)

// ensureTable makes sure, before the first call and after one that found no table, that there is one of the right kind. One caller at a time
// does it, under its own ctx; the others wait for its result.
func (s *Store) ensureTable(ctx context.Context) error {
	if s.ready.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tableTimeout)
	defer cancel()
	select {
	case <-s.checks:
		defer func() { s.checks <- struct{}{} }()
	case <-ctx.Done():
		return s.failed("wait for the table", ctx.Err())
	}
	if s.ready.Load() {
		return nil
	}
	if err := s.checkTable(ctx); err != nil {
		return err
	}
	s.ready.Store(true)
	return nil
}

func (s *Store) checkTable(ctx context.Context) error {
	out, err := s.client.DescribeTable(ctx, &sdk.DescribeTableInput{TableName: &s.table})
	var refused smithy.APIError
	switch {
	case err == nil:
	case noSuchTable(err) && s.config.never:
		return s.failed("it does not exist and must not be created; create it with the hash key "+attrKey+" (a string), or leave out NeverCreate", err)
	case noSuchTable(err):
		return s.createTable(ctx)
	case errors.As(err, &refused) && refused.ErrorCode() == "AccessDeniedException":
		// Whoever may read and write the rows need not be allowed to see the table; if it is not as it should be, they will hear of it.
		s.log.Warn("the lease table can not be described; going on as if it were right", slog.Any("error", err))
		return nil
	default:
		return s.failed("describe it", interrupted(ctx, err))
	}
	if err := checkSchema(out.Table); err != nil {
		return s.failed("check it", err)
	}
	switch out.Table.TableStatus {
	case types.TableStatusCreating:
		return s.awaitTable(ctx)
	case types.TableStatusActive, types.TableStatusUpdating:
		return nil
	case types.TableStatusDeleting, types.TableStatusInaccessibleEncryptionCredentials, types.TableStatusArchiving,
		types.TableStatusArchived, types.TableStatusReplicationNotAuthorized:
		return s.failed("use it", fmt.Errorf("its status is %s", out.Table.TableStatus))
	}
	return nil // a status that this SDK does not know
}

func checkSchema(table *types.TableDescription) error {
	kinds := map[string]types.ScalarAttributeType{}
	for _, definition := range table.AttributeDefinitions {
		kinds[aws.ToString(definition.AttributeName)] = definition.AttributeType
	}
	var found []string
	for _, part := range table.KeySchema {
		name := aws.ToString(part.AttributeName)
		found = append(found, fmt.Sprintf("%s %s (%s)", part.KeyType, name, kinds[name]))
	}
	if want := fmt.Sprintf("%s %s (%s)", types.KeyTypeHash, attrKey, types.ScalarAttributeTypeS); strings.Join(found, ", ") != want {
		return fmt.Errorf("%w: it is no lease table: its key is %s, not %s; name another table",
			leasestore.ErrInvalid, strings.Join(found, ", "), want)
	}
	return nil
}

func (s *Store) createTable(ctx context.Context) error {
	_, err := s.client.CreateTable(ctx, &sdk.CreateTableInput{
		TableName:   &s.table,
		BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String(attrKey), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String(attrOwner), AttributeType: types.ScalarAttributeTypeS},
		},
		KeySchema: []types.KeySchemaElement{{AttributeName: aws.String(attrKey), KeyType: types.KeyTypeHash}},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName: aws.String(ownerIndex),
			KeySchema: []types.KeySchemaElement{
				{AttributeName: aws.String(attrOwner), KeyType: types.KeyTypeHash},
				{AttributeName: aws.String(attrKey), KeyType: types.KeyTypeRange},
			},
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
		}},
	})
	var exists *types.ResourceInUseException
	switch {
	case err == nil:
		s.log.Info("creating the lease table")
	case errors.As(err, &exists): // another node was faster
	default:
		return s.failed("create it", interrupted(ctx, err))
	}
	return s.awaitTable(ctx)
}

// awaitTable waits until a table that somebody created can be used.
func (s *Store) awaitTable(ctx context.Context) error {
	waiter := sdk.NewTableExistsWaiter(s.client, func(o *sdk.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = s.config.firstLook, max(s.config.firstLook, lastLook)
	})
	out, err := waiter.WaitForOutput(ctx, &sdk.DescribeTableInput{TableName: &s.table}, longestWait)
	if err != nil {
		return s.failed("wait until it is active", interrupted(ctx, err))
	}
	if err := checkSchema(out.Table); err != nil {
		return s.failed("check it", err)
	}
	return nil
}
