// Command vmware reads a stream with github.com/vmware/vmware-go-kcl-v2.
package main

import (
	"flag"
	"log"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/sirupsen/logrus"
	"github.com/vmware/vmware-go-kcl-v2/clientlibrary/config"
	"github.com/vmware/vmware-go-kcl-v2/clientlibrary/interfaces"
	"github.com/vmware/vmware-go-kcl-v2/clientlibrary/worker"
	"github.com/vmware/vmware-go-kcl-v2/logger"

	"github.com/protokinesis/protokinesis/test/peers/internal/tally"
)

// It is built with the SDK that ours has: with the older one that it asks for, it takes twice the processor time. What becomes of its other settings:
//   - MaxRecords stays at its default of 10,000, the most that the service gives. Fewer would be slower: it makes at most five calls per second and
//     shard, and reads at most 2 MB/s of a shard after the first 10 MB, neither of which can be set.
//   - The idle time between reads is slept only after an empty page, of which there are none before the last record of a shard. Shorter, shards
//     that are done would be polled while others are read.
//   - Lease stealing stays off: there is no other worker, and it would list them at each sync.
func main() {
	// A worker takes one shard at each sync, and waits half to one and a half of this before each. By default that is a minute, so the last of
	// eight shards is begun after eight minutes. Of 2 ms to 100 ms these were the best: it lists the shards at each sync, also when it has all.
	sync := flag.Duration("sync", 0, "shard sync interval; 0: the best, with -defaults a second")
	flags := tally.Parse()
	if *sync == 0 {
		*sync = 30 * time.Millisecond
		if flags.Defaults {
			*sync = time.Second
		}
	}

	quiet := logrus.New()
	quiet.SetLevel(logrus.ErrorLevel)
	cfg := config.NewKinesisClientLibConfig("peers", flags.Stream, flags.Region, "worker").
		WithInitialPositionInStream(config.TRIM_HORIZON).
		WithShardSyncIntervalMillis(int(sync.Milliseconds())).
		WithLogger(logger.NewLogrusLogger(quiet))
	client := kinesis.New(kinesis.Options{
		Region: flags.Region, BaseEndpoint: &flags.Endpoint, HTTPClient: tally.HTTPClient(),
		Credentials: credentials.NewStaticCredentialsProvider(tally.KeyID, tally.Secret, ""),
	})
	counts := tally.New(flags)
	counts.Start()
	w := worker.NewWorker(factory{counts}, cfg).WithKinesis(client).WithCheckpointer(newCheckpoints())
	if err := w.Start(); err != nil {
		log.Fatal(err)
	}
	counts.Finish(nil)
}

// factory makes a processor for each shard.
type factory struct{ counts *tally.Tally }

// CreateProcessor implements interfaces.IRecordProcessorFactory.
func (f factory) CreateProcessor() interfaces.IRecordProcessor { return &processor{counts: f.counts} }

// processor counts the records of a shard and checkpoints each page.
type processor struct {
	counts *tally.Tally
	shard  *tally.Shard
}

// Initialize implements interfaces.IRecordProcessor.
func (p *processor) Initialize(in *interfaces.InitializationInput) {
	p.shard = p.counts.Shard(in.ShardId)
}

// ProcessRecords implements interfaces.IRecordProcessor.
func (p *processor) ProcessRecords(in *interfaces.ProcessRecordsInput) {
	if len(in.Records) == 0 {
		return
	}
	for i := range in.Records {
		p.shard.Add(aws.ToString(in.Records[i].SequenceNumber), in.Records[i].Data)
	}
	if err := in.Checkpointer.Checkpoint(in.Records[len(in.Records)-1].SequenceNumber); err != nil {
		log.Fatal(err)
	}
}

// Shutdown implements interfaces.IRecordProcessor.
func (p *processor) Shutdown(*interfaces.ShutdownInput) {}
