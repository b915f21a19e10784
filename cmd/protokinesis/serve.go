package main

import (
	"fmt"

	"github.com/protokinesis/protokinesis/test/kinesistest"
)

type serveCmd struct {
	Listen string `default:"127.0.0.1:4567" placeholder:"HOST:PORT" help:"Where to listen; port 0 is any free one (${default})."`
	Limits bool   `help:"Enforce the limits of the real service: reads, writes and calls per second."`

	// EndWithStdin is for the service of a benchmark, which ends with it however that ends.
	EndWithStdin bool `hidden:""`
}

// Help is shown below the flags.
func (serveCmd) Help() string {
	return "The service keeps everything in memory: when it ends, streams and records are gone. Its output can be evaluated by a shell."
}

// Run implements the command.
func (s *serveCmd) Run(a *app) error {
	if s.EndWithStdin {
		a.endWithStdin()
	}
	options := []kinesistest.Option{kinesistest.WithCallLog(0)}
	if s.Limits {
		options = append(options, kinesistest.WithLimits())
	}
	server, err := kinesistest.Listen(a.ctx, s.Listen, options...)
	if err != nil {
		return fmt.Errorf("the service can't start: %w (choose another address with --listen)", err)
	}
	_, err = fmt.Fprintf(a.stdout, `# Kinesis listens at %[1]s until this program is interrupted
export AWS_ENDPOINT_URL_KINESIS=%[1]s
export AWS_ACCESS_KEY_ID=test
export AWS_SECRET_ACCESS_KEY=test
# any region will do, but there must be one: export AWS_REGION=us-east-1
`, server.URL())
	if err == nil {
		<-a.ctx.Done()
	}
	if closeErr := server.Close(); err == nil {
		err = closeErr
	}
	return err
}
