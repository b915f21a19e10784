package kinesistest_test

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/protokinesis/protokinesis/test/kinesistest"
)

// A test calls [kinesistest.Start] instead, which needs neither an address nor Close.
func ExampleListen() {
	ctx := context.Background()
	server, err := kinesistest.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = server.Close() }()
	if err := server.CreateStream("orders", 1); err != nil {
		fmt.Println(err)
		return
	}

	// The second attempt of the SDK succeeds.
	server.Fault("PutRecord", kinesistest.Match{Stream: "orders"}, 1, kinesistest.Error("InternalFailure", "scripted"))
	out, err := server.Client().PutRecord(ctx, &kinesis.PutRecordInput{
		StreamName: aws.String("orders"), PartitionKey: aws.String("customer-7"), Data: []byte("one pizza"),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(*out.ShardId, server.CallCount("PutRecord"))
	for _, record := range server.Records("orders") {
		fmt.Printf("%s: %s\n", record.PartitionKey, record.Data)
	}
	// Output:
	// shardId-000000000000 2
	// customer-7: one pizza
}
