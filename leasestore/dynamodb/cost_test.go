package dynamodb_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis/leasestore"
	"github.com/protokinesis/protokinesis/leasestore/dynamodb"
)

// meter notes what calls cost and ask for.
type meter struct {
	dynamodb.API
	writes     []float64 // units
	consistent []bool    // reads
}

func (m *meter) GetItem(ctx context.Context, in *sdk.GetItemInput, o ...func(*sdk.Options)) (*sdk.GetItemOutput, error) {
	m.consistent = append(m.consistent, aws.ToBool(in.ConsistentRead))
	return m.API.GetItem(ctx, in, o...)
}

func (m *meter) UpdateItem(ctx context.Context, in *sdk.UpdateItemInput, o ...func(*sdk.Options)) (*sdk.UpdateItemOutput, error) {
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := m.API.UpdateItem(ctx, in, o...)
	if err == nil {
		m.writes = append(m.writes, *out.ConsumedCapacity.CapacityUnits)
	}
	return out, err
}

func (m *meter) Scan(ctx context.Context, in *sdk.ScanInput, o ...func(*sdk.Options)) (*sdk.ScanOutput, error) {
	m.consistent = append(m.consistent, aws.ToBool(in.ConsistentRead))
	return m.API.Scan(ctx, in, o...)
}

func TestSignsOfLifeAndCheckpointsAreOneWriteUnitEach(t *testing.T) {
	p, _, table := behind(t)
	m := &meter{API: impatient(p.url)}
	s := newStore(t, m, table)
	lease := acquire(t, s, "0", leasestore.Lease{Checkpoint: leasestore.TrimHorizon(), Parents: []string{shard("1"), shard("2")}})
	m.writes = nil
	p.reset(nil)
	for n := range 5 {
		var err error
		lease, err = s.Renew(t.Context(), lease)
		require.NoError(t, err)
		lease, err = s.Checkpoint(t.Context(), lease, leasestore.AtSequence(sequence, uint64(n)))
		require.NoError(t, err)
		_, err = s.Beat(t.Context(), leasestore.Member{ID: "node-1", Beat: int64(n), Streams: []leasestore.StreamID{orders}})
		require.NoError(t, err)
	}
	require.Equal(t, map[string]int{"UpdateItem": 15}, p.counted(), "and no reads")
	for _, units := range m.writes {
		require.InDelta(t, 1, units, 0)
	}
}

func TestCallsThatMeetShareAScan(t *testing.T) {
	p, s, _ := behind(t, dynamodb.Gather(time.Second))
	acquire(t, s, "0", leasestore.Lease{})
	p.reset(nil)
	other := orders
	other.CreatedMillis++
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			view, err := s.View(t.Context(), orders)
			assert.NoError(t, err)
			assert.Len(t, view.Leases, 1)
		})
		wait.Go(func() {
			list, err := s.List(t.Context(), other)
			assert.NoError(t, err)
			assert.Empty(t, list)
		})
		wait.Go(func() {
			streams, err := s.Streams(t.Context())
			assert.NoError(t, err)
			assert.Len(t, streams, 1)
		})
	}
	wait.Wait()
	require.Equal(t, map[string]int{"Scan": 1}, p.counted())
}

// What was written before a call is seen by it: it does not join a scan that has begun.
func TestCallDoesNotJoinAScanThatHasBegun(t *testing.T) {
	p, s, _ := behind(t)
	acquire(t, s, "0", leasestore.Lease{})
	begun, goOn := make(chan struct{}), make(chan struct{})
	p.reset(only("Scan", 1, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		close(begun)
		<-goOn
		forward.ServeHTTP(w, r)
	}))
	first := make(chan int)
	go func() {
		view, err := s.View(t.Context(), orders)
		assert.NoError(t, err)
		first <- len(view.Leases)
	}()
	<-begun
	acquire(t, s, "1", leasestore.Lease{})
	view, err := s.View(t.Context(), orders)
	require.NoError(t, err, "the scan before it is still under way")
	require.Len(t, view.Leases, 2)
	close(goOn)
	require.NotZero(t, <-first)
	require.Equal(t, 2, p.counted()["Scan"])
}

// A caller that gives up takes no other's scan with it.
func TestScanGoesOnForThoseWhoStillWait(t *testing.T) {
	p, s, _ := behind(t, dynamodb.Gather(200*time.Millisecond))
	acquire(t, s, "0", leasestore.Lease{})
	begun, goOn := make(chan struct{}), make(chan struct{})
	p.reset(only("Scan", 1, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		close(begun)
		<-goOn
		forward.ServeHTTP(w, r)
	}))
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp, stayed := make(chan error), make(chan error)
	go func() { _, err := s.View(ctx, orders); gaveUp <- err }()
	go func() { _, err := s.View(t.Context(), orders); stayed <- err }()
	<-begun
	cancel()
	require.ErrorIs(t, <-gaveUp, context.Canceled)
	close(goOn)
	require.NoError(t, <-stayed)
}

func TestAllPagesOfAScanAreRead(t *testing.T) {
	table := newRaw(t)
	ballast := S(strings.Repeat("x", 300_000)) // a page is a megabyte
	for n := range 9 {
		table.put(with(kclLease(fmt.Sprint(n)), row{"ballast": ballast}))
	}
	p := newProxy(t)
	s := newStore(t, impatient(p.url), table.table)
	view, err := s.View(t.Context(), orders)
	require.NoError(t, err)
	require.Len(t, view.Leases, 9)
	require.Greater(t, p.counted()["Scan"], 2)

	p.reset(func(operation string, n int) handler {
		if operation == "Scan" && n > 1 {
			return refuse(http.StatusBadRequest, "ProvisionedThroughputExceededException")
		}
		return nil
	})
	_, err = s.View(t.Context(), orders)
	noVerdict(t, err, "half of the leases are no view: the rest would look free")
}

func TestReadsAreConsistentUnlessToldOtherwise(t *testing.T) {
	table := newRaw(t)
	for _, c := range []struct {
		options []dynamodb.Option
		want    bool
	}{{nil, true}, {[]dynamodb.Option{dynamodb.EventualReads()}, false}} {
		m := &meter{API: table.client}
		s := newStore(t, m, table.table, c.options...)
		_, err := s.View(t.Context(), orders)
		require.NoError(t, err)
		require.Equal(t, []bool{c.want}, m.consistent)
		_, err = s.Get(t.Context(), shardKey("0"))
		require.ErrorIs(t, err, leasestore.ErrNotFound)
		require.Equal(t, []bool{c.want, true}, m.consistent, "what a failed write is confirmed by is never old")
	}
}
