package protokinesis_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/protokinesis/protokinesis"
	"github.com/protokinesis/protokinesis/leasestore/file"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/test/kinesistest"
)

// service starts an embedded Kinesis for the examples; yours is AWS, or an emulator.
func service(ctx context.Context) (endpoint string, stop func()) {
	server, err := kinesistest.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	return server.URL(), func() { _ = server.Close() }
}

// A service connects, reads a stream, publishes to it, reads it all again, and ends in order.
func Example() {
	ctx := context.Background()
	endpoint, stop := service(ctx)
	defer stop()

	as := actor.NewActorSystem()
	sys := protokinesis.New(as, // no I/O yet
		protokinesis.WithEndpoint(endpoint), protokinesis.WithTestCredentials()) // for AWS, WithRegion or nothing at all
	if err := sys.Connect(ctx); err != nil {
		log.Fatal(err)
	}
	handled := make(chan struct{})
	sub, err := sys.Subscribe(ctx, protokinesis.Stream("orders", protokinesis.CreateIfMissing(2)), protokinesis.HandlerFunc(
		func(_ context.Context, d *protokinesis.Delivery) error { // nil acks, an error retries
			fmt.Println(d.PartitionKey(), string(d.Data()))
			handled <- struct{}{}
			return nil
		}))
	if err != nil {
		log.Fatal(err)
	}
	_, err = sys.Publisher().Publish(ctx, protokinesis.Record{Stream: "orders", PartitionKey: "42", Data: []byte("two apples")})
	if err != nil {
		log.Fatal(err)
	}
	<-handled
	if err := sub.Seek(ctx, protokinesis.TrimHorizon()); err != nil { // read it all again
		log.Fatal(err)
	}
	<-handled
	if err := sys.Shutdown(ctx); err != nil { // settle, checkpoint, release
		log.Fatal(err)
	}
	// Output:
	// 42 two apples
	// 42 two apples
}

// basket is an actor that counts orders.
type basket struct {
	orders int
	full   chan int
}

// Receive implements actor.Actor.
func (b *basket) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *messages.DeliveryBatch:
		b.orders += len(m.GetDeliveries())
		c.Respond(m.Ack()) // or respond to each of m.GetDeliveries()
		if b.orders == 3 {
			b.full <- b.orders
		}
	case *messages.SubscriptionError:
		log.Print(m.GetError().GetText())
	}
}

// An actor receives messages, and settles them by responding.
func ExampleActor() {
	ctx := context.Background()
	endpoint, stop := service(ctx)
	defer stop()
	actors := actor.NewActorSystem()
	system := protokinesis.New(actors, protokinesis.WithEndpoint(endpoint), protokinesis.WithTestCredentials())
	if err := system.Connect(ctx); err != nil {
		log.Fatal(err)
	}
	defer func() { _ = system.Shutdown(ctx) }()

	full := make(chan int)
	subscriber := actors.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return &basket{full: full} }))
	_, err := system.Subscribe(ctx,
		protokinesis.Stream("orders", protokinesis.CreateIfMissing(1), protokinesis.Batches(100)),
		protokinesis.Actor(subscriber))
	if err != nil {
		log.Fatal(err)
	}

	// Any actor may publish by a message to system.PID(); messages.Published or messages.Error answers it.
	for range 3 {
		actors.Root.Send(system.PID(), &messages.Publish{Stream: "orders", Data: []byte("an apple")})
	}
	fmt.Println(<-full, "orders")
	// Output: 3 orders
}

// A receipt names a place to read from again.
func ExampleSubscription_Seek() {
	ctx := context.Background()
	endpoint, stop := service(ctx)
	defer stop()
	system := protokinesis.New(actor.NewActorSystem(),
		protokinesis.WithEndpoint(endpoint), protokinesis.WithTestCredentials())
	if err := system.Connect(ctx); err != nil {
		log.Fatal(err)
	}
	defer func() { _ = system.Shutdown(ctx) }()

	handled := make(chan string)
	sub, err := system.Subscribe(ctx, protokinesis.Stream("orders", protokinesis.CreateIfMissing(1)),
		protokinesis.HandlerFunc(func(_ context.Context, d *protokinesis.Delivery) error {
			handled <- string(d.Data())
			return nil
		}))
	if err != nil {
		log.Fatal(err)
	}
	receipt, err := system.Publisher().Publish(ctx, protokinesis.Record{Stream: "orders", Data: []byte("an apple")})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-handled)

	if err := sub.Seek(ctx, protokinesis.AtSequence(receipt.Shard, receipt.SequenceNumber)); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-handled, "again")
	// Output:
	// an apple
	// an apple again
}

// A handler reads orders, makes of each an invoice and a parcel, and publishes these. It does not wait for one before it begins the next, and says that an
// order is handled only when all that came of it is stored: if the process dies before, the order comes again. An order may thus be published more
// than once, and never not at all.
func ExamplePublisher_PublishAsync() {
	ctx := context.Background()
	endpoint, stop := service(ctx)
	defer stop()
	system := protokinesis.New(actor.NewActorSystem(), protokinesis.WithEndpoint(endpoint), protokinesis.WithTestCredentials())
	if err := system.Connect(ctx); err != nil {
		log.Fatal(err)
	}
	defer func() { _ = system.Shutdown(ctx) }()

	shipped := make(chan string, 4)
	_, err := system.Subscribe(ctx, protokinesis.Stream("shipping", protokinesis.CreateIfMissing(1)), protokinesis.HandlerFunc(
		func(_ context.Context, d *protokinesis.Delivery) error {
			shipped <- string(d.Data()) + ", trace " + d.Headers()["traceparent"]
			return nil
		}))
	if err != nil {
		log.Fatal(err)
	}
	publisher := system.Publisher() // in the order of each partition key
	transform := func(ctx context.Context, d *protokinesis.Delivery) error {
		var published []*protokinesis.Pending
		for _, what := range []string{"invoice for ", "parcel with "} {
			published = append(published, publisher.PublishAsync(ctx, protokinesis.Record{
				Stream: "shipping", PartitionKey: d.PartitionKey(), Data: append([]byte(what), d.Data()...), Headers: d.Headers(),
			}))
		}
		for _, p := range published {
			if _, err := p.Wait(ctx); err != nil {
				return err // the order comes again
			}
		}
		return nil // and this acks it
	}
	_, err = system.Subscribe(ctx, protokinesis.Stream("orders", protokinesis.CreateIfMissing(1)), protokinesis.HandlerFunc(transform))
	if err != nil {
		log.Fatal(err)
	}

	for _, order := range []string{"an apple", "a pear"} {
		_, err = publisher.Publish(ctx, protokinesis.Record{
			Stream: "orders", PartitionKey: "42", Data: []byte(order), Headers: map[string]string{"traceparent": "00-" + order},
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	for range 4 {
		fmt.Println(<-shipped)
	}
	// Output:
	// invoice for an apple, trace 00-an apple
	// parcel with an apple, trace 00-an apple
	// invoice for a pear, trace 00-a pear
	// parcel with a pear, trace 00-a pear
}

// A lease file keeps the checkpoints of a node: after a restart it goes on where it was.
func ExampleWithLeaseStore() {
	ctx := context.Background()
	endpoint, stop := service(ctx)
	defer stop()
	folder, err := os.MkdirTemp("", "orders")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()

	for _, order := range []string{"an apple", "a pear"} { // a life of the process each
		leases, err := file.Open(filepath.Join(folder, "leases.db"))
		if err != nil {
			log.Fatal(err)
		}
		system := protokinesis.New(actor.NewActorSystem(), protokinesis.WithLeaseStore(leases),
			protokinesis.WithEndpoint(endpoint), protokinesis.WithTestCredentials())
		if err := system.Connect(ctx); err != nil {
			log.Fatal(err)
		}
		handled := make(chan string)
		_, err = system.Subscribe(ctx, protokinesis.Stream("orders", protokinesis.CreateIfMissing(1)),
			protokinesis.HandlerFunc(func(_ context.Context, d *protokinesis.Delivery) error {
				handled <- string(d.Data())
				return nil
			}))
		if err != nil {
			log.Fatal(err)
		}
		_, err = system.Publisher().Publish(ctx, protokinesis.Record{Stream: "orders", Data: []byte(order)})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(<-handled)
		if err := system.Shutdown(ctx); err != nil {
			log.Fatal(err)
		}
		if err := leases.Close(); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// an apple
	// a pear
}
