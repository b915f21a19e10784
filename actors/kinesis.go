package actors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/smithy-go/logging"

	"github.com/protokinesis/protokinesis/actors/internal/wire"
)

// Kinesis is the part of the SDK's client that is used, so that a fake can stand in for it.
type Kinesis interface {
	CreateStream(context.Context, *kinesis.CreateStreamInput, ...func(*kinesis.Options)) (*kinesis.CreateStreamOutput, error)
	DescribeStreamSummary(context.Context, *kinesis.DescribeStreamSummaryInput, ...func(*kinesis.Options)) (*kinesis.DescribeStreamSummaryOutput, error)
	ListShards(context.Context, *kinesis.ListShardsInput, ...func(*kinesis.Options)) (*kinesis.ListShardsOutput, error)
	GetShardIterator(context.Context, *kinesis.GetShardIteratorInput, ...func(*kinesis.Options)) (*kinesis.GetShardIteratorOutput, error)
	GetRecords(context.Context, *kinesis.GetRecordsInput, ...func(*kinesis.Options)) (*kinesis.GetRecordsOutput, error)
	PutRecords(context.Context, *kinesis.PutRecordsInput, ...func(*kinesis.Options)) (*kinesis.PutRecordsOutput, error)
	RegisterStreamConsumer(context.Context, *kinesis.RegisterStreamConsumerInput, ...func(*kinesis.Options)) (*kinesis.RegisterStreamConsumerOutput, error)
	DescribeStreamConsumer(context.Context, *kinesis.DescribeStreamConsumerInput, ...func(*kinesis.Options)) (*kinesis.DescribeStreamConsumerOutput, error)
	SubscribeToShard(context.Context, *kinesis.SubscribeToShardInput, ...func(*kinesis.Options)) (*kinesis.SubscribeToShardOutput, error)
}

// Clients are the two clients of a broker. Control is for describing, creating and listing and retries by itself. Data
// is for iterators, reads and writes: it makes one attempt per call, as readers and publishers retry themselves. The SDK's
// retryer has one token bucket per client, so that one bad shard would spend the retries of all others, and it
// would hide throttles and break the five calls per second.
type Clients struct {
	Control, Data Kinesis
}

// NewClients makes the clients of an AWS configuration, as a broker does by default.
func NewClients(cfg aws.Config) *Clients { return (&Config{}).clients(cfg) }

// clients makes the clients of an AWS configuration.
func (cfg *Config) clients(loaded aws.Config) *Clients {
	refreshing := refresh(loaded)
	guarded := func(o *kinesis.Options) {
		o.HTTPClient = bodyGuard{o.HTTPClient}
		o.APIOptions = append(o.APIOptions, refreshing)
	}
	return &Clients{
		Control: kinesis.NewFromConfig(loaded, guarded),
		Data: kinesis.NewFromConfig(loaded, guarded, func(o *kinesis.Options) {
			o.Retryer = aws.NopRetryer{}
			if !cfg.SDKProtocol {
				wire.Install(o, wire.Options{CBOR: cfg.WireFormat == CBOR, Logger: cfg.Logger})
			}
		}),
	}
}

// LoadAWS finds the AWS configuration: the one given as it is, else the SDK's default chain with region and endpoint given. It makes no
// request to AWS, though the chain reads files. The function returned closes the idle connections of a configuration that was made here.
func LoadAWS(ctx context.Context, cfg Config) (aws.Config, func(), error) {
	if cfg.AWS != nil {
		return *cfg.AWS, func() {}, nil
	}
	// A read of one shard keeps one connection busy. The SDK's default of ten idle connections to a host would open and close
	// one per call beyond ten shards; its buffers, 128 KiB a connection, would be most of what an idle shard costs. What is large passes by
	// the buffers.
	var transport *http.Transport
	client := awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.MaxIdleConnsPerHost, t.MaxIdleConns = cfg.idleConnections(), 0
		t.IdleConnTimeout = 30 * time.Second
		t.ReadBufferSize, t.WriteBufferSize = 4<<10, 4<<10
		transport = t
	})
	options := []func(*awsconfig.LoadOptions) error{awsconfig.WithHTTPClient(client)}
	if cfg.Logger != nil {
		options = append(options, awsconfig.WithLogger(SDKLogger(cfg.Logger)))
	}
	if cfg.Region != "" {
		options = append(options, awsconfig.WithRegion(cfg.Region))
	}
	if cfg.Endpoint != "" {
		options = append(options, awsconfig.WithBaseEndpoint(cfg.Endpoint))
	}
	if cfg.TestCredentials {
		options = append(options, awsconfig.WithCredentialsProvider(
			credentials.NewStaticCredentialsProvider("test", "test", "")))
		if cfg.Region == "" {
			options = append(options, awsconfig.WithDefaultRegion(testRegion))
		}
	}
	loaded, err := awsconfig.LoadDefaultConfig(ctx, options...)
	if err == nil && loaded.Region == "" {
		err = errNoRegion
	}
	return loaded, func() {
		if transport != nil {
			transport.CloseIdleConnections()
		}
	}, err
}

// idleConnections is how many are kept: as many as may be in use, and some for what is not a read.
func (cfg *Config) idleConnections() int {
	return max(256, cfg.Limits.withDefaults().ReadCalls+64)
}

// testRegion goes with test credentials: emulators take any.
const testRegion = "us-east-1"

var errNoRegion = errors.New("no AWS region is configured")

// SDKLogger takes what the SDK logs, at debug level: its warnings are of things that it deals with.
func SDKLogger(log *slog.Logger) logging.Logger {
	return logging.LoggerFunc(func(_ logging.Classification, format string, v ...any) {
		log.Debug("AWS SDK", slog.String("text", fmt.Sprintf(format, v...)))
	})
}

// bodyGuard hides the request body's WriteTo from net/http.
//
// smithy-go (seen in 1.28.9) closes the request body as soon as the client has returned, and its WriteTo answers io.EOF from
// then on. When a fast server answers before net/http's write loop has finished, that loop takes the EOF for
// a failed write and closes the connection under the response: a percent or two of reads fail with "use of closed network
// connection". Without WriteTo, net/http copies by Read, whose EOF means what it should.
type bodyGuard struct {
	next kinesis.HTTPClient
}

// Do implements kinesis.HTTPClient.
func (g bodyGuard) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		guarded := *r
		guarded.Body = readCloser{r.Body}
		r = &guarded
	}
	return g.next.Do(r)
}

// readCloser has the two methods of its body and no others.
type readCloser struct {
	body io.ReadCloser
}

func (r readCloser) Read(p []byte) (int, error) { return r.body.Read(p) }
func (r readCloser) Close() error               { return r.body.Close() }
