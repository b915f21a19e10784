package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/protokinesis/protokinesis/leasestore"
)

// API is what a Store calls of the SDK's client.
type API interface {
	DescribeTable(context.Context, *sdk.DescribeTableInput, ...func(*sdk.Options)) (*sdk.DescribeTableOutput, error)
	CreateTable(context.Context, *sdk.CreateTableInput, ...func(*sdk.Options)) (*sdk.CreateTableOutput, error)
	Scan(context.Context, *sdk.ScanInput, ...func(*sdk.Options)) (*sdk.ScanOutput, error)
	GetItem(context.Context, *sdk.GetItemInput, ...func(*sdk.Options)) (*sdk.GetItemOutput, error)
	UpdateItem(context.Context, *sdk.UpdateItemInput, ...func(*sdk.Options)) (*sdk.UpdateItemOutput, error)
	DeleteItem(context.Context, *sdk.DeleteItemInput, ...func(*sdk.Options)) (*sdk.DeleteItemOutput, error)
}

var _ API = (*sdk.Client)(nil)

// A call ends after this, whatever its context says, so that none blocks without bound. All tries of the SDK are within.
const (
	rowTimeout   = 15 * time.Second
	scanTimeout  = time.Minute
	tableTimeout = time.Minute
)

// Store is a leasestore.Store in a DynamoDB table. It is safe for concurrent use by any number of brokers in any number of processes.
type Store struct {
	client API
	table  string
	config config
	keys   keys
	log    *slog.Logger

	closed atomic.Bool
	life   context.Context // of scans, which serve several calls
	end    context.CancelFunc

	ready   atomic.Bool   // the table is as it should be, as far as known
	checks  chan struct{} // holds one value; who takes it checks the table
	scans   scans
	bound   binding
	notices notices
}

var (
	_ leasestore.Store = (*Store)(nil)
	_ leasestore.Dater = (*Store)(nil)
)

// New returns a Store in table, a table's name or ARN. It does no I/O: the first call makes sure of the table.
func New(client API, table string, options ...Option) (*Store, error) {
	c := config{log: slog.Default(), gather: gatherTime, firstLook: firstLook}
	for _, option := range options {
		option(&c)
	}
	if client == nil {
		return nil, fmt.Errorf("%w: lease table %q: the client is nil", leasestore.ErrInvalid, table)
	}
	if err := c.check(table); err != nil {
		return nil, err
	}
	s := &Store{
		client: client, table: table, config: c, keys: newKeys(c.application, c.single), log: c.log.With(slog.String("table", table)),
		checks: make(chan struct{}, 1),
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.checks <- struct{}{}
	return s, nil
}

// Table returns the table's name.
func (s *Store) Table() string { return s.table }

// Shared says that brokers of other processes may use the store as well.
func (*Store) Shared() bool { return true }

// Close implements leasestore.Store. The table stays as it is; the client is the caller's.
func (s *Store) Close() error {
	s.closed.Store(true)
	s.end()
	return nil
}

// open reports whether a call may begin.
func (s *Store) open(ctx context.Context) error {
	if s.closed.Load() {
		return fmt.Errorf("lease table %s: %w", s.table, leasestore.ErrClosed)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("lease table %s: %w", s.table, err)
	}
	return nil
}

// begin is the start of every call about a row: it makes sure of the table, and bounds the call.
func (s *Store) begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := s.open(ctx); err != nil {
		return nil, nil, err
	}
	if err := s.ensureTable(ctx); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, rowTimeout)
	return ctx, cancel, nil
}

// failed says what was tried of which table. A table that is gone is looked for again, and made, by the next call.
func (s *Store) failed(what string, err error) error {
	if noSuchTable(err) {
		s.ready.Store(false)
	}
	return fmt.Errorf("lease table %s: %s: %w", s.table, what, err)
}

// interrupted adds to an SDK error that ctx was over, should it not say so itself.
func interrupted(ctx context.Context, err error) error {
	if over := ctx.Err(); over != nil && !errors.Is(err, over) {
		return fmt.Errorf("%w: %w", over, err)
	}
	return err
}

// get reads a row; nil means that there is none. It always sees the last write: what failed writes are confirmed by is read with it.
func (s *Store) get(ctx context.Context, key, what string) (item, error) {
	yes := true
	out, err := s.client.GetItem(ctx, &sdk.GetItemInput{TableName: &s.table, Key: item{attrKey: text(key)}, ConsistentRead: &yes})
	if err != nil {
		return nil, s.failed(what, interrupted(ctx, err))
	}
	return out.Item, nil
}

// update does a conditional write. If the condition did not hold, refused is set and old is the row as it was, or nil if there was none.
func (s *Store) update(ctx context.Context, key string, u *update, what string) (now, old item, refused bool, err error) {
	out, err := s.client.UpdateItem(ctx, u.input(s.table, key))
	if err == nil {
		return out.Attributes, nil, false, nil
	}
	old, refused, err = s.refusal(ctx, key, what, err)
	return nil, old, refused, err
}

// refusal tells a write that was refused from one that failed.
func (s *Store) refusal(ctx context.Context, key, what string, err error) (old item, refused bool, _ error) {
	old, refused = conditionFailed(err)
	if !refused {
		return nil, false, s.failed(what, interrupted(ctx, err))
	}
	if old != nil {
		return old, true, nil
	}
	// Either there is no row, or the service does not say, as emulators do not.
	old, err = s.get(ctx, key, what)
	return old, err == nil, err
}
