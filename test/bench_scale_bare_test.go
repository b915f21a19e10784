package test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// barePolls is what a careful program on the SDK alone does with many shards: the SDK's own HTTP client with as many idle connections as the library keeps,
// and a goroutine for each shard, whose polls begin spread over the interval.
type barePolls struct {
	url    string
	shards int
	poll   time.Duration
	got    func(records int)
}

// pollBare returns when every shard has its iterator.
func (c *scaleChild) pollBare() error {
	return (&barePolls{url: c.job.URL, shards: c.job.Shards, poll: c.poll(), got: func(n int) { c.records.Add(int64(n)) }}).start()
}

func (b *barePolls) start() error {
	client := kinesis.New(kinesis.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(b.url), Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient: awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
			t.MaxIdleConnsPerHost, t.MaxIdleConns = 256, 0
			t.IdleConnTimeout = 30 * time.Second
			t.ReadBufferSize, t.WriteBufferSize = 16<<10, 16<<10
		}),
	})
	iterators, err := b.open(client)
	if err != nil {
		return err
	}
	for i, it := range iterators {
		go func() {
			time.Sleep(b.poll * time.Duration(i) / time.Duration(b.shards))
			b.read(client, it)
		}()
	}
	return nil
}

// open asks for the iterators, some at a time.
func (b *barePolls) open(client *kinesis.Client) ([]*string, error) {
	const openers = 16
	iterators, errs := make([]*string, b.shards), make([]error, openers)
	var wg sync.WaitGroup
	for o := range openers {
		wg.Go(func() {
			for i := o; i < b.shards; i += openers {
				out, err := client.GetShardIterator(context.Background(), &kinesis.GetShardIteratorInput{
					StreamName: aws.String(benchStream), ShardId: aws.String(fmt.Sprintf("shardId-%012d", i)), ShardIteratorType: types.ShardIteratorTypeLatest,
				})
				if err != nil {
					errs[o] = err
					return
				}
				iterators[i] = out.ShardIterator
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return iterators, nil
}

func (b *barePolls) read(client *kinesis.Client, iterator *string) {
	for {
		out, err := client.GetRecords(context.Background(), &kinesis.GetRecordsInput{ShardIterator: iterator, Limit: aws.Int32(1000)})
		if err == nil {
			b.got(len(out.Records))
			iterator = out.NextShardIterator
		}
		time.Sleep(b.poll)
	}
}
