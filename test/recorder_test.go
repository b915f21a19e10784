package test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/protokinesis/protokinesis"
)

// patience is how long a test waits for what must come, on a machine that has other things to do.
const patience = 40 * time.Second

// recorder is a handler that keeps what it is given.
type recorder struct {
	mu   sync.Mutex
	got  []*protokinesis.Delivery
	more chan struct{} // closed at the next record
}

func newRecorder() *recorder { return &recorder{more: make(chan struct{})} }

// handle is a protokinesis.HandlerFunc.
func (r *recorder) handle(_ context.Context, d *protokinesis.Delivery) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, d)
	close(r.more)
	r.more = make(chan struct{})
	return nil
}

func (r *recorder) all() []*protokinesis.Delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]*protokinesis.Delivery(nil), r.got...)
}

// wait returns all records once there are n.
func (r *recorder) wait(t *testing.T, n int) []*protokinesis.Delivery {
	t.Helper()
	limit := time.After(patience)
	for {
		r.mu.Lock()
		count, more := len(r.got), r.more
		r.mu.Unlock()
		if count >= n {
			return r.all()
		}
		select {
		case <-more:
		case <-limit:
			require.FailNow(t, "records are missing", "%d of %d came: %v", count, n, payloads(r.all()))
		}
	}
}

func payloads(records []*protokinesis.Delivery) []string {
	out := make([]string, len(records))
	for i, d := range records {
		out[i] = string(d.Data())
	}
	return out
}

// byKey are the payloads of each partition key, in the order they came.
func byKey(records []*protokinesis.Delivery) map[string][]string {
	out := make(map[string][]string)
	for _, d := range records {
		out[d.PartitionKey()] = append(out[d.PartitionKey()], string(d.Data()))
	}
	return out
}

// place is where a record is stored.
type place struct{ shard, sequence string }

func places(records []*protokinesis.Delivery) []place {
	out := make([]place, len(records))
	for i, d := range records {
		out[i] = place{d.Shard(), d.SequenceNumber()}
	}
	return out
}

// load is records of several keys: key k has the payloads "k 0", "k 1" … .
type load struct {
	keys, each int // how many keys, and records of each
	from       int // the number of each key's first record
}

func (l load) count() int { return l.keys * l.each }

// then is as many records again, with the numbers that follow.
func (l load) then() load { return load{keys: l.keys, each: l.each, from: l.from + l.each} }

// and is l and the load that follows it.
func (l load) and(next load) load { return load{keys: l.keys, each: l.each + next.each, from: l.from} }

// payloads is what a reader must see of each key, in this order.
func (l load) payloads() map[string][]string {
	out := make(map[string][]string)
	for k := range l.keys {
		key := fmt.Sprintf("key-%d", k)
		for i := range l.each {
			out[key] = append(out[key], fmt.Sprintf("%s %d", key, l.from+i))
		}
	}
	return out
}

// publish publishes the load, the keys in parallel and each in order. It returns where the records are.
func (l load) publish(t *testing.T, n *node, stream string) []place {
	t.Helper()
	var (
		all     sync.WaitGroup
		mu      sync.Mutex
		stored  []place
		records = l.payloads()
	)
	for key, data := range records {
		all.Go(func() {
			for _, d := range data {
				receipt, err := n.Publisher().Publish(t.Context(), protokinesis.Record{
					Stream: stream, PartitionKey: key, Data: []byte(d),
				})
				if !assert.NoError(t, err) {
					return
				}
				mu.Lock()
				stored = append(stored, place{receipt.Shard, receipt.SequenceNumber})
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return stored
}
