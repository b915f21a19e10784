package leasestore

import (
	"context"
	"time"
)

// Dater is what a Store may be in addition: one that keeps when leases were written, by the clocks of those who wrote them. It is for people to
// read, such as in a list of leases; nothing is decided by it (see Observer).
type Dater interface {
	// Dates returns when each lease of the stream was last written, by shard id. Leases of which that is not known are left out.
	Dates(ctx context.Context, stream StreamID) (map[string]time.Time, error)
}
