package kinesistest

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
)

// Config returns an SDK configuration for the server: its endpoint and region, made-up credentials
// and an HTTP client of its own, whose idle connections [Server.Close] closes. It reads neither the
// environment nor files.
func (s *Server) Config() aws.Config {
	endpoint := s.url
	return aws.Config{
		Region:       s.cfg.region,
		BaseEndpoint: &endpoint,
		HTTPClient:   s.client,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "AKIDTEST", SecretAccessKey: "secret", Source: "kinesistest"}, nil
		}),
	}
}

// Client returns an SDK client for the server, with [Server.Config] and these changes to it.
func (s *Server) Client(optFns ...func(*kinesis.Options)) *kinesis.Client {
	return kinesis.NewFromConfig(s.Config(), optFns...)
}

// newHTTPClient makes a client that never uses a proxy and is guarded against the SDK's body.
func newHTTPClient() *http.Client {
	return &http.Client{Transport: bodyGuard{next: &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		MaxIdleConns:        1024,
		MaxIdleConnsPerHost: 1024,
		IdleConnTimeout:     time.Minute,
		DisableCompression:  true,
		ReadBufferSize:      64 << 10,
		WriteBufferSize:     64 << 10,
	}}}
}

// bodyGuard hides the WriteTo method of request bodies. That of smithy-go's body returns io.EOF once
// the SDK has closed the body, which it does as soon as it has the answer's headers; net/http takes
// the EOF for a failed write and closes the connection below the answer. A server as fast as this
// one provokes it in one of a hundred calls.
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

// CloseIdleConnections lets [http.Client.CloseIdleConnections] reach the transport.
func (g bodyGuard) CloseIdleConnections() { g.next.CloseIdleConnections() }
