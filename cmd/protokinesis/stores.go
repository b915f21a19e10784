package main

import (
	"fmt"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/leasestore/dynamodb"
	"github.com/protokinesis/protokinesis/leasestore/file"
)

// storeName says where leases are kept: in a file, in a table of DynamoDB, or, when both are empty, in memory.
type storeName struct {
	path, table string
}

const (
	fileScheme     = "file:"
	dynamodbScheme = "dynamodb:"
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *storeName) UnmarshalText(text []byte) error {
	name := string(text)
	*s = storeName{}
	if path, ok := strings.CutPrefix(name, fileScheme); ok && path != "" {
		s.path = path
		return nil
	}
	if table, ok := strings.CutPrefix(name, dynamodbScheme); ok && table != "" {
		s.table = table
		return nil
	}
	if name != "memory" {
		return fmt.Errorf("%q is none of memory, file:PATH, dynamodb:TABLE", name)
	}
	return nil
}

// tableFlags are the flags of leases in DynamoDB.
type tableFlags struct {
	DynamoDBEndpoint endpointURL `name:"dynamodb-endpoint" placeholder:"URL" help:"With dynamodb: the DynamoDB service, such as an emulator. Default: AWS_ENDPOINT_URL_DYNAMODB, else the region's."`
	Application      *string     `placeholder:"NAME" help:"With dynamodb: the application that the leases are of, if several share the table. Default: that of the table, as with KCL."`
	SingleStream     bool        `help:"With dynamodb: the keys are bare shard ids, as those of a KCL application that reads one stream."`
}

// check finds what can't work, before anything is done.
func (f *tableFlags) check(store storeName) error {
	if store.table == "" {
		return firstError(
			needsTable("--dynamodb-endpoint", f.DynamoDBEndpoint != ""), needsTable("--application", f.Application != nil),
			needsTable("--single-stream", f.SingleStream),
		)
	}
	probe, err := dynamodb.New(sdk.New(sdk.Options{}), store.table, f.options()...) // it does no I/O
	if err != nil {
		return fmt.Errorf("--lease-store: %w", err)
	}
	return probe.Close()
}

// needsTable is an error if a flag was given that only a table gives a meaning.
func needsTable(flag string, given bool) error {
	if !given {
		return nil
	}
	return fmt.Errorf("%s: it needs leases that nodes share: --lease-store dynamodb:TABLE", flag)
}

func (f *tableFlags) options() []dynamodb.Option {
	var options []dynamodb.Option
	if f.Application != nil {
		options = append(options, dynamodb.Application(*f.Application))
	}
	if f.SingleStream {
		options = append(options, dynamodb.SingleStream())
	}
	return options
}

// openTable opens a table of leases. It belongs to the caller, with the function that frees what it uses.
func (a *app) openTable(name storeName, f *tableFlags, more ...dynamodb.Option) (*dynamodb.Store, func() error, error) {
	cfg, closeIdle, err := a.awsConfigFor(f.DynamoDBEndpoint)
	if err != nil {
		return nil, nil, err
	}
	options := append(f.options(), dynamodb.Logger(a.log))
	store, err := dynamodb.New(sdk.NewFromConfig(cfg), name.table, append(options, more...)...)
	if err != nil {
		closeIdle()
		return nil, nil, err
	}
	return store, func() error {
		defer closeIdle()
		return store.Close()
	}, nil
}

// openStore opens the lease store of a consumer; nil is one in memory.
func (c *consumeCmd) openStore(a *app) (leasestore.Store, func() error, error) {
	switch {
	case c.LeaseStore.table != "":
		var options []dynamodb.Option
		if c.NeverCreateTable {
			options = append(options, dynamodb.NeverCreate())
		}
		return a.openTable(c.LeaseStore, &c.tableFlags, options...)
	case c.LeaseStore.path != "":
		store, err := file.Open(c.LeaseStore.path)
		if err != nil {
			return nil, nil, err
		}
		return store, store.Close, nil
	default:
		return nil, func() error { return nil }, nil
	}
}
