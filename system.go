// Package protokinesis reads and writes Amazon Kinesis Data Streams with Proto.Actor actors.
//
// A System is a broker actor in your actor system. It opens subscriptions, each with a coordinator that shares the stream's shards with
// other nodes through leases, and a reader actor per shard; and publishers, one per stream. Use it through this package's functions, or
// send the messages of package messages to System.PID.
//
// What it promises: every record retained is delivered at least once, those of one partition key in order of their sequence numbers (with
// HandlerFunc, or per_key_order), also across splits, merges, restarts and moves between nodes; a checkpoint is never beyond a record that is
// not settled; a broker that is not connected says so.
package protokinesis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/aws/aws-sdk-go-v2/aws"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/protokinesis/protokinesis/actors"
	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/messages"
)

// Error is what every failure of this package is: kind, stream, shard, what happened, what to do, and the cause.
type Error = actors.Error

// Timings are how long and how often; zero means the default.
type Timings = actors.Timings

// Limits are how much; zero means the default.
type Limits = actors.Limits

// WireFormat is what records are read and written in.
type WireFormat = actors.WireFormat

// The wire formats.
const (
	// JSON is what every service takes. Data travels as base64.
	JSON = actors.JSON
	// CBOR is a quarter shorter and less work. When a service turns out not to take it, JSON is used from then on, and the log says so.
	CBOR = actors.CBOR
)

// The kinds of failure, for errors.Is.
var (
	// ErrInvalid: the request is wrong; Error.Field says which part. Nothing was done.
	ErrInvalid error = actors.ErrInvalid
	// ErrConfig: AWS configuration, credentials, region or endpoint do not work.
	ErrConfig error = actors.ErrConfig
	// ErrStream: the stream is missing, being deleted, or can't be described or listed.
	ErrStream error = actors.ErrStream
	// ErrRead: a shard can't be read or positioned.
	ErrRead error = actors.ErrRead
	// ErrPublish: a record was not stored, or it is unknown (Error.OutcomeUnknown).
	ErrPublish error = actors.ErrPublish
	// ErrLease: the lease store failed, or a lease was lost.
	ErrLease error = actors.ErrLease
	// ErrNotConnected: the broker is not connected, not yet or no longer.
	ErrNotConnected error = actors.ErrNotConnected
	// ErrOverloaded: a bound on memory is reached.
	ErrOverloaded error = actors.ErrOverloaded
	// ErrTimeout: no answer in time. It is also context.DeadlineExceeded.
	ErrTimeout error = actors.ErrTimeout
)

// Drop makes a handler's error give the record up: the shard advances past it.
func Drop(cause error) error { return actors.Drop(cause) }

// RetryAfter makes a handler's error retry the record after delay, instead of after the usual backoff.
func RetryAfter(cause error, delay time.Duration) error { return actors.RetryAfter(cause, delay) }

// Option configures a System.
type Option func(*actors.Config)

// WithRegion sets the AWS region. Default: what the SDK finds.
func WithRegion(region string) Option { return func(c *actors.Config) { c.Region = region } }

// WithEndpoint sets the URL of the Kinesis service, such as an emulator's.
func WithEndpoint(url string) Option { return func(c *actors.Config) { c.Endpoint = url } }

// WithTestCredentials signs with fixed, meaningless keys, which emulators accept.
func WithTestCredentials() Option { return func(c *actors.Config) { c.TestCredentials = true } }

// WithAWSConfig uses an AWS configuration as it is; region, endpoint and test credentials given besides are ignored.
func WithAWSConfig(cfg aws.Config) Option { return func(c *actors.Config) { c.AWS = &cfg } }

// WithWireFormat sets what records are read and written in: JSON, the default, or CBOR.
func WithWireFormat(f WireFormat) Option { return func(c *actors.Config) { c.WireFormat = f } }

// WithSDKProtocol leaves the reading of answers and the writing of requests to the SDK. By default pages of records are decoded, and PutRecords
// written, by code made for just that, which returns what the SDK would, several times as fast.
func WithSDKProtocol() Option { return func(c *actors.Config) { c.SDKProtocol = true } }

// WithLeaseStore keeps leases and checkpoints in store, which stays the caller's to close. Default: in memory.
func WithLeaseStore(store leasestore.Store) Option {
	return func(c *actors.Config) { c.Store = store }
}

// WithOwnerID names this node in the lease store; a nonce is appended. Default: the host name.
func WithOwnerID(id string) Option { return func(c *actors.Config) { c.OwnerID = id } }

// WithLogger takes the log. Default: none.
func WithLogger(l *slog.Logger) Option { return func(c *actors.Config) { c.Logger = l } }

// WithTimings sets how long and how often.
func WithTimings(t Timings) Option { return func(c *actors.Config) { c.Timings = t } }

// WithLimits sets how much.
func WithLimits(l Limits) Option { return func(c *actors.Config) { c.Limits = l } }

// WithName names the broker actor. Default: "protokinesis", with a number when that is taken.
func WithName(name string) Option { return func(c *actors.Config) { c.Name = name } }

// System is a broker in an actor system, with a Go API. All methods may be called from any goroutine.
type System struct {
	system *actor.ActorSystem
	pid    *actor.PID
	asker  *actors.Asker
	logger *slog.Logger

	publisher *Publisher // without options

	mu         sync.Mutex
	handlers   map[string]*Subscription // of HandlerFunc subscriptions, by the handler's actor id
	publishers []*Publisher             // with options
}

// New spawns a broker in system. It does no I/O; what is wrong with the options is found by Connect. It panics if the name given by
// WithName is taken in system.
func New(system *actor.ActorSystem, options ...Option) *System {
	var cfg actors.Config
	for _, o := range options {
		o(&cfg)
	}
	pid, err := actors.SpawnBroker(system, cfg)
	for n := 2; err != nil && cfg.Name == "" && errors.Is(err, actor.ErrNameExists); n++ {
		numbered := cfg
		numbered.Name = fmt.Sprintf("protokinesis-%d", n)
		pid, err = actors.SpawnBroker(system, numbered)
	}
	if err != nil {
		panic(err)
	}
	logger := cfg.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	s := &System{
		system: system, pid: pid, asker: actors.NewAsker(system), logger: logger, handlers: make(map[string]*Subscription),
	}
	s.publisher = &Publisher{system: s}
	return s
}

// PID is the broker, for those who send messages (package messages).
func (s *System) PID() *actor.PID { return s.pid }

// Connect loads the AWS configuration and builds the clients. It makes no request to AWS: bad credentials fail the first
// Subscribe. Calling it again is fine. Errors: ErrConfig, ErrInvalid, ErrNotConnected after Shutdown.
func (s *System) Connect(ctx context.Context) error {
	n := actors.NextCorrelation()
	_, err := s.ask(ctx, "", &messages.Connect{Correlation: n}, n)
	return err
}

// Shutdown ends the System: publishers flush, what is in flight may settle, checkpoints are written and leases released, for as long as
// ctx allows (30 s without a deadline). It returns nil when all of it was done, else an ErrTimeout that names what was not. After it every
// call answers ErrNotConnected; another Shutdown returns at once.
func (s *System) Shutdown(ctx context.Context) error {
	n := actors.NextCorrelation()
	request := &messages.Shutdown{Correlation: n, Timeout: budget(ctx)}
	answer, err := as[*messages.Closed](s.ask(ctx, "", request, n))
	stopErr := s.stopHandlers(ctx)
	if err != nil {
		return err
	}
	return errors.Join(unfinished("", "shut down", answer.GetUnfinished()), stopErr)
}

// unfinished is the error of an end that left something; nil if nothing was left.
func unfinished(stream, what string, left []string) error {
	if len(left) == 0 {
		return nil
	}
	return &Error{
		Kind: messages.ErrorKind_ERROR_KIND_TIMEOUT, Stream: stream, Text: fmt.Sprintf("%s with unfinished work: %q", what, left),
	}
}

// budget is how long a drain may take so that its answer is there before ctx ends; nil: the broker's default.
func budget(ctx context.Context) *durationpb.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	left := time.Until(deadline)
	return durationpb.New(max(0, left-min(max(left/5, 50*time.Millisecond), 2*time.Second)))
}

// Status tells how the broker, its subscriptions and publishers are.
func (s *System) Status(ctx context.Context) (*messages.Status, error) {
	n := actors.NextCorrelation()
	return as[*messages.Status](s.ask(ctx, "", &messages.StatusRequest{Correlation: n}, n))
}

// ApplicationStatus tells how all nodes that share the lease store are: Status.Nodes. Nodes that this one reaches by Proto.Actor's remote answer for
// themselves; of others the lease store says what they read. It takes four seconds at most. Errors: ErrLease when the store can't be read.
func (s *System) ApplicationStatus(ctx context.Context) (*messages.Status, error) {
	n := actors.NextCorrelation()
	return as[*messages.Status](s.ask(ctx, "", &messages.StatusRequest{Application: true, Correlation: n}, n))
}

func (s *System) ask(ctx context.Context, stream string, request any, correlation uint64) (any, error) {
	return s.askPID(ctx, s.pid, stream, request, correlation)
}

func (s *System) askPID(ctx context.Context, to *actor.PID, stream string, request any, correlation uint64) (any, error) {
	answer, err := s.asker.Ask(ctx, to, request, correlation)
	return answer, deadline(err, stream)
}

// deadline gives the end of a context by its deadline its kind.
func deadline(err error, stream string) error {
	var own *Error
	if err == nil || !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &own) {
		return err
	}
	return &Error{
		Kind: messages.ErrorKind_ERROR_KIND_TIMEOUT, Stream: stream, Cause: err, OutcomeUnknown: true,
		Text: "no answer before the context's deadline",
	}
}

func as[T any](answer any, err error) (T, error) {
	var none T
	if err != nil {
		return none, err
	}
	m, ok := answer.(T)
	if !ok {
		return none, fmt.Errorf("protokinesis: unexpected answer %T", answer)
	}
	return m, nil
}

// stopHandlers ends the handlers of all subscriptions. What was queued is not started; what runs sees its context end.
func (s *System) stopHandlers(ctx context.Context) error {
	s.mu.Lock()
	subs := make([]*Subscription, 0, len(s.handlers))
	for _, sub := range s.handlers {
		subs = append(subs, sub)
	}
	s.mu.Unlock()
	var all error
	for _, sub := range subs {
		all = errors.Join(all, s.stopHandler(ctx, sub))
	}
	return all
}

func (s *System) stopHandler(ctx context.Context, sub *Subscription) error {
	s.mu.Lock()
	_, alive := s.handlers[sub.handler.Id]
	s.mu.Unlock()
	if alive {
		s.system.Root.Poison(sub.handler)
	}
	select {
	case <-sub.stopped:
	case <-ctx.Done():
		return &Error{
			Kind: messages.ErrorKind_ERROR_KIND_TIMEOUT, Stream: sub.stream, Cause: ctx.Err(),
			Text: "a handler has not returned", Advice: "handlers should watch their context",
		}
	}
	return nil
}

// forget is called when a subscription's handler has stopped.
func (s *System) forget(sub *Subscription) {
	s.mu.Lock()
	delete(s.handlers, sub.handler.Id)
	s.mu.Unlock()
	close(sub.stopped)
}
