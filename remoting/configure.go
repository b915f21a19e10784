package remoting

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

const (
	// DefaultMaxMessageSize holds a DeliveryBatch of a whole window (16 MiB by default) with what is said about each of its records.
	DefaultMaxMessageSize = 32 << 20

	defaultKeepalive        = 10 * time.Second // the least that gRPC allows
	defaultKeepaliveTimeout = 3 * time.Second
	// A server ends connections of clients that ping more often.
	leastKeepalive = 5 * time.Second

	writerQueue = 1024
	// A peer that is not there is tried once per message or watch that finds no connection. Of every further try within that, Proto.Actor would leave the
	// connection behind, which goes on trying for ever.
	connectTries   = 1
	connectTimeout = 3 * time.Second
)

// Option changes what Configure makes.
type Option func(*settings)

type settings struct {
	advertised       string
	maxMessage       int
	keepalive        time.Duration
	keepaliveTimeout time.Duration
	server, client   *tls.Config
	logger           *slog.Logger
	more             []remote.ConfigOption
}

// WithAdvertisedHost is the host, or host:port, by which other nodes reach this one, when it is not the one that it listens on: behind a NAT, or
// when it listens on all interfaces. Without a port it is the one that the node listens on. Nodes must use it as it is spelled here, which they
// do if they take it from what this node tells.
func WithAdvertisedHost(host string) Option { return func(s *settings) { s.advertised = host } }

// WithMaxMessageSize bounds the bytes of one message. Default 32 MiB. A subscription whose window_bytes is larger than 16 MiB, and that delivers in
// batches to another node, needs twice its window here, on both nodes.
func WithMaxMessageSize(bytes int) Option { return func(s *settings) { s.maxMessage = bytes } }

// WithKeepalive asks a peer that has been silent for after whether it is there, and takes it for gone when it has not answered within timeout.
// Default 10 s and 3 s; gRPC allows no less than 10 s.
func WithKeepalive(after, timeout time.Duration) Option {
	return func(s *settings) { s.keepalive, s.keepaliveTimeout = after, timeout }
}

// WithTLS encrypts: server is for connections to this node, client for those it makes. All nodes must have it, or none. For mutual TLS set
// ClientAuth and ClientCAs in server; [WithMutualTLS] does that.
func WithTLS(server, client *tls.Config) Option {
	return func(s *settings) { s.server, s.client = server, client }
}

// WithLogger takes the log of what is dropped and refused. Default: none.
func WithLogger(l *slog.Logger) Option { return func(s *settings) { s.logger = l } }

// WithRemoteOptions adds options of Proto.Actor's own, such as remote.WithKinds. gRPC options among them come after those of this package.
func WithRemoteOptions(options ...remote.ConfigOption) Option {
	return func(s *settings) { s.more = append(s.more, options...) }
}

// Configure is the configuration of a node that listens on host and port; port 0 is any that is free. It panics if other nodes could not
// reach the node by the address they would be told: when host means all interfaces and there is no [WithAdvertisedHost]; and if TLS is given for one
// side only.
func Configure(host string, port int, options ...Option) *remote.Config {
	s := settings{
		maxMessage: DefaultMaxMessageSize, keepalive: defaultKeepalive, keepaliveTimeout: defaultKeepaliveTimeout,
		logger: slog.New(slog.DiscardHandler),
	}
	for _, o := range options {
		o(&s)
	}
	if (s.server == nil) != (s.client == nil) {
		panic("remoting: TLS needs the configuration of both sides, as every node is server and client")
	}
	if s.advertised == "" && listensEverywhere(host) {
		panic(fmt.Sprintf("remoting: %q means all interfaces, which is no address that other nodes can reach: use WithAdvertisedHost", host))
	}
	port, advertised := address(host, port, s.advertised)
	config := remote.Configure(bracketed(host), port)
	config.AdvertisedHost = advertised
	config.EndpointWriterQueueSize = writerQueue
	config.MaxRetryCount = connectTries
	config.DialOptions = nil // without TLS, and nothing else
	for _, o := range s.more {
		o(config)
	}
	config.ServerOptions = append(s.serverOptions(), config.ServerOptions...)
	config.DialOptions = append(s.dialOptions(), config.DialOptions...)
	return config
}

func (s *settings) serverOptions() []grpc.ServerOption {
	g := guard{log: s.logger}
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(s.maxMessage), grpc.MaxSendMsgSize(s.maxMessage),
		grpc.ConnectionTimeout(defaultKeepalive),
		// A server looks after its clients as well, or connections of those that were cut off would stay.
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: s.keepalive, Timeout: s.keepaliveTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: min(leastKeepalive, s.keepalive/2), PermitWithoutStream: true}),
		grpc.ChainStreamInterceptor(g.stream), grpc.ChainUnaryInterceptor(g.unary),
	}
	if s.server != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(s.server)))
	}
	return options
}

func (s *settings) dialOptions() []grpc.DialOption {
	creds := insecure.NewCredentials()
	if s.client != nil {
		creds = credentials.NewTLS(s.client)
	}
	return []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(s.maxMessage), grpc.MaxCallSendMsgSize(s.maxMessage)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: s.keepalive, Timeout: s.keepaliveTimeout, PermitWithoutStream: true}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: connectTimeout}),
		grpc.WithChainStreamInterceptor(splitter{max: s.maxMessage, log: s.logger}.intercept),
	}
}

// address is the port to listen on, and the address to advertise; empty: the one that is listened on. An advertised host without a port
// needs to know the port before the node listens, so a free one is chosen here.
func address(host string, port int, advertised string) (listen int, advertise string) {
	if advertised == "" {
		return port, ""
	}
	if _, _, err := net.SplitHostPort(advertised); err == nil {
		return port, advertised
	}
	if port == 0 {
		port = freePort(host)
	}
	return port, net.JoinHostPort(strings.Trim(advertised, "[]"), strconv.Itoa(port))
}

func freePort(host string) int {
	l, err := net.Listen("tcp", net.JoinHostPort(strings.Trim(host, "[]"), "0")) //nolint:noctx // returns at once
	if err != nil {
		panic(fmt.Errorf("remoting: no free port on %q: %w", host, err))
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // of a TCP listener
}

func listensEverywhere(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "" || (ip != nil && ip.IsUnspecified())
}

// bracketed is the host as Proto.Actor, which puts a colon and the port behind it, needs it.
func bracketed(host string) string {
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		return "[" + host + "]"
	}
	return host
}
