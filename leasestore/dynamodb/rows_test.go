package dynamodb_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore/dynamodb"
	"github.com/protokinesis/protokinesis/test/emulators"
)

// Rows as they are in the table, past the store.

type row = map[string]types.AttributeValue

func S(s string) types.AttributeValue     { return &types.AttributeValueMemberS{Value: s} }
func N(n string) types.AttributeValue     { return &types.AttributeValueMemberN{Value: n} }
func B(b string) types.AttributeValue     { return &types.AttributeValueMemberB{Value: []byte(b)} }
func SS(s ...string) types.AttributeValue { return &types.AttributeValueMemberSS{Value: s} }
func NS(n ...string) types.AttributeValue { return &types.AttributeValueMemberNS{Value: n} }
func BS(b ...string) types.AttributeValue {
	var set [][]byte
	for _, one := range b {
		set = append(set, []byte(one))
	}
	return &types.AttributeValueMemberBS{Value: set}
}

func L(v ...types.AttributeValue) types.AttributeValue {
	return &types.AttributeValueMemberL{Value: append([]types.AttributeValue{}, v...)}
}

func M(m row) types.AttributeValue { return &types.AttributeValueMemberM{Value: m} }

func BOOL(b bool) types.AttributeValue { return &types.AttributeValueMemberBOOL{Value: b} }

func NULL() types.AttributeValue { return &types.AttributeValueMemberNULL{Value: true} }

// with is the row with attributes added, replaced or (nil) taken away.
func with(r row, changes row) row {
	r = maps.Clone(r)
	for name, value := range changes {
		if value == nil {
			delete(r, name)
		} else {
			r[name] = value
		}
	}
	return r
}

// raw is a table and the client that reads and writes it past the store.
type raw struct {
	t      *testing.T
	client *sdk.Client
	table  string
}

// newRaw is a lease table with those rows in it.
func newRaw(t *testing.T, rows ...row) *raw {
	t.Helper()
	client := newClient(t, emulators.Dynalite(t))
	r := &raw{t: t, client: client, table: newTable()}
	_, err := newStore(t, client, r.table).Streams(t.Context()) // which makes the table
	require.NoError(t, err)
	r.put(rows...)
	return r
}

func (r *raw) store(options ...dynamodb.Option) *dynamodb.Store {
	r.t.Helper()
	return newStore(r.t, r.client, r.table, options...)
}

func (r *raw) put(rows ...row) {
	r.t.Helper()
	for _, item := range rows {
		_, err := r.client.PutItem(r.t.Context(), &sdk.PutItemInput{TableName: &r.table, Item: item})
		require.NoError(r.t, err)
	}
}

func (r *raw) get(key string) row {
	r.t.Helper()
	out, err := r.client.GetItem(r.t.Context(), &sdk.GetItemInput{
		TableName: &r.table, Key: row{"leaseKey": S(key)}, ConsistentRead: aws.Bool(true),
	})
	require.NoError(r.t, err)
	return sorted(out.Item)
}

func (r *raw) drop(key string) {
	r.t.Helper()
	_, err := r.client.DeleteItem(r.t.Context(), &sdk.DeleteItemInput{TableName: &r.table, Key: row{"leaseKey": S(key)}})
	require.NoError(r.t, err)
}

// all are all rows by key.
func (r *raw) all() map[string]row {
	r.t.Helper()
	rows := map[string]row{}
	out, err := r.client.Scan(r.t.Context(), &sdk.ScanInput{TableName: &r.table, ConsistentRead: aws.Bool(true)})
	require.NoError(r.t, err)
	for _, item := range out.Items {
		rows[item["leaseKey"].(*types.AttributeValueMemberS).Value] = sorted(item)
	}
	return rows
}

// sorted has every set in the item in order, as sets have none.
func sorted(item row) row {
	for _, value := range item {
		switch v := value.(type) {
		case *types.AttributeValueMemberSS:
			slices.Sort(v.Value)
		case *types.AttributeValueMemberNS:
			slices.Sort(v.Value)
		case *types.AttributeValueMemberBS:
			slices.SortFunc(v.Value, func(a, b []byte) int { return strings.Compare(string(a), string(b)) })
		}
	}
	return item
}

// foreign is the row without the attributes that this library writes into leases.
func foreign(r row) row {
	return with(r, row{
		"leaseOwner": nil, "checkpointOwner": nil, "leaseCounter": nil, "checkpoint": nil, "checkpointSubSequenceNumber": nil,
		"ownerSwitchesSinceCheckpoint": nil, "pendingCheckpoint": nil, "pendingCheckpointSubSequenceNumber": nil, "pendingCheckpointState": nil,
		"protokinesisStream": nil, "protokinesisCheckpoint": nil, "protokinesisSeek": nil, "protokinesisWritten": nil,
	})
}

// undated is the row without the time it was written at.
func undated(t *testing.T, r row) row {
	t.Helper()
	require.Contains(t, r, "protokinesisWritten")
	return with(r, row{"protokinesisWritten": nil})
}
