package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/protokinesis/protokinesis"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// cli is the command line.
type cli struct {
	globals

	Demo    demoCmd    `cmd:"" help:"Publish and consume while shards split and merge, on an embedded Kinesis, and check every record."`
	Serve   serveCmd   `cmd:"" help:"Run the embedded Kinesis for local development."`
	Consume consumeCmd `cmd:"" help:"Print the records of a stream, or run a command for each."`
	Publish publishCmd `cmd:"" help:"Publish the lines of standard input."`
	Shards  shardsCmd  `cmd:"" help:"List the shards of a stream."`
	Bench   benchCmd   `cmd:"" help:"Measure how fast records are published and consumed."`
	Leases  leasesCmd  `cmd:"" help:"List the leases and checkpoints in a lease store, and the nodes that share it."`
}

// globals are the flags of all commands.
type globals struct {
	Endpoint        endpointURL `group:"Flags of all commands:" placeholder:"URL" help:"The Kinesis service, such as an emulator. Default: AWS_ENDPOINT_URL_KINESIS, else the region's."`
	Region          string      `group:"Flags of all commands:" placeholder:"NAME" help:"The AWS region. Default: what the AWS environment and configuration say."`
	TestCredentials bool        `group:"Flags of all commands:" help:"Sign with fixed, meaningless keys, which emulators accept."`
	Wire            string      `group:"Flags of all commands:" enum:"sdk,json,cbor" default:"json" help:"What records travel in: json, cbor (a quarter shorter), or sdk (JSON by the SDK's own code, slower)."`
	LogLevel        string      `group:"Flags of all commands:" enum:"debug,info,warn,error" default:"warn" help:"What is logged to standard error: debug, info, warn or error."`
}

// app is what commands run with.
type app struct {
	globals
	ctx            context.Context //nolint:containedctx // the life of the program; a signal ends it
	stdin          io.Reader
	stdout, stderr io.Writer
	log            *slog.Logger
}

const description = `Amazon Kinesis Data Streams for Go services on Proto.Actor.

Data goes to standard output, everything else to standard error. The exit code is 0 when all was done, 1 when something failed, 2 when the command line is wrong. SIGINT and SIGTERM end a command in order: what was begun is finished, checkpoints are written, leases released; a second signal ends it at once.`

// run is the program without its process. It returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	// Others write to stderr too: the log, the commands of --exec.
	safe := &lockedWriter{to: stderr}
	command, code := parse(args, stdout, safe)
	if command == nil {
		return code
	}
	c := command.Model.Target.Addr().Interface().(*cli) //nolint:forcetypeassert // it is what parse parsed into
	a := &app{globals: c.globals, ctx: ctx, stdin: stdin, stdout: stdout, stderr: safe}
	a.log = slog.New(slog.NewTextHandler(safe, &slog.HandlerOptions{Level: logLevel(c.LogLevel)}))
	if err := command.Run(a); err != nil {
		return a.report(err)
	}
	return exitDone
}

// exited carries an exit code out of kong, which expects its Exit not to return.
type exited int

// parse reads the command line. Without a command the program ends with the code: help was asked for, or it was wrong.
func parse(args []string, stdout, stderr io.Writer) (command *kong.Context, code int) {
	var c cli
	defer func() {
		if r := recover(); r != nil {
			early, ok := r.(exited)
			if !ok {
				panic(r)
			}
			command, code = nil, int(early)
		}
	}()
	parser, err := kong.New(
		&c, kong.Name("protokinesis"), kong.Description(description), kong.Writers(stdout, stderr),
		kong.Exit(func(code int) { panic(exited(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		panic(err) // the structs above are wrong
	}
	command, err = parser.Parse(args)
	if err != nil {
		advice := "see protokinesis --help"
		var at *kong.ParseError
		if errors.As(err, &at) && at.Context.Selected() != nil {
			advice = "see protokinesis " + at.Context.Selected().Name + " --help"
		}
		_, _ = fmt.Fprintf(stderr, "protokinesis: %s (%s)\n", oneLine(err), advice)
		return nil, exitUsage
	}
	return command, exitDone
}

// errReported is a failure that has been told of already.
var errReported = errors.New("already reported")

// usageError is what is wrong with the command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// report prints why the command failed, in one line, and returns its exit code.
func (a *app) report(err error) int {
	var usage *usageError
	switch {
	case errors.Is(err, errReported):
	case errors.Is(err, syscall.EPIPE):
		a.log.Debug("nobody reads the output any more", slog.Any("error", err))
	default:
		a.log.Debug("failed", slog.Any("error", err))
		_, _ = fmt.Fprintf(a.stderr, "protokinesis: %s\n", oneLine(err))
	}
	if errors.As(err, &usage) || errors.Is(err, protokinesis.ErrInvalid) {
		return exitUsage
	}
	return exitFailed
}

// sdkNoise is what the SDK wraps around a service's error; the log has all of it.
var sdkNoise = regexp.MustCompile(`(api error \w+: )?operation error (?:Kinesis|DynamoDB): \w+, (exceeded maximum number of attempts, \d+, )?` +
	`(https response error StatusCode: \d+, RequestID: [^,]*, )?`)

// unlessInterrupted is err, but nil when it is no more than that the program was asked to end.
func (a *app) unlessInterrupted(err error) error {
	if a.ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// oneLine is an error's text without line breaks and without the SDK's wrapping.
func oneLine(err error) string {
	lines := strings.FieldsFunc(sdkNoise.ReplaceAllString(err.Error(), ""), func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "; ")
}

func logLevel(name string) slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(name)); err != nil {
		return slog.LevelWarn // kong lets only known names through
	}
	return level
}

// lockedWriter lets many write to one.
type lockedWriter struct {
	mu sync.Mutex
	to io.Writer
}

// Write implements io.Writer.
func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}
