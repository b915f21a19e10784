package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/remote"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/protokinesis/protokinesis/remoting"
)

// hostPort is an address to listen on that other nodes reach.
type hostPort struct {
	host string
	port int
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *hostPort) UnmarshalText(text []byte) error {
	host, portText, err := net.SplitHostPort(string(text))
	port, portErr := strconv.ParseUint(portText, 10, 16)
	if err != nil || portErr != nil {
		return fmt.Errorf("%q is not HOST:PORT, such as 10.0.0.7:8090, or 10.0.0.7:0 for any free port", text)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		return fmt.Errorf("%q means all addresses of this host: give the one by which other nodes reach it", text)
	}
	*h = hostPort{host, int(port)}
	return nil
}

func (h hostPort) given() bool { return h.host != "" }

func (h hostPort) String() string { return net.JoinHostPort(h.host, strconv.Itoa(h.port)) }

// listen makes an actor system one that others reach. It comes before anything is spawned in it.
func (h hostPort) listen(system *actor.ActorSystem, log *slog.Logger) (r *remote.Remote, err error) {
	defer func() {
		if failure := recover(); failure != nil { // that is how it fails
			r, err = nil, fmt.Errorf("--remote: can't listen on %s: %v", h, failure)
		}
	}()
	r = remote.NewRemote(system, remoting.Configure(h.host, h.port, remoting.WithLogger(log)))
	r.Start()
	log.Info("other nodes reach this one", slog.String("address", system.Address()))
	return r, nil
}

// remoteGrace is how long connections to other nodes may take to end. They need not: leases are given back by then.
const remoteGrace = time.Second

// hangUp ends the connections to other nodes. What Proto.Actor says of each is not worth telling then.
func hangUp(r *remote.Remote, log *mutable) {
	log.muted.Store(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Shutdown(true)
	}()
	select {
	case <-done:
	case <-time.After(remoteGrace):
	}
}

// mutable is the log of an actor system. It can be ended.
type mutable struct{ muted atomic.Bool }

func (m *mutable) logger(log *slog.Logger) *slog.Logger {
	return slog.New(mutableHandler{log.Handler(), m})
}

type mutableHandler struct {
	slog.Handler
	of *mutable
}

// Enabled implements slog.Handler.
func (h mutableHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return !h.of.muted.Load() && h.Handler.Enabled(ctx, level)
}

// Handle implements slog.Handler. A connection that this node has closed itself, as the other one has ended in order, is no error.
func (h mutableHandler) Handle(ctx context.Context, r slog.Record) error {
	closed := false
	r.Attrs(func(a slog.Attr) bool {
		err, _ := a.Value.Any().(error)
		closed = closed || status.Code(err) == codes.Canceled
		return !closed
	})
	if closed {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h mutableHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return mutableHandler{h.Handler.WithAttrs(attrs), h.of}
}

// WithGroup implements slog.Handler.
func (h mutableHandler) WithGroup(name string) slog.Handler {
	return mutableHandler{h.Handler.WithGroup(name), h.of}
}
