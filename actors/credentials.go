package actors

import (
	"context"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go/middleware"
)

// invalidCredentials are the codes by which the service says that credentials are not valid, or not any more.
var invalidCredentials = map[string]bool{
	"ExpiredTokenException":       true,
	"ExpiredToken":                true,
	"UnrecognizedClientException": true,
	"InvalidClientTokenId":        true,
}

// refreshEvery is the least time between two refreshes: calls under way with the old credentials fail after the new ones were fetched.
const refreshEvery = 5 * time.Second

// refresher has cached credentials fetched anew as soon as the service refuses them. The SDK's cache would keep them until the time they came with,
// which may be none at all, and every call until then would fail.
type refresher struct {
	cache interface{ Invalidate() }
	mu    sync.Mutex
	last  time.Time
}

// refresh adds a refresher to a client of cfg; nothing if its credentials are not cached, and so fetched for each call.
func refresh(cfg aws.Config) func(*middleware.Stack) error {
	cache, ok := cfg.Credentials.(interface{ Invalidate() })
	if !ok {
		return func(*middleware.Stack) error { return nil }
	}
	r := &refresher{cache: cache}
	return func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("protokinesis:credentials", func(
			ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler,
		) (middleware.InitializeOutput, middleware.Metadata, error) {
			out, meta, err := next.HandleInitialize(ctx, in)
			if err != nil && invalidCredentials[codeOf(err)] {
				r.refused(time.Now())
			}
			return out, meta, err
		}), middleware.Before)
	}
}

func (r *refresher) refused(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last.IsZero() || now.Sub(r.last) >= refreshEvery {
		r.last = now
		r.cache.Invalidate()
	}
}
