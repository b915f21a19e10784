// Command protokinesis reads and writes Amazon Kinesis Data Streams, and brings an embedded Kinesis to try it with.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	// With SIGPIPE notified, a write to a closed pipe is an error that is seen to, and the program lives to release its leases.
	// It is not ignored, as programs started by --exec would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
