// Command ours reads a stream with this library, delivered to an actor.
package main

import (
	"context"
	"flag"
	"log"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/peers/internal/tally"
)

func main() {
	// A wider window than the default makes pages larger, which is of no use unless reads are paced.
	window := flag.Int("window", 0, "records of a shard in flight; 0: as it comes")
	batch := flag.Int("batch", 0, "records in a message; 0: the best, with -defaults a message per record")
	flags := tally.Parse()
	if *batch == 0 && !flags.Defaults {
		*batch = 500
	}

	connection := []protokinesis.Option{
		protokinesis.WithEndpoint(flags.Endpoint), protokinesis.WithRegion(flags.Region), protokinesis.WithTestCredentials(),
	}
	options := []protokinesis.StreamOption{protokinesis.StartAt(protokinesis.TrimHorizon())}
	if !flags.Defaults { // the default is five reads per second and shard, as the service allows
		connection = append(connection, protokinesis.WithLimits(protokinesis.Limits{ReadsPerSecond: -1}))
	}
	if *batch > 0 {
		options = append(options, protokinesis.Batches(*batch))
	}
	if *window > 0 {
		options = append(options, protokinesis.Window(*window))
	}
	system := actor.NewActorSystem()
	counts := tally.New(flags)
	counts.Start()
	sys := protokinesis.New(system, connection...)
	if err := sys.Connect(context.Background()); err != nil {
		log.Fatal(err)
	}
	sub, err := sys.Subscribe(context.Background(), protokinesis.Stream(flags.Stream, options...), subscriber(system, counts))
	if err != nil {
		log.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		<-sub.Done()
		failed <- sub.Err()
	}()
	counts.Finish(failed)
}

// subscriber counts and acks; checkpoints are kept in memory, which is the default.
func subscriber(system *actor.ActorSystem, counts *tally.Tally) protokinesis.Subscriber {
	return protokinesis.Actor(system.Root.Spawn(actor.PropsFromFunc(func(c actor.Context) {
		switch m := c.Message().(type) {
		case *messages.DeliveryBatch:
			shard := counts.Shard(m.GetDeliveries()[0].GetShardId()) // a batch is of one shard
			for _, d := range m.GetDeliveries() {
				shard.Add(d.GetSequenceNumber(), d.GetData())
			}
			c.Respond(m.Ack())
		case *messages.Delivery:
			counts.Shard(m.GetShardId()).Add(m.GetSequenceNumber(), m.GetData())
			c.Respond(m.Ack())
		}
	})))
}
