package tally

import (
	"io"
	"net"
	"net/http"
	"time"
)

// Test credentials.
const (
	KeyID  = "test"
	Secret = "test"
)

// HTTPClient is a client for a consumer on the current SDK: as [Transport], and guarded against the SDK's request body. (net/http takes the io.EOF that its
// WriteTo returns for a failed write and closes the connection below the answer, which a fast service provokes in one of a hundred calls; a consumer
// would pay for it with retries, which it would not have with the real one.)
func HTTPClient() *http.Client { return &http.Client{Transport: bodyGuard{next: Transport()}} }

// Transport keeps a connection for each shard.
func Transport() *http.Transport {
	return &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		MaxIdleConns:        1024,
		MaxIdleConnsPerHost: 1024,
		IdleConnTimeout:     time.Minute,
		DisableCompression:  true,
		ReadBufferSize:      64 << 10,
		WriteBufferSize:     64 << 10,
	}
}

// bodyGuard hides the WriteTo method of request bodies.
type bodyGuard struct{ next *http.Transport }

type plainBody struct{ io.ReadCloser }

// RoundTrip implements [http.RoundTripper].
func (g bodyGuard) RoundTrip(r *http.Request) (*http.Response, error) {
	if _, ok := r.Body.(io.WriterTo); ok {
		clone := *r // the request is the caller's, so a copy gets the wrapped body
		clone.Body = plainBody{r.Body}
		r = &clone
	}
	return g.next.RoundTrip(r)
}
