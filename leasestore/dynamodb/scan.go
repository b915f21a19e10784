package dynamodb

import (
	"context"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/protokinesis/protokinesis/leasestore"
)

// gatherTime is how long a scan waits for others that want one. The subscriptions of a node look at the same moment.
const gatherTime = 10 * time.Millisecond

// scans hands out the scan that gathers callers. A caller never joins one that has begun: it would miss what was written before the call.
type scans struct {
	mu   sync.Mutex
	next *scan
}

// scan is one look at the whole table, for all who wanted one at the same time.
type scan struct {
	done     chan struct{} // closed when snapshot and err are set
	snapshot *snapshot
	err      error
	waiting  int // callers
	cancel   context.CancelFunc
}

// look returns what the table holds, from a scan that began after the call. The snapshot is shared: nobody writes to it.
//
// A scan of a table of leases costs half a read unit per 4 KiB, twice that for consistent reads: a lease takes some 500 bytes, so for 64 leases
// and a few members that is 10 units for a node and look, however many streams and subscriptions it has. Looks are taken every three seconds:
// 17 nodes with 256 leases read 220 units a second.
func (s *Store) look(ctx context.Context) (*snapshot, error) {
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	sc := s.join() //nolint:contextcheck // a scan serves several callers and may outlive the first
	select {
	case <-sc.done:
		if sc.err != nil && s.closed.Load() {
			return nil, s.open(ctx)
		}
		return sc.snapshot, sc.err
	case <-ctx.Done():
		s.leave(sc)
		return nil, s.failed("scan", ctx.Err())
	}
}

func (s *Store) join() *scan {
	s.scans.mu.Lock()
	defer s.scans.mu.Unlock()
	sc := s.scans.next
	if sc == nil {
		ctx, cancel := context.WithTimeout(s.life, tableTimeout+scanTimeout)
		sc = &scan{done: make(chan struct{}), cancel: cancel}
		s.scans.next = sc
		go s.run(ctx, sc)
	}
	sc.waiting++
	return sc
}

// leave ends a scan that nobody waits for any more.
func (s *Store) leave(sc *scan) {
	s.scans.mu.Lock()
	defer s.scans.mu.Unlock()
	if sc.waiting--; sc.waiting > 0 {
		return
	}
	if s.scans.next == sc {
		s.scans.next = nil
	}
	sc.cancel()
}

func (s *Store) run(ctx context.Context, sc *scan) {
	defer close(sc.done)
	defer sc.cancel()
	gather := time.NewTimer(s.config.gather)
	defer gather.Stop()
	select {
	case <-gather.C:
	case <-ctx.Done():
	}
	s.scans.mu.Lock()
	if s.scans.next == sc {
		s.scans.next = nil
	}
	s.scans.mu.Unlock()
	sc.snapshot, sc.err = s.scan(ctx)
}

func (s *Store) scan(ctx context.Context) (*snapshot, error) {
	if err := s.ensureTable(ctx); err != nil {
		return nil, err
	}
	in := &sdk.ScanInput{TableName: &s.table, ConsistentRead: aws.Bool(!s.config.eventual)}
	if s.keys.prefix != "" {
		in.FilterExpression = aws.String("begins_with(#key, :prefix)")
		in.ExpressionAttributeNames = map[string]string{"#key": attrKey}
		in.ExpressionAttributeValues = map[string]types.AttributeValue{":prefix": text(s.keys.prefix)}
	}
	found := newSnapshot()
	for {
		page, err := s.client.Scan(ctx, in)
		if err != nil {
			return nil, s.failed("scan", interrupted(ctx, err))
		}
		for _, i := range page.Items {
			s.sort(found, i)
		}
		if len(page.LastEvaluatedKey) == 0 {
			return found, nil
		}
		next := *in
		next.ExclusiveStartKey = page.LastEvaluatedKey
		in = &next
	}
}

// lookAt is look for one stream's sake.
func (s *Store) lookAt(ctx context.Context, stream leasestore.StreamID) (*snapshot, error) {
	if err := s.bind(ctx, stream); err != nil {
		return nil, err
	}
	found, err := s.look(ctx)
	if err != nil {
		return nil, err
	}
	return found, s.checkBinding(found, stream)
}
