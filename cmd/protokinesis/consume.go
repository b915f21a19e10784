package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/messages"
)

type consumeCmd struct {
	Stream streamName `arg:"" help:"The stream's name or ARN."`

	From       position  `placeholder:"POSITION" help:"Where to start: tip, horizon (the oldest record), an RFC 3339 time, or SHARD@SEQUENCE[:SUB]. Default: the checkpoint, else the tip."`
	LeaseStore storeName `default:"memory" placeholder:"STORE" help:"Where leases and checkpoints are kept: memory, file:PATH, or dynamodb:TABLE, which any number of nodes share (${default})."`
	Owner      string    `placeholder:"ID" help:"The name of this consumer in the leases. Default: the host's."`

	tableFlags
	NeverCreateTable bool     `help:"With dynamodb: fail if the table does not exist, instead of creating it."`
	Remote           hostPort `placeholder:"HOST:PORT" help:"With dynamodb: listen there for other nodes, which tell what has changed; port 0 is any free one. Whoever can connect is trusted. Default: none tells, and changes are seen at the next look, every --renew-every."`

	Count *int           `placeholder:"N" help:"End after N records."`
	For   *time.Duration `placeholder:"DURATION" help:"End after this time."`

	Output string `placeholder:"FORM" help:"How records are printed: text, json (a line each) or raw (the data and a newline). Default: text."`
	Exec   string `placeholder:"CMD" help:"Run this shell command for each record instead, with the data on its standard input."`

	OnRecreated recreated `placeholder:"POLICY" help:"When the stream was deleted and created again since the last run, or is during this one: fail, or reset to start over at its oldest record. Default: fail."`
	Strays      strays    `placeholder:"POLICY" help:"Aggregated user records whose hash key lies outside their shard: deliver, drop, or error to stop the shard there. Default: deliver."`

	CreateIfMissing *int           `placeholder:"N" help:"Create the stream with N shards if it does not exist."`
	Ordering        string         `default:"strict" enum:"strict,relaxed" placeholder:"strict|relaxed" help:"Whether the shards of a split or merge are read after those they came from, which keeps the order of a partition key, or beside them (${default})."`
	Parallel        int            `default:"1" placeholder:"N" help:"With --exec: commands running at a time per shard (${default})."`
	Window          *int           `placeholder:"N" help:"Records of a shard that are read ahead. Default: 1000."`
	PollInterval    *time.Duration `placeholder:"DURATION" help:"Pause between reads of a shard that is read to its tip. Default: 1s."`
	IdlePoll        *time.Duration `name:"idle-poll-interval" placeholder:"DURATION" help:"Let the pause grow up to this, at most 1m, on shards to which nothing comes: to 5s in two minutes. Default: it does not grow."`
	ReadRate        readRate       `placeholder:"N|off" help:"The most reads of a shard per second, or off for no limit. Default: 5, as the service allows."`
	LeaseTTL        *time.Duration `name:"lease-ttl" placeholder:"DURATION" help:"How long a lease outlives its owner. Default: 10s."`
	RenewEvery      *time.Duration `placeholder:"DURATION" help:"Pause between renewals of leases, and between looks at those of other nodes. Default: 3/10 of --lease-ttl."`
	Gather          *time.Duration `placeholder:"DURATION" help:"With dynamodb: how long to wait for other nodes that start too, when nobody reads the stream yet; 0s not to. Default: --renew-every."`
	ListEvery       *time.Duration `placeholder:"DURATION" help:"Pause between listings of the stream's shards. Default: 10s."`
	ShutdownTimeout time.Duration  `default:"30s" placeholder:"DURATION" help:"How long what was begun may take at the end (${default})."`

	// EndWithStdin is for the consumer of a demo: the end of its standard input, which comes also when the demo is killed, ends it in order,
	// and its leases, which nobody will want again, are removed then.
	EndWithStdin bool `hidden:""`
}

const (
	defaultTTL = 10 * time.Second
	// printBatch is the most records that are printed in one piece.
	printBatch = 256
	// orderingRelaxed is the value of --ordering that is not the default.
	orderingRelaxed = "relaxed"
)

// Help is shown below the flags.
func (consumeCmd) Help() string {
	return `A record is acked when it is printed, or when its command exits with 0. Another exit code runs the command again, after a pause; its standard output is printed, in one piece, when it succeeds. It finds PK_STREAM, PK_SHARD, PK_SEQUENCE, PK_SUB_SEQUENCE, PK_PARTITION_KEY, PK_ARRIVAL, PK_ATTEMPT and PK_HEADERS (JSON) in its environment.

With --parallel 1 the records of a shard are handled in their order, and one that fails holds up its shard; with more, records of one partition key are, and one that fails holds up its key.

With --lease-store dynamodb:TABLE the nodes, each a consume, share the stream: their shares differ by a shard at most, one that ends in order hands its shards to the others, and those of one that dies are taken over by a node that has watched them for --lease-ttl. --from moves the whole stream, whoever reads it: give it to nodes that start together, and not to one that joins later.

After an orderly end the next run with the same lease store goes on with the next record: none is missing and none comes twice. After a crash none is missing, and the last ones may come again.`
}

// Validate is called by kong before anything is done.
func (c *consumeCmd) Validate() error {
	if c.Output != "" && c.Output != formatText && c.Output != formatJSON && c.Output != formatRaw {
		return fmt.Errorf("--output: %q is none of text, json, raw", c.Output)
	}
	if c.Exec != "" && c.Output != "" {
		return errors.New("--exec and --output can't be used together: the command's output is printed as it is")
	}
	if err := firstError(
		atLeast("--count", c.Count, 1), atLeast("--window", c.Window, 1), atLeast("--parallel", &c.Parallel, 1),
		atLeast("--create-if-missing", c.CreateIfMissing, 1),
		positive("--for", c.For), positive("--poll-interval", c.PollInterval), positive("--idle-poll-interval", c.IdlePoll), positive("--lease-ttl", c.LeaseTTL),
		positive("--renew-every", c.RenewEvery), positive("--list-every", c.ListEvery),
		positive("--shutdown-timeout", &c.ShutdownTimeout),
	); err != nil {
		return err
	}
	if err := c.checkStore(); err != nil {
		return err
	}
	if t := c.timings(); t.RenewEvery >= t.LeaseTTL {
		return fmt.Errorf("--renew-every: %v is not shorter than the lease's life of %v (--lease-ttl): every lease would run out",
			t.RenewEvery, t.LeaseTTL)
	}
	return nil
}

// checkStore checks the flags about the lease store.
func (c *consumeCmd) checkStore() error {
	if err := c.check(c.LeaseStore); err != nil {
		return err
	}
	if err := notNegative("--gather", orZero(c.Gather)); err != nil {
		return err
	}
	if c.LeaseStore.table != "" {
		return nil
	}
	return firstError(
		needsTable("--never-create-table", c.NeverCreateTable), needsTable("--remote", c.Remote.given()), needsTable("--gather", c.Gather != nil),
	)
}

func (c *consumeCmd) timings() protokinesis.Timings {
	t := protokinesis.Timings{
		LeaseTTL: orZero(c.LeaseTTL), RenewEvery: orZero(c.RenewEvery), ListEvery: orZero(c.ListEvery), ShutdownTimeout: c.ShutdownTimeout,
	}
	if t.LeaseTTL == 0 {
		t.LeaseTTL = defaultTTL
	}
	if t.RenewEvery == 0 {
		t.RenewEvery = t.LeaseTTL * 3 / 10
	}
	if c.Gather != nil {
		t.GatherTime = *c.Gather
		if t.GatherTime == 0 {
			t.GatherTime = -1 // 0 is the default
		}
	}
	return t
}

func (c *consumeCmd) descriptor() *messages.StreamDescriptor {
	options := []protokinesis.StreamOption{protokinesis.Batches(printBatch)}
	if c.From.at != nil {
		options = append(options, protokinesis.StartAt(c.From.at))
	}
	if c.CreateIfMissing != nil {
		options = append(options, protokinesis.CreateIfMissing(*c.CreateIfMissing))
	}
	if c.Window != nil {
		options = append(options, protokinesis.Window(*c.Window))
	}
	options = append(options, protokinesis.OnRecreated(c.OnRecreated.policy), protokinesis.StrayRecords(c.Strays.policy))
	if c.Ordering == orderingRelaxed {
		options = append(options, protokinesis.RelaxedOrdering())
	}
	d := protokinesis.Stream(string(c.Stream), options...)
	if c.PollInterval != nil {
		d.PollInterval = durationpb.New(*c.PollInterval)
	}
	if c.IdlePoll != nil {
		d.IdlePollInterval = durationpb.New(*c.IdlePoll)
	}
	return d
}

// Run implements the command.
func (c *consumeCmd) Run(a *app) (err error) {
	if c.EndWithStdin {
		ended := a.endWithStdin()
		defer func() {
			if ended.Err() != nil {
				c.removeLeases()
			}
		}()
	}
	options := []protokinesis.Option{
		protokinesis.WithTimings(c.timings()), protokinesis.WithLimits(protokinesis.Limits{ReadsPerSecond: int(c.ReadRate)}),
	}
	if c.Owner != "" {
		options = append(options, protokinesis.WithOwnerID(c.Owner))
	}
	store, closeStore, err := c.openStore(a)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := closeStore(); err == nil && closeErr != nil {
			err = closeErr
		}
	}()
	if store != nil {
		options = append(options, protokinesis.WithLeaseStore(store))
	}
	cfg, closeIdle, err := a.awsConfig()
	if err != nil {
		return err
	}
	defer closeIdle()
	n, err := a.connect(cfg, c.Remote, options...)
	if err != nil {
		return a.unlessInterrupted(err)
	}
	return c.consume(a, n)
}

// endWithStdin makes the end of standard input end the command in order, as a signal does. The context returned ends with it.
func (a *app) endWithStdin() context.Context {
	stdin, end := context.WithCancel(context.WithoutCancel(a.ctx))
	var cancel context.CancelFunc
	a.ctx, cancel = context.WithCancel(a.ctx)
	context.AfterFunc(stdin, cancel)
	go func() {
		_, _ = io.Copy(io.Discard, a.stdin) // if it can't be read, it has ended
		end()
	}()
	return stdin
}

// removeLeases removes the lease file, and its folder if nothing else is in it.
func (c *consumeCmd) removeLeases() {
	if c.LeaseStore.path != "" {
		_ = os.Remove(c.LeaseStore.path)
		_ = os.Remove(filepath.Dir(c.LeaseStore.path))
	}
}

func (c *consumeCmd) consume(a *app, n *node) error {
	consumer := consumerConfig{parallel: 1, jobSize: printBatch, count: orZero(c.Count), log: a.log}
	out := &printer{to: a.stdout, format: c.Output}
	consumer.handle = out.print
	if c.Exec != "" {
		consumer.parallel, consumer.jobSize = c.Parallel, 1
		commands := &executor{command: c.Exec, out: out, errors: a.errorOutput()}
		consumer.handle = commands.run
		defer commands.groups.dieTogether(a.ctx)()
	}
	co, err := consume(a.ctx, n, c.descriptor(), consumer)
	if err != nil {
		if closeErr := n.close(a.ctx, c.ShutdownTimeout); closeErr != nil {
			a.log.Warn("shutdown", slog.Any("error", closeErr))
		}
		return a.unlessInterrupted(err)
	}
	var timeUp <-chan time.Time
	if c.For != nil {
		timer := time.NewTimer(*c.For)
		defer timer.Stop()
		timeUp = timer.C
	}
	select {
	case <-co.done:
	case <-a.ctx.Done():
	case <-timeUp:
	}
	return co.close(a.ctx, c.ShutdownTimeout)
}
