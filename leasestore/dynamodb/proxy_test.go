package dynamodb_test

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/test/emulators"
)

// proxy stands before the emulator, counts the requests and does to them what a test says.
type proxy struct {
	url string

	mu     sync.Mutex
	counts map[string]int
	fault  fault
}

// fault deals with the n-th request (from 1) of an operation; nil lets it pass.
type fault func(operation string, n int) handler

// handler answers a request itself; forward is the emulator.
type handler func(w http.ResponseWriter, r *http.Request, forward http.Handler)

func newProxy(t *testing.T) *proxy {
	t.Helper()
	target, err := url.Parse(emulators.Dynalite(t))
	require.NoError(t, err)
	p := &proxy{counts: map[string]int{}}
	forward := httputil.NewSingleHostReverseProxy(target)
	transport := &http.Transport{}
	forward.Transport = transport
	forward.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
		if handle := p.count(operation); handle != nil {
			handle(w, r, forward)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	p.url = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		transport.CloseIdleConnections()
	})
	return p
}

func (p *proxy) count(operation string) handler {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[operation]++
	if p.fault == nil {
		return nil
	}
	return p.fault(operation, p.counts[operation])
}

// reset begins to count anew, with that fault from now on.
func (p *proxy) reset(f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts, p.fault = map[string]int{}, f
}

// counted are the requests since the last reset.
func (p *proxy) counted() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.counts)
}

// only applies handle to the requests of one operation, the first most of them.
func only(operation string, most int, handle handler) fault {
	return func(op string, n int) handler {
		if op == operation && n <= most {
			return handle
		}
		return nil
	}
}

// all applies handle to every request.
func all(handle handler) fault { return func(string, int) handler { return handle } }

// loseReply lets the emulator answer and cuts the connection instead of passing the answer on.
func loseReply(_ http.ResponseWriter, r *http.Request, forward http.Handler) {
	forward.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// cut cuts the connection.
func cut(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }

// hang never answers.
func hang(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
	_, _ = io.Copy(io.Discard, r.Body) // only then the server notices that the client has gone
	<-r.Context().Done()
}

// refuse answers with an error of the service.
func refuse(status int, code string) handler {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"__type":"com.amazonaws.dynamodb.v20120810#` + code + `","message":"said the proxy"}`))
	}
}
