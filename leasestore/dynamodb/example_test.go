package dynamodb_test

import (
	"context"
	"log"

	"github.com/aws/aws-sdk-go-v2/config"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/protokinesis/protokinesis/leasestore/dynamodb"
)

// All nodes, and KCL workers if there are any, name the same table: it is called like the KCL application.
func Example() {
	cfg, err := config.LoadDefaultConfig(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	store, err := dynamodb.New(sdk.NewFromConfig(cfg), "orders-application")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	// Now protokinesis.Connect(…, protokinesis.WithLeaseStore(store)).
}
