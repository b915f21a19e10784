//go:build unix

package test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/protokinesis/protokinesis/test/failover"
)

// storeGate is a node's way to DynamoDB: a proxy that can be closed, and that sees what the node writes.
type storeGate struct {
	run    *failoverRun
	node   *failoverNode
	server *httptest.Server

	mu     sync.Mutex
	closed gateMode
	open   chan struct{} // closed when it is open again
}

// gateMode is how a gate that is closed keeps calls from the store.
type gateMode string

const (
	gateOpen    gateMode = ""
	gateRefuses gateMode = "refuses" // it breaks off the connection
	gateHangs   gateMode = "hangs"   // nothing comes back until it is open again, and then the connection is broken off
)

func newStoreGate(run *failoverRun, node *failoverNode) *storeGate {
	g := &storeGate{run: run, node: node}
	g.server = httptest.NewServer(g)
	return g
}

// shut closes the gate, for requests under way too.
func (g *storeGate) shut(mode gateMode) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed, g.open = mode, make(chan struct{})
}

func (g *storeGate) reopen() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed != gateOpen {
		g.closed = gateOpen
		close(g.open)
	}
}

// pass breaks a request off if the gate is closed.
func (g *storeGate) pass(ctx context.Context) {
	g.mu.Lock()
	mode, open := g.closed, g.open
	g.mu.Unlock()
	if mode == gateOpen {
		return
	}
	if mode == gateHangs {
		select {
		case <-open:
		case <-ctx.Done():
		}
	}
	panic(http.ErrAbortHandler)
}

// ServeHTTP implements http.Handler. What has got through is carried out to its end, though the reply may get lost.
func (g *storeGate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	g.pass(r.Context())
	reply, err := g.carryOut(context.WithoutCancel(r.Context()), r, body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	g.pass(r.Context())
	maps.Copy(w.Header(), reply.header)
	w.WriteHeader(reply.status)
	_, _ = w.Write(reply.body)
}

type storeReply struct {
	status int
	header http.Header
	body   []byte
}

// carryOut passes a request on; a write of a row in its turn, so that the log has the row as each write has left it.
func (g *storeGate) carryOut(ctx context.Context, r *http.Request, body []byte) (storeReply, error) {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if operation != "UpdateItem" && operation != "PutItem" && operation != "DeleteItem" {
		return g.forward(ctx, r, body)
	}
	var of struct{ Key, Item map[string]struct{ S string } }
	if err := json.Unmarshal(body, &of); err != nil {
		return storeReply{}, err
	}
	key := of.Key["leaseKey"].S + of.Item["leaseKey"].S
	defer g.run.lockRow(key)()
	g.node.drain() // what it has printed comes before what it writes
	began := g.run.now()
	reply, err := g.forward(ctx, r, body)
	if err == nil && reply.status == http.StatusOK {
		g.run.wrote(ctx, g.node.name, key, began)
	}
	return reply, err
}

func (g *storeGate) forward(ctx context.Context, r *http.Request, body []byte) (storeReply, error) {
	request, err := http.NewRequestWithContext(ctx, r.Method, g.run.dynalite, bytes.NewReader(body))
	if err != nil {
		return storeReply{}, err
	}
	request.Header = r.Header.Clone()
	began := time.Now()
	defer func() { g.run.took(time.Since(began)) }()
	response, err := g.run.web.Do(request) //nolint:gosec // to the emulator
	if err != nil {
		return storeReply{}, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	return storeReply{status: response.StatusCode, header: response.Header, body: answer}, err
}

// lockRow lets one write of a row be carried out at a time.
func (f *failoverRun) lockRow(key string) (unlock func()) {
	lock, _ := f.rows.LoadOrStore(key, &sync.Mutex{})
	mu, _ := lock.(*sync.Mutex)
	mu.Lock()
	return mu.Unlock
}

// wrote puts a write of a lease in the log, with the row as it is now.
func (f *failoverRun) wrote(ctx context.Context, node, key string, began time.Duration) {
	out, err := f.table.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &f.stream, ConsistentRead: aws.Bool(true), Key: map[string]types.AttributeValue{"leaseKey": &types.AttributeValueMemberS{Value: key}},
	})
	if err != nil {
		f.t.Errorf("the row %s can't be read: %v", key, err)
		return
	}
	shard := key[strings.LastIndex(key, ":")+1:]
	if !strings.HasPrefix(shard, "shardId-") {
		return // of a node, or of the stream
	}
	f.add(failover.Event{What: failover.Write, Node: node, Shard: shard, Began: began, Row: leaseRow(out.Item)})
}

// leaseRow is a row of the Kinesis Client Library's table: while a handoff is pending, leaseOwner is the next owner and checkpointOwner the present one.
func leaseRow(item map[string]types.AttributeValue) failover.Row {
	text := func(name string) string {
		switch v := item[name].(type) {
		case *types.AttributeValueMemberS:
			return v.Value
		case *types.AttributeValueMemberN:
			return v.Value
		}
		return ""
	}
	row := failover.Row{Owner: nodeOf(text("leaseOwner")), Checkpoint: text("checkpoint")}
	if present := text("checkpointOwner"); present != "" {
		row.Owner, row.Next = nodeOf(present), row.Owner
	}
	row.Counter, _ = strconv.ParseInt(text("leaseCounter"), 10, 64)
	return row
}

// nodeOf is the node that holds leases under an owner id: what precedes the last dash.
func nodeOf(owner string) string {
	if i := strings.LastIndex(owner, "-"); i >= 0 {
		return owner[:i]
	}
	return owner
}
