package kinesistest

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// TB is the part of [testing.TB] that [Start] needs; with it the package does not link package
// testing into programs that embed the service.
type TB interface {
	Helper()
	Cleanup(f func())
	Fatalf(format string, args ...any)
}

// Server is a [Service] that listens on a TCP address.
type Server struct {
	*Service

	url       string
	http      *http.Server
	client    *http.Client
	served    chan struct{} // closed when the listener's goroutine has ended
	handlers  tracker
	closeOnce sync.Once
	closeErr  error
}

// Start serves a new service on a free port of 127.0.0.1 until the test ends.
func Start(tb TB, opts ...Option) *Server {
	tb.Helper()
	server, err := Listen(context.Background(), "127.0.0.1:0", opts...)
	if err != nil {
		tb.Fatalf("start kinesistest: %v", err)
		return nil
	}
	tb.Cleanup(func() {
		if err := server.Close(); err != nil {
			tb.Fatalf("close kinesistest: %v", err)
		}
	})
	return server
}

// Listen serves a new service on addr, such as "127.0.0.1:4567", until [Server.Close] is called. ctx
// bounds only the time listening takes to begin.
func Listen(ctx context.Context, addr string, opts ...Option) (*Server, error) {
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("kinesistest: listen on %s: %w", addr, err)
	}
	s := &Server{
		Service: New(opts...),
		url:     "http://" + listener.Addr().String(),
		client:  newHTTPClient(),
		served:  make(chan struct{}),
	}
	s.handlers.idle = sync.NewCond(&s.handlers.mu)
	s.http = &http.Server{
		Handler:           http.HandlerFunc(s.handle),
		ReadHeaderTimeout: time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0), // faults break connections on purpose
	}
	go func() {
		defer close(s.served)
		_ = s.http.Serve(listener) // always an error; Close is what ends it
	}()
	return s, nil
}

func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	s.handlers.add(1)
	defer s.handlers.add(-1)
	s.ServeHTTP(w, r)
}

// URL returns the endpoint, such as "http://127.0.0.1:40123".
func (s *Server) URL() string { return s.url }

// Close ends open subscriptions and hanging calls, closes all connections and waits until every call
// has returned. It may be called more than once.
func (s *Server) Close() error {
	s.closeOnce.Do(func() {
		s.Service.Close()
		if err := s.http.Close(); err != nil {
			s.closeErr = fmt.Errorf("kinesistest: close: %w", err)
		}
		<-s.served
		s.handlers.wait()
		s.client.CloseIdleConnections()
	})
	return s.closeErr
}

// tracker waits for handlers. A WaitGroup would not do: a connection may begin a call while Close
// already waits.
type tracker struct {
	n    atomic.Int64
	mu   sync.Mutex
	idle *sync.Cond
}

func (t *tracker) add(n int64) {
	if t.n.Add(n) != 0 {
		return
	}
	t.mu.Lock() // who waits has either seen the 0 or sleeps by now
	defer t.mu.Unlock()
	t.idle.Broadcast()
}

func (t *tracker) wait() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.n.Load() > 0 {
		t.idle.Wait()
	}
}
