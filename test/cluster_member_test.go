package test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/cluster"
	"github.com/asynkron/protoactor-go/cluster/identitylookup/disthash"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/protokinesis/protokinesis"
	leases "github.com/protokinesis/protokinesis/leasestore/dynamodb"
	"github.com/protokinesis/protokinesis/messages"
	"github.com/protokinesis/protokinesis/remoting"
)

// A member of a cluster is a process of its own: this test program, started with memberVariable set. Who is in the cluster it hears from the test, which
// stands where etcd or Consul would: everything else is the library's own cluster, over its remote.

const memberVariable = "PROTOKINESIS_TEST_CLUSTER_MEMBER"

// memberJob is what a member is to do: read the stream.
type memberJob struct{ Kinesis, Dynamo, Stream, Name string }

// memberOrder is what it is told.
type memberOrder struct {
	Members []*cluster.Member // who is in the cluster
	Do      string            // status, publish
}

// memberWord is what it says.
type memberWord struct {
	Self    *cluster.Member // it is a member
	Reads   bool            // the subscription is open
	Record  string
	Ended   string // why the subscription has ended
	Refused string // why it does not publish
	Nodes   []memberNode
	Failed  string
}

// memberNode is a node as the status of the application has it.
type memberNode struct {
	Owner, Address, State string
	Shards                []string // that it reads itself
}

func beClusterMember() {
	text := os.Getenv(memberVariable)
	if text == "" {
		return
	}
	var job memberJob
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		panic(err)
	}
	m := &clusterMember{out: json.NewEncoder(os.Stdout), orders: make(chan memberOrder, 100)}
	m.run(job)
	os.Exit(0)
}

// clusterMember is the life of a member's process. It is its cluster's provider, too.
type clusterMember struct {
	cluster *cluster.Cluster
	system  *protokinesis.System
	stream  string
	orders  chan memberOrder
	mu      sync.Mutex
	out     *json.Encoder
}

func (m *clusterMember) run(job memberJob) {
	go m.listen()
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	m.cluster = cluster.New(system, cluster.Configure("test", m, disthash.New(), remoting.Configure("127.0.0.1", 0)))
	m.cluster.StartMember()
	test := credentials.NewStaticCredentialsProvider("test", "test", "")
	store, err := leases.New(dynamodb.NewFromConfig(aws.Config{Region: "us-east-1", BaseEndpoint: &job.Dynamo, Credentials: test}), job.Stream)
	if err != nil {
		panic(err)
	}
	m.stream = job.Stream
	m.system = protokinesis.New(system, wire(embedded),
		protokinesis.WithAWSConfig(aws.Config{Region: "us-east-1", BaseEndpoint: &job.Kinesis, Credentials: test, HTTPClient: &http.Client{}}),
		protokinesis.WithLeaseStore(store), protokinesis.WithOwnerID(job.Name), protokinesis.WithCluster(m.cluster),
		protokinesis.WithTimings(protokinesis.Timings{LeaseTTL: 5 * time.Second, RenewEvery: time.Second, PollInterval: 50 * time.Millisecond}))
	ctx := context.Background()
	if err := m.system.Connect(ctx); err != nil {
		panic(err)
	}
	sub, err := m.system.Subscribe(ctx, protokinesis.Stream(job.Stream),
		protokinesis.HandlerFunc(func(_ context.Context, d *protokinesis.Delivery) error {
			m.say(memberWord{Record: string(d.Data())})
			return nil
		}))
	if err != nil {
		panic(err)
	}
	m.say(memberWord{Reads: true})
	go func() {
		<-sub.Done()
		m.say(memberWord{Ended: errors.Join(sub.Err(), errors.New("ended")).Error()})
	}()
	for order := range m.orders {
		m.obey(order)
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := m.system.Shutdown(ctx); err != nil {
		panic(err)
	}
}

// listen takes orders until there are no more. Who is in the cluster does not wait for its turn.
func (m *clusterMember) listen() {
	defer close(m.orders)
	for in := json.NewDecoder(os.Stdin); ; {
		var order memberOrder
		if err := in.Decode(&order); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			panic(err)
		}
		if order.Members != nil {
			m.cluster.MemberList.UpdateClusterTopology(order.Members)
			continue
		}
		m.orders <- order
	}
}

func (m *clusterMember) obey(order memberOrder) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	switch order.Do {
	case "status":
		status, err := m.system.ApplicationStatus(ctx)
		if err != nil {
			m.say(memberWord{Failed: err.Error()})
			return
		}
		w := memberWord{Nodes: []memberNode{}}
		for _, n := range status.GetNodes() {
			w.Nodes = append(w.Nodes, memberNode{Owner: n.GetOwnerId(), Address: n.GetAddress(), State: n.GetState().String(), Shards: shardsOf(n)})
		}
		m.say(w)
	case "publish":
		_, err := m.system.Publisher().Publish(ctx, protokinesis.Record{Stream: m.stream, Data: []byte("from a member")})
		m.say(memberWord{Refused: errors.Join(err, errors.New("said")).Error()})
	}
}

func shardsOf(n *messages.NodeStatus) (shards []string) {
	for _, s := range n.GetSubscriptions() {
		for _, shard := range s.GetShards() {
			if shard.GetOwner() == n.GetOwnerId() {
				shards = append(shards, shard.GetShardId())
			}
		}
	}
	return shards
}

func (m *clusterMember) say(w memberWord) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.out.Encode(w); err != nil {
		panic(err)
	}
}

// StartMember implements cluster.ClusterProvider.
func (m *clusterMember) StartMember(c *cluster.Cluster) error {
	host, port, err := c.ActorSystem.GetHostPort()
	if err != nil {
		return err
	}
	m.say(memberWord{Self: &cluster.Member{Id: c.ActorSystem.ID, Host: host, Port: int32(port), Kinds: c.GetClusterKinds()}}) //nolint:gosec // a port
	return nil
}

// StartClient implements cluster.ClusterProvider.
func (*clusterMember) StartClient(*cluster.Cluster) error { return nil }

// Shutdown implements cluster.ClusterProvider.
func (*clusterMember) Shutdown(bool) error { return nil }
